"""Encoders: functions from a text to a vector, by which collections are searched with words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mahala.support.arrays import FloatArray

Encoder = Callable[[str], Any]
_WORD = re.compile(r"[^\W\d_]{2,}")


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


def sentence_encoder(name: str) -> Encoder:
    """Return the encoder of a sentence-transformers model, by its name or folder."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise ImportError(
            "--encoder needs sentence-transformers: pip install 'mahala[sentence-transformers]'"
        ) from None
    model = SentenceTransformer(name)
    return lambda text: model.encode_query(text) if hasattr(model, "encode_query") else model.encode(text)
