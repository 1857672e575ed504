"""`mahala simulate` as a person uses it."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import mahala_search
from mahala.cli.main import app


def run(*arguments):
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


@pytest.fixture
def collection(tmp_path):
    rng = np.random.default_rng(0)
    queries, items = rng.normal(size=(30, 4)), rng.normal(size=(80, 4))
    M = np.eye(4) + 0.5 * rng.normal(size=(4, 4))
    triples = [(i, int(j), 1) for i in range(30) for j in np.argsort(-queries[i] @ M @ items.T)[:4]]
    np.save(tmp_path / "queries.npy", queries)
    np.save(tmp_path / "items.npy", items)
    (tmp_path / "qrels.txt").write_text("".join(f"{i} 0 {j} {grade}\n" for i, j, grade in triples))
    options = (
        "--queries",
        tmp_path / "queries.npy",
        "--items",
        tmp_path / "items.npy",
        "--qrels",
        tmp_path / "qrels.txt",
    )
    return options, (queries, items, triples)


def test_it_is_the_simulation_of_the_library(collection):
    options, (queries, items, triples) = collection
    adapter = mahala_search.QueryAdapter(random_state=0)
    expected = mahala_search.simulate_clicks(adapter, queries, items, triples, n_impressions=60)
    result = run(*options, "--impressions", 60)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{expected}\n"


def test_options_are_passed_on(collection):
    options, data = collection
    adapter = mahala_search.QueryAdapter(random_state=3, cap=0.5)
    expected = mahala_search.simulate_clicks(
        adapter, *data, n_impressions=40, clicks="perfect", k=3, test_share=0.5, random_state=3
    )
    more = "--impressions", 40, "--clicks", "perfect", "-k", 3, "--test-share", 0.5, "--seed", 3, "--set", "cap=0.5"
    result = run(*options, *more, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["impressions"] == 40
    assert told["clicks"] == expected.n_clicks.sum()
    assert told["ndcg@3"] == {"raw": expected.raw.mean(), "shown": expected.shown.mean(), "gain": expected.gain}
    assert told["curve"] == dict(
        zip(("impressions", "gain"), (part.tolist() for part in expected.curve()), strict=True)
    )
    assert told["held_out"] == 15
    assert told["unseen"]["ndcg@3"] == dataclasses.asdict(expected.unseen.gains["ndcg@3"])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--clicks", "lazy"), "the name of a click model must be one of perfect,"),
        (("--set", "caps=1"), "QueryAdapter has no parameter 'caps' (did you mean cap?); it has"),
        (("--set", "cap=2"), "cap must be a number from 0 to 1, got 2"),
        (("--test-share", "1"), "test_share must be a number between 0 and 1"),
    ],
)
def test_errors_are_one_line(collection, option, message):
    result = run(*collection[0], *option)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
