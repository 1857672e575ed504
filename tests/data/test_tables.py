"""Tables from CSV and Parquet files."""

from __future__ import annotations

import csv
import gzip
import io

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.data.tables import read_table

WINE = "alcohol,colour,old,maker\n12.5,red,true,A\n11,white,False,B\n13,red,TRUE,A\n"
NAMES = ("alcohol", "colour=red", "colour=white", "old")
ROWS = [[12.5, 1, 0, 1], [11, 0, 1, 0], [13, 1, 0, 1]]


def written(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["t.csv", "T.TSV", "t.txt", "t.csv.gz"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_csv_of_every_look(tmp_path, delimiter, name, bom):
    text = bom + WINE.replace(",", delimiter).replace("\n", "\r\n")
    path = tmp_path / name
    opened = gzip.open if name.endswith("gz") else open
    with opened(path, "wb") as file:
        file.write(text.encode())
    table = read_table(path, label="maker")
    assert table.feature_names == NAMES
    assert table.X.tolist() == ROWS
    assert table.X.dtype == np.float64
    assert table.labels.tolist() == ["A", "B", "A"]


def test_quotes_blank_lines_and_spaces(tmp_path):
    path = written(tmp_path, '\n"a, b", "c"\n"1", " x,\ny "\n\n 2 ,z\n2,z\n')
    table = read_table(path)
    assert table.feature_names == ("a, b", "c=x,\ny", "c=z")
    assert table.X.tolist() == [[1, 1, 0], [2, 0, 1], [2, 0, 1]]
    assert table.labels is None


def test_drop(tmp_path):
    path = written(tmp_path, WINE)
    table = read_table(path, drop=["colour", "maker"])
    assert table.feature_names == ("alcohol", "old")
    assert read_table(path, drop=["colour,maker"]).feature_names == ("alcohol", "old")
    assert read_table(path, drop=["colour, old", "maker"]).feature_names == ("alcohol",)
    assert read_table(path, keep=["old, alcohol"], label="maker").feature_names == ("alcohol", "old")
    assert read_table(written(tmp_path, 'a,"b,c"\n0,5\n1,6\n'), drop=["b,c"]).feature_names == ("a",)
    with pytest.raises(TypeError, match="drop must be a list of column names"):
        read_table(path, drop="old")


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["1", "-2", "1"], [1, -2, 1]),
        (["1.5", "2", "1.5"], [1.5, 2.0, 1.5]),
        (["true", "False", "true"], [True, False, True]),
        (["007", "7", "07"], ["007", "7", "07"]),
        (["12345678901234567890", "1", "2"], ["12345678901234567890", "1", "2"]),
        (["1_0", "10", "3"], ["1_0", "10", "3"]),
        (["none", "mild", "inflated"], ["none", "mild", "inflated"]),
        (["1.1", "1.10", "2.5"], ["1.1", "1.10", "2.5"]),
        (["2", "2.0", "3"], ["2", "2.0", "3"]),
        (["1,000", "1000", "7"], ["1,000", "1000", "7"]),
        (["1,001", "1001", "7"], ["1,001", "1001", "7"]),
        (["+1", "1", "-1"], ["+1", "1", "-1"]),
        (["-0", "0", "1"], ["-0", "0", "1"]),
        (["true", "TRUE", "false"], ["true", "TRUE", "false"]),
        (["1.10", "1.20", "2.00"], [1.1, 1.2, 2.0]),
        (["1.5", "2.0", "2.25"], [1.5, 2.0, 2.25]),
        (["0.1", "0.10000000000000000001", "2.5"], ["0.1", "0.10000000000000000001", "2.5"]),
        (["9007199254740992", "9007199254740993", "1"], [9007199254740992, 9007199254740993, 1]),
        (["9" * 5000, "8" * 400, "1"], ["9" * 5000, "8" * 400, "1"]),
    ],
)
def test_labels_of_any_kind(tmp_path, cells, labels):
    path = written(tmp_path, "x,y\n" + "".join(f'{i},"{cell}"\n' for i, cell in enumerate(cells)))
    result = read_table(path, label="y").labels
    assert result.tolist() == labels
    assert [type(value) for value in result.tolist()] == [type(value) for value in labels]


def test_labels_that_are_written_in_different_ways_are_listed(tmp_path):
    def read(cells):
        path = written(tmp_path, "x,y\n" + "".join(f"{i}.5,{cell}\n" for i, cell in enumerate(cells)))
        table = read_table(path, label="y")
        return table.labels, [done for name, done in table.columns if name == "y"]

    labels, notes = read(["1.1", "1.10", "2", "2.0", "3"])
    assert len(set(labels)) == 5
    text = "text, because its values are written in different ways; different classes are"
    assert notes == [f"label; {text} '1.1' and '1.10', '2' and '2.0'"]
    labels, notes = read([f"{i / 10}" for i in range(100)] + ["1.10"])
    assert labels.dtype == np.float64
    assert notes == ["label; a number may be written in different ways: '1.1' and '1.10'"]
    labels, notes = read(["a", " a", "b"])
    assert labels.tolist() == ["a", "a", "b"]
    assert notes == ["label; spaces around labels are left out: ' a' and 'a'"]
    assert read(["a", " b", "NA"])[1] == ["label; 1 row without it left out"]


def test_features_of_a_model(tmp_path):
    path = written(tmp_path, "extra,maker,old,alcohol,colour\n?,A,false,10,1\n,B,true,11,red\n")
    with pytest.warns(UserWarning, match="'colour' has 1 value not seen in fit, such as '1'"):
        table = read_table(path, label="maker", features=NAMES)
    assert table.X.tolist() == [[10, 0, 0, 0], [11, 1, 0, 1]]
    assert table.feature_names == NAMES
    only_numbers = written(tmp_path, "alcohol,colour,old\n10,1,0\n")
    assert read_table(only_numbers, features=("colour=1", "alcohol")).X.tolist() == [[1, 10]]
    odd = written(tmp_path, "a=b,a\n1,c=d\n2,e\n")
    assert read_table(odd, features=("a=c=d", "a=b", "a=e")).X.tolist() == [[1, 1, 0], [0, 2, 1]]


def test_a_label_may_be_a_feature_of_the_model(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("size,colour\n1,red\n2,blue\n")
    for label, labels in (("size", [1, 2]), ("colour", ["red", "blue"])):
        table = read_table(path, label=label, features=["size", "colour=red", "colour=blue"])
        assert table.labels.tolist() == labels
        assert table.X.tolist() == [[1.0, 1.0, 0.0], [2.0, 0.0, 1.0]]


def test_features_round_trip(tmp_path):
    path = written(tmp_path, WINE)
    table = read_table(path, label="maker")
    np.testing.assert_array_equal(read_table(path, features=table.feature_names).X, table.X)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", {}, r"t\.csv is empty: it must have a line of column names"),
        ("\n\n", {}, "is empty"),
        ("a,b\n", {}, "has column names, but no rows"),
        ("a,b\n1,2\n3\n", {}, "line 3 has 1 fields, but there are 2 columns"),
        ('a,b\n"1\n",2\n3,4,5\n', {}, "line 4 has 3 fields"),
        ('a,b\n1,"2\n3,4\n', {}, "cannot be read beyond line 2: unexpected end of data"),
        ("a,b\n1\n3,4,5\n6,7\n8\n", {}, "line 2 has 1 fields, line 3 has 3 fields, line 5 has 1 fields, but"),
        ("a,b\n" + "1\n" * 9, {}, "line 6 has 1 fields and 4 more lines differ, but there are 2 columns"),
        (WINE, {"label": "Maker", "drop": ["colur"]}, "label names the column 'Maker'.*; drop names .* 'colur'"),
        ("x,y\n1,\n2,\n", {"label": "y"}, "the label column 'y' is empty"),
        ("x,y\n3,1\n3,2\n", {"label": "y"}, "no columns are left to be features: 'x' left out: the same value"),
        (
            WINE,
            {"label": "Maker"},
            r"label names the column 'Maker', which .* .did you mean 'maker'\?\); its columns are ",
        ),
        (WINE, {"drop": ["zzz"]}, "drop names the column 'zzz', which .* does not have; its columns are alcohol, colo"),
        (WINE, {"drop": ["alcohol", "colour", "old"], "label": "maker"}, "no columns left"),
        (WINE, {"features": ("alcohol", "sugar", "fat")}, "the table lacks the columns sugar, fat; its c"),
        (WINE, {"features": ("colour",)}, "column 'colour' is text, such as 'red', but in fit it held numbers"),
        ("a\n1\nNA\n3\n?\n", {"features": ("a",)}, r"column 'a' has 2 missing or infinite values \(rows 1, 3\)"),
        (WINE, {"label": "maker", "n_features": 9}, "rows of 4 features, but the model compares rows of 9"),
        ("a,a=x\nx,1\ny,2\n", {}, "two features named 'a=x'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, options, words):
    with pytest.raises(ValueError, match=words):
        read_table(written(tmp_path, text), **options)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "no.csv")
    for name in ("t.doc", "t", "t.npy.gz"):
        with pytest.raises(ValueError, match=r"supported are \.csv, \.tsv"):
            read_table(written(tmp_path, "x", name))
    whole = gzip.compress(WINE.encode())
    for damaged in (WINE.encode(), whole[:-10], whole[:15] + b"????" + whole[19:]):
        (tmp_path / "t.csv.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match="not a complete gzip file"):
            read_table(tmp_path / "t.csv.gz")
    for name in ("t.npy", "t.npz", "t.svm", "t.parquet", "t.feather"):
        for content in ("", "nonsense", "PK\3\4nonsense"):
            with pytest.raises(ValueError, match=rf"{name} (is|has) no"):
                read_table(written(tmp_path, content, name))


cells = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**6), 10**6).map(str),
    st.sampled_from(["red", "green", "a b", "ä", 'say "so"', "x,y", "1;2", "line\nbreak"]),
)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=8), st.sampled_from([",", ";", "\t", "|"]))
def test_csv_against_pandas(tmp_path_factory, rows, delimiter):
    # Text must not be taken for an identifier, nor anything for a constant.
    rows = [*rows * 2, ("1.5", "2.5"), ("red", "red"), ("green", "green")]
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    pandas.DataFrame(rows, columns=["first", "second"]).to_csv(path, sep=delimiter, index=False)
    is_old = int(pandas.__version__.split(".")[0]) < 3  # from 3 on all digits count by default
    precision = {"float_precision": "round_trip"} if is_old else {}
    frame = pandas.read_csv(path, sep=delimiter, keep_default_na=False, **precision)
    expected = {}
    for name in frame:
        if frame[name].dtype.kind in "if":
            expected[name] = frame[name].astype(float)
        else:
            texts = [str(row[frame.columns.get_loc(name)]) for row in rows]
            expected |= {f"{name}={value}": [text == value for text in texts] for value in sorted(set(texts))}
    table = read_table(path)
    assert table.feature_names == tuple(expected)
    np.testing.assert_array_equal(table.X, np.column_stack(list(expected.values())))
    np.testing.assert_array_equal(read_table(path, features=table.feature_names).X, table.X)


@given(st.text(alphabet='a1.,;\t|"\n\r ?-e', max_size=60))
def test_hostile_text_is_read_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(text.encode())
    try:
        table = read_table(path)
    except ValueError:
        return
    assert np.isfinite(table.X).all()
    assert table.X.shape[1] == len(table.feature_names)


def test_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    frame = polars.read_csv(io.StringIO(WINE.lower()))
    frame = frame.with_columns(polars.col("colour").cast(polars.Categorical), n=polars.Series([3, 1, 2]))
    frame.write_parquet(path)
    table = read_table(path, label="n")
    assert table.feature_names == (*NAMES, "maker=a", "maker=b")
    assert table.X.tolist() == [[*row, maker == "a", maker == "b"] for row, maker in zip(ROWS, "aba", strict=True)]
    assert table.labels.dtype == np.int64
    assert read_table(path, label="maker", drop=["n"]).labels.tolist() == ["a", "b", "a"]
    assert read_table(path, label="old", drop=["n"]).labels.tolist() == [True, False, True]
    assert read_table(path, features=NAMES[::-1]).X.tolist() == [row[::-1] for row in ROWS]


def test_parquet_with_gaps_dates_and_lists(tmp_path):
    path = tmp_path / "t.parquet"
    frame = polars.DataFrame(
        {
            "i": [1, None, 3],
            "f": [1.0, float("nan"), 2.0],
            "s": ["a", None, "a"],
            "b": [True, None, False],
            "d": ["2024-01-01", None, "2024-01-03"],
            "l": [[1], [2], [3]],
        }
    ).with_columns(polars.col("d").str.to_date())
    frame.write_parquet(path)
    table = read_table(path)
    assert table.feature_names == (
        *("i", "i missing", "f", "f missing", "s=a", "s=(missing)", "b", "b missing", "d", "d missing"),
    )
    assert table.X[1].tolist() == [2, 1, 1.5, 1, 0, 1, 0.5, 1, 19724, 1]
    assert dict(table.columns)["l"] == "left out: it holds List(Int64)"
    assert read_table(path, label="s", drop=["l"]).labels.tolist() == ["a", "a"]
    assert read_table(path, label="i", drop=["l"]).labels.tolist() == [1, 3]
    assert read_table(path, label="i", preprocessor=table.preprocessor).labels.tolist() == ["1", "", "3"]
    frame.write_ipc(tmp_path / "t.feather")
    np.testing.assert_array_equal(read_table(tmp_path / "t.feather").X, table.X)
    polars.DataFrame({"x": []}).write_parquet(path)
    with pytest.raises(ValueError, match="no rows"):
        read_table(path)


def test_the_preprocessor_of_a_table_reads_further_tables(tmp_path):
    text = "price;city;when\n1.019,5;Rome;31.01.2024\n12,5;Bonn;01.02.2024\n;Rome;\n3;Bonn;05.02.2024\n"
    table = read_table(written(tmp_path, text))
    assert table.columns == (
        ("price", "number with decimal comma, 1.019,5 read as 1019.5; 1 missing, set to the median 12.5 and marked"),
        ("city", "category of 2 values, a 0/1 feature for each"),
        (
            "when",
            "date as %d.%m.%Y, 2024-01-31 to 2024-02-05 → days; 1 missing, set to the median 2024-02-01 and marked",
        ),
    )
    # What a single row does not show is known: 1.019 has the thousands mark of the first table.
    other = read_table(written(tmp_path, "city,when,price\nBonn,02.02.2024,1.019\n"), preprocessor=table.preprocessor)
    assert other.X.tolist() == [[1019, 0, 1, 0, 19755, 0]]
    assert other.feature_names == table.feature_names


def test_a_number_never_means_another_column_in_silence(tmp_path):
    named = written(tmp_path, "0,1,2\n1.5,2.5,7\n2.5,0.5,8\n3,1,7\n")
    table = read_table(named, label="2")
    assert table.labels.tolist() == [7, 8, 7]
    assert table.columns[0] == ("t.csv", "the first line is read as names, not as values: 0, 1, 2")
    unnamed = written(tmp_path, "1.5,7,2\n2.5,8,3\n3,7,5\n")
    assert read_table(unnamed, label="2").labels.tolist() == [7, 8, 7]
    either = written(tmp_path, "0,1,2\n1,0,2\n0,1,0\n")
    words = "label is '2', which may be a name or a number, because the first line of .* or give 'column 2'"
    with pytest.raises(ValueError, match=words):
        read_table(either, label="2")
    with pytest.raises(ValueError, match="drop is '1', which may be a name or a number"):
        read_table(either, drop=["1"])
    assert read_table(either, label="column 2").labels.tolist() == [1, 0, 1]


def test_rows_without_a_label_are_left_out(tmp_path):
    path = written(tmp_path, "a,b\n1,x\n2,\n3,x\n4,-\n5,NA\n")
    table = read_table(path, label="b")
    assert table.labels.tolist() == ["x", "x", "-"]  # a class, as in the data of credit approvals
    assert table.X.tolist() == [[1], [3], [4]]
    assert ("b", "label; 2 rows without it left out") in table.columns
    assert table.rows.tolist() == [0, 2, 3]
    assert read_table(path, label="b", drop=["b"], features=["a"]).rows is None


def test_names_are_the_first_text_that_tells_most_rows_apart(tmp_path):
    path = tmp_path / "cars.csv"
    lines = [f"{at},{'abc'[at % 3]},{at % 7}.5,car {at},maker {at % 15},{'xy'[at % 2]}" for at in range(20)]
    path.write_text("\n".join(["id,kind,size,model,maker,label", *lines]))
    names = [f"car {at}" for at in range(20)]
    assert read_table(path, label="label").names.tolist() == names
    assert read_table(path, label="model").names.tolist() == [f"maker {at % 15}" for at in range(20)]
    assert read_table(path, label="label", drop=["model", "maker"]).names is None


def test_long_fields(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a, text\n1, " + "x" * 200_000 + "\n2, y\n")
    assert read_table(path, drop=["text"]).X.tolist() == [[1], [2]]
    monkeypatch.setattr("mahala.data.columns.frames._LONGEST_FIELD", 0)
    before = csv.field_size_limit(1000)
    try:
        with pytest.raises(
            ValueError, match=r"beyond line 2: field larger than field limit \(1000\); a quotation mark"
        ):
            read_table(path)
    finally:
        csv.field_size_limit(before)


def test_parquet_files_that_declare_more_than_memory_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "t[1].parquet"
    polars.DataFrame({"a": np.arange(1_000_000) % 7 / 2}).write_parquet(path)
    assert read_table(path).X.shape == (1_000_000, 1)
    monkeypatch.setattr("mahala.support.arrays.memory_limit", lambda _: 2.0**20)
    with pytest.raises(MemoryError, match=r"takes 0\.00745 GiB, more than this machine's"):
        read_table(path)
