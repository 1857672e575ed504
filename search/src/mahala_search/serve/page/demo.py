"""The demo: dishes of the world, found by words about them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mahala_search.arrays import FloatArray
from mahala_search.serve.service import Encoder

NAME, WIDTH = "demo", 128
EXAMPLES = ["spicy noodle soup", "breakfast with eggs", "cold soup for summer", "vegan curry", "street snack"]
# A text fits nothing if no item is at least as similar.
_LEAST = 0.3
_WORD = re.compile(r"[^\W\d_]{2,}")
_ENDINGS = re.compile(r"(?<=\w{3})(?:ing|ed|e)$")
# What the texts call otherwise.
_SYNONYMS = {
    "eggplant": "aubergine", "zucchini": "courgette", "shrimp": "prawn", "cilantro": "coriander", "corn": "maize",
    "cookie": "biscuit", "yogurt": "yoghurt", "chili": "chilli", "arugula": "rocket", "garbanzo": "chickpea",
}  # fmt: skip


def demo_items() -> tuple[Encoder, list[dict[str, Any]]]:
    """Return the dishes with payloads and vectors, and the encoder that made the vectors."""
    lines = Path(__file__).with_name("demo.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    # Names and diets count twice: people ask for them.
    texts = [" ".join([row[0], row[3], *row]) for row in rows]
    encoder, vectors = word_encoder(texts, WIDTH)
    items = []
    for (title, *fields, text), vector in zip(rows, vectors, strict=True):
        about = dict(zip(("cuisine", "kind", "diet", "country"), fields, strict=True))
        payload = {"title": title, "text": text} | {name: value for name, value in about.items() if value}
        items.append({"id": title, "vector": vector, "payload": payload})
    return encoder, items


def word_encoder(texts: Sequence[str], width: int) -> tuple[Encoder, FloatArray]:
    """Return an encoder by latent semantic analysis of texts, and their vectors, of length 1.

    It needs no model from elsewhere, and is for some thousand texts; an embedding model understands more. The vector
    of a text that fits none of the texts is 0.

    >>> encoder, vectors = word_encoder(["a red car", "the red bus", "green grass", "green tree"], 2)
    >>> scores = vectors @ encoder("reds")
    >>> bool(scores[:2].min() > scores[2:].max()), bool(encoder("blue").any())
    (True, False)
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    words = TfidfVectorizer(analyzer=words_of, sublinear_tf=True).fit(texts)
    words.idf_ = np.sqrt(words.idf_)  # else a rare word counts for all of a query
    svd = TruncatedSVD(width, random_state=0)
    vectors = normalize(svd.fit_transform(words.transform(texts)))

    def encode(text: str) -> FloatArray:
        vector = normalize(svd.transform(words.transform([text])))[0]
        return np.asarray(vector if (vectors @ vector).max() >= _LEAST else np.zeros(width))

    return encode, vectors


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without endings, numbers and those that say nothing by themselves.

    >>> words_of("Some spicy food: 3 baked eggplants with spices")
    ['spic', 'bak', 'aubergin', 'spic']
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    skipped = (ENGLISH_STOP_WORDS | {"dish", "dishes", "food"}) - {"fire", "full", "side", "thick", "thin"}
    words = [word for word in _WORD.findall(text.lower()) if word not in skipped]
    return [_stem(_SYNONYMS.get(word) or _SYNONYMS.get(word.removesuffix("s"), word)) for word in words]


def _stem(word: str) -> str:
    """Return a word without its last endings, so that baked and baking, spices and spicy are the same."""
    return re.sub(r"(?<=\w{3})[yi]$", "", _ENDINGS.sub("", re.sub(r"(?<=\w{3})(?<!s)s$", "", word)))
