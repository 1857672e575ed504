import numpy as np
import pytest

from mahala.data.dask_files import read_in_chunks

da = pytest.importorskip("dask.array", reason="needs Dask: pip install 'mahala[dask]'")

X, Y = np.arange(60.0).reshape(20, 3), np.array(["a", "b"] * 10)


@pytest.fixture
def parquet(tmp_path):
    pandas = pytest.importorskip("pandas")
    folder = tmp_path / "parts"
    folder.mkdir()
    frame = pandas.DataFrame(X, columns=["u", "v", "w"]).assign(maker=Y, id=[f"n{i}" for i in range(20)])
    for i in range(0, 20, 7):
        frame[i : i + 7].to_parquet(folder / f"{i:02}.parquet")
    return folder


def test_parquet_files_are_parts_of_a_table(parquet):
    for sources in ([str(parquet)], [f"{parquet}/*.parquet"], sorted(map(str, parquet.glob("*.parquet")))):
        table = read_in_chunks(sources, label="maker", drop=["id"])
        assert isinstance(table.X, da.Array)
        assert len(table.X.chunks[0]) > 1
        np.testing.assert_array_equal(table.X.compute(), X)
        assert table.labels.tolist() == Y.tolist()
        assert table.feature_names == ("u", "v", "w")
    with pytest.raises(ValueError, match="columns that are not numbers: id; leave them out with --drop"):
        read_in_chunks([str(parquet)], label="maker")
    with pytest.raises(ValueError, match="has no column 'owner'; it has u, v, w, maker, id"):
        read_in_chunks([str(parquet)], label="owner")


def test_npy_files_are_parts_of_arrays(tmp_path):
    for i in range(2):
        np.save(tmp_path / f"X{i}.npy", X[10 * i : 10 * i + 10].astype(np.float32))
        np.save(tmp_path / f"y{i}.npy", Y[10 * i : 10 * i + 10])
    table = read_in_chunks([str(tmp_path)])
    assert table.X.chunks[0] == (10, 10)
    assert table.X.dtype == np.float32
    np.testing.assert_array_equal(table.X.compute(), X)
    assert table.labels.tolist() == Y.tolist()


def test_zarr_groups_hold_rows_and_labels(tmp_path):
    zarr = pytest.importorskip("zarr", reason="needs Zarr: pip install zarr")
    group = zarr.open_group(tmp_path / "t.zarr", mode="w")
    for name, values in (("X", X), ("y", np.arange(20) % 2)):
        group.create_array(name, shape=values.shape, chunks=(8, *values.shape[1:]), dtype=values.dtype)[:] = values
    table = read_in_chunks([str(tmp_path / "t.zarr")])
    np.testing.assert_array_equal(table.X.compute(), X)
    assert table.labels.tolist() == (np.arange(20) % 2).tolist()
    assert read_in_chunks([str(tmp_path / "t.zarr")], label="z").labels is None


def test_other_data_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there are no Parquet, Zarr or .npy files at"):
        read_in_chunks([str(tmp_path)])
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"the data must be Parquet files, a .zarr group, or a folder"):
        read_in_chunks([str(tmp_path / "t.csv")])
    np.save(tmp_path / "z.npy", X)
    with pytest.raises(ValueError, match="must hold parts of the rows"):
        read_in_chunks([str(tmp_path / "z.npy")])
