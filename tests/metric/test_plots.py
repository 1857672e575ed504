"""Pictures of a metric: what is drawn, not how."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mahala import MahalanobisMetric, Pairs, Triplets
from mahala.data import TablePreprocessor
from mahala.metric import Scales
from mahala.metric.plots import leading_plane

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 2.0, 5.0]


METRIC = MahalanobisMetric(np.diag([4.0, 1.0, 0.0]), origin={"learner": "NCA"})


def n_points(ax):
    return sum(len(drawn.get_offsets()) for drawn in ax.collections)


def test_classes_before_and_after(rows):
    ax = METRIC.plot_map(rows, np.array(["tea", "milk"] * 20))
    before, after = ax.figure.axes
    assert ax is after
    assert [before.get_title(), after.get_title()] == ["Plain distance", "NCA"]
    assert [n_points(before), n_points(after)] == [40, 40]
    assert [text.get_text() for text in after.get_legend().get_texts()] == ["milk", "tea"]
    assert before.get_legend() is None
    drawn = np.concatenate([drawn.get_offsets() for drawn in after.collections])
    assert_allclose(np.ptp(drawn, axis=0), np.ptp(METRIC.map_2d(rows), axis=0))


def test_numbers_have_a_colour_bar_and_many_rows_are_sampled():
    X = np.random.default_rng(0).normal(size=(2500, 3))
    ax = METRIC.plot_map(X, X[:, 0])
    assert n_points(ax) == 2000
    assert len(ax.figure.axes) == 3


def test_into_one_axes_the_learned_map_alone(rows):
    own = plt.subplots()[1]
    assert METRIC.plot_map(rows, ax=own) is own
    assert own.get_title() == "NCA"
    both = plt.subplots(1, 2)[1]
    assert METRIC.plot_map(rows, ax=both) is both[1]
    assert n_points(both[0]) == 40
    assert METRIC.plot_weights(ax=own) is own


def test_answers_are_lines_and_their_share_is_in_the_title():
    items = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    metric = MahalanobisMetric(np.diag([9.0, 0.1]))
    triplets = Triplets(items, anchor=[0, 1], positive=[2, 0], negative=[1, 2])
    ax = metric.plot_map(items, triplets, names=["zero", "one", "two"])
    titles = [place.get_title() for place in ax.figure.axes]
    assert titles == ["Plain distance: 50% of the answers hold", "Learned metric: 100% of the answers hold"]
    assert {text.get_text() for text in ax.texts} == {"zero", "one", "two"}
    pairs = Pairs(items, [0, 0], [2, 1], similar=[True, False])
    assert metric.plot_map(items, pairs).get_title() == "Learned metric: 100% of the answers hold"
    with pytest.raises(ValueError, match="names must have 3 names"):
        metric.plot_map(items, names=["zero"])


def test_names_that_would_overlap_are_left_out():
    ax = METRIC.plot_map(np.zeros((5, 3)), names=["one", "two", "three", "four", "five"])
    assert [text.get_text() for text in ax.texts] == ["one"]


def overlaps(figure, texts):
    """Return how many texts lie on others in the finished picture."""
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in texts]
    return sum(box.count_overlaps(boxes[:at]) for at, box in enumerate(boxes))


def test_names_are_apart_in_the_finished_picture():
    X = np.random.default_rng(0).normal(size=(40, 3))
    names = [f"bottle number {at} of the cellar" for at in range(40)]
    figure = METRIC.plot_map(X, np.repeat(["a class with a long name", "b"], 20), names=names).figure
    for ax in figure.axes:
        assert len(ax.texts) > 5
        assert overlaps(figure, ax.texts) == 0
        assert all(figure.bbox.containsx(end) for text in ax.texts for end in text.get_window_extent().intervalx)
    long = [f"total_dissolved_solids_in_the_second_sample_after_fermentation_{at}" for at in range(3)]
    ax = MahalanobisMetric(np.eye(3), feature_names=long).plot_weights(X)
    assert overlaps(ax.figure, ax.get_yticklabels()) == 0


def test_weights_are_shares_of_the_mean_squared_distance(rows):
    matrix = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.1], [0.0, 0.1, 1.0]])
    metric = MahalanobisMetric(matrix, feature_names=["a", "b", "c"], steps=[Scales([1.0, 2.0, 4.0])])
    scaled = rows / metric.steps[0].scales
    differences = (scaled[:, None] - scaled[None]).reshape(-1, 3)
    terms = np.mean(differences * (differences @ matrix), axis=0)
    assert_allclose(list(metric.column_weights(rows).values()), terms / terms.sum())
    assert metric.column_weights() == pytest.approx({"a": 0.5, "b": 0.25, "c": 0.25})
    ax = metric.plot_weights(rows)
    assert sorted(label.get_text() for label in ax.get_yticklabels()) == ["a", "b", "c"]


def test_equal_weights_after_whitening(rows):
    """Columns that nearly repeat each other share their terms, so no weight is that of their small difference."""
    noise = np.random.default_rng(1).normal(size=40)
    X = np.column_stack([rows, rows[:, 0] + 0.01 * noise])
    weights = MahalanobisMetric(np.linalg.inv(np.cov(X.T))).column_weights(X)
    assert_allclose(list(weights.values()), 0.25, atol=1e-6)


def test_weights_are_those_of_columns_of_the_table():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"size": [1.0, 2.0, 4.0, 5.0] * 5, "kind": ["a", "b", "c", "a"] * 5})
    preprocessor = TablePreprocessor().fit(table)
    metric = MahalanobisMetric(np.eye(4), preprocessor=preprocessor)
    weights = metric.column_weights(table)
    assert list(weights) == ["size", "kind"]
    assert sum(weights.values()) == pytest.approx(1.0)


def test_a_kernel_has_no_weights():
    from mahala.metric.kernel_map import KernelMap

    points = KernelMap("linear")
    points = points.grow([[1.0, 1.0], [3.0, 1.0]])
    with pytest.raises(ValueError, match="kernel"):
        MahalanobisMetric(np.eye(1), steps=[points]).column_weights()


def test_leading_directions_are_the_principal_ones(rows):
    from sklearn.decomposition import PCA

    for X in (rows, rows[:3] @ np.random.default_rng(1).normal(size=(3, 8))):
        assert_allclose(np.abs(leading_plane(X)), np.abs(PCA(2).fit_transform(X)), atol=1e-9)
    assert leading_plane(rows[:, :1]).shape == (40, 2)


def test_without_matplotlib(rows, monkeypatch):
    import builtins

    load = builtins.__import__

    def without(name, *arguments, **keywords):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return load(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        METRIC.plot_map(rows)
