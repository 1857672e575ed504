"""Questions to people: which of two items is more like a third one, where the answer teaches most."""

from __future__ import annotations

import numpy as np

from mahala.feedback.questions import best_question, candidates
from mahala.serve.index.searching import Found
from mahala.serve.index.served import Served, served_learner

# Questions among which one is chosen.
N_CANDIDATES = 500


def question(served: Served) -> tuple[Found, Found, Found]:
    """Return an item and two others to compare it with, in random order; raise ValueError unless there are three."""
    rng, index, model = np.random.default_rng(), served.index, served.model
    rows = index.rows()
    if len(rows) < 3:
        raise ValueError(f"a question needs three items, but there are {len(rows)}")
    asked = rows[candidates(len(rows), N_CANDIDATES, rng)]
    queries, left, right = (index.vectors(column.tolist()) for column in asked.T)
    matrix = None if model.maps is None else model.maps.new.astype(np.float64)
    trust = model.told.get("learners", {}).get(served_learner(served.collection), {}).get("trust", {}).get("new", 0.0)
    query, *others = asked[best_question(queries, left, right, matrix, trust)].tolist()
    rng.shuffle(others)
    first, second = others
    return index.item(query), index.item(first), index.item(second)
