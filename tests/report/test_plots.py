"""Pictures show the numbers they were given."""

from __future__ import annotations

import numpy as np

from mahala import PA, Pairs
from mahala.report.plots import (
    curves,
    distances_of_pairs,
    error_curves,
    errors_by_neighbors,
    gains_of_queries,
    plane,
    spectrum,
    svg,
)


def test_error_curves(labelled, tmp_path):
    pairs = Pairs.from_labels(*labelled, 300, random_state=0)
    histories = {"PA-I+": PA().fit(pairs).history_, "PA-I-": PA(psd="end").fit(pairs).history_}
    figure = error_curves(histories)
    plus, minus = figure.axes[0].get_lines()
    assert [line.get_label() for line in (plus, minus)] == list(histories)
    steps, errors = plus.get_data()
    np.testing.assert_allclose(errors, histories["PA-I+"].error_curve()[np.asarray(steps) - 1])
    assert steps[-1] == 300
    assert (plus.get_linestyle(), minus.get_linestyle()) == ("-", "--")
    assert plus.get_color() == minus.get_color()
    figure.savefig(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_curves():
    figure = curves({"a": [(2.0, 5.0, 1.0), (1.0, 3.0, 0.5)], "b": [(1.0, 4.0, 0.0)]}, "title", "d", "seconds")
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    np.testing.assert_array_equal(axes.containers[0].lines[0].get_data(), [[1.0, 2.0], [3.0, 5.0]])
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("d", "seconds", "title")


def test_errors_by_neighbors():
    lines = {"LDA": np.array([0.2, 0.1]), "Euclidean": np.array([0.3, 0.25]), "Euclidean, scaled": np.array([0.9, 0.8])}
    figure = errors_by_neighbors(lines, np.array([1, 2]), 2, ["Euclidean", "Euclidean, scaled"])
    axes = figure.axes[0]
    drawn = {line.get_label(): line for line in axes.get_lines()[1:]}
    assert list(drawn) == ["LDA", "Euclidean", "Euclidean, scaled (above)"]
    np.testing.assert_array_equal(drawn["LDA"].get_data(), [[1, 2], [0.2, 0.1]])
    assert 0.3 < axes.get_ylim()[1] < 0.8
    assert drawn["Euclidean"].get_linestyle() != "-"


def test_distances_of_pairs():
    similar, dissimilar = np.array([1.0, 1.0, 2.0]), np.array([2.0, 4.0])
    axes = distances_of_pairs(similar, dissimilar, "before").axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["same class", "other class"]
    # All five have their place: those beyond the frame in the last bin.
    assert all(patch.get_xy()[:, 0].max() <= 2.0 for patch in axes.patches)
    distances_of_pairs(np.zeros(3), np.zeros(2), "rows that are all the same")
    distances_of_pairs(np.ones(3), np.empty(0), "one class")


def test_plane():
    points, codes = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
    figure = plane(points, codes, ["_a", "$b$"], np.array([True, True, False, False, False, False]), "title")
    drawn = [np.column_stack(line.get_data()) for line in figure.axes[0].get_lines() if len(line.get_xdata())]
    np.testing.assert_array_equal(sorted(map(tuple, np.concatenate(drawn).tolist())), points)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [" _a", "$b$"]
    assert not plane(points, codes, [str(i) for i in range(11)], codes > 0, "many").legends


def test_spectrum():
    axes = spectrum(np.array([3.0, 1.0, 0.0, -1e-17])).axes[0]
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], [0.75, 0.25, 0.0, 0.0])
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), [0.75, 1.0, 1.0, 1.0])
    spectrum(np.zeros(2))


def test_gains_of_queries():
    axes = gains_of_queries(np.array([0.0, -0.5, 0.25, 0.75]), "nDCG@10").axes[0]
    gain, loss = (patch.get_data() for patch in axes.patches)
    np.testing.assert_array_equal(gain.values, [0.75, 0.25, 0.0, 0.0])
    np.testing.assert_array_equal(loss.values, [0.0, 0.0, 0.0, -0.5])
    np.testing.assert_array_equal(gain.edges, [0, 1, 2, 3, 4])
    assert axes.patches[0].get_facecolor() != axes.patches[1].get_facecolor()
    # Many queries are thinned, and the extremes stay.
    many = gains_of_queries(np.linspace(-0.2, 0.6, 5001), "nDCG@10").axes[0].patches
    assert len(many[0].get_data().values) == 1000
    assert (many[0].get_data().values[0], many[1].get_data().values[-1]) == (0.6, -0.2)
    assert many[0].get_data().edges[-1] == 5001


def test_svg_is_one_element_the_same_every_time():
    pictures = [svg(spectrum(np.array([3.0, 1.0])), name) for name in ("a", "a", "b")]
    assert pictures[0].startswith("<svg")
    assert pictures[0].rstrip().endswith("</svg>")
    assert pictures[0] == pictures[1] != pictures[2]
    assert "<metadata>" not in pictures[0]
