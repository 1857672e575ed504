"""Reading CSV files of any look, with Polars or, where lines are odd, with Python's reader."""

from __future__ import annotations

import numpy as np
import pytest

from mahala.data.columns import frames
from mahala.data.columns.frames import read_frame


def frame_of(tmp_path, text, encoding="utf-8", name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return read_frame(str(path), ".csv")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a,b\n1,2\n", True),
        ("1,2.5\n3,4\n", False),
        ("M,0.4,2\nF,0.5,3\n", False),
        ("label,0,1,2,3\n5,1,1,0,0\n", True),
        ("0,1,2,3\n9,8,1,0\n", True),
        ("country,2019,2020\nDE,1,2\n", True),
        ("?,1,x\n2,3,y\n", False),
        (",a\n0,5\n", True),
        ("p,x\n" + "p,x\ne,y\n" * 20, False),
        ("kind,size\n" + "p,x\ne,y\n" * 20, True),
        ("2024-01-01,x\n2024-01-02,y\n", False),
        ("5,6,yes\n7,9,no\n", False),
        ("2020,Ford\n2021,Opel\n", False),
        ("0,1,2\n1.5,2.5,0\n", True),
        ("0,1,2\n3,0,1\n4,1,1\n", True),
        ("0,1\na,2\n", True),
        (",0,1\n0,1.5,2.5\n", True),
        ("y,0,1\na,1.5,1\n", True),
        ("1,2,3\n4,5,6\n", False),
        ("1,2\n3,4\n", False),
        ("a,1,2\nb,3,4\n", False),
        ("M,0,1\nF,0.5,1\nM,1,1\n", False),
        ("0,1,2,3\n1,0,0,3\n0,1,2,1\n5,6,2,2\n", True),
        ("0\n1\n", False),
        ("1,3\n2,2\n", False),
        ("5" * 5000 + ",1\n2,2\n", False),
        ("M,0,4\nF,1,0\n", False),
    ],
)
def test_names_or_values(tmp_path, text, named):
    table = frame_of(tmp_path, text)
    assert table.named is named
    assert len(table.data) == text.count("\n") - named
    if not named:
        assert table.data.columns[0] == "column 1"
        note = f"no line of column names: the columns are called column 1 to column {table.data.width}"
        assert table.notes == (note,)


@pytest.mark.parametrize(
    "text", ["0,1\n1,1\n0,0\n", "0,1,2\n2,0,1\n0,1,2\n", "0,1,2\n3,4,5\n6,7,8\n", "a,0,1\nb,0,1\nc,1,1\n"]
)
def test_a_first_line_that_may_be_names_or_values(tmp_path, text):
    table = frame_of(tmp_path, text)
    assert (table.named, len(table.data)) == (None, 3)
    assert table.notes[0].startswith("the first line is read as values, not as names: the columns are called column 1")


def test_names_that_are_missing_or_there_twice(tmp_path):
    table = frame_of(tmp_path, "a,,a,a_2,a\n1,2,3,4,5\n")
    assert table.data.columns == ["a", "column 2", "a_3", "a_2", "a_4"]
    assert table.notes == (
        "column 2 is called 'column 2': it has no name",
        "column 3 is called 'a_3': there is a 'a' before it",
        "column 5 is called 'a_4': there is a 'a' before it",
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(tmp_path, encoding):
    table = frame_of(tmp_path, "größe;stadt\n1,5;Köln\n2;Bonn\n", encoding)
    assert table.data.rows() == [("1,5", "Köln"), ("2", "Bonn")]
    assert table.data.columns == ["größe", "stadt"]
    assert table.decimal == ","
    assert bool(table.notes) is not encoding.startswith("utf-8")


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n\x00\xd8\x00\x00,1\n")
    with pytest.raises(ValueError, match="neither UTF-8 nor UTF-16"):
        read_frame(str(path), ".csv")
    path.write_bytes(b"a,b\n\x81\xfc,1\n")  # not in Windows-1252
    assert read_frame(str(path), ".csv").notes == ("read as LATIN-1",)


@pytest.mark.parametrize(
    "text", ["a,b\n1,x\0y\n2,z\n", "a,b\n\0,x\n2,z\n", "größe,b\n\0,x\n2,z\n", "a,b\n1,\0\0x\r\n2,\0\n"]
)
def test_a_zero_byte_in_text(tmp_path, text):
    table = frame_of(tmp_path, text)
    assert len(table.data) == 2
    assert "".join(table.data.row(0)).count("\0") == text.split("\n")[1].count("\0")
    with pytest.raises(ValueError, match="neither UTF-8 nor UTF-16, and it has zero bytes"):
        frame_of(tmp_path, text + "é,\0\n", "latin-1")
    assert frame_of(tmp_path, "数量,城市城市城市城市\n1,上海上海上海上海\n", "utf-16-le").data.width == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("first", ["sep=;", '"sep=;"'])
def test_the_line_of_excel_that_names_the_delimiter(tmp_path, first, encoding):
    table = frame_of(tmp_path, f"{first}\r\na,1;b,2\r\n1,5;x\r\n2;y\r\n", encoding)
    assert table.data.columns == ["a,1", "b,2"]
    assert table.data.rows() == [("1,5", "x"), ("2", "y")]
    assert table.decimal == ","
    assert frame_of(tmp_path, "sep=\t\na\tb;c\n1\t2;3\n", encoding).data.rows() == [("1", "2;3")]
    with pytest.raises(ValueError, match="line 4 has 1 fields"):
        frame_of(tmp_path, f"{first}\na;b\n1;2\n3\n", encoding)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("1,5;2,5\n3,5;4,5\n", [("1,5", "2,5"), ("3,5", "4,5")]),
        ("a|b, c|d\n1|2|3\n", [("1", "2", "3")]),
        ("a,b\r1,2\r3,4\r", [("1", "2"), ("3", "4")]),
        ('a, "b"\n1, "x, y"\n2, z\n', [("1", "x, y"), ("2", "z")]),
        ("a,b\n1,2,\n3,4,\n", [("1", "2"), ("3", "4")]),
        ("a,b\n\n1,2\n\n,\n", [("1", "2"), ("", "")]),
        ("a\n1\n\n2\n", [("1",), ("2",)]),
        ('a,b\n"x ""y""",2\n', [('x "y"', "2")]),
    ],
)
def test_odd_lines(tmp_path, text, rows):
    assert frame_of(tmp_path, text).data.rows() == rows


def test_both_readers_agree(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    cells = zip(rng.normal(size=500), ["x", "y,z"] * 250, "ab" * 250, strict=True)
    lines = [f'{a:.3f},"{b}",{c}' for a, b, c in cells]
    text = "a,b,c\n" + "\n".join(lines) + "\n"
    simple = frame_of(tmp_path, text)
    called = []
    monkeypatch.setattr(frames, "_with_polars", lambda *_: called.append(1))
    monkeypatch.setattr(frames, "_ROWS", 64)
    assert frame_of(tmp_path, text).data.equals(simple.data)
    assert called


def test_missing_libraries(tmp_path, monkeypatch):
    (tmp_path / "t.xlsx").write_bytes(b"x")
    monkeypatch.setitem(__import__("sys").modules, "fastexcel", None)
    with pytest.raises(ImportError, match=r"Excel files need fastexcel: pip install 'mahala\[excel\]'"):
        read_frame(str(tmp_path / "t.xlsx"), ".xlsx")
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(ImportError, match="tables need polars"):
        frame_of(tmp_path, "a\n1\n")
