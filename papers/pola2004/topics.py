"""Filtering documents in the POLA paper (Shalev-Shwartz, Singer, Ng, 2004): Figure 4.

The 9,603 ModApte training documents of Reuters-21578 in chronological order, as tf-idf rows of unit length over 500
words; the 13 most frequent topics with 0.01 to 0.1 times as many relevant documents as irrelevant ones.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mahala.data.datasets import data_folder
from mahala.online.pola import POLA
from papers.pola2004.filters.nearest import NearestFilter
from papers.pola2004.filters.online_filter import OnlineFilter
from papers.pola2004.filters.paum import PAUM
from papers.pola2004.filters.perceptron import Perceptron
from papers.pola2004.filters.reuters import load_reuters
from papers.study import SECONDS, Cell, Folder, Numbers, Quantity, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_WORDS = 500
# From the most frequent to the least frequent; a test compares them with the documents.
TOPICS = (
    "money-fx", "grain", "crude", "trade", "interest", "wheat", "ship", "corn", "money-supply", "dlr", "sugar",
    "oilseed", "coffee",
)  # fmt: skip


def rare_topics(topics: Sequence[frozenset[str]]) -> list[str]:
    """Return topics with 0.01 to 0.1 times as many relevant documents as irrelevant ones, the most frequent first."""
    counts = Counter(itertools.chain.from_iterable(topics))
    return [topic for topic, n in counts.most_common() if 0.01 <= n / (len(topics) - n) <= 0.1]


def word_weights(texts: Sequence[str]) -> Any:
    """Return CSR rows of unit length with the tf-idf of the most frequent words, without stop words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(max_features=N_WORDS, stop_words="english", token_pattern="[a-z]{2,}")
    return words.fit_transform(texts)


@lru_cache(maxsize=1)
def _documents(folder: Path | None) -> tuple[Any, list[frozenset[str]]]:
    documents = load_reuters(folder)
    return word_weights([document.text for document in documents]), [document.topics for document in documents]


def _measure_filter(topic: str, method: str, run: int, folder: Folder) -> Numbers:
    X, topics = _documents(data_folder(folder))
    makers: dict[str, Callable[[], OnlineFilter]] = {
        "POLA": lambda: NearestFilter(POLA(record=False)),
        "1-NN": NearestFilter,
        "Perceptron": Perceptron,
        "PAUM": PAUM,
    }
    start = time.process_time()
    found = makers[method]().fit(X, np.array([topic in own for own in topics]))
    return {
        "error": 100.0 * found.balanced_error_,
        "false_positives": 100.0 * found.false_positive_rate_,
        "false_negatives": 100.0 * found.false_negative_rate_,
        "seconds": time.process_time() - start,
    }


def _draw_filters(cells: Sequence[Cell], folder: Folder) -> Figure:
    from papers.pola2004.figures import filters
    from papers.results import summarise

    errors: dict[str, dict[str, float]] = {}
    for line in summarise(FIGURE4, FIGURE4.quantities[0], cells):
        errors.setdefault(line.method, {})[line.dataset] = line.mean
    return filters({method: errors[method] for method in FIGURE4.methods if method in errors}, ("1-NN", "POLA"))


FIGURE4 = Study(
    paper="pola2004",
    name="figure4",
    title="POLA 2004, Figure 4: filtering the documents of Reuters-21578 as they come",
    quantities=(
        Quantity("error", "Mean of the rates of false positives and false negatives in per cent", better="lower"),
        Quantity("false_positives", "False positives in per cent of the irrelevant documents"),
        Quantity("false_negatives", "False negatives in per cent of the relevant documents"),
        replace(SECONDS, title="CPU seconds of the stream"),
    ),
    datasets=TOPICS,
    methods=("POLA", "1-NN", "Perceptron", "PAUM"),
    runs=1,
    measure=_measure_filter,
    once=frozenset(TOPICS),  # nothing is random
    axis="topic",
    draw=_draw_filters,
)
