"""How well NeighborClassifier and NeighborRegressor predict tables, beside other models on the same splits.

    python benchmarks/prediction.py                                    # measure, and print the means
    python benchmarks/prediction.py --tables wdbc,cpus --seeds 2       # two splits of two tables
    python benchmarks/prediction.py --seeds 2 --output docs/results/prediction.md

The tables are those in the folder `prediction` of the folder that MAHALA_DATA names: CSV files whose column "class" or
"target" is predicted. Without that folder, they are five that scikit-learn brings along. A model learns from 70 % of
the rows, at most 2,000, and is measured on at most 2,000 of the rest. CatBoost and LightGBM are measured where they are
installed. All models run on one thread. What is finished is kept in the file `--state`, so a stopped run resumes.
`--again METHOD` measures a method again.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

import mahala
from mahala.evaluation.cell_file import CellFile

MOST_ROWS = 2_000
# Classes with fewer rows are left out, and probabilities below this count as this in the log loss.
FEW_ROWS, LEAST = 6, 1e-4
BUNDLED = "iris", "wine", "breast_cancer", "digits", "diabetes"
OURS, NO_TREES = "mahala", "mahala, trees=False"
CATBOOST, OWN_CATEGORIES = "CatBoost", "CatBoost, own categories"
PACKAGES = "scikit-learn", "catboost", "lightgbm", "numpy"
# The level of sets and intervals, and the share of labels that are changed on tables with an error below the last one.
LEVEL, CHANGED, LOW_ERROR = 0.9, 0.05, 0.1
SUSPECTS = "suspects"


class Key(NamedTuple):
    table: str
    seed: int
    method: str


# The entry of the file that has the versions of the packages in the last run.
VERSIONS = Key("", 0, "versions")


class Table(NamedTuple):
    """Columns as they are in the file, and class codes or numbers."""

    X: pd.DataFrame
    y: np.ndarray

    @property
    def numeric(self) -> bool:
        return self.y.dtype.kind == "f"

    @property
    def has_text(self) -> bool:
        return bool(len(self.X.select_dtypes(exclude=["number", "bool"]).columns))

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the training part and of the test part."""
        rng = np.random.default_rng(seed)
        if self.numeric:
            order = rng.permutation(len(self.y))
            n = min(MOST_ROWS, int(0.7 * len(self.y)))
            return order[:n], order[n : n + MOST_ROWS]
        train, test = [], []
        for code in np.unique(self.y):
            rows = rng.permutation(np.flatnonzero(self.y == code))
            n = max(1, round(0.7 * len(rows)))
            train += list(rows[:n])
            test += list(rows[n:])
        return rng.permutation(train)[:MOST_ROWS], rng.permutation(test)[:MOST_ROWS]


def read(path: Path) -> Table:
    frame = pd.read_csv(path)
    if "target" in frame:
        return Table(frame.drop(columns="target"), frame["target"].to_numpy(float))
    y = pd.factorize(frame["class"].astype(str))[0]
    kept = np.bincount(y)[y] >= FEW_ROWS
    return Table(frame[kept].drop(columns="class").reset_index(drop=True), pd.factorize(y[kept])[0])


def bundled(name: str) -> Table:
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True, as_frame=True)
    return Table(X, y.to_numpy(float) if name == "diabetes" else y.to_numpy())


def tables() -> dict[str, Callable[[], Table]]:
    """Return a function for each table that reads it."""
    folder = Path(os.environ.get("MAHALA_DATA", "")) / "prediction"
    if "MAHALA_DATA" not in os.environ:
        return {name: lambda name=name: bundled(name) for name in BUNDLED}
    return {
        path.stem: lambda path=path: read(path) for path in sorted(folder.glob("*.csv"), key=lambda p: p.stem.lower())
    }


def encoded(model: Any) -> Any:
    """Put before a model what fills gaps, scales numbers, and writes categories as 0 and 1."""
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    categories = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=100, sparse_output=False)
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include=["number", "bool"])),
        (categories, make_column_selector(dtype_exclude=["number", "bool"])),
    )
    return make_pipeline(columns, model)


def nearest(kind: Any) -> Any:
    """Return k-NN that chooses k by cross-validation."""
    return GridSearchCV(kind(), {"n_neighbors": [1, 2, 3, 5, 7, 10, 15, 25, 40]}, cv=4)


class OwnCategories:
    """CatBoost with text columns as its categories, and gaps as they are."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def _columns(self, X: pd.DataFrame) -> pd.DataFrame:
        text = X.select_dtypes(exclude=["number", "bool"]).columns
        return (
            X.astype(dict.fromkeys(text, object))
            .fillna(dict.fromkeys(text, "missing"))
            .astype(dict.fromkeys(text, str))
        )

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> OwnCategories:
        text = X.select_dtypes(exclude=["number", "bool"]).columns
        self._model.fit(self._columns(X), y, cat_features=list(text))
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return self._model.predict(self._columns(X))

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return self._model.predict_proba(self._columns(X))

    @property
    def classes_(self) -> np.ndarray:
        return self._model.classes_


def models(table: Table) -> dict[str, Callable[[], Any]]:
    """Return a function for each method that makes its model for a table."""
    numeric = table.numeric
    ours = mahala.NeighborRegressor if numeric else mahala.NeighborClassifier
    forest = RandomForestRegressor if numeric else RandomForestClassifier
    boosting = HistGradientBoostingRegressor if numeric else HistGradientBoostingClassifier
    linear = RidgeCV(np.logspace(-3, 4, 15)) if numeric else LogisticRegression(max_iter=2_000)
    neighbors = KNeighborsRegressor if numeric else KNeighborsClassifier
    made: dict[str, Callable[[], Any]] = {
        OURS: ours,
        NO_TREES: lambda: ours(trees=False),
        "linear": lambda: encoded(linear),
        "forest": lambda: encoded(forest(300, random_state=0)),
        "HistGradientBoosting": lambda: encoded(boosting(random_state=0)),
        "k-NN": lambda: encoded(nearest(neighbors)),
    }
    if find_spec("catboost"):
        import catboost

        kind = catboost.CatBoostRegressor if numeric else catboost.CatBoostClassifier
        settings = {
            "iterations": 500,
            "thread_count": 1,
            "verbose": False,
            "allow_writing_files": False,
            "random_seed": 0,
        }
        made[CATBOOST] = lambda: encoded(kind(**settings))
        if table.has_text:
            made[OWN_CATEGORIES] = lambda: OwnCategories(kind(**settings))
    if find_spec("lightgbm"):
        import lightgbm

        booster = lightgbm.LGBMRegressor if numeric else lightgbm.LGBMClassifier
        made["LightGBM"] = lambda: encoded(booster(n_jobs=1, verbose=-1, random_state=0))
    return made


def measure(make: Callable[[], Any], table: Table, seed: int, *, promises: bool) -> dict[str, Any]:
    """Return error, second figure and seconds of CPU of a new model; and what its sets or intervals hold."""
    train, test = table.split(seed)
    target, truth = table.y[train], table.y[test]
    if table.numeric:
        mean, unit = target.mean(), target.std()
        target, truth = (target - mean) / unit, (truth - mean) / unit
    start = time.process_time()
    model = make().fit(table.X.iloc[train], target)
    fitted = time.process_time()
    X = table.X.iloc[test]
    if table.numeric:
        predicted = np.asarray(model.predict(X))
        result = {
            "error": np.mean(np.square(predicted - truth)) / truth.var(),
            "second": np.mean(np.abs(predicted - truth)),
        }
    else:
        shares = np.zeros((len(test), int(table.y.max()) + 1))
        shares[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(X)
        right = np.maximum(shares[np.arange(len(test)), truth], LEAST)
        result = {"error": np.mean(shares.argmax(axis=1) != truth), "second": -np.mean(np.log(right))}
    result |= {"fit": fitted - start, "predict": time.process_time() - fitted}
    if promises:
        result |= {"weights": model.weights_, **promised(model, X, truth, numeric=table.numeric)}
    return rounded(result)


def rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Return numbers with six digits, which keeps the file of results small."""
    return {
        name: rounded(value) if isinstance(value, dict) else float(f"{float(value):.6g}")
        for name, value in values.items()
    }


def promised(model: Any, X: pd.DataFrame, truth: np.ndarray, *, numeric: bool) -> dict[str, float]:
    """Return how many sets or intervals hold the truth, and their mean size: classes, or standard deviations."""
    if numeric:
        low, high = model.predict_interval(X, LEVEL).T
        return {"coverage": np.mean((low <= truth) & (truth <= high)), "size": np.mean(high - low)}
    sets = model.predict_set(X, LEVEL)
    codes = {int(code): at for at, code in enumerate(model.classes_)}
    held = [code in codes and sets[row, codes[code]] for row, code in enumerate(truth.tolist())]
    return {"coverage": np.mean(held), "size": np.mean(sets.sum(axis=1))}


def changed_labels(make: Callable[[], Any], table: Table, seed: int) -> dict[str, float]:
    """Give some training rows another class; return how well the doubts of `suspects` tell them from the others."""
    train, _ = table.split(seed)
    labels, rng = table.y[train].copy(), np.random.default_rng(seed + 1)
    rows = rng.choice(len(train), max(1, round(CHANGED * len(train))), replace=False)
    n_classes = int(table.y.max()) + 1
    labels[rows] = (labels[rows] + rng.integers(1, n_classes, len(rows))) % n_classes
    found = make().fit(table.X.iloc[train].reset_index(drop=True), labels).suspects(None)
    return {"auc": float(roc_auc_score(np.isin(found.rows, rows), found.doubts))}


def run(file: CellFile, names: list[str], seeds: int, again: list[str]) -> None:
    """Measure what is not in the file."""
    everything = tables()
    warm: set[bool] = set()
    before = file.cells.get(VERSIONS, {})
    if before | versions() != before:  # cells of packages that are not here stay
        file.add(VERSIONS, before | versions())
    for seed in range(seeds):
        for name in names:
            table = everything[name]()
            made = models(table)
            todo = [method for method in made if Key(name, seed, method) not in file.cells or method in again]
            if {OURS, NO_TREES} & set(todo) and table.numeric not in warm:
                made[OURS]().fit(table.X.iloc[:300], table.y[:300])  # what is compiled is not measured
                warm.add(table.numeric)
            for method in todo:
                cell = measure(made[method], table, seed, promises=method == OURS)
                file.add(Key(name, seed, method), {"numeric": table.numeric, **cell})
                print(f"{name:18} {seed} {method:26} {cell['error']:.4f} {cell['second']:.4f}", flush=True)
            key = Key(name, seed, SUSPECTS)
            low = not table.numeric and file.cells[Key(name, seed, OURS)]["error"] < LOW_ERROR
            if low and (key not in file.cells or OURS in again):
                file.add(key, {"numeric": False, **changed_labels(made[OURS], table, seed)})


def versions() -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    names = [name for name in PACKAGES if find_spec(name.replace("scikit-learn", "sklearn"))]
    return {"mahala": mahala.__version__, **{name: version(name) for name in names}}


class Results:
    """What was measured: means over seeds, by table and method."""

    def __init__(self, file: CellFile, *, numeric: bool) -> None:
        cells = {key: cell for key, cell in file.cells.items() if cell.get("numeric") is numeric}
        self.numeric = numeric
        self.seeds = len({key.seed for key in cells})
        self.tables = sorted({key.table for key in cells}, key=str.lower)
        self.methods = [method for method in ORDER if any(key.method == method for key in cells)]
        self._cells = cells

    def value(self, table: str, method: str, field: str) -> float:
        """Return the mean over seeds; NaN where it was not measured."""
        found = [cell[field] for key, cell in self._cells.items() if key[::2] == (table, method) and field in cell]
        return float(np.mean(found)) if found else float("nan")

    def values(self, method: str, field: str) -> np.ndarray:
        return np.array([self.value(table, method, field) for table in self.tables])

    def low_error(self, table: str) -> float:
        """Return the mean error over the seeds for which labels were changed."""
        seeds = [key.seed for key in self._cells if key[::2] == (table, SUSPECTS)]
        return float(np.mean([self._cells[Key(table, seed, OURS)]["error"] for seed in seeds]))

    def seconds(self, method: str) -> np.ndarray:
        return self.values(method, "fit") + self.values(method, "predict")

    def beside(self, method: str, field: str, factor: float) -> str:
        """Return mahala's mean difference from a method, its standard error, and on how many tables it is better."""
        differences = factor * (self.values(OURS, field) - self.values(method, field))
        differences = differences[np.isfinite(differences)]
        digits = 2 if factor > 1.0 else 3
        error = differences.std() / np.sqrt(max(len(differences) - 1, 1))
        better, worse = (differences < -1e-9).sum(), (differences > 1e-9).sum()
        return f"{differences.mean():+.{digits}f} ± {error:.{digits}f} ({better}-{worse})"


ORDER = (
    OURS, NO_TREES, CATBOOST, OWN_CATEGORIES, "LightGBM", "HistGradientBoosting", "forest", "linear", "k-NN",
)  # fmt: skip


def in_percent(share: float) -> str:
    return "" if np.isnan(share) else f"{100.0 * share:.1f}"


def in_thousandths(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}"


def as_table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def with_best_bold(values: np.ndarray, form: Callable[[float], str]) -> list[str]:
    texts = [form(value) for value in values]
    best = form(float(np.nanmin(values)))
    return [f"**{text}**" if text == best else text for text in texts]


def means(results: Results) -> Iterator[str]:
    """Yield a table with a row for each method, over the tables on which it was measured."""
    first, second = ("MSE / variance", "mean absolute error") if results.numeric else ("error %", "log loss")
    form = in_thousandths if results.numeric else in_percent
    head = ["model", "tables", first, second, f"mahala's {first} minus this", f"its {second} minus this", "CPU s"]
    rows = []
    for method in results.methods:
        kept = np.isfinite(results.values(method, "error"))
        row = [method, str(kept.sum()), form(results.values(method, "error")[kept].mean())]
        row.append(in_thousandths(results.values(method, "second")[kept].mean()))
        if method == OURS:
            row += ["", ""]
        else:
            row.append(results.beside(method, "error", 1.0 if results.numeric else 100.0))
            row.append(results.beside(method, "second", 1.0))
        rows.append([*row, f"{results.seconds(method)[kept].mean():.2f}"])
    yield from as_table(head, rows)


def by_table(results: Results, field: str) -> Iterator[str]:
    """Yield a table with a row for each table of data; the best value of a row is bold."""
    form = in_percent if field == "error" and not results.numeric else in_thousandths
    rows = []
    for table in results.tables:
        values = np.array([results.value(table, method, field) for method in results.methods])
        rows.append([table, *with_best_bold(values, form)])
    yield from as_table(["table", *results.methods], rows)


def lost(results: Results) -> Iterator[str]:
    """Yield a table of the tables on which the best other model has the lower error, the largest difference first."""
    others = [method for method in results.methods if method not in (OURS, NO_TREES)]
    form = in_thousandths if results.numeric else in_percent
    found = []
    for table in results.tables:
        best = min(others, key=lambda method: np.nan_to_num(results.value(table, method, "error"), nan=np.inf))
        ours, theirs = results.value(table, OURS, "error"), results.value(table, best, "error")
        if ours - theirs > 1e-9:
            found.append((ours - theirs, [table, form(ours), form(theirs), best]))
    name = "MSE / variance" if results.numeric else "error %"
    yield from as_table(
        ["table", f"mahala: {name}", "best other model", "which"], [row for _, row in sorted(found)[::-1]]
    )


def coverage(both: list[Results]) -> Iterator[str]:
    rows = []
    for results in both:
        if not results.tables:
            continue
        covered = results.values(OURS, "coverage")
        least = int(covered.argmin())
        kind = "intervals of numbers" if results.numeric else "sets of classes"
        shares = in_thousandths(covered.mean()), f"{covered[least]:.3f} ({results.tables[least]})"
        rows.append([kind, str(len(covered)), *shares, f"{results.values(OURS, 'size').mean():.2f}"])
    yield from as_table(["", "tables", "mean coverage", "least coverage", "mean size"], rows)


def coverage_by_table(results: Results) -> Iterator[str]:
    rows = []
    for table in results.tables:
        size = results.value(table, OURS, "size")
        rows.append([table, in_thousandths(results.value(table, OURS, "coverage")), f"{size:.2f}"])
    yield from as_table(["table", "coverage", "size"], rows)


def suspects(results: Results) -> Iterator[str]:
    aucs = results.values(SUSPECTS, "auc")
    rows = [
        [table, in_percent(results.low_error(table)), in_thousandths(auc)]
        for table, auc in zip(results.tables, aucs, strict=True)
        if np.isfinite(auc)
    ]
    mean = np.nanmean(aucs) if rows else np.nan
    yield from as_table(["table", "error %", "AUC"], [*rows, ["mean", "", in_thousandths(mean)]])


PAGE = """# Prediction: mahala beside other models
[`NeighborClassifier` and `NeighborRegressor`](../prediction.md) beside boosted trees, forests, linear models and k-NN.
This command measured everything here and wrote this page:
```
MAHALA_DATA=folder python benchmarks/prediction.py --seeds {seeds} --output docs/results/prediction.md
```

The data are {n_classes} tables with classes and {n_numbers} with numbers to predict: public data sets from KEEL and
from packages of R. A model learns from 70 % of the rows, at most 2,000, and is measured on the others, at most 2,000.
All models have the same splits and one thread. Figures of a table are means over its splits, of which there are
{seeds}. mahala's method was developed on these tables: expect smaller differences on others.

mahala gets the tables as they are. The other models get columns of numbers, scaled and with gaps filled by the median,
and a column of 0 and 1 for each category.

| model | settings |
|---|---|
| mahala | the defaults |
| mahala, trees=False | without the expert of boosted trees |
| CatBoost | 500 trees |
| CatBoost, own categories | 500 trees; text columns are CatBoost's categories; only tables with text columns |
| LightGBM, HistGradientBoosting | the defaults |
| forest | 300 trees |
| linear | logistic regression with C = 1; ridge regression with a penalty chosen by cross-validation |
| k-NN | k from 1 to 40, chosen by cross-validation |

Versions: {versions}.

## Classes
Means over tables. A difference below 0 means that mahala is better, on the tables on which the other model was
measured; ± is its standard error over tables. A count such as (12-9) says that mahala is better on 12 tables and worse
on 9. Seconds are the CPU time of a fit and the predictions.

{class_means}

### Error in per cent
The lowest error of a row is bold.

{class_errors}

### Log loss
Probabilities below 0.0001 count as 0.0001.

{class_losses}

### Tables on which another model has a lower error
The other model is chosen by its error on the test rows, which favours it.

{class_lost}

## Numbers
The error is the mean squared error over the variance of the test rows: 1 is as good as predicting their mean. The mean
absolute error is in standard deviations of the training rows.

{number_means}

### Mean squared error over variance

{number_errors}

### Mean absolute error

{number_losses}

### Tables on which another model has a lower mean squared error

{number_lost}

## Sets and intervals
`predict_set` and `predict_interval` with `level=0.9`. The coverage is the share of test rows whose set or interval
holds the truth. The size is the number of classes in a set, or the width of an interval in standard deviations.

{coverage}

{class_coverage}

{number_coverage}

## Wrong labels
In splits with an error below 10 %, 5 % of the training rows got another class. The AUC is the probability that
`suspects` doubts a changed row more than an unchanged one.

{suspects}
"""


def page(file: CellFile) -> str:
    """Return the page of results."""
    classes, numbers = Results(file, numeric=False), Results(file, numeric=True)
    parts = {
        "n_classes": len(classes.tables),
        "n_numbers": len(numbers.tables),
        "seeds": classes.seeds,
        "versions": ", ".join(f"{name} {number}" for name, number in sorted(file.cells[VERSIONS].items())),
        "coverage": lines(coverage([classes, numbers])),
        "suspects": lines(suspects(classes)),
    }
    for kind, results in (("class", classes), ("number", numbers)):
        parts[f"{kind}_means"] = lines(means(results))
        parts[f"{kind}_errors"] = lines(by_table(results, "error"))
        parts[f"{kind}_losses"] = lines(by_table(results, "second"))
        parts[f"{kind}_lost"] = lines(lost(results))
        parts[f"{kind}_coverage"] = lines(coverage_by_table(results))
    return PAGE.format(**parts)


def lines(of: Iterator[str]) -> str:
    return "\n".join(of)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", help="names of tables with commas between them; all by default")
    parser.add_argument("--seeds", type=int, default=1, help="splits of each table")
    parser.add_argument("--state", type=Path, help="a file that keeps what was measured")
    parser.add_argument("--output", type=Path, help="the page to write; --state is then PAGE-cells.jsonl by default")
    parser.add_argument("--again", nargs="*", default=[], metavar="METHOD", help="measure these methods again")
    given = parser.parse_args()
    if given.output is not None and given.state is None:
        given.state = given.output.with_name(f"{given.output.stem}-cells.jsonl")
    file = CellFile(given.state, Key, f"prediction, {MOST_ROWS} rows")
    names = given.tables.split(",") if given.tables else list(tables())
    with warnings.catch_warnings(), threadpool_limits(1), mahala.config_context(n_threads=1):
        warnings.simplefilter("ignore")  # classes of few rows in folds, steps without convergence
        run(file, names, given.seeds, given.again)
    for numeric in (False, True):
        results = Results(file, numeric=numeric)
        if results.tables:
            print("\n".join(["", *means(results)]))
    if given.output is not None:
        given.output.write_text(page(file), encoding="utf-8")


if __name__ == "__main__":
    main()
