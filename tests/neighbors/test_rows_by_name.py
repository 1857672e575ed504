"""Names and folds of training rows, and fits that Ctrl-C or a limit around them ends early."""

from __future__ import annotations

import polars
import pytest

import mahala
from mahala.neighbors import model as module
from mahala.support.limits import time_limit


@pytest.fixture
def model(labelled):
    return mahala.NeighborClassifier(trees=False).fit(*labelled)


def test_names_are_those_of_rows_until_they_are_forgotten(model, labelled, tmp_path):
    X, y = labelled
    assert model.rows_.tolist() == list(range(90))
    model.name_rows([f"n{row}" for row in range(90)])
    model.add(X[:2], y[:2], names=["new", 7]).forget(["n3"])
    assert model.rows_.tolist() == [*(f"n{row}" for row in range(90) if row != 3), "new", 7]
    model.target_name_ = "kind"
    model.save(tmp_path / "m")
    again = mahala.load(tmp_path / "m")
    assert again.rows_.tolist() == model.rows_.tolist()
    assert again.target_name_ == "kind"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a"] * 90, "'a' is there twice"),
        (["a"], "one for each of the 90 rows, got 1 of them"),
        ([0.5] * 90, "whole numbers, .* got 0.5"),
    ],
)
def test_names_that_are_none(model, names, words):
    with pytest.raises(ValueError, match=words):
        model.name_rows(names)


def test_folds_are_by_row(model, labelled):
    folds = model.folds_
    assert sorted(set(folds.tolist())) == [0, 1, 2, 3]
    assert folds[model._model.rows.numbers].tolist() == model._model.rows.folds.tolist()
    X, y = labelled
    assert model.add(X[:2], y[:2]).folds_.tolist() == [*folds.tolist(), -1, -1]


def test_reasons_of_each_row_are_those_of_one(model, labelled):
    each = list(model.explain_each(labelled[0][:3], k=2))
    assert [str(reasons) for reasons in each] == [str(model.explain(row, k=2)) for row in labelled[0][:3]]


def test_the_name_of_y_is_kept(labelled):
    X, y = labelled
    frame = polars.DataFrame(X, schema=list("abcde"))
    assert mahala.NeighborClassifier(trees=False).fit(frame, polars.Series("kind", y)).target_name_ == "kind"


def test_identifiers_and_decimal_marks_are_parameters(labelled):
    X, y = labelled
    frame = polars.DataFrame({"customer_id": range(90), "a": X[:, 0], "b": ["1,019", "2,500", "1,200"] * 30})
    plain = mahala.NeighborClassifier(trees=False, linear=False).fit(frame, y)
    other = mahala.NeighborClassifier(trees=False, linear=False, identifiers="keep", decimal=",").fit(frame, y)
    done, changed = (dict(fitted.metric_.preprocessor.columns_) for fitted in (plain, other))
    assert done["customer_id"].startswith("left out")
    assert changed["customer_id"] == "number"
    assert "1,019 read as 1019" in done["b"]
    assert "decimal comma" in changed["b"]


def test_ctrl_c_keeps_what_was_learned(labelled, monkeypatch):
    def learn(*arguments):
        return module_learn(*arguments)[0], KeyboardInterrupt()

    module_learn = module.learn
    monkeypatch.setattr(module, "learn", learn)
    model = mahala.NeighborClassifier(trees=False)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*labelled)
    assert model.predict(labelled[0]).shape == (90,)


@pytest.mark.parametrize("seconds", [None, 100.0])
def test_a_limit_around_a_fit_ends_it(labelled, seconds):
    with time_limit(0.0) as limit:
        mahala.NeighborClassifier(max_seconds=seconds).fit(*labelled)
    assert limit.stopped
