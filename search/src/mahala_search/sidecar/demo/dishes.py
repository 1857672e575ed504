"""A small engine in this process: dishes, found by words about them."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mahala_search.arrays import FloatArray

WIDTH = 128
ENCODER = "words of dishes, latent semantic analysis"
_FIELDS = ("title", "cuisine", "kind", "diet", "country", "text")
_WORD = re.compile(r"[^\W\d_]{2,}")


class Dishes:
    """An engine over vectors that never change: exact inner products.

    >>> dishes = Dishes()
    >>> list(dishes.search(dishes.encode("soup of tomatoes"), k=1))
    ['Tomato soup']
    """

    def __init__(self) -> None:
        lines = (Path(__file__).parent / "dishes.tsv").read_text(encoding="utf-8").splitlines()
        rows = [line.split("\t") for line in lines if not line.startswith("#")]
        self.dishes = [dict(zip(_FIELDS, row, strict=True)) for row in rows]
        self.ids = [dish["title"] for dish in self.dishes]
        self._row = {id: row for row, id in enumerate(self.ids)}
        # Names and diets count twice: people ask for them.
        self.encode, self._vectors = word_encoder([" ".join([row[0], row[3], *row]) for row in rows], WIDTH)

    def vectors(self, ids: Sequence[str]) -> dict[str, FloatArray]:
        """Return the vectors of dishes."""
        return {id: self._vectors[self._row[id]] for id in ids}

    def search(self, vector: FloatArray, k: int) -> dict[str, float]:
        """Return the k dishes with the largest scores, best first."""
        scores = self._vectors @ vector
        return {self.ids[row]: float(scores[row]) for row in np.argsort(-scores, kind="stable")[:k]}


def word_encoder(texts: Sequence[str], width: int) -> tuple[Callable[[str], FloatArray], FloatArray]:
    """Return an encoder by latent semantic analysis of texts, and their vectors, of length 1.

    It needs no model from elsewhere, and is for some thousand texts; an embedding model understands more.

    >>> encode, vectors = word_encoder(["a red car", "the red bus", "green grass", "green tree"], 2)
    >>> scores = vectors @ encode("reds")
    >>> bool(scores[:2].min() > scores[2:].max())
    True
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
    from sklearn.preprocessing import normalize

    def words_of(text: str) -> list[str]:
        words = [word for word in _WORD.findall(text.lower()) if word not in ENGLISH_STOP_WORDS]
        return [re.sub(r"(?<=\w{3})(?:e?s|y)$", "", word) for word in words]

    words = TfidfVectorizer(analyzer=words_of, sublinear_tf=True).fit(texts)
    svd = TruncatedSVD(width, random_state=0)
    vectors = normalize(svd.fit_transform(words.transform(texts)))
    return lambda text: normalize(svd.transform(words.transform([text])))[0], vectors
