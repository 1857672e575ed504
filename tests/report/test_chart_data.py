"""The numbers of the charts are those of the rows and of the leaderboard."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mahala import LDA
from mahala.evaluation.compare import held_out
from mahala.evaluation.cross_validation.fitting import refit
from mahala.report.chart_data import (
    Shown,
    _distances,
    _histograms,
    _neighbours,
    _spread,
    before_and_after,
    confusions,
    drawn_classes,
    errors_by_class,
    errors_by_k,
    spectrum,
)
from report.cases import make, table


@pytest.fixture(scope="module")
def board():
    return make(*table(3, 4, n=90), repeats=2)[0]


def test_errors_by_k_are_means_over_test_parts(board):
    told = errors_by_k(board)
    assert told["counts"] == list(range(1, 26))
    assert told["at"] == board.n_neighbors
    for series, entry in zip(told["series"], board.ranked, strict=True):
        assert (series["name"], series["plain"]) == (entry.name, not entry.learned)
        np.testing.assert_allclose(series["errors"], entry.errors.mean(axis=0), rtol=1e-3)


def test_classes_and_their_errors(board):
    assert board.class_counts == (30, 30, 30)
    told = errors_by_class(board, np.array([0, 2]), "LDA")
    assert (told["names"], told["counts"], told["total"]) == (["0", "2"], [30, 30], 90)
    for own, entry in zip(told["entries"], board.ranked, strict=True):
        wrong = 1.0 - entry.confusion.diagonal() / 60
        np.testing.assert_allclose(own["errors"], wrong[[0, 2]], rtol=1e-3, atol=1e-12)
        assert own["on"] == (entry.name == "LDA" or entry is board.euclidean)
    matrices = confusions(board, np.array([0, 2]), "LDA")
    assert matrices["entries"][matrices["first"]]["name"] == "LDA"
    for own, entry in zip(matrices["entries"], board.ranked, strict=True):
        assert own["cells"] == [entry.confusion[i, j] for i in (0, 2) for j in (0, 2)]
        assert own["totals"] == [60, 60]


def test_of_many_classes_those_with_the_most_errors_are_drawn(board):
    confusion = 10 * np.eye(60, dtype=int)
    confusion[np.arange(1, 60, 2), 0] = 3
    entries = [replace(entry, confusion=confusion) for entry in board.entries]
    drawn = drawn_classes(replace(board, entries=entries))
    assert len(drawn) == 40
    assert set(range(1, 60, 2)) <= set(drawn.tolist())
    assert drawn.tolist() == sorted(drawn.tolist())
    entries = [replace(entry, confusion=None) for entry in board.entries]
    drawn = drawn_classes(replace(board, entries=entries, class_counts=tuple(range(100))))
    assert drawn.tolist() == list(range(60, 100))


def test_neighbours_are_the_nearest_other_rows():
    rows = np.random.default_rng(0).normal(size=(40, 3))
    points = np.array([3, 7, 30])
    found, distances = _neighbours(rows, points, 10)
    for point, own, far in zip(points, found, distances, strict=True):
        expected = np.linalg.norm(rows - rows[point], axis=1)
        expected[point] = np.inf
        assert own.tolist() == np.argsort(expected)[:10].tolist()
        np.testing.assert_allclose(far, np.sort(expected)[:10], atol=1e-7)


def test_a_row_with_many_copies_is_not_its_own_neighbour():
    found, distances = _neighbours(np.repeat(np.arange(2.0), 20)[:, None], np.arange(40), 10)
    assert found.shape == (40, 10)
    assert not (found == np.arange(40)[:, None]).any()
    np.testing.assert_allclose(distances, 0.0, atol=1e-7)
    assert _neighbours(np.arange(3.0)[:, None], np.arange(3), 10)[0].shape == (3, 2)


def test_rows_of_a_sample_keep_their_numbers(board):
    X, y = table(3, 4, spread=1.0, n=90)
    metric, mask = held_out(X, y, LDA(), board)
    told = before_and_after(board, Shown("LDA", metric, metric, X, y, mask))
    assert told.plane["rows"] is None
    sampled = replace(board, n_rows=1000, rows=10 * np.arange(90))
    assert before_and_after(sampled, Shown("LDA", metric, metric, X, y, mask)).plane["rows"] == list(range(0, 900, 10))
    assert told.plane["points"] == list(range(90))
    some = Shown("LDA", metric, metric, X, y, mask, np.arange(90) + 7)  # of a file of which rows were left out
    assert before_and_after(board, some).plane["rows"] == list(range(7, 97))
    assert told.plane["held_out"] == mask.astype(int).tolist()
    assert told.n_held_out == 30
    assert [panel["title"] for panel in told.plane["panels"]] == [f"before: {board.euclidean.name}", "after: LDA"]
    after = metric.pairwise(X)
    np.fill_diagonal(after, np.inf)
    k = board.n_neighbors or board["LDA"].n_neighbors
    found = np.reshape(told.plane["panels"][1]["neighbours"], (90, -1))
    assert found[0].tolist() == np.argsort(after[0])[:k].tolist()
    entries = [replace(entry, n_neighbors=7) for entry in board.entries]
    told = before_and_after(replace(board, n_neighbors=None, entries=entries), some)
    assert len(told.plane["panels"][0]["neighbours"]) == 7 * 90  # as many as vote for what the page says of LDA


@pytest.mark.parametrize("name", ["cosine", "PCA"])
def test_rows_before_are_those_of_the_plain_distance(board, name):
    X, y = table(3, 4, spread=1.0, n=90)
    metric, mask = held_out(X, y, LDA(), board)
    plain = replace(board.euclidean, name=name, scaling="standard")
    entries = [*(entry for entry in board.entries if entry.name != board.reference), plain]
    told = before_and_after(replace(board, reference=name, entries=entries), Shown("LDA", metric, metric, X, y, mask))
    far = refit(X[~mask], y[~mask], name).pairwise(X)
    np.fill_diagonal(far, np.inf)
    found = np.reshape(told.plane["panels"][0]["neighbours"], (90, -1))
    np.testing.assert_array_equal(np.sort(found[0]), np.sort(np.argsort(far[0])[: found.shape[1]]))
    assert told.plane["panels"][0]["title"] == f"before: {name}"


def test_shares_of_pairs_in_bins():
    told = _histograms(np.array([0.1, 0.1, 9.0]), np.array([1.0, 2.0]))
    assert sum(told["same"]) == pytest.approx(1.0, abs=1e-3)  # the pair beyond the last edge is in the last bin
    assert sum(told["other"]) == pytest.approx(1.0)
    assert len(told["edges"]) == len(told["same"]) + 1
    assert sum(_histograms(np.zeros(3), np.zeros(2))["same"]) == pytest.approx(1.0)
    assert sum(_histograms(np.empty(0), np.ones(3))["same"]) == 0.0


def test_the_spectrum_has_its_head_and_not_too_many_of_the_others():
    told = spectrum(np.array([3.0, 1.0, 0.0, -1e-17]))
    assert told["numbers"] == [1, 2, 3, 4]
    assert told["shares"] == [0.75, 0.25, 0.0, 0.0]
    assert told["cumulative"] == [0.75, 1.0, 1.0, 1.0]
    many = spectrum(np.ones(5000))
    assert many["numbers"][:30] == list(range(1, 31))
    assert many["numbers"][-1] == 5000
    assert len(many["numbers"]) < 400
    assert spectrum(np.zeros(2))["shares"] == [0.0, 0.0]


def test_distances_are_those_of_the_pairs():
    rows, codes = np.array([[0.0], [1.0], [3.0]]), np.array([0, 1, 0])
    similar, dissimilar = _distances(rows, codes)
    assert similar.tolist() == [3.0]
    assert sorted(dissimilar.tolist()) == [1.0, 2.0]


def test_points_that_coincide_are_spread_a_little():
    grid = np.array([[i, j] for i in range(5) for j in range(5)], dtype=float)
    rng = np.random.default_rng(0)
    assert not _spread(grid, rng)[1]
    twice, spread = _spread(np.repeat(grid, 2, axis=0), rng)
    assert not spread  # half of the points are distinct
    assert twice.tolist() == np.repeat(grid, 2, axis=0).tolist()
    many = np.repeat(grid, 3, axis=0) + 1e-12 * rng.normal(size=(75, 2))
    moved, spread = _spread(many, rng)
    assert spread
    assert len(np.unique(moved.round(6), axis=0)) == 75
    assert 0.1 < np.abs(moved - many).max() < 0.2  # points of the grid are 1 apart


def test_a_line_is_spread_across_itself():
    line = np.column_stack([np.arange(20.0), np.zeros(20)])
    moved, spread = _spread(line, np.random.default_rng(0))
    assert spread
    assert moved[:, 0].tolist() == line[:, 0].tolist()
    assert 1.0 < np.abs(moved[:, 1]).max() <= 1.9
