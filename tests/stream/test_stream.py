"""Streams of lines: what is learned, where it goes on, and what is refused."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import clone

import mahala
from mahala.comparisons.json_lines import LineError, PairReader, TripletReader
from mahala.stream.input import read_lines
from mahala.stream.stream import Learned, Malformed, Stream

D = 5
LEARNERS = {
    "PA-": mahala.PA("LS", C=0.1, psd="end"),
    "PA+": mahala.PA("I", C=0.5, psd="every"),
    "PA 7": mahala.PA("II", C=0.5, psd=7),
    "PA kernel": mahala.PA("I", C=0.5, kernel="rbf", kernel_params={"gamma": 0.1}),
    "POLA": mahala.POLA(),
    "LEGO": mahala.LEGO(similar_target=1.0, dissimilar_target=8.0),
    "RDML": mahala.online.RDML(),
    "OASIS": mahala.OASIS(C=0.1),
    "OASIS sparse": mahala.OASIS(C=0.1, storage="sparse"),
    "OGD": mahala.OGD(),
    "SORS": mahala.SORS(),
    "SORS sparse": mahala.SORS(storage="sparse", average=True),
    "AdaSORS": mahala.AdaSORS(),
    "AROMA": mahala.AROMA(),
    "AROMA diagonal": mahala.AROMA(covariance="diagonal"),
}


def fresh(name):
    return clone(LEARNERS[name]).set_params(record=False, random_state=0)


def is_pair(learner):
    return hasattr(learner, "threshold_") or isinstance(
        learner, (mahala.PA, mahala.POLA, mahala.LEGO, mahala.online.RDML)
    )


def objects(name, n, seed=0):
    """Comparisons as the lines hold them."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3, D)).round(3).tolist()
    if is_pair(LEARNERS[name]):
        return [{"x": x, "x2": x2, "similar": bool(rng.random() < 0.5)} for x, x2, _ in points]
    return [{"query": x, "positive": y, "negative": z} for x, y, z in points]


def encode(things):
    return [json.dumps(thing).encode() + b"\n" for thing in things]


def lines_of(name, n, seed=0):
    return encode(objects(name, n, seed))


def learn_all(path, lines, learner=None, **options):
    """Everything that there is to learn, saved at the end."""
    stream = Stream(path, learner, **options)
    results = list(stream.learn(lines))
    stream.save()
    return stream, results


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.safetensors"


@pytest.mark.parametrize("name", LEARNERS)
def test_predicts_and_learns_as_learn_one(name, path):
    things, twin = objects(name, 40), fresh(name)
    stream, results = learn_all(path, encode(things), fresh(name))
    for number, (thing, result) in enumerate(zip(things, results, strict=True), start=1):
        predicted = twin.learn_one(*thing.values())
        assert isinstance(result, Learned)
        assert result.line == result.record["line"] == number
        if "similar" in thing:
            assert result.record["predicted"] == predicted
            assert result.right == (predicted == thing["similar"] == result.record["similar"])
        else:
            assert result.right == predicted == result.record["right"]
    assert mahala.load(path).n_steps_ == 40
    header, arrays = twin.to_parts()
    loaded, loaded_arrays = mahala.load(path).to_parts()
    assert loaded == header
    assert all(np.array_equal(array, loaded_arrays[key]) for key, array in arrays.items())
    assert "_note" not in vars(stream.learner)


def margin_of(learner, thing):
    """The margin by the definition, from the metric as it is."""
    if "similar" in thing:
        metric = learner.raw_metric_ if hasattr(learner, "raw_metric_") else learner.metric_
        v = np.subtract(thing["x"], thing["x2"])
        return metric.threshold - v @ metric.matrix @ v
    return np.array(thing["query"]) @ learner._model.matrix() @ np.subtract(thing["positive"], thing["negative"])


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - {"LEGO", "PA kernel", "SORS sparse"}))
def test_margin_is_that_before_the_update(name, path):
    things = objects(name, 30)
    learn_all(path, encode(things[:10]), fresh(name))
    stream = Stream(path)
    results = stream.learn(encode(things))
    for thing in things[10:]:
        expected = margin_of(stream.learner, thing)
        result = next(results)
        assert result.record["margin"] == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert result.record.get("predicted", result.right) == (result.record["margin"] > 0)


def test_lego_has_no_margin(path):
    _, results = learn_all(path, lines_of("LEGO", 3), fresh("LEGO"))
    assert all("margin" not in result.record for result in results)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_crash_at_any_checkpoint_leaves_the_same_bytes(name, tmp_path):
    lines = lines_of(name, 7)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    learn_all(whole, lines, fresh(name))
    learn_all(tmp_path / "again", lines, fresh(name))
    assert (tmp_path / "again").read_bytes() == whole.read_bytes()
    for _ in range(7):  # one line a life
        stream = Stream(broken, fresh(name))
        results = stream.learn(lines)
        next(results)
        stream.save()
        next(results, None)  # learned from, but not saved: learned from again in the next life
    learn_all(broken, lines)
    assert broken.read_bytes() == whole.read_bytes()


def test_goes_on_after_the_last_save_with_the_same_numbers(path):
    lines = lines_of("PA-", 20)
    stream = Stream(path, fresh("PA-"))
    for result in stream.learn(lines):
        if result.line == 8:
            stream.save()
        if result.line == 13:
            break
    stream, results = learn_all(path, lines)
    assert stream.skipped == 8
    assert [result.line for result in results] == list(range(9, 21))


def test_learns_what_is_new_of_a_log_that_grows(path):
    lines = lines_of("OASIS", 250)
    for n in (0, 1, 1, 60, 99, 100, 101, 101, 180, 250, 250):
        before = path.read_bytes() if path.exists() else None
        stream, results = learn_all(path, lines[:n], fresh("OASIS"))
        assert len(results) == n - stream.skipped
        if not results and before is not None:
            assert path.read_bytes() == before
    assert stream.skipped == 250
    assert mahala.load(path).n_steps_ == 250


@pytest.mark.parametrize("at", [0, 40, 149])
def test_another_input_needs_an_option(at, path):
    lines = lines_of("PA-", 150)
    learn_all(path, lines, fresh("PA-"))
    before = path.read_bytes()
    others = lines[:at] + lines_of("PA-", 200 - at, seed=1)
    with pytest.raises(ValueError, match=r"differs from the one of which .* has read 150 lines.*new_input=True"):
        Stream(path).learn(others)
    assert path.read_bytes() == before
    _, results = learn_all(path, others, new_input=True)
    assert [result.line for result in results] == list(range(1, 201))
    assert learn_all(path, others)[0].skipped == 200
    with pytest.raises(ValueError, match="has read 200 lines"):
        Stream(path).learn(lines * 2)


def test_another_input_in_the_middle_of_one_is_refused(path):
    lines, others = lines_of("PA-", 20), lines_of("PA-", 20, seed=1)
    stream = Stream(path, fresh("PA-"))
    next(stream.learn(lines))
    stream.save()
    before = path.read_bytes()
    for given_lines in (others, [], lines[1:]):
        stream = Stream(path)
        with pytest.raises(ValueError, match=r"has read 1.*new_input=True"):
            stream.learn(given_lines)
        stream.save()
        assert path.read_bytes() == before
    stream, results = learn_all(path, others, new_input=True)
    assert len(results) == 20
    assert stream.learner.n_steps_ == 21


@pytest.mark.parametrize("n", [0, 120])
def test_an_input_that_was_cut_short_is_refused(n, path):
    lines = lines_of("PA-", 150)
    learn_all(path, lines, fresh("PA-"))
    with pytest.raises(ValueError, match=f"ends after {n} lines, .* has read 150: give that one with all its lines"):
        Stream(path).learn(lines[:n])


def test_the_place_of_the_previous_checkpoint_must_be_free(path):
    previous = path.with_name(f"{path.stem}.previous{path.suffix}")
    previous.write_text("mine")
    with pytest.raises(FileExistsError, match="must be free for the last checkpoint but one"):
        Stream(path, fresh("PA-"))
    previous.unlink()
    stream = Stream(path, fresh("PA-"), every=1)
    for _ in stream.learn(lines_of("PA-", 3)):
        stream.save()
    assert previous.exists()
    Stream(path)


def test_a_refused_input_does_not_lose_the_unsaved_position(path):
    """So that no line is learned from twice."""
    stream, lines = Stream(path, fresh("PA-")), lines_of("PA-", 5)
    list(stream.learn(lines))
    with pytest.raises(ValueError, match="ends after 2 lines"):
        stream.learn(lines[:2])
    assert stream.save()
    assert [result.line for result in stream.learn([*lines, *lines_of("PA-", 1, seed=1)])] == [6]
    assert Stream(path).learner.n_steps_ == 5


@pytest.mark.parametrize("cut", [1, 20, -2])
def test_a_last_line_that_is_still_being_written_is_read_again(cut, path):
    lines = lines_of("PA-", 6)
    _, results = learn_all(path, [*lines[:5], lines[5][:cut]], fresh("PA-"))
    assert isinstance(results[-1], Malformed)
    assert results[-1].line == 6
    stream, results = learn_all(path, lines)
    assert stream.skipped == 5
    assert [type(result) for result in results] == [Learned]
    learn_all(path.with_name("whole"), lines, fresh("PA-"))
    assert path.with_name("whole").read_bytes() == path.read_bytes()


def test_a_last_line_without_newline_is_learned_from_once(path):
    lines = lines_of("PA-", 6)
    learn_all(path, [*lines[:4], lines[4].rstrip()], fresh("PA-"))
    stream, results = learn_all(path, [*lines[:4], lines[4].replace(b"\n", b"\r\n"), lines[5]])
    assert (stream.skipped, len(results)) == (5, 1)


def test_blank_lines_are_counted_but_not_learned_from(path):
    lines = lines_of("PA-", 2)
    lines = [b"\n", lines[0], b" \t\r\n", lines[1], b"\n", b"  "]
    _, results = learn_all(path, lines, fresh("PA-"))
    assert [result.line for result in results] == [2, 4]
    assert learn_all(path, lines)[0].skipped == 5


def test_the_position_is_not_lost_to_an_input_that_teaches_nothing(path):
    learn_all(path, lines_of("PA-", 5), fresh("PA-"))
    before = path.read_bytes()
    assert len(learn_all(path, [b"?\n"] * 200, new_input=True)[1]) == 200
    assert path.read_bytes() == before


def test_malformed_lines_at_the_end_are_read_once(path):
    lines = [*lines_of("PA-", 1), b"?\n", b"\n"]
    stream = Stream(path, fresh("PA-"))
    for _ in stream.learn(lines):
        stream.save()
    assert stream.save()
    assert learn_all(path, lines)[1] == []


def test_items_may_be_appended_and_forgotten_ones_are_named(path):
    items = np.random.default_rng(0).normal(size=(300, 4))
    lines = encode([{"query": 0, "positive": 1, "negative": 2}] * 3)
    learn_all(path, lines[:1], fresh("OASIS"), items=items)
    learn_all(path, lines[:2], items=np.vstack([items, items]))
    with pytest.raises(ValueError, match=r"line 3: .*if items are given"):
        learn_all(path, lines)
    assert len(learn_all(path, lines, items=items)[1]) == 1


def test_a_malformed_line_is_read_when_the_next_is_asked_for(path):
    lines = lines_of("PA-", 3)
    stream = Stream(path, fresh("PA-"))
    results = stream.learn([lines[0], b"?\n", lines[1]])
    next(results)
    assert isinstance(next(results), Malformed)
    stream.save()
    assert Stream(path).learn([lines[0], lines[2]]).__next__().line == 2  # mended


def test_what_is_due_and_what_is_saved(path):
    lines = lines_of("PA-", 10)
    stream = Stream(path, fresh("PA-"), every=4, seconds=1e6)
    due = []
    for result in stream.learn(lines):
        if stream.due:
            due.append(result.line)
            assert stream.save()
            assert not stream.save()
            assert not stream.due
    assert due == [4, 8]
    stream.save()
    stream = Stream(path, every=4, seconds=1e6, new_input=True)  # lines are counted from its first
    assert [result.line for result in stream.learn(lines_of("PA-", 5, seed=1)) if stream.due] == [4, 5]
    assert Stream(path, seconds=0.0).due


def test_nothing_is_written_before_something_is_learned(path):
    _, results = learn_all(path, [b"?\n"], fresh("PA-"))
    assert len(results) == 1
    assert not path.exists()


def test_options_that_make_no_sense(path, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no model file .*state.safetensors: give a learner"):
        Stream(path)
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        Stream(tmp_path / "nowhere" / "state", fresh("PA-"))
    with pytest.raises(TypeError, match="NCA does not learn from one comparison at a time"):
        Stream(path, mahala.NCA())
    with pytest.raises(ValueError, match="every must be an integer of at least 1"):
        Stream(path, fresh("PA-"), every=0)
    with pytest.raises(ValueError, match="items must be rows of numbers"):
        Stream(path, fresh("PA-"), items=np.array(["a"]))
    learn_all(path, lines_of("PA-", 3), fresh("PA-"))
    with pytest.raises(ValueError, match="holds a PA, not a RDML"):
        Stream(path, fresh("RDML"))
    with pytest.raises(ValueError, match=r"holds a PA with C=0\.1, not 0\.2"):
        Stream(path, fresh("PA-").set_params(C=0.2))
    Stream(path, fresh("PA-").set_params(record=True, random_state=5))


def test_goes_on_with_a_learner_that_was_saved(path):
    things = objects("PA-", 10)
    learner = fresh("PA-")
    for thing in things[:4]:
        learner.learn_one(thing["x"], thing["x2"], thing["similar"])
    learner.save(path)
    assert learn_all(path, encode(things[4:]))[0].skipped == 0
    learn_all(path.with_name("whole"), encode(things), fresh("PA-"))
    assert np.array_equal(mahala.load(path)._model.M, mahala.load(path.with_name("whole"))._model.M)


@pytest.mark.parametrize("wrong", [3, {}, {"lines": 2}, {"lines": -1, "digest": "", "items": False}])
def test_a_damaged_position_is_refused(wrong, path):
    stream, _ = learn_all(path, lines_of("PA-", 3), fresh("PA-"))
    header, arrays = stream.learner.to_parts()
    mahala.support.model_files.write_model(path, "learner", arrays, header | {"stream": wrong})
    with pytest.raises(mahala.ModelFileError, match="has a damaged position"):
        Stream(path)


BAD_PAIRS = {
    b'{"x": [1, 2]': "not JSON: Expecting ',' delimiter at character 13",
    b"[1]": "must be an object {...}, got [1]",
    b'{"x": [1, 2]}': 'x2 is missing: a pair is {"x": ..., "x2": ..., "similar": ...}',
    b'{"query": [1], "positive": [1], "negative": [2]}': "a triplet, but the model learns from pairs",
    b'{"x": [1, 2], "x2": [1], "similar": true}': "x must have 5 numbers, got 2",
    b'{"x": [], "x2": [], "similar": true}': "x must have 5 numbers, got 0",
    b'{"x": [1, NaN], "x2": [1, 2], "similar": true}': "NaN is not JSON: every number must be finite",
    b'{"x": [1, 2, 3, 4, -Infinity], "x2": [1, 2, 3, 4, 5], "similar": true}': "-Infinity is not JSON",
    b'{"x": [1, 2, 3, 4, 1e999], "x2": [1, 2, 3, 4, 5], "similar": true}': "x must have finite numbers up to 1e+45",
    b'{"x": [1, 2, 3, 4, 1e46], "x2": [1, 2, 3, 4, 5], "similar": true}': "x must have finite numbers up to 1e+45",
    b'{"x": [1, 2, 3, 4, 1' + b"0" * 400 + b'], "x2": [1, 2, 3, 4, 5], "similar": true}': "x must have finite numbers",
    b'{"x": [1, 2, 3, 4, 1' + b"0" * 5000 + b'], "x2": [1, 2, 3, 4, 5], "similar": true}': "not a number: ",
    b'{"x": [1, 2, 3, 4, "5"], "x2": [1, 2, 3, 4, 5], "similar": true}': 'x[4] must be a number, got "5"',
    b'{"x": [1, 2, true, 4, 5], "x2": [1, 2, 3, 4, 5], "similar": true}': "x[2] must be a number, got true",
    b'{"x": [1, 2, [3], 4, 5], "x2": [1, 2, 3, 4, 5], "similar": true}': "x[2] must be a number, got [3]",
    b'{"x": [1, 2, 3, 4, null], "x2": [1, 2, 3, 4, 5], "similar": true}': "x[4] must be a number, got null",
    b'{"x": "1", "x2": [1, 2, 3, 4, 5], "similar": true}': '(if items are given) a row number, got "1"',
    b'{"x": 7, "x2": [1, 2, 3, 4, 5], "similar": true}': "(if items are given) a row number, got 7",
    b'{"x": [1, 2, 3, 4, 5], "x2": [1, 2, 3, 4, 5], "similar": 1}': "similar must be true or false, got 1",
    b'{"x": [1], "x": [2], "similar": true}': 'the key "x" must not occur twice',
    b'{"x": {"1": 1, "1": 2}, "x2": {}, "similar": true}': 'the key "1" must not occur twice',
    b'{"x": {"1": 1, "01": 2}, "x2": {}, "similar": true}': "x must have each feature once, got feature 1 twice",
    b'{"x": {"5": 1}, "x2": {}, "similar": true}': 'features of x must be numbers from 0 to 4, got "5"',
    b'{"x": {"-1": 1}, "x2": {}, "similar": true}': 'must be numbers from 0 to 4, got "-1"',
    b'{"x": {"1": "a"}, "x2": {}, "similar": true}': 'x["1"] must be a number, got "a"',
    b'{"x": {}, "x2": {}, "similar": true, "line": 3}': "the key line is reserved for the answer",
    b'{"x": {}, "x2": {}, "similar": true, "id": [1e999]}': "every number must be finite",
    b'{"x": {}, "x2": {}, "similar": true, "id": ' + b"[" * 100_000 + b"}": "nested too deeply",
    b'{"x": {}, "x2": {}, "similar": true, "id": "\xff"}': "not UTF-8: invalid start byte at byte 45",
}


@pytest.mark.parametrize("line", BAD_PAIRS)
def test_malformed_lines_say_what_is_wrong_and_leave_the_model(line, path):
    learn_all(path, lines_of("PA-", 3), fresh("PA-"))
    stream = Stream(path)
    _, before = stream.learner.to_parts()
    before = {key: array.copy() for key, array in before.items()}
    (result,) = stream.learn([*lines_of("PA-", 3), line + b"\n"])
    assert isinstance(result, Malformed)
    assert result.line == 4
    assert "\n" not in result.problem
    assert BAD_PAIRS[line] in result.problem
    _, after = stream.learner.to_parts()
    assert all(np.array_equal(array, after[key]) for key, array in before.items())


def test_a_byte_order_mark_is_no_part_of_a_line(path):
    lines = lines_of("PA-", 3)
    marked = [b"\xef\xbb\xbf" + lines[0], *lines[1:]]
    assert learn_all(path, marked, fresh("PA-"))[1] == learn_all(f"{path}2", lines, fresh("PA-"))[1]


def test_the_first_line_says_how_many_features_there_are(path):
    bad = b'{"x": [1, 2], "x2": [1, 2, 3], "similar": true}\n'
    good = b'{"x": [1, 2], "x2": [1, 3], "similar": true}\n'
    longer = b'{"x": [1, 2, 3], "x2": [1, 3, 3], "similar": true}\n'
    unknown = b'{"x": {"1": 2}, "x2": {}, "similar": true}\n'
    _, results = learn_all(path, [bad, unknown, good, longer, unknown], fresh("PA-"))
    assert [getattr(result, "problem", None) for result in results] == [
        "x has 2 numbers and x2 3; they must have the same number",
        "x is an object, so the number of features must be known: give n_features",
        None,
        "x must have 2 numbers, got 3",
        None,
    ]


def test_queries_and_items_may_have_other_features(path):
    lines = encode([{"query": [1, 0, 2], "positive": [1, 2], "negative": [0, 1]}])
    wrong = encode([{"query": [1, 2], "positive": [1, 2], "negative": [0, 1]}])
    _, results = learn_all(path, lines * 2 + wrong, fresh("OASIS").set_params(init="zero"))
    assert [getattr(result, "problem", None) for result in results] == [None, None, "query must have 3 numbers, got 2"]
    assert mahala.load(path).metric_.matrix.shape == (3, 2)


def objects_of(point):
    return {str(at): value for at, value in enumerate(point) if value}


@pytest.mark.parametrize("name", ["PA-", "OASIS", "SORS sparse"])
@pytest.mark.parametrize("form", ["objects", "rows", "mixed", "CSR"])
def test_points_in_other_forms_give_the_same_model(name, form, path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, D)) * (rng.random((30, D)) < 0.5)
    numbers = rng.integers(0, 30, size=(40, 3)).tolist()

    def things(point):
        if is_pair(LEARNERS[name]):
            return encode([{"x": point(i), "x2": point(j), "similar": k % 2 == 0} for i, j, k in numbers])
        return encode([{"query": point(i), "positive": point(j), "negative": point(k)} for i, j, k in numbers])

    _, expected = learn_all(path, things(lambda i: X[i].tolist()), fresh(name))
    points = {
        "objects": lambda i: objects_of(X[i].tolist()),
        "rows": lambda i: i,
        "mixed": lambda i: [i, X[i].tolist(), objects_of(X[i].tolist())][i % 3],
        "CSR": lambda i: i,
    }
    items = {"objects": None, "CSR": sp.csr_matrix(X)}.get(form, X)
    _, results = learn_all(path.with_name("other"), things(points[form]), fresh(name), items=items, n_features=D)
    assert [result.right for result in results] == [result.right for result in expected]
    np.testing.assert_allclose(
        [result.record["margin"] for result in results], [result.record["margin"] for result in expected], atol=1e-12
    )


def test_row_numbers_must_be_rows_and_hold_numbers(path):
    items = np.array([[1.0, 2.0], [np.nan, 1.0]])
    lines = encode({"x": i, "x2": 0, "similar": True} for i in (0, 1, 2, -1, True, 1.0))
    _, results = learn_all(path, lines, fresh("PA-"), items=items)
    assert [getattr(result, "problem", "")[:42] for result in results] == [
        "",
        "x must have finite numbers up to 1e+45, go",
        "x must be a row number from 0 to 1, got 2",
        "x must be a row number from 0 to 1, got -1",
        "x must be a list of numbers, an object of ",
        "x must be a list of numbers, an object of ",
    ]


def test_features_by_name():
    reader = PairReader((3, 3), names=["width", "height", "2nd"])
    rows = reader.read(b'{"x": {"height": 4, "0": 5}, "x2": {"2nd": 1}, "similar": true}')[0].X.toarray()
    assert rows.tolist() == [[5, 4, 0], [0, 0, 1]]
    with pytest.raises(LineError, match="must be feature names of the model or numbers from 0 to 2"):
        reader.read(b'{"x": {"depth": 4}, "x2": {}, "similar": true}')
    reader = PairReader((2, 2), names=["1", "0"])  # names first, and only they
    assert reader.read(b'{"x": {"1": 4}, "x2": {}, "similar": true}')[0].X.toarray().tolist() == [[4, 0], [0, 0]]


def test_other_keys_pass_through_unchanged(path):
    others = {"id": "ü\ud800", "time": [1, {"a": None}], "weight": 12345678901234567890123, "": 1.5}
    line = json.dumps(objects("PA-", 1)[0] | others).encode() + b"\n"
    _, (result,) = learn_all(path, [line], fresh("PA-"))
    assert {key: result.record[key] for key in others} == others
    assert json.loads(json.dumps(result.record)) == result.record


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("012x"), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from([*PairReader.keys, *TripletReader.keys, "id", "line"])


@given(
    st.binary(max_size=40)
    | st.dictionaries(KEYS, JSON).map(json.dumps).map(str.encode)
    | JSON.map(json.dumps).map(str.encode),
    st.sampled_from([PairReader, TripletReader]),
    st.sampled_from([(None, None), (2, 2), (2, 1)]),
)
@example(b'{"x": [0], "x2": [0], "similar": true}', PairReader, (None, None))
def test_whatever_stands_in_a_line_is_read_or_refused(line, kind, widths):
    reader = kind(widths, items=np.eye(2))
    try:
        comparison, others = reader.read(line)
    except LineError:
        return
    for X in (comparison.X, comparison.items):
        dense = np.zeros(0) if X is None else X.toarray() if sp.issparse(X) else X
        assert np.isfinite(dense).all()
    json.dumps(others, allow_nan=False)


def test_long_lines_are_skipped_and_the_position_does_not_depend_on_the_limit(path):
    good = lines_of("PA-", 3)
    long = b'{"note": "' + b"x" * 5000 + b'", ' + good[1][1:]
    data = good[0] + long + good[2]
    positions = []
    for longest, max_line, n_learned in ((1000, 1000, 2), (10_000, 500, 2), (10_000, 10_000, 3)):
        path.unlink(missing_ok=True)
        stream = Stream(path, fresh("PA-"), max_line=max_line)
        results = list(stream.learn(read_lines(Slow(data, [700] * 20), longest)))
        stream.save()
        problems = [result.problem for result in results if isinstance(result, Malformed)]
        assert len(results) - len(problems) == n_learned
        assert all(f"bytes, but a line may have {max_line:,} at most" in problem for problem in problems)
        positions.append(stream._saved)
        for other in (1000, 10_000):
            again = Stream(path)
            assert list(again.learn(read_lines(Slow(data, []), other))) == []
            assert again.skipped == 3
        with pytest.raises(ValueError, match="differs from the one"):
            list(Stream(path).learn(read_lines(Slow(data.replace(b'xx"', b'xy"'), []), 1000)))
    assert positions[0] == positions[1] == positions[2]


def test_a_line_that_is_too_long_is_not_held():
    class Endless:
        left = 2000

        def read1(self, size, /):
            self.left -= 1
            return b"x" * size if self.left > 0 else b""

    tracemalloc.start()
    lines = list(read_lines(Endless(), 2**20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [type(line).__name__ for line in lines] == ["LongLine"]
    assert peak < 2**22


def test_the_checkpoint_before_the_last_is_kept_and_named_if_the_last_cannot_be_read(path):
    lines = lines_of("PA-", 4)
    previous = path.with_name("state.previous.safetensors")
    learn_all(path, lines[:2], fresh("PA-"))
    before = path.read_bytes()
    assert not previous.exists()
    learn_all(path, lines)
    after = path.read_bytes()
    assert previous.read_bytes() == before
    path.write_bytes(after[:100])
    with pytest.raises(mahala.ModelFileError, match=r"before it is .*state\.previous\.safetensors: copy it to"):
        Stream(path)
    path.write_bytes(previous.read_bytes())
    learn_all(path, lines)
    assert path.read_bytes() == after
    previous.write_text("mine")
    with pytest.raises(FileExistsError, match="must be free for the last checkpoint but one"):
        Stream(path)


class Slow:
    """A file that gives so many bytes at a time."""

    def __init__(self, data, sizes):
        self.data, self.sizes = data, iter(sizes)

    def read1(self, size, /):
        n = next(self.sizes, size)
        block, self.data = self.data[:n], self.data[n:]
        return block


@given(st.lists(st.sampled_from([b"\n", b"\r", b"a", b"bc\n"])).map(b"".join), st.lists(st.integers(1, 4)))
def test_lines_do_not_depend_on_how_they_come(data, sizes):
    lines = list(read_lines(Slow(data, sizes)))
    assert b"".join(lines) == data
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines[:-1])
    assert all(lines)
