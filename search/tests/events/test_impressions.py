"""Impressions as lines of JSON: what is read, what is refused, and a stream that resumes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import mahala
import mahala_search
from mahala.cli.main import app
from mahala.comparisons.json_lines import LineError
from mahala.stream.stream import Malformed, Stream
from mahala_search.events.impressions import ImpressionReader

GOOD = {"query": [1, 2], "shown": [[1, 0], [0, 1]], "clicked": [False, True]}


def line(**changes):
    given = {key: value for key, value in (GOOD | changes).items() if value is not None}
    return json.dumps(given).encode() + b"\n"


def test_reads_an_impression():
    impression, others = ImpressionReader().read(line(query_id=[7, "a"], user="u", page=3))
    np.testing.assert_array_equal(impression.query, [[1.0, 2.0]])
    np.testing.assert_array_equal(impression.shown, np.eye(2))
    np.testing.assert_array_equal(impression.clicked, [0.0, 1.0])
    assert impression.query_id == '[7, "a"]'
    assert impression.user == "u"
    assert others == {"query_id": [7, "a"], "user": "u", "page": 3}
    by_row = ImpressionReader(items=np.eye(2)).read(line(shown=[1, 0], clicked=[2.5, -1]))[0]
    np.testing.assert_array_equal(by_row.shown, [[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(by_row.clicked, [2.5, -1.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shown": None}, 'shown is missing: an impression is {"query": ..., "shown": ..., "clicked": ...}'),
        ({"shown": 5}, "shown must be a list, got 5"),
        ({"shown": []}, "shown must have at least one item, got none"),
        ({"shown": [[1, 0], [0, 1, 2]]}, "shown[1] must have 2 numbers, got 3"),
        ({"shown": [3, 4]}, "shown[0] must be a list of numbers"),
        ({"clicked": [True]}, "clicked must have one entry for each of the 2 items shown, got shape (1,)"),
        ({"clicked": ["yes", "no"]}, 'clicked must hold true, false or numbers, got ["yes", "no"]'),
        ({"clicked": {"0": True}}, 'clicked must be a list, got {"0": true}'),
        ({"trust": 1}, "the key trust is reserved for the answer"),
    ],
)
def test_malformed_impressions_are_refused(changes, message):
    with pytest.raises(LineError) as error:
        ImpressionReader().read(line(**changes))
    assert message in str(error.value)


def test_other_comparisons_are_recognised():
    triplet = json.dumps({"query": [1], "positive": [1], "negative": [2]}).encode()
    with pytest.raises(LineError, match="a triplet, but the model learns from impressions"):
        ImpressionReader().read(triplet)


def lines(n=30):
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(5, 3))
    result = []
    for _ in range(n):
        at = int(rng.integers(5))
        shown = rng.normal(size=(4, 3)).tolist()
        clicked = (rng.random(4) < 0.4).tolist()
        result.append(line(query=queries[at].tolist(), shown=shown, clicked=clicked, query_id=at))
    return result


def test_a_stream_resumes_where_it_was_saved(tmp_path):
    given = lines()
    whole = Stream(tmp_path / "whole.safetensors", mahala_search.QueryAdapter(random_state=0))
    results = list(whole.learn(given))
    assert not any(isinstance(result, Malformed) for result in results)
    assert set(results[-1].record) == {"line", "right", "trust", "query_id"}
    parts = Stream(tmp_path / "parts.safetensors", mahala_search.QueryAdapter(random_state=0))
    for at, _ in enumerate(parts.learn(given)):
        if at == 11:
            parts.save()
        if at == 17:
            break  # what came after the save is lost, and learned again
    resumed = Stream(tmp_path / "parts.safetensors")
    assert [result.line for result in resumed.learn(given)] == list(range(13, 31))
    np.testing.assert_array_equal(resumed.learner.metric_.matrix, whole.learner.metric_.matrix)
    assert resumed.learner.trust_ == whole.learner.trust_
    loop = mahala_search.QueryAdapter(random_state=0)
    for text in given:
        impression = json.loads(text)
        loop.learn_one(impression["query"], impression["shown"], impression["clicked"], query_id=impression["query_id"])
    np.testing.assert_array_equal(loop.metric_.matrix, whole.learner.metric_.matrix)


def test_the_command_takes_an_adapter(tmp_path):
    (tmp_path / "log.jsonl").write_bytes(b"".join(lines(8)))
    arguments = ["stream", "--model", str(tmp_path / "m.safetensors"), "--input", str(tmp_path / "log.jsonl")]
    result = CliRunner().invoke(app, [*arguments, "--learner", "adapter", "--set", "cap=0.5"])
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 8
    adapter = mahala.load(tmp_path / "m.safetensors")
    assert adapter.cap == 0.5
    assert adapter.n_impressions_ == 8
