"""TablePreprocessor: scikit-learn's checks, what it does to columns, and its part of model files."""

from __future__ import annotations

import copy
import datetime
import json
import re
import warnings
from decimal import Decimal

import numpy as np
import pandas
import polars
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from mahala import LDA, MahalanobisMetric, Metric, ModelFileError
from mahala.data import TablePreprocessor
from mahala.metric import Scales

N = 60
# The table of these tests has a cell of other text in a column of numbers, of which every `transform` warns.
pytestmark = pytest.mark.filterwarnings("ignore:column 'mostly' has 1 cell other than numbers")


@parametrize_with_checks([TablePreprocessor()])
def test_scikit_learn(estimator, check):
    check(estimator)


def columns():
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 9, N)
    return {
        "number": rng.normal(size=N),
        "gaps": [None if i % 6 == 0 else float(i % 7) for i in range(N)],
        "flag": [bool(i % 3) for i in range(N)],
        "truth": ["true" if i % 3 else "FALSE" for i in range(N)],
        "day": [datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 40) for i in range(N)],
        "city": [["Rome", "Bonn", None][i % 3] for i in range(N)],
        "code": [f"c{i % 20}" for i in range(N)],
        "name": [f"person {i}" for i in range(N)],
        "review": [f"a good thing {i}" for i in range(N)],
        "mostly": ["broken" if i == 7 else str(whole[i]) for i in range(N)],
        "constant": [3] * N,
        "empty": [None] * N,
        "user_id": rng.permutation(10**6)[:N],
        "paid": np.arange(N) % 50,
        "counter": rng.permutation(N),
    }


DONE = {
    "number": "number",
    "gaps": "number; 10 missing, set to the median 3 and marked",
    "flag": "0 or 1",
    "truth": "true or false → 1 or 0",
    "day": "date, 2024-01-01 to 2024-02-09 → days",
    "city": "category of 2 values, a 0/1 feature for each; 20 missing, with one of their own",
    "code": "category of 20 values, more than 10: hashed to 4 features",
    "name": "left out: looks like an identifier (text of 60 different values in 60 rows)",
    "review": "text of 60 different values in 60 rows, its words hashed to 4 features",
    "mostly": "number; 1 cell of other text, such as 'broken'; 1 missing, set to the median 4 and marked",
    "constant": "left out: the same value in every row (3)",
    "empty": "left out: empty",
    "user_id": "left out: looks like an identifier (by its name)",
    "paid": "number",
    "counter": "left out: looks like an identifier (whole numbers that fill a range, each once)",
}


@pytest.fixture(params=[pandas, polars], ids=["pandas", "polars"])
def frame(request):
    return request.param.DataFrame(columns())


@pytest.fixture
def fitted(frame):
    return TablePreprocessor(max_levels=10, n_hashed=4).fit(frame)


def test_what_is_done_to_columns(frame, fitted):
    assert dict(fitted.columns_) == DONE
    X = fitted.transform(frame)
    assert np.isfinite(X).all()
    assert X.shape == (N, len(fitted.get_feature_names_out()))
    np.testing.assert_array_equal(TablePreprocessor(max_levels=10, n_hashed=4).fit_transform(frame), X)
    of = fitted.feature_groups()
    assert list(of) == [name for name, done in DONE.items() if not done.startswith("left out")]
    given = columns()
    np.testing.assert_array_equal(X[:, of["number"][0]], given["number"])
    np.testing.assert_array_equal(X[:, of["gaps"]][0], [3, 1])
    np.testing.assert_array_equal(X[:, of["truth"][0]], given["flag"])
    np.testing.assert_array_equal(X[:, of["day"][0]], 19723 + np.arange(N) % 40)
    np.testing.assert_array_equal(X[:, of["city"]][:3], [[0, 1, 0], [1, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(np.abs(X[:, of["code"]]).sum(axis=1), 1)
    assert len(np.unique(X[:, of["code"]], axis=0)) > 4


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.arange(120) % 40, "a running number"),  # that begins anew in each group
        (np.arange(120)[::-1], "an identifier"),
        (np.random.default_rng(0).permutation(120), "an identifier"),
        (np.random.default_rng(0).normal(size=120), None),
        (np.arange(120) / 2.0, None),
        (np.arange(120) % 2, None),
    ],
)
def test_columns_that_say_when_or_as_which_number_rows_were_recorded(values, kind):
    days = pandas.Timestamp("2024-01-01") + pandas.to_timedelta(np.arange(120) % 7, "D")
    frame = pandas.DataFrame({"day": days, "value": values})
    preprocessor = TablePreprocessor(identifiers="keep").fit(frame)
    expected = {"day": "a date"} | ({} if kind is None else {"value": kind})
    assert preprocessor.record_columns(preprocessor.transform(frame)) == expected


def test_options(frame):
    kept = dict(TablePreprocessor(identifiers="keep").fit(frame).columns_)
    assert kept["user_id"] == kept["counter"] == "number"
    assert "hashed" in kept["name"]
    dropped = dict(TablePreprocessor(max_levels=10, beyond="drop").fit(frame).columns_)
    assert dropped["code"] == "left out: text of 20 different values in 60 rows"
    assert dict(TablePreprocessor().fit(frame).columns_)["code"] == "category of 20 values, a 0/1 feature for each"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_levels": 0}, "max_levels must be"),
        ({"n_hashed": 2.5}, "n_hashed must be"),
        ({"n_hashed": 10**9}, "n_hashed must be an integer from 1 to 65536"),
        ({"beyond": "keep"}, "beyond must be 'hash' or 'drop', got 'keep'"),
        ({"identifiers": True}, "identifiers must be"),
        ({"decimal": ";"}, "decimal must be 'auto', 'auto,', '.' or ','"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        TablePreprocessor(**options).fit([[1.0], [2.0]])


def test_both_libraries_agree():
    frames = [library.DataFrame(columns()) for library in (pandas, polars)]
    expected = TablePreprocessor().fit_transform(frames[0])
    np.testing.assert_array_equal(TablePreprocessor().fit_transform(frames[1]), expected)
    np.testing.assert_array_equal(TablePreprocessor().fit(frames[0]).transform(frames[1]), expected)
    np.testing.assert_array_equal(TablePreprocessor().fit_transform(frames[1].lazy()), expected)


def test_types_of_pandas():
    frame = pandas.DataFrame(
        {
            "whole": pandas.array([1, None, 3], dtype="Int64"),
            "flag": pandas.array([True, None, False], dtype="boolean"),
            "text": pandas.array(["a", None, "b"], dtype="string"),
            "numbered": pandas.Categorical([1, 2, 1]),
            "zoned": pandas.to_datetime(["2024-01-01", None, "2024-01-03"]).tz_localize("Europe/Berlin"),
            "span": pandas.to_timedelta([1, 2, 4], unit="s"),
            "mixed": [1, "x", 2.0],
        }
    )
    fitted = TablePreprocessor().fit(frame)
    assert fitted.get_feature_names_out().tolist() == [
        *("whole", "whole missing", "flag", "flag missing", "text=a", "text=b", "text=(missing)"),
        *("numbered=1", "numbered=2", "zoned", "zoned missing", "span", "mixed=1", "mixed=2", "mixed=x"),
    ]
    day = 19723 - 1 / 24
    assert fitted.transform(frame)[0].tolist() == pytest.approx([1, 0, 1, 0, 1, 0, 0, 1, 0, day, 0, 1e6, 1, 0, 0])


def test_cells_of_other_types():
    """Decimals, as from SQL, are numbers; arrays are left out; what is too large for a float is missing."""
    frame = pandas.DataFrame(
        {
            "decimal": [Decimal("1.50"), Decimal("2.25"), Decimal("sNaN")],
            "mixed": [Decimal("1.50"), 2, 3.5],
            "huge": np.array([10**400, 1, 2], dtype=object),  # of a list, old versions of pandas make floats
            "digits": ["9" * 400, "1", "2"],
            "array": [np.array([1, 2]), None, np.array([3, 4, 5])],
            "minus": ["(1.5)", "1.5-", "\u22121.5"],
            "signed": ["(1.5)", "3", "7"],
        }
    )
    fitted = TablePreprocessor().fit(frame)
    done = dict(fitted.columns_)
    assert done["array"] == "left out: it holds ndarray"
    assert done["minus"] == "left out: the same value in every row (-1.5)"
    assert done["signed"] == "number, (1.5) read as -1.5"
    for name in ("decimal", "huge", "digits"):
        assert done[name].startswith("number; 1 missing, set to the median 1.")
    with pytest.warns(UserWarning, match=r"'digits' has 1 cell other than numbers, such as '9{60}'\.\.\.; it counts"):
        X = fitted.transform(frame.assign(array=["x", "y", "z"]))
    assert X.tolist() == [
        [1.5, 0.0, 1.5, 1.5, 1.0, 1.5, 1.0, -1.5],
        [2.25, 0.0, 2.0, 1.0, 0.0, 1.0, 0.0, 3.0],
        [1.875, 1.0, 3.5, 2.0, 0.0, 2.0, 0.0, 7.0],
    ]
    np.testing.assert_array_equal(TablePreprocessor().fit_transform(frame.to_numpy()), X)


def test_a_lazy_frame_of_polars():
    rows = polars.DataFrame({"a": [0.0, 1.0, 5.0, 6.0], "b": [0.5, 0.0, 1.0, 2.0]})
    y = [0, 0, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = LDA().fit(rows.lazy(), y)
        np.testing.assert_array_equal(fitted.transform(rows), LDA().fit(rows, y).transform(rows))
        np.testing.assert_array_equal(fitted.transform(rows.lazy()), fitted.transform(rows))
        assert TablePreprocessor().fit_transform(rows.lazy()).shape == (4, 2)


def test_new_tables(frame, fitted):
    with pytest.warns(
        UserWarning, match="'mostly' has 1 cell other than numbers, such as 'broken'; it counts as missing"
    ):
        X = fitted.transform(frame)
    new = frame[frame.columns[::-1]]
    np.testing.assert_array_equal(fitted.transform(new), X)  # columns in another order
    with pytest.raises(ValueError, match="the table lacks the columns flag, city; its columns are number, gaps, truth"):
        fitted.transform(pandas.DataFrame(columns()).drop(columns=["flag", "city", "constant"]))
    raw = pandas.DataFrame(columns()).drop(columns=["constant", "user_id"])  # which are not used
    np.testing.assert_array_equal(fitted.transform(raw), X)
    with pytest.warns(UserWarning, match="'city' has 2 values not seen in fit, such as 'Köln'"):
        result = fitted.transform(raw.assign(city=["Köln", "Paris"] * 30))
    assert not result[:, fitted.feature_groups()["city"]].any()
    with pytest.warns(UserWarning, match="'number' has 1 cell other than numbers, such as 'x'; it counts as missing"):
        result = fitted.transform(raw.assign(number=["x", *["1.5"] * (N - 1)]))
    assert result[:2, 0].tolist() == [np.median(columns()["number"]), 1.5]
    with pytest.warns(UserWarning, match="'gaps' has 2 cells other than numbers, such as 'x'; they count as missing"):
        result = fitted.transform(raw.assign(gaps=["x", "y", None, *["1.5"] * (N - 3)]))
    assert result[:4, fitted.feature_groups()["gaps"][1]].tolist() == [1, 1, 1, 0]
    with pytest.raises(ValueError, match="'number' is text, such as 'x', but in fit it held numbers"):
        fitted.transform(raw.assign(number="x"))
    with pytest.raises(ValueError, match="'number' holds list, but in fit it held numbers; column 'gaps' is text"):
        fitted.transform(raw.assign(number=[[1]] * N, gaps="many"))
    other = raw.assign(day=pandas.to_datetime(raw["day"]).dt.strftime("%d.%m.%Y"))
    np.testing.assert_array_equal(fitted.transform(other), X)
    plain = TablePreprocessor().fit(pandas.DataFrame({"c": ["a", "b", "a"]}))
    assert plain.transform(pandas.DataFrame({"c": [None, "b"]})).tolist() == [[0, 0], [0, 1]]


def test_wrong_tables():
    with pytest.raises(ValueError, match="2 columns named 'a': names must differ"):
        TablePreprocessor().fit(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        TablePreprocessor().fit(polars.DataFrame({"a": []}))
    with pytest.raises(ValueError, match="no columns are left to be features: 'a' left out: the same value"):
        TablePreprocessor().fit(polars.DataFrame({"a": [1, 1]}))
    with pytest.raises(ValueError, match=r"column 'b' has values as large as 1e\+300, .*; scale the features"):
        TablePreprocessor().fit_transform(polars.DataFrame({"a": [1.0, 2.5], "b": [0.5, 1e300]}))


def test_the_decimal_mark_of_a_table():
    ambiguous = ["1,019", "2,500"]
    cases = {
        ".": (TablePreprocessor(), {"a": ambiguous}, [1019, 2500]),
        ",": (TablePreprocessor(decimal=","), {"a": ambiguous}, [1.019, 2.5]),
        "auto,": (TablePreprocessor(decimal="auto,"), {"a": ambiguous}, [1.019, 2.5]),
        "auto, but shown": (TablePreprocessor(decimal="auto,"), {"a": ["0.5", "1"], "b": ambiguous}, [0.5, 1]),
        "other column": (TablePreprocessor(), {"a": ambiguous, "b": ["0,5", "1"]}, [1.019, 2.5]),
        "same column": (TablePreprocessor(), {"a": [*ambiguous, "7,5"]}, [1.019, 2.5]),
        "points": (TablePreprocessor(), {"a": ambiguous, "b": ["0.5", "1"]}, [1019, 2500]),
        "given": (TablePreprocessor(decimal=","), {"a": ambiguous, "b": ["0.5", "1"]}, [1.019, 2.5]),
        "given, but shown": (TablePreprocessor(decimal=","), {"a": ["0.5", "1.25"], "b": ambiguous}, [0.5, 1.25]),
    }
    for library in (pandas, polars):
        for name, (preprocessor, data, expected) in cases.items():
            assert preprocessor.fit_transform(library.DataFrame(data))[:2, 0].tolist() == expected, name


def test_features_as_if_fitted_to_training_rows():
    """The same distances as those of a preprocessor that was fitted to the training rows."""
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {
            "a": np.where(rng.random(N) < 0.3, np.nan, rng.normal(size=N)),
            "late": np.where(np.arange(N) == N - 1, np.nan, rng.normal(size=N)),
            "c": [*rng.choice(["x", "y"], N - 2), None, "z"],
        }
    )
    fitted = TablePreprocessor().fit(table)
    train, test = (fitted.transform(part) for part in (table[:40], table[40:]))
    with pytest.warns(UserWarning, match="not seen in fit"):
        expected = TablePreprocessor().fit(table[:40]).transform(table[40:])
    names = TablePreprocessor().fit(table[:40]).get_feature_names_out().tolist()
    columns = [fitted.get_feature_names_out().tolist().index(name) for name in names]
    result = fitted.refitted(train, test)
    np.testing.assert_array_equal(result[1][:, columns], expected)
    np.testing.assert_array_equal(result[0][:, columns], TablePreprocessor().fit_transform(table[:40]))
    left = np.setdiff1d(np.arange(test.shape[1]), columns)
    assert len(left) == 3  # "late missing", "c=z" and "c=(missing)"
    assert not result[0][:, left].any()
    assert not result[1][:, left].any()
    assert test[:, left].any()
    nothing = fitted.refitted(train[train[:, 1] == 1.0], test)[1]
    np.testing.assert_array_equal(nothing[:, 0], test[:, 0])  # no training row has a number


def test_a_table_with_another_decimal_mark_than_in_fit():
    preprocessor = TablePreprocessor().fit(polars.DataFrame({"a": ["1.5", "2.25", "0.5"]}))
    table = polars.DataFrame({"a": ["1,5", "1.019", "2"]})
    refusal = "column 'a' holds '1,5', which is no number with the decimal mark '.': set the decimal mark to ','"
    for rows in (table, table[:1]):
        with pytest.raises(ValueError, match=refusal):
            preprocessor.transform(rows)
    mixed = "has 1 cell other than numbers, .* as missing; its decimal marks are mixed: 1 cell with ',', such as '1,5'"
    with pytest.warns(UserWarning, match=mixed):
        assert np.isnan(preprocessor.transform(polars.DataFrame({"a": ["1,5", "0.5", "2"]}))).sum() == 0
    with pytest.raises(ValueError, match=r"with the decimal mark ',': set the decimal mark to '\.'"):
        preprocessor.with_decimal(",").transform(polars.DataFrame({"a": ["0.126", "2"]}))
    assert preprocessor.with_decimal(",").transform(table)[:, 0].tolist() == [1.5, 1019.0, 2.0]
    assert preprocessor.transform(polars.DataFrame({"a": ["1.019"]})).tolist() == [[1.019]]
    with pytest.raises(ValueError, match="decimal must be"):
        preprocessor.with_decimal(";")


def test_money_and_dates_in_another_form_than_in_fit():
    table = polars.DataFrame({"a": ["$1,200.50", "$3"], "day": ["01/31/2024", "02/01/2024"]})
    preprocessor = TablePreprocessor().fit(table)
    X = preprocessor.transform(polars.DataFrame({"a": ["1,250 €", "0,50 €"], "day": ["01/02/2024", "31/01/2024"]}))
    np.testing.assert_array_equal(X, [[1.25, 19754], [0.5, 19753]])


@pytest.mark.parametrize("library", [pandas, polars])
def test_a_column_that_mixes_decimal_marks_says_so(library):
    frame = library.DataFrame({"a": ["0,5", "1,25", "0.75", "2", "1,000"]})
    fitted = TablePreprocessor().fit(frame)
    mixed = "its decimal marks are mixed: 1 cell with '.', such as '0.75'"
    assert mixed in fitted.columns_[0][1]
    np.testing.assert_array_equal(fitted.fit_transform(frame)[:, 0], [0.5, 1.25, 1.125, 2, 1])
    for mark, cell in ((",", "'0.75'"), (".", "'0,5'")):
        refusal = f"decimal is '{mark}', but column 'a' holds {cell}, where it cannot be one: write its numbers in one"
        with pytest.raises(ValueError, match=refusal):
            TablePreprocessor(decimal=mark).fit(frame)
    for cells in (["1,019.5", "3"], ["0.5", "1,019"]):
        with pytest.raises(ValueError, match="decimal is ','"):
            TablePreprocessor(decimal=",").fit(library.DataFrame({"a": cells}))


def test_in_a_pipeline(frame):
    y = np.arange(N) % 3 % 2
    pipeline = make_pipeline(TablePreprocessor(), LDA(), KNeighborsClassifier(3))
    assert pipeline.fit(frame, y).score(frame, y) > 0.9
    framed = TablePreprocessor().set_output(transform="pandas").fit_transform(frame)
    assert "city=Rome" in framed.columns


def test_model_files(frame, fitted, tmp_path):
    X = fitted.transform(frame)
    metric = MahalanobisMetric(np.eye(X.shape[1]), preprocessor=fitted, steps=[Scales(X.std(axis=0) + 1.0)])
    assert metric.feature_names == tuple(fitted.get_feature_names_out())
    metric.save(tmp_path / "m.safetensors")
    read = Metric.load(tmp_path / "m.safetensors")
    assert read.preprocessor.columns_ == fitted.columns_
    np.testing.assert_array_equal(read.transform(frame), metric.transform(X))
    np.testing.assert_array_equal(read.truncate(3).transform(frame), metric.truncate(3).transform(X))
    assert read.rank(frame[:1], frame)[0, 0] == 0
    assert read.explain(frame[:1], frame[1:2]).distance == pytest.approx(read.distance(X[0], X[1], squared=True))
    np.testing.assert_array_equal(copy.deepcopy(read).transform(frame), metric.transform(X))
    with pytest.raises(ValueError, match="preprocessor must give 3 features, it gives"):
        MahalanobisMetric(np.eye(3), preprocessor=fitted)


@pytest.mark.parametrize(
    "damage",
    [
        lambda header: header.pop("params"),
        lambda header: header.update(columns=None),
        lambda header: header["params"].update(max_levels=0),
        lambda header: header["params"].update(new=1),
        lambda header: header["columns"][0].update(kind="magic"),
        lambda header: header["columns"][0].update(median="x"),
        lambda header: header["columns"][0].update(name=3),
        lambda header: header["columns"][0].pop("levels"),
        lambda header: header["columns"][0].update(levels=["a"]),
        lambda header: header["columns"].append(header["columns"][0]),
        lambda header: header["columns"][5].update(levels=["a", "a"]),
        lambda header: header["columns"][5].update(levels=[]),
        lambda header: header["columns"].append([]),
    ],
)
def test_damaged_headers(fitted, damage):
    header = json.loads(json.dumps(fitted.to_header()))
    assert TablePreprocessor.from_header(header).columns_ == fitted.columns_
    damage(header)
    with pytest.raises(ModelFileError, match=re.compile("preprocessor|params|columns")):
        TablePreprocessor.from_header(header)


@pytest.mark.parametrize("library", [pandas.DataFrame, polars.DataFrame])
def test_money_percent_clock_codes_and_none(library):
    n = 60
    frame = library(
        {
            "price": [f"${1000 + 7 * i:,}.50" for i in range(n)],
            "cost": [f"({i},25 €)" if i % 2 else f"{i},25 €" for i in range(n)],
            "rate": [f"{i}.5%" for i in range(n)],
            "at": [f"{i % 12 + 1}:{i:02d} PM" for i in range(n)],
            "zip": ["02139", "94110", "10001"] * (n // 3),
            "bags": ["None", "Driver", "Both"] * (n // 3),
            "count": ["None", "3", "4"] * (n // 3),
        }
    )
    made = TablePreprocessor()
    X = made.fit_transform(frame)
    done = dict(made.columns_)
    assert [done[name] for name in ("price", "rate", "at")] == [
        "money → number",
        "percent → number",
        "time of day → hours",
    ]
    assert done["zip"] == done["bags"] == "category of 3 values, a 0/1 feature for each"
    assert done["count"].startswith("number; 20 missing")
    features = dict(zip(made.get_feature_names_out(), X[13], strict=True))
    assert (features["price"], features["cost"], features["rate"]) == (1091.5, -13.25, 13.5)
    assert features["at"] == pytest.approx(14 + 13 / 60)
    assert (features["zip=94110"], features["bags=Driver"]) == (1.0, 1.0)
    np.testing.assert_array_equal(made.transform(frame[:2]), X[:2])
