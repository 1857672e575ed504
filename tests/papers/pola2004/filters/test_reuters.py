"""The setting of the 2004 paper, small: Reuters-21578, 500 words, length-normalised tf-idf, one topic."""

from __future__ import annotations

import gzip
import itertools
import json

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

import mahala
from conftest import DATA, why_missing
from papers.pola2004.filters.nearest import NearestFilter
from papers.pola2004.filters.paum import PAUM
from papers.pola2004.filters.perceptron import Perceptron


@pytest.fixture(scope="module")
def crude_oil():
    """The first 2,000 ModApte training documents in the order of the file, and whether they are about crude oil."""
    if why := why_missing("reuters21578.jsonl.gz"):
        pytest.skip(why)
    with gzip.open(DATA / "reuters21578.jsonl.gz", "rt") as file:
        training = (document for document in map(json.loads, file) if document["split"] == "train")
        documents = list(itertools.islice(training, 2000))
    texts = [f"{document['title']} {document['body']}" for document in documents]
    X = TfidfVectorizer(max_features=500, stop_words="english").fit_transform(texts)
    return X, np.array(["crude" in document["topics"] for document in documents])


def test_every_filter_finds_the_few_documents_about_crude_oil(crude_oil):
    X, relevant = crude_oil
    assert relevant.sum() == 86
    filters = {
        "perceptron": Perceptron(),
        "paum": PAUM(),
        "nearest": NearestFilter(),
        "pola": NearestFilter(mahala.POLA()),
    }
    errors = {name: fitted.fit(X, relevant).balanced_error_ for name, fitted in filters.items()}
    # To say that nothing is relevant is an error of 0.5.
    assert max(errors.values()) < 0.25
    assert errors["paum"] < errors["perceptron"]
    assert errors["pola"] < errors["nearest"]
