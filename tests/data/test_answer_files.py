"""Files of answers: names or row numbers, several formats, and what is wrong with others."""

import json

import numpy as np
import pytest

from mahala.data.answer_files import read_answers

IDS = ["oak", "elm", "fir", "ash"]


def test_triplets_by_name_and_by_number_in_every_format(tmp_path):
    polars = pytest.importorskip("polars")
    expected = [[0, 3], [1, 2], [2, 0]]
    (tmp_path / "a.csv").write_text("query,nearer,farther,who\noak,elm,fir,ann\nash,fir,oak,bob\n")
    (tmp_path / "b.tsv").write_text("0\t1\t2\n3\t2\t0\n")
    lines = [{"anchor": "oak", "positive": "elm", "negative": 2}, {"anchor": 3, "positive": "fir", "negative": "oak"}]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "d.jsonl").write_text("[0, 1, 2]\n\n[3, 2, 0]\n")
    polars.DataFrame({"negative": [2, 0], "anchor": [0, 3], "positive": [1, 2]}).write_parquet(tmp_path / "e.parquet")
    for name in ("a.csv", "b.tsv", "c.jsonl", "d.jsonl", "e.parquet"):
        rows, values, people = read_answers(tmp_path / name, "triplets", 4, IDS)
        np.testing.assert_array_equal(rows, expected, err_msg=name)
        assert values is None
        assert people is None
    assert read_answers(tmp_path / "a.csv", "triplets", 4, IDS, by="who").people.tolist() == ["ann", "bob"]


def test_pairs_and_ratings(tmp_path):
    (tmp_path / "a.csv").write_text("left,right,similar\n0,1,yes\n2,3,-1\n")
    assert read_answers(tmp_path / "a.csv", "pairs", 4).values.tolist() == [True, False]
    (tmp_path / "b.csv").write_text("word1,word2,score\n0,1,4.5\n2,3,1\n")
    answers = read_answers(tmp_path / "b.csv", "ratings", 4)
    assert answers.values.tolist() == [4.5, 1.0]
    np.testing.assert_array_equal(answers.rows, [[0, 2], [1, 3]])
    (tmp_path / "c.csv").write_text("0,1,2\n2,3,2.5\n")  # a first line of numbers is an answer
    assert read_answers(tmp_path / "c.csv", "ratings", 4).values.tolist() == [2.0, 2.5]


@pytest.mark.parametrize(
    ("name", "text", "kind", "message"),
    [
        ("a.csv", "anchor,positive,negative\n0,1,9\n", "triplets", "answer 1 must have a row number below 4, got '9'"),
        ("a.csv", "anchor,positive,negative\n0,1,yew\n", "triplets", "answer 1 must have a row number .* got 'yew'"),
        ("a.csv", "left,right\n0,1\n", "pairs", "must have the columns left, right, similar; it has left"),
        ("a.csv", "left,right,similar\n0,1,maybe\n", "pairs", "answer 1 must say yes or no, 1 or 0, got 'maybe'"),
        ("a.csv", "left,right,rating\n0,1,good\n", "ratings", "answer 1 must have a number as its rating, got 'good'"),
        (
            "a.csv",
            "query,a,b,nearer\n0,1,2,2\n",
            "triplets",
            "must have the columns anchor, positive, negative; it has",
        ),
        ("a.csv", "anchor,positive,negative\n0,,2\n", "triplets", "answer 1 must have a row number below 4, got ''"),
        ("a.xml", "0 1 2", "triplets", "must be a .csv, .tsv, .jsonl or .parquet file"),
        ("a.jsonl", "[0, 1", "triplets", "line 1 is not JSON"),
        ("a.jsonl", '{"a": 0}\n[1]', "triplets", "line 2 must be an object with a"),
        ("a.jsonl", "\n", "triplets", "has no answers"),
    ],
)
def test_bad_files_are_named(tmp_path, name, text, kind, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_answers(tmp_path / name, kind, 4)


def test_names_that_are_used_differ_and_columns_exist(tmp_path):
    (tmp_path / "a.csv").write_text("anchor,positive,negative\noak,elm,fir\n")
    with pytest.raises(ValueError, match="answer 1: 'oak' is the name of 2 items, such as rows 0 and 1"):
        read_answers(tmp_path / "a.csv", "triplets", 4, ["oak", "oak", "elm", "fir"])
    with pytest.raises(ValueError, match="by names the column 'who'"):
        read_answers(tmp_path / "a.csv", "triplets", 4, IDS, by="who")


def test_ids_that_are_numbers_are_not_row_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("anchor,positive,negative\n3,1,2\n")
    answers = read_answers(tmp_path / "a.csv", "triplets", 3, ["1", "2", "3"])
    np.testing.assert_array_equal(answers.rows, [[2], [0], [1]])
    (tmp_path / "a.csv").write_text("anchor,positive,negative\n3,1,0\n")
    with pytest.raises(ValueError, match="answer 1 must have the name of an item, got '0'"):
        read_answers(tmp_path / "a.csv", "triplets", 3, [1, 2, 3])
