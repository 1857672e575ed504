"""The demo: functions and classes of NumPy, SciPy and scikit-learn, found by what they do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mahala.serve.service import Encoder
from mahala.support.arrays import FloatArray

NAME, WIDTH = "demo", 64
_WORD = re.compile(r"[^\W\d_]{2,}")


def demo_items() -> tuple[Encoder, list[dict[str, Any]]]:
    """Return 1,000 items with text and vectors, and the encoder that made the vectors."""
    lines = Path(__file__).with_name("demo.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    texts = [f"{_spaced(name)} {text} {_spaced(module)}" for module, name, text in rows]
    encoder, vectors = word_encoder(texts, WIDTH)
    items = []
    for (module, name, text), vector in zip(rows, vectors, strict=True):
        payload = {"title": name, "text": text, "library": module.partition(".")[0], "module": module}
        items.append({"id": f"{module}.{name}", "vector": vector, "payload": payload})
    return encoder, items


def _spaced(name: str) -> str:
    """Return the words of a name: `LinearRegression` and `linear_regression` have the same two."""
    return "".join(f" {letter}" if letter.isupper() else letter for letter in name).replace("_", " ").replace(".", " ")


def word_encoder(texts: Sequence[str], width: int) -> tuple[Encoder, FloatArray]:
    """Return an encoder by latent semantic analysis of texts, and their vectors, of length 1.

    It needs no model from elsewhere, and is for some thousand texts; an embedding model understands more. The vector
    of a text without known words is 0.

    >>> encoder, vectors = word_encoder(["a red car", "the red bus", "green grass", "green tree"], 2)
    >>> scores = vectors @ encoder("red")
    >>> bool(scores[:2].min() > scores[2:].max())
    True
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    words = TfidfVectorizer(analyzer=words_of, sublinear_tf=True)
    pipeline = make_pipeline(words, TruncatedSVD(width, random_state=0), Normalizer())
    return lambda text: pipeline.transform([text])[0], np.asarray(pipeline.fit_transform(texts))


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without numbers and without the s of a plural.

    >>> words_of("Inverse of 2 square_matrices")
    ['inverse', 'of', 'square', 'matrice']
    """
    words = _WORD.findall(text.lower())
    return [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in words]
