"""Twelve tables as people have them: `mahala compare` ends in a verdict at the first try.

One of them, of 1 GB, is `benchmarks/large_table.py`. The one of two rows cannot be compared; the command says why.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from datetime import date, timedelta

import numpy as np
import pandas
import polars
import pytest
from typer.testing import CliRunner

import mahala
from mahala import LDA, RCA, Metric
from mahala.cli.main import app

pytestmark = pytest.mark.usefixtures("few_rounds")
QUICK = ["--folds", "3", "--repeats", "1", "--learners", "LDA,RCA", "--no-report", "--no-baselines"]


def run(*arguments, **options):
    return CliRunner().invoke(app, list(map(str, arguments)), **options)


def compared(path, *options, **more):
    """Compare without a second try; return what was told and the model."""
    out = path.parent / "out"
    result = run("compare", path, "--output", out, "--json", *QUICK, *options, **more)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["verdict"]
    return told, dict(told["columns"]), out / "model.safetensors"


def rows_of(n=150, seed=0):
    """Return two informative features and classes 0 and 1."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng, rng.normal(size=(n, 2)) + 2.0 * y[:, None], y


def write(path, rows, delimiter=",", encoding="utf-8"):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    path.write_bytes(text.getvalue().encode(encoding))
    return path


def churn(n=150):
    rng, X, y = rows_of(n)
    first = date(2021, 1, 4)
    yield ["customer_id", "joined", "age", "plan", "spent", "note", "country", "churned"]
    for i in range(n):
        age = rng.choice(["NA", "?", "-", ""]) if rng.random() < 0.1 else f"{40 + 5 * X[i, 0]:.0f}"
        plan = "" if rng.random() < 0.1 else ["basic", "plus", "pro"][int(rng.integers(3))]
        joined = "" if rng.random() < 0.05 else str(first + timedelta(days=int(rng.integers(900))))
        spent = f"{1000 * np.exp(X[i, 1]):,.2f}"
        note = " ".join(rng.choice(["late", "called", "happy", "refund", "new"], 4)) + f" {i}"
        yield [f"C{i:05d}", joined, age, plan, spent, note, "DE", ["no", "yes"][y[i]]]


def test_churn_with_missing_values_and_dates(tmp_path):
    path = write(tmp_path / "churn.csv", churn())
    told, columns, model = compared(path, "--label", "churned")
    assert columns["customer_id"].startswith("left out: looks like an identifier")
    assert columns["joined"].startswith("date, 2021-01-")
    assert re.match(r"number; \d+ missing, set to the median \d+ and marked", columns["age"])
    assert columns["plan"].startswith("category of 3 values")
    assert re.match(r"number, [\d,.]+ read as \d+", columns["spent"])
    assert "its words hashed to 16 features" in columns["note"]
    assert columns["country"] == "left out: the same value in every row ('DE')"
    assert told["entries"][0]["error"] < 0.3  # guessing has 0.5

    # The model takes the raw table: in the terminal and from Python, with new values and gaps.
    raw = pandas.read_csv(path)
    metric = Metric.load(model)
    vectors = metric.transform(raw)
    np.testing.assert_allclose(metric.transform(polars.read_csv(path)), vectors)
    result = run("transform", path, "--model", model, "--output", tmp_path / "v.npy")
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), vectors)
    new = raw.head(2).assign(plan="gold")
    with pytest.warns(UserWarning, match="'plan' has 1 value not seen in fit, such as 'gold'"):
        metric.transform(new)
    new.to_csv(tmp_path / "new.csv", index=False)
    for command in (
        ["search", tmp_path / "new.csv", "--row", 0, "--model", model],
        ["show", model, tmp_path / "new.csv", 0, 1],
        ["search", path, "--queries", tmp_path / "new.csv", "-k", 3, "--model", model],
    ):
        result = run(*command)
        assert result.exit_code == 0, result.output
        assert "not seen in fit, such as 'gold'" in result.stderr
    with pytest.raises(ValueError, match="the table lacks the columns joined, age; its columns are customer_id, plan"):
        metric.transform(raw.drop(columns=["age", "joined"]))
    explained = metric.explain(raw.iloc[[0]], raw.iloc[[1]])
    assert explained.distance == pytest.approx(metric.distance(raw.iloc[[0]], raw.iloc[[1]], squared=True)[0])


def test_an_export_with_decimal_commas(tmp_path):
    _, X, y = rows_of()
    weights = [f"{value:.2f}".replace(".", ",") for value in X[:, 0]]
    turnovers = [f"{1000 * value:_.0f}".replace("_", ".") for value in X[:, 1]]
    lines = zip(weights, turnovers, np.array(["nein", "ja"])[y], strict=True)
    path = write(tmp_path / "export.csv", [["gewicht", "umsatz", "kauft"], *lines], ";")
    told, columns, model = compared(path, "--label", "kauft")
    assert columns["gewicht"] == "number with decimal comma"
    assert re.match(r"number, -?[\d.]+ read as -?\d+$", columns["umsatz"])
    assert told["entries"][0]["error"] < 0.2
    metric = Metric.load(model)
    raw = polars.read_csv(path, separator=";", infer_schema_length=0)
    expected = np.column_stack([X[:, 0].round(2), (1000 * X[:, 1]).round()])
    np.testing.assert_allclose(metric.transform(raw), metric.transform(expected))


def test_a_decimal_mark_that_no_cell_shows(tmp_path):
    """Three digits after each comma: thousands, unless --decimal says that they are not."""
    _, X, y = rows_of()
    size = 1.0 + np.abs(X)
    cells = [[f"{value:.3f}".replace(".", ",") for value in row] for row in size]
    lines = [["a", "b", "kind"], *([*row, kind] for row, kind in zip(cells, y, strict=True))]
    path = write(tmp_path / "t.csv", lines)
    _, columns, _ = compared(path, "--label", "kind")
    assert "read as " in columns["a"]
    _, columns, model = compared(path, "--label", "kind", "--decimal", ",")
    assert columns["a"] == columns["b"] == "number with decimal comma"
    points = write(tmp_path / "points.csv", [lines[0], *([f"{v:.3f}" for v in row] + ["0"] for row in size)])
    expected = Metric.load(model).transform(size.round(3))
    for source, options in ((path, []), (points, ["--decimal", "."])):
        result = run("transform", source, "--model", model, *options, "--output", tmp_path / "rows.npy", "--force")
        assert result.exit_code == 0, result.output
        np.testing.assert_allclose(np.load(tmp_path / "rows.npy"), expected)
    for command in (["search", points, "--row", 0, "--model", model], ["show", model, points, 0, 1]):
        result = run(*command, "--decimal", ".", "--json")
        assert result.exit_code == 0, result.output
    values = {line["name"]: line["values"] for line in json.loads(result.stdout)["contributions"]}
    clear = write(tmp_path / "clear.csv", [["a", "b", "kind"], ["0.126", "1,019.5", "0"], ["0.5", "2,019.5", "1"]])
    for command, advice in (
        (
            ["transform", clear, "--model", model],
            "which is no number with the decimal mark ',': set the decimal mark to",
        ),
        (["fit", clear, "--label", "kind", "--decimal", ","], "--decimal is ',', but column 'b' holds '1,019.5'"),
    ):
        result = run(*command, "--output", tmp_path / "out.npy")
        assert result.exit_code == 2
        assert advice in result.stderr
    assert values == {"a": size[:2, 0].round(3).tolist(), "b": size[:2, 1].round(3).tolist()}
    options = ("--label", "kind", "--decimal", ",", "--learner", "LMNN")
    result = run("fit", path, *options, "--output", tmp_path / "fit.safetensors")
    assert result.exit_code == 0
    fitted = Metric.load(tmp_path / "fit.safetensors")
    assert [done for _, done in fitted.preprocessor.columns_] == ["number with decimal comma"] * 2


@pytest.mark.parametrize(
    ("encoding", "said"), [("latin-1", "Latin-1 (Windows-1252)"), ("utf-16", "UTF-16"), ("utf-16-le", "UTF-16-LE")]
)
def test_other_encodings(tmp_path, encoding, said):
    _, X, y = rows_of()
    cities, kinds = np.array(["Köln", "München"])[np.arange(150) % 2], np.array(["süß", "herb"])[y]
    lines = zip(*X.T.round(3), cities, kinds, strict=True)
    path = write(tmp_path / "weine.csv", [["Größe", "b", "Stadt", "art"], *lines], encoding=encoding)
    told, columns, _ = compared(path, "--label", "art")
    assert told["classes"] == ["herb", "süß"]
    assert columns["weine.csv"] == f"read as {said}"
    assert "Größe" in columns


@pytest.mark.parametrize("label", ["column 4", "4"])
def test_no_header(tmp_path, label):
    _, X, y = rows_of()
    path = write(tmp_path / "uci.data.txt", [["MF"[c], *row.round(3), c] for row, c in zip(X, y, strict=True)])
    told, columns, _ = compared(path, "--label", label, "--drop", "1")
    assert columns["uci.data.txt"].startswith("no line of column names")
    assert (told["rows"], told["features"]) == (150, 2)


def test_identifiers_and_leaks(tmp_path):
    """On noise whose rows are sorted by class, a counter of the rows would tell the class."""
    rng = np.random.default_rng(0)
    n = 200
    y = np.sort(rng.integers(0, 2, n))
    lines = [[10_000 + 3 * i, f"u{rng.integers(10**9)}", *rng.normal(size=2).round(3), c] for i, c in enumerate(y)]
    path = write(tmp_path / "noise.csv", [["account", "session", "a", "b", "y"], *lines])
    told, columns, _ = compared(path, "--label", "y")
    assert columns["account"] == "left out: looks like an identifier (whole numbers in the order of the rows)"
    assert columns["session"].startswith("left out: looks like an identifier (text of 200 different values")
    assert min(entry["error"] for entry in told["entries"]) > 0.3
    for options in (["--keep-ids"], ["--keep", "account,a"]):
        told, columns, _ = compared(path, "--label", "y", *options)
        assert "Column 'account' alone nearly determines the label: a leak? If so, drop it." in told["cautions"]
        assert min(entry["error"] for entry in told["entries"]) < 0.1


def test_one_percent_positives(tmp_path):
    rng, n = np.random.default_rng(0), 600
    y = np.zeros(n, dtype=int)
    y[:6] = 1
    X = rng.normal(size=(n, 3)) + 2.0 * y[:, None]
    path = write(tmp_path / "fraud.csv", [["a", "b", "c", "fraud"], *zip(*X.T.round(3), y, strict=True)])
    told, _, _ = compared(path, "--label", "fraud")
    assert told["classes"] == ["0", "1"]


def test_a_continuous_label(tmp_path):
    rng, X, _ = rows_of()
    price = (100 + 10 * X.sum(axis=1) + rng.normal(size=len(X))).round(2)
    path = write(tmp_path / "flats.csv", [["a", "b", "price"], *zip(*X.T.round(3), price, strict=True)])
    told, columns, model = compared(path, "--label", "price")
    assert (told["metric"], told["classes"]) == ("r2", [])
    assert min(entry["error"] for entry in told["entries"]) < 0.2
    assert any("The target is a number" in note for note in told["notes"])
    told, columns, _ = compared(path, "--label", "price", "--bins", "2")
    assert columns["price"].startswith("label: a regression target, divided into 2 classes of about equal size; --bins")
    assert len(told["classes"]) == 2
    result = run("fit", path, "--label", "price", "--learner", "LDA", "--output", model, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["classes"] == 4


def test_many_classes_of_which_two_have_one_row(tmp_path):
    rng = np.random.default_rng(0)
    letters = [chr(65 + i % 26) for i in range(260)]
    X = rng.normal(size=(260, 5)) + np.array([[ord(a) % k for k in (2, 3, 5, 7, 11)] for a in letters])
    lines = [[*row.round(3), a] for row, a in zip([*X, X[0], X[1]], [*letters, "#", "@"], strict=True)]
    path = write(tmp_path / "letters.csv", [[*"abcde", "letter"], *lines])
    told, columns, _ = compared(path, "--label", "letter")
    assert len(told["classes"]) == 26
    assert columns["letter"] == "label: classes of one row left out, which cannot be trained and tested: #, @"


def test_the_report_numbers_rows_as_the_file_does(tmp_path):
    """Of the file's rows, some have no label and one is alone in its class; `search --row` counts them all."""
    _, X, y = rows_of()
    labels = [["no", "yes"][code] for code in y]
    labels[0], labels[3], labels[50], labels[7] = "", "NA", "?", "alone"
    path = write(tmp_path / "t.csv", [["a", "b", "kind"], *zip(*X.T.round(3), labels, strict=True)])
    options = [option for option in QUICK if option != "--no-report"]
    result = run("compare", path, "--label", "kind", "--output", tmp_path / "out", *options)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    plane = json.loads(re.search(r"id=data>(.*?)</script>", page, re.DOTALL)[1])["plane"]
    assert plane["rows"] == [row for row in range(150) if row not in (0, 3, 7, 50)]
    assert [plane["classes"][code] for code in plane["codes"]] == [labels[row] for row in plane["rows"]]


def test_two_rows_say_why_in_one_line(tmp_path):
    path = write(tmp_path / "two.csv", [["a", "b"], [1, "x"], [2, "y"]])
    result = run("compare", path, "--label", "b", "--output", tmp_path / "out", *QUICK)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "at least two rows of each class" in result.stderr


def test_excel(tmp_path):
    pytest.importorskip("fastexcel")
    _, X, y = rows_of()
    lines = [["size", "", "city", "kind"]]
    for i, (a, b) in enumerate(X.tolist()):
        lines.append([a, None if i % 9 == 0 else b, ["Köln", "Bonn"][i % 2], ["s", "t"][y[i]]])
    path = tmp_path / "book.xlsx"
    write_excel(path, lines)
    told, columns, _ = compared(path, "--label", "kind")
    assert told["rows"] == 150
    assert columns["city"].startswith("category of 2 values")
    assert sum("17 missing" in done for done in columns.values()) == 1


def write_excel(path, lines):
    """Write the fewest parts that make an .xlsx file."""
    rows = ""
    for i, line in enumerate(lines, start=1):
        rows += f'<row r="{i}">'
        for column, value in zip("ABCD", line, strict=True):
            if isinstance(value, float):
                rows += f'<c r="{column}{i}"><v>{value}</v></c>'
            elif value:
                rows += f'<c r="{column}{i}" t="inlineStr"><is><t>{value}</t></is></c>'
        rows += "</row>"
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-"

    def related(id, target):
        kind = "worksheet" if "sheet" in target else "officeDocument"
        relation = f'<Relationship Id="{id}" Type="{office}/{kind}" Target="{target}"/>'
        return f'<Relationships xmlns="{package}/relationships">{relation}</Relationships>'

    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        f'<Default Extension="rels" ContentType="{kind}package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}officedocument.spreadsheetml.sheet.main+xml"/>'
        '<Override PartName="/xl/worksheets/sheet1.xml" '
        f'ContentType="{kind}officedocument.spreadsheetml.worksheet+xml"/></Types>',
        "_rels/.rels": related("a", "xl/workbook.xml"),
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
        '<sheet name="s" sheetId="1" r:id="b"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": related("b", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, text in parts.items():
            file.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + text)


@pytest.mark.parametrize("library", [pandas, polars])
def test_a_data_frame_with_categories(library):
    rng, X, y = rows_of()
    gaps = [None if i % 10 == 0 else value for i, value in enumerate(X[:, 1].tolist())]
    frame = library.DataFrame({"a": X[:, 0], "b": gaps, "c": rng.choice(["x", "y", "z"], len(y))})
    if library is pandas:
        frame = frame.astype({"c": "category"})
    else:
        frame = frame.with_columns(polars.col("c").cast(polars.Categorical))
    board = mahala.compare(frame, y, {"LDA": LDA(), "RCA": RCA()}, folds=3, repeats=1)
    assert board.verdict.sentence
    assert board.columns == (
        ("a", "number"),
        ("b", f"number; 15 missing, set to the median {np.median(X[np.arange(150) % 10 != 0, 1]):g} and marked"),
        ("c", "category of 3 values, a 0/1 feature for each"),
    )
    metric = mahala.evaluation.refit(frame, y, LDA())
    assert metric.transform(frame).shape[0] == 150
    assert metric.feature_names == ("a", "b", "b missing", "c=x", "c=y", "c=z")


def test_standard_input(tmp_path):
    text = write(tmp_path / "churn.csv", churn()).read_bytes()
    result = run("compare", "-", "--label", "churned", "--output", tmp_path / "out", "--json", *QUICK, input=text)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 150


def test_the_terminal_tells_what_was_done(tmp_path):
    path = write(tmp_path / "churn.csv", churn())
    result = run("compare", path, "--label", "churned", "--output", tmp_path / "out", *QUICK)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert "What was done to the columns customer_id left out: looks like an identifier" in words
    result = run("show", tmp_path / "out" / "model.safetensors")
    assert "What was done to the columns customer_id left out" in " ".join(result.stdout.split())
    result = run("show", tmp_path / "out" / "model.safetensors", "--json")
    assert dict(json.loads(result.stdout)["columns"])["plan"].startswith("category of 3 values")
    plain = write(tmp_path / "plain.csv", [["a", "y"], *([i % 7 + 0.5, i % 2] for i in range(40))])
    result = run("compare", plain, "--label", "y", "--output", tmp_path / "out2", *QUICK)
    assert "What was done" not in result.stdout


def test_a_saved_learner_keeps_the_preprocessor(tmp_path):
    path = write(tmp_path / "churn.csv", churn())
    state = tmp_path / "state.safetensors"
    result = run("fit", path, "--label", "churned", "--learner", "LMNN", "--state", "--output", state, "--json")
    assert result.exit_code == 0, result.output
    learner = mahala.load(state)
    raw = pandas.read_csv(path)
    assert learner.metric_.transform(raw).shape[0] == 150
    result = run("search", path, "--row", 0, "--model", state, "-k", 2)
    assert result.exit_code == 0, result.output
