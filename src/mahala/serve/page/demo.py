"""The demo: functions and classes of NumPy, SciPy and scikit-learn, found by what they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mahala.serve.index.encoders import Encoder, word_encoder

NAME, WIDTH = "demo", 64


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
