"""Pictures show the numbers they were given."""

from __future__ import annotations

import numpy as np

from mahala import PA, Pairs
from mahala.report.plots import error_curves


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
