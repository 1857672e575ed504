"""Files of relevance judgments, of BEIR and of TREC."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mahala_search import Judgments, read_qrels

BEIR = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td 2\t0\nq2\td1\t1\n"
TREC = "q1 0 d1 2\nq1 0 d2 -2\n\nq2\tQ0\td1\t1\n"


def written(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["qrels.tsv", "qrels.tsv.gz"])
def test_qrels_of_beir(tmp_path: Path, name: str) -> None:
    expected = {"q1": {"d1": 2.0, "d 2": 0.0}, "q2": {"d1": 1.0}}
    assert read_qrels(written(tmp_path / name, BEIR)) == expected
    assert read_qrels(written(tmp_path / name, "\ufeff" + BEIR.replace("\n", "\r\n"))) == expected
    assert read_qrels(written(tmp_path / name, BEIR.split("\n", 1)[1])) == expected  # without a header


def test_qrels_of_trec_with_grades_below_zero(tmp_path: Path) -> None:
    for name in ("qrels.txt", "qrels.txt.gz"):
        qrels = read_qrels(written(tmp_path / name, TREC))
        assert qrels == {"q1": {"d1": 2.0, "d2": 0.0}, "q2": {"d1": 1.0}}
    judgments = Judgments.from_ids(qrels, ["q0", "q1", "q2"], ["d1", "d2"])
    assert judgments.grade.tolist() == [2.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BEIR + "q3\td1\n", r"line 5 must be query-id, corpus-id and score, separated by tabs, got 'q3\\td1'"),
        (BEIR + "q3\td1\thigh\n", "line 5 must end with a grade, a finite number, got 'high'"),
        (BEIR + "q3\t\t1\n", "line 5 must be query-id, corpus-id and score"),
        (TREC + "q3 0 d1\n", "line 5 must be query-id 0 item-id grade, got 'q3 0 d1'"),
        (TREC + "q3 0 d1 nan\n", "line 5 must end with a grade, a finite number, got 'nan'"),
        (TREC + "q2 0 d1 1\nq1 0 d1 1\n", "line 6 gives query 'q1' and item 'd1' the grade 1, but an earlier .* 2"),
        ("q1,d1,1\n", "line 1 must be query-id 0 item-id grade, got 'q1,d1,1'"),
        ("query-id\tcorpus-id\tscore\n", "has no judgments"),
        ("", "has no judgments"),
        ("x" * 99, "got 'x{60}…'"),
    ],
)
def test_lines_that_hold_no_judgment_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_qrels(written(tmp_path / "qrels.tsv", text))


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "qrels.tsv.gz"
    path.write_bytes(gzip.compress(BEIR.encode())[:-9])
    with pytest.raises(ValueError, match="not a complete gzip file"):
        read_qrels(path)
    path = tmp_path / "qrels.tsv"
    path.write_bytes(b"q1\td1\t\xff")
    with pytest.raises(ValueError, match="not text in UTF-8"):
        read_qrels(path)
    with pytest.raises(FileNotFoundError):
        read_qrels(tmp_path / "none.tsv")
