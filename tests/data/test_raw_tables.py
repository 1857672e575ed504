"""Columns as files have them."""

from __future__ import annotations

import numpy as np
import pytest

from mahala.data.datasets import label_of, read_raw_data
from mahala.data.tables import read_raw_table


def test_columns_stay_as_they_are(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("name;paid;plan;kind\nu;1,5;a;x\nv;;b;\nw;2;a;y\n")
    raw = read_raw_table(path, label="kind", drop=["plan"], extra=["name"])
    assert raw.data.to_dict(as_series=False) == {"paid": ["1,5", "2"]}
    assert raw.labels.tolist() == ["x", "y"]
    assert raw.extra["name"].tolist() == ["u", "w"]
    assert raw.rows.tolist() == [0, 2]
    assert raw.decimal == ","
    assert raw.notes == (("kind", "label; 1 row without it left out"),)
    assert read_raw_table(path).data.columns == ["name", "paid", "plan", "kind"]
    with pytest.raises(ValueError, match=r"label names the column 'kund', which .*did you mean 'kind'"):
        read_raw_table(path, label="kund")


def test_arrays_and_data_sets(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=[1, 0, 1])
    raw = read_raw_data(tmp_path / "t.npz")
    assert (raw.data.shape, raw.labels.tolist()) == ((3, 3), [1, 0, 1])
    with pytest.raises(ValueError, match="keep name columns"):
        read_raw_data(tmp_path / "t.npz", keep=["a"])
    assert label_of("wine") == "cultivar"
    assert label_of("t.csv") is label_of("iris") is None
    assert "cultivar" in read_raw_data("wine").data.columns
    assert "cultivar" not in read_raw_data("wine", label=label_of("wine")).data.columns
    assert read_raw_data("iris").data.shape == (150, 4)
    with pytest.raises(ValueError, match="is the name of a data set"):
        read_raw_data("iris", drop=["a"])
