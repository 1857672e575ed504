"""The demo's items and the encoder that makes their vectors."""

from __future__ import annotations

import numpy as np

from mahala.serve.page.demo import WIDTH, demo_items


def test_items_are_found_by_what_they_do():
    encoder, items = demo_items()
    assert len({item["id"] for item in items}) == len(items) == 1000
    assert all(item["payload"]["text"] and item["payload"]["title"] in item["id"] for item in items)
    X = np.array([item["vector"] for item in items])
    assert X.shape == (len(items), WIDTH)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0)
    for text, library in (
        ("k-means clustering", "sklearn"),
        ("inverse of a matrix", "numpy"),
        ("sine transform", "scipy"),
    ):
        first = [items[row]["payload"] for row in np.argsort(-X @ encoder(text))[:5]]
        assert library in {payload["library"] for payload in first}
    assert not encoder("zzzz 123").any()
    again, same = demo_items()
    np.testing.assert_allclose([item["vector"] for item in same], X, atol=1e-6)
    np.testing.assert_allclose(again("sine transform"), encoder("sine transform"), atol=1e-6)
