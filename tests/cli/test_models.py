"""Learners by name, and model files of both kinds."""

from __future__ import annotations

import numpy as np
import pytest

import mahala
from mahala.cli.models import check_output, learner_named, load_metric, read_rows


def test_learners_by_name():
    learner = learner_named("pa", ["C=0.5", "psd = every", "kernel_params={'gamma': 2}", "n_pairs=10"])
    expected = mahala.PA(C=0.5, psd="every", kernel_params={"gamma": 2}, n_pairs=10)
    assert type(learner) is mahala.PA
    assert learner.get_params() == expected.get_params()
    assert learner_named("ADASORS", []).random_state is None
    assert learner_named("nca", [], seed=3).random_state == 3
    assert learner_named("nca", ["random_state=5"], seed=3).random_state == 5
    assert isinstance(learner_named("mdm", [], seed=3), mahala.MDM)  # has no random_state


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("LMN", [], r"'LMN', not a learner \(did you mean LMNN\?\); choose from PA, POLA, .*MDM$"),
        ("Metric", [], "'Metric', not a learner"),
        ("PAUM", [], "'PAUM', not a learner"),
        ("zzz", [], "not a learner; choose from"),
        ("PA", ["c=1"], r"PA has no parameter 'c' \(did you mean C\?\); it has C, balance"),
        ("PA", ["C"], r"--set takes NAME=VALUE, such as --set C=0\.1, got 'C'"),
    ],
)
def test_wrong_names(name, settings, words):
    with pytest.raises(ValueError, match=words):
        learner_named(name, settings)


def test_both_kinds_of_files(tmp_path, labelled):
    learner = mahala.PA(random_state=0).fit(*labelled)
    learner.save(tmp_path / "state.safetensors")
    learner.metric_.save(tmp_path / "metric.safetensors")
    for name in ("state", "metric"):
        np.testing.assert_array_equal(load_metric(tmp_path / f"{name}.safetensors").matrix, learner.metric_.matrix)
    (tmp_path / "bad.safetensors").write_text("no model")
    with pytest.raises(mahala.ModelFileError, match="not a readable model file"):
        load_metric(tmp_path / "bad.safetensors")
    with pytest.raises(FileNotFoundError):
        load_metric(tmp_path / "none.safetensors")


def test_rows_for_a_bilinear_metric(tmp_path):
    metric = mahala.BilinearMetric(np.ones((2, 3)), feature_names=["a", "b"])
    (tmp_path / "q.csv").write_text("b,z,a\n1,2,3\n4,5,6\n")
    (tmp_path / "i.csv").write_text("u,v,w\n1,2,3\n")
    assert read_rows(tmp_path / "q.csv", metric).X.tolist() == [[3, 1], [6, 4]]
    assert read_rows(tmp_path / "i.csv", metric, items=True).X.tolist() == [[1, 2, 3]]
    with pytest.raises(ValueError, match="needs the feature 'a'"):
        read_rows(tmp_path / "i.csv", metric)


def test_outputs_are_checked(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"--output must end in \.csv, \.npy, got .*t\.xls"):
        check_output(tmp_path / "t.xls", ".csv", ".npy")
    with pytest.raises(ValueError, match="there is no folder"):
        check_output(tmp_path / "no" / "t.csv", ".csv")
    with pytest.raises(ValueError, match="is a folder"):
        check_output(tmp_path)
    monkeypatch.setattr("mahala.cli.models.os.access", lambda path, mode: False)
    with pytest.raises(ValueError, match="is not writable"):
        check_output(tmp_path / "t.csv")
