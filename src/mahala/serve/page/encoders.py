"""Encoders: functions from a text to a vector, by which collections are searched with words."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mahala.support.arrays import FloatArray
from mahala.support.files import whole_file

_WORD = re.compile(r"[^\W\d_]{2,}")


class WordEncoder:
    """Latent semantic analysis: weights of words, projected to the leading directions of the texts it was made from.

    It needs no model from elsewhere, and is for some thousand texts; an embedding model understands more.

    >>> encoder, vectors = WordEncoder.of(["a red car", "the red bus", "green grass", "green tree"], 2)
    >>> scores = vectors @ encoder("red")
    >>> bool(scores[:2].min() > scores[2:].max())
    True
    """

    def __init__(self, words: Sequence[str], weights: FloatArray) -> None:
        self.words, self.weights = list(words), weights
        self._numbers = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def of(cls, texts: Sequence[str], width: int) -> tuple[WordEncoder, FloatArray]:
        """Return an encoder that is made from texts, and their vectors, of length 1."""
        counts = [Counter(words_of(text)) for text in texts]
        found = Counter(word for own in counts for word in own)
        words = sorted(found)
        numbers = {word: number for number, word in enumerate(words)}
        rarity = np.log((1.0 + len(texts)) / (1.0 + np.array([found[word] for word in words]))) + 1.0
        table = np.zeros((len(texts), len(words)), dtype=np.float32)
        for row, own in zip(table, counts, strict=True):
            for word, n in own.items():
                row[numbers[word]] = (1.0 + np.log(n)) * rarity[numbers[word]]
        table /= np.maximum(np.sqrt(np.einsum("ij,ij->i", table, table))[:, np.newaxis], 1e-12)
        k = min(width, *table.shape)
        weights = np.zeros((len(words), width))
        weights[:, :k] = rarity[:, np.newaxis] * _directions(table, k)
        encoder = cls(words, weights.astype(np.float32).astype(np.float64))
        return encoder, np.array([encoder(text) for text in texts])

    def __call__(self, text: str) -> FloatArray:
        """Return the vector of a text, of length 1; that of a text without known words is 0."""
        counts = Counter(word for word in words_of(text) if word in self._numbers)
        numbers = [self._numbers[word] for word in counts]
        vector = (1.0 + np.log(list(counts.values()))) @ self.weights[numbers] if counts else self.weights[0] * 0.0
        return np.asarray(vector / max(float(np.sqrt(vector @ vector)), 1e-12))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz file."""
        words = np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)
        with whole_file(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, words=words, weights=self.weights.astype(np.float32))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordEncoder:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            return cls(file["words"].tobytes().decode().split("\n"), file["weights"].astype(np.float64))


def _directions(table: Any, k: int) -> FloatArray:
    """Return the k leading right singular vectors as columns, nearly: by a random projection and two iterations."""
    rng = np.random.default_rng(0)
    basis = rng.normal(size=(table.shape[1], min(k + 10, *table.shape))).astype(np.float32)
    for _ in range(3):
        basis = np.linalg.qr(table.T @ np.linalg.qr(table @ basis)[0])[0]
    _, _, right = np.linalg.svd(table @ basis, full_matrices=False)
    return np.asarray((basis @ right.T)[:, :k], dtype=np.float64)


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without numbers and without the s of a plural.

    >>> words_of("Inverse of 2 square_matrices")
    ['inverse', 'of', 'square', 'matrice']
    """
    words = _WORD.findall(text.lower())
    return [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in words]


def sentence_encoder(name: str) -> Any:
    """Return the encoder of a sentence-transformers model, by its name or folder."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise ImportError(
            "--encoder needs sentence-transformers: pip install 'mahala[sentence-transformers]'"
        ) from None
    model = SentenceTransformer(name)
    return lambda text: model.encode_query(text) if hasattr(model, "encode_query") else model.encode(text)
