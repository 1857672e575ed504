"""The bars of the judge: what it serves or saves is not worse than the plain metric, on data that it never saw.

    python benchmarks/judge.py                          # all sections, hours
    python benchmarks/judge.py judgments --state s      # one section; stopped, it resumes from the file

The data sets come from the folder in MAHALA_DATA.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

import mahala
import mahala_search
from mahala.data.datasets import read_data
from mahala.evaluation.cell_file import CellFile

SHARE = 0.3  # of the queries, for testing


class Key(NamedTuple):
    section: str
    name: str
    seed: int


def true_judgments(queries, items, judgments, rows, rng):
    return judgments.select(rows)


def sparse(queries, items, judgments, rows, rng, n=2):
    """Keep two judgments of each query."""
    kept = []
    for at, row in enumerate(rows):
        relevant, grades = judgments.of_query(row)
        chosen = rng.permutation(len(relevant))[:n]
        kept += [(at, int(relevant[i]), float(grades[i])) for i in chosen]
    return mahala_search.Judgments.of(kept, len(rows), len(items))


def shuffled(queries, items, judgments, rows, rng):
    """Give the judgments of each query to another query."""
    return judgments.select(rng.permutation(rows))


def sparse_shuffled(queries, items, judgments, rows, rng):
    return sparse(queries, items, judgments, rng.permutation(rows), rng)


def random_items(queries, items, judgments, rows, rng, n=5):
    """Call random items relevant."""
    drawn = [(at, int(item), 1.0) for at in range(len(rows)) for item in rng.choice(len(items), n, replace=False)]
    return mahala_search.Judgments.of(drawn, len(rows), len(items))


def cranfield(seed):
    """Unit queries and items, and judgments."""
    arrays = np.load(Path(os.environ["MAHALA_DATA"]) / "cranfield_emb.npz")
    queries, items = normalize(arrays["Q"].astype(float)), normalize(arrays["X"].astype(float))
    grades = arrays["qrels"].astype(float)
    grades[:, 2] = np.maximum(grades[:, 2], 0.0)
    return queries, items, mahala_search.Judgments.of(grades, len(queries), len(items))


def classes(seed, name="caltech10_surf"):
    """Rows as queries; the other rows of their class are relevant."""
    table = read_data(Path(os.environ["MAHALA_DATA"]) / f"{name}.npz")
    rows = np.random.default_rng(seed).permutation(table.X.shape[0])
    asked, kept = rows[:150], np.sort(rows[150:1150])
    X, y = table.X[kept], np.asarray(table.labels)[kept]
    grades = [(i, int(j), 1) for i, row in enumerate(asked) for j in np.flatnonzero(y == table.labels[row])]
    return table.X[asked], X, mahala_search.Judgments.of(grades, len(asked), len(kept))


def judged(collection, kind, seed):
    """Return the gain in nDCG@10 on new queries, and the verdict."""
    queries, items, judgments = collection(seed)
    rows = judgments.judged_queries
    test, train = map(np.sort, np.split(np.random.default_rng(seed).permutation(rows), [int(SHARE * len(rows))]))
    given = kind(queries, items, judgments, train, np.random.default_rng(seed))
    adapter = mahala_search.QueryAdapter(random_state=seed).fit(queries[train], items, given)
    tested = judgments.select(test)
    gain = mahala_search.evaluate_ranking(queries[test], items, tested, adapter, n_resamples=10).gains["ndcg@10"].mean
    return {"gain": gain, "kind": adapter.verdict_.kind, "share": adapter.verdict_.share}


def judgments_section(file, seeds):
    """100 sets of judgments that teach little or nothing, and true ones."""
    worst = []
    for collection in (cranfield, classes):
        for kind in (true_judgments, sparse, shuffled, sparse_shuffled, random_items):
            name = f"{collection.__name__}, {kind.__name__}"
            cells = [
                cell(file, Key("judgments", name, seed), judged, collection, kind, seed)
                for seed in range(4 if kind is true_judgments else seeds)
            ]
            gains = np.array([one["gain"] for one in cells])
            served = sum(one["share"] > 0.0 for one in cells)
            print(
                f"{name:36s} mean {gains.mean():+.4f}  worst {gains.min():+.4f}  {served} of {len(gains)} serve a map"
            )
            if kind is not true_judgments:
                worst.append(gains)
    gains = np.concatenate(worst)
    print(f"of {len(gains)} sets: {(gains < -0.01).sum()} lose more than 0.01, {(gains < -0.05).sum()} more than 0.05")


NOISE = ("iris", "wine", "glass", "seeds", "ecoli", "parkinsons", "soyS", "breast10")


def noise(name, seed):
    """Compare learners on up to 150 rows whose labels are shuffled: nothing is there to be learned."""
    table = read_data(Path(os.environ["MAHALA_DATA"]) / f"{name}.npz")
    rng = np.random.default_rng(seed)
    rows = rng.permutation(table.X.shape[0])[:150]
    X, y = table.X[rows], rng.permutation(np.asarray(table.labels)[rows])
    kept = np.isin(y, [label for label in np.unique(y) if (y == label).sum() > 1])
    board = mahala.compare(X[kept], y[kept], baselines=False, random_state=seed)
    return {"kind": board.verdict.kind, "p": board.verdict.p_value, "gain": board.verdict.gain}


def noise_section(file, seeds):
    """200 tables of noise: how often is learning shown to help?"""
    cells = [cell(file, Key("noise", name, seed), noise, name, seed) for seed in range(seeds) for name in NOISE]
    for kind in ("shown to help", "probably helps", "does not help"):
        print(f"{kind}: {sum(one['kind'] == kind for one in cells)} of {len(cells)} tables of noise")


def power(name, label, seed):
    """Compare learners on a table with a known gain, with other folds for each seed."""
    frame = pandas.read_csv(Path(os.environ["MAHALA_DATA"]) / "tables" / f"{name}.csv")
    y = frame.pop(label)
    board = mahala.compare(frame, y, baselines=False, random_state=seed)
    return {"kind": board.verdict.kind, "chosen": board.chosen, "gain": board.verdict.gain, "p": board.verdict.p_value}


def power_section(file, seeds):
    """Tables on which a gain is known."""
    for name, label in (("crabs", "sp"), ("Cars93", "Type")):
        cells = [cell(file, Key("power", name, seed), power, name, label, seed) for seed in range(seeds)]
        shown = sum(one["kind"] == "shown to help" for one in cells)
        chosen = ", ".join(f"{one['chosen']} {100 * one['gain']:+.1f}" for one in cells)
        print(f"{name}: shown in {shown} of {len(cells)} seeds; {chosen}")


TABLES = (
    "balance", "breast", "ecoli", "glass", "helix", "ionosphere", "iris", "malaysia", "parkinsons", "pima", "seeds",
    "soyL", "soyS", "vehicle", "wine", "satellite", "letter", "spam", "chromo", "breast10", "mor",
)  # fmt: skip
LABELS = {
    "Cars93": "Type", "Chile": "vote", "Fishing": "mode", "bacteria": "y", "crabs": "sp", "heart": "event",
    "mpg": "class", "penguins": "species", "titanic": "survived",
}  # fmt: skip


def auto(name, seed):
    """Return the errors of 3-NN on scaled features and on those of AutoMetric, for one split of a table."""
    if name in LABELS:
        frame = pandas.read_csv(Path(os.environ["MAHALA_DATA"]) / "tables" / f"{name}.csv")
        frame = frame.dropna(subset=[LABELS[name]])
        y = frame.pop(LABELS[name]).astype(str).to_numpy()
        X = mahala.data.TablePreprocessor().fit_transform(frame)
    else:
        table = read_data(Path(os.environ["MAHALA_DATA"]) / f"{name}.npz")
        X, y = table.X, np.asarray(table.labels)
    kept = np.isin(y, [label for label in np.unique(y) if (y == label).sum() > 3])
    rows = np.random.default_rng(0).permutation(np.flatnonzero(kept))[:600]
    X, y = X[rows], y[rows]
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, stratify=y, random_state=seed)
    plain = make_pipeline(StandardScaler(), KNeighborsClassifier(3)).fit(X[train], y[train])
    metric = mahala.AutoMetric(budget=20.0, random_state=seed).fit(X[train], y[train])
    learned = KNeighborsClassifier(3).fit(metric.transform(X[train]), y[train])
    errors = 1.0 - plain.score(X[test], y[test]), 1.0 - learned.score(metric.transform(X[test]), y[test])
    return {"plain": errors[0], "auto": errors[1], "chosen": metric.chosen_, "kind": metric.verdict_.kind}


def auto_section(file, seeds):
    """AutoMetric before 3-NN against scaled 3-NN, on up to 600 rows of each table."""
    means = {}
    for name in (*TABLES, *LABELS):
        cells = [cell(file, Key("auto", name, seed), auto, name, seed) for seed in range(seeds)]
        plain, learned = (100.0 * np.mean([one[kind] for one in cells]) for kind in ("plain", "auto"))
        means[name] = learned - plain
        chosen = ", ".join(sorted({one["chosen"] for one in cells}))
        print(f"{name:12s} plain {plain:5.1f}  auto {learned:5.1f}  {learned - plain:+.1f}   {chosen}", flush=True)
    worst = max(means, key=means.get)
    print(
        f"mean over {len(means)} tables {np.mean(list(means.values())):+.2f} points; worst {worst} {means[worst]:+.1f}"
    )


def cell(file, key, measure, *arguments):
    """Return what was measured, from the file if it is there."""
    if key not in file.cells:
        start = time.process_time()
        file.add(key, {**measure(*arguments), "seconds": time.process_time() - start})
    return file.cells[key]


SECTIONS = {
    "judgments": (judgments_section, 13),
    "noise": (noise_section, 25),
    "power": (power_section, 10),
    "auto": (auto_section, 10),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--seeds", type=int, help="of each case")
    parser.add_argument("--state", help="a file that keeps what was measured", default=None)
    given = parser.parse_args()
    file = CellFile(given.state, Key, "judge")
    for name in given.sections:
        if name not in SECTIONS:
            parser.error(f"no section {name!r}")
        section, seeds = SECTIONS[name]
        print(f"\n# {name}", flush=True)
        section(file, given.seeds or seeds)


if __name__ == "__main__":
    main()
