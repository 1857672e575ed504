"""The demo's items and the encoder that makes their vectors."""

from __future__ import annotations

import numpy as np

from mahala.serve.page.demo import MOST, WIDTH, demo_items, documented
from mahala.serve.page.encoders import WordEncoder


def test_definitions_are_found_with_their_first_paragraphs():
    source = '''
def short(x, mode="same"):
    """Return the square of a number, or
    of each of many.

    Parameters
    """

class Long(
    Base,
    metaclass=ABCMeta,
):
    r"""Fit a line to points in the plane."""

def _private():
    """Return something that nobody wants."""

def undocumented(x):
    return """a text that is no docstring of it"""
'''
    assert list(documented(source)) == [
        ("short", "Return the square of a number, or of each of many."),
        ("Long", "Fit a line to points in the plane."),
    ]


def test_items_are_found_by_what_they_do(tmp_path):
    encoder, items = demo_items()
    assert 0.9 * MOST <= len(items) <= MOST
    assert len({item["id"] for item in items}) == len(items)
    X = np.array([item["vector"] for item in items])
    assert X.shape == (len(items), WIDTH)
    encoder.save(tmp_path / "encoder.npz")
    again = WordEncoder.load(tmp_path / "encoder.npz")
    for text, library in (
        ("k-means clustering", "sklearn"),
        ("inverse of a matrix", None),
        ("sine transform", "scipy"),
    ):
        assert (again(text) == encoder(text)).all()
        first = [items[row]["payload"] for row in np.argsort(-X @ encoder(text))[:5]]
        assert library is None or library in {payload["library"] for payload in first}
    assert not encoder("zzzz 123").any()
