"""What feedback does to a search: judgments, clicks, wrong clicks and classes, on collections of frozen vectors.

    python benchmarks/feedback.py                               # Cranfield and the classes, about an hour
    python benchmarks/feedback.py judgments clicks --seeds 3    # some sections, fewer seeds
    python benchmarks/feedback.py clicks --collection my.npz    # another collection: arrays X, Q, qrels

The data sets come from the folder in MAHALA_DATA. All figures are gains in nDCG@10 over the raw inner product; those
named "unseen" are on queries that were never learned from. Everything has its default parameters.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.stats import spearmanr
from sklearn.model_selection import KFold

import mahala
import mahala_search
from mahala.data.datasets import read_data

SHARE = 0.3  # of the queries, for testing


def normalized(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def collection(path):
    """Return unit queries and items, and judgments."""
    arrays = np.load(path)
    queries, items = normalized(arrays["Q"].astype(float)), normalized(arrays["X"].astype(float))
    grades = arrays["qrels"].astype(float)
    grades[:, 2] = np.maximum(grades[:, 2], 0.0)
    return queries, items, mahala_search.Judgments.of(grades, len(queries), len(items))


def split(judgments, seed):
    rows = np.random.default_rng(seed).permutation(judgments.judged_queries)
    n = int(SHARE * len(rows))
    return np.sort(rows[n:]), np.sort(rows[:n])


def ndcg_gain(metric, queries, items, judgments, rows):
    return (
        mahala_search.evaluate_ranking(queries[rows], items, judgments.select(rows), metric, n_resamples=10)
        .gains["ndcg@10"]
        .mean
    )


def hard_negatives(queries, items, judgments, row, n=10):
    relevant, _ = judgments.of_query(row)
    order = np.argsort(-items @ queries[row])
    return order[~np.isin(order, relevant)][:n]


def oasis_alone(queries, items, judgments, rows, seed):
    """OASIS at its defaults, on relevant items against the best of the others."""
    triplets = [
        (row, good, bad)
        for row in rows
        for good in judgments.of_query(row)[0]
        for bad in hard_negatives(queries, items, judgments, row)
    ]
    order = np.random.default_rng(seed).permutation(len(triplets))
    anchor, positive, negative = np.array(triplets)[order].T
    return mahala.OASIS(record=False).fit(mahala.Triplets(queries, anchor, positive, negative, items=items)).metric_


def procrustes(queries, items, judgments, rows, seed):
    """The rotation that brings queries nearest to their relevant items minus the best of the others."""
    targets = [
        items[judgments.of_query(row)[0]].mean(axis=0)
        - items[hard_negatives(queries, items, judgments, row)].mean(axis=0)
        for row in rows
    ]
    left, _, right = np.linalg.svd(queries[rows].T @ normalized(np.array(targets)))
    return mahala.BilinearMetric(left @ right)


def softmax(queries, items, judgments, rows, seed, penalties=(1e-2, 1e-1, 1.0)):
    """Cross-entropy of the relevant items, with an L2 penalty on M - I that three folds choose."""

    def fitted(own, penalty):
        x, target = queries[own], np.zeros((len(own), len(items)))
        for at, row in enumerate(own):
            found, grades = judgments.of_query(row)
            target[at, found] = grades / grades.sum()
        d, heat = x.shape[1], 0.05

        def objective(flat):
            change = flat.reshape(d, d)
            scores = (x + x @ change) @ items.T / heat
            scores -= scores.max(axis=1, keepdims=True)
            shares = np.exp(scores)
            shares /= shares.sum(axis=1, keepdims=True)
            loss = -np.sum(target * np.log(np.maximum(shares, 1e-300))) / len(own)
            gradient = x.T @ ((shares - target) @ items) / heat / len(own)
            return loss + penalty / 2 * (flat @ flat), (gradient + penalty * change).ravel()

        change = minimize(objective, np.zeros(d * d), jac=True, method="L-BFGS-B", options={"maxiter": 40}).x
        return mahala.BilinearMetric(np.eye(d) + change.reshape(d, d))

    folds = list(KFold(3, shuffle=True, random_state=seed).split(rows))
    gains = [
        np.mean([ndcg_gain(fitted(rows[a], p), queries, items, judgments, np.sort(rows[b])) for a, b in folds])
        for p in penalties
    ]
    return fitted(rows, penalties[int(np.argmax(gains))])


def adapter(queries, items, judgments, rows, seed):
    return mahala_search.QueryAdapter(random_state=seed).fit(queries[rows], items, judgments.select(rows))


def report(name, gains, extra=""):
    gains = np.asarray(gains)
    print(f"{name:34s} mean {gains.mean():+.4f}   worst {gains.min():+.4f}   ({len(gains)} seeds){extra}", flush=True)


def judgments_section(path, seeds):
    queries, items, judgments = collection(path)
    print(f"\n# Judgments, {Path(path).name}: gain on unseen queries")
    for method in (oasis_alone, procrustes, softmax, adapter):
        gains, seconds = [], time.process_time()
        for seed in range(seeds):
            train, test = split(judgments, seed)
            gains.append(ndcg_gain(method(queries, items, judgments, train, seed), queries, items, judgments, test))
        report(method.__name__, gains, f"   {(time.process_time() - seconds) / seeds:.0f} s of CPU each")


class Plain:
    """OASIS at its defaults, one step for each click and each result above it that was skipped."""

    def __init__(self):
        self.learner = mahala.OASIS(record=False)

    def embed(self, query, query_id=None):
        if not hasattr(self.learner, "n_steps_"):
            return query
        return self.learner.metric_.embed(np.atleast_2d(query)).reshape(np.shape(query))

    def learn_one(self, query, *, shown, clicked, query_id=None):
        for at in np.flatnonzero(clicked):
            for above in np.flatnonzero(~clicked[:at]):
                self.learner.learn_one(query, shown[at], shown[above])


def clicks_section(path, seeds, impressions):
    queries, items, judgments = collection(path)
    print(f"\n# Clicks, {Path(path).name}: {impressions} impressions of 10 results")
    for model in ("perfect", "navigational", "informational", "position", "random"):
        for name, kind in (("OASIS alone", Plain), ("adapter", mahala_search.QueryAdapter)):
            if kind is Plain and model != "navigational":
                continue
            runs = [
                mahala_search.simulate_clicks(
                    kind(), queries, items, judgments, clicks=model, n_impressions=impressions, random_state=seed
                )
                for seed in range(seeds)
            ]
            report(f"{name}, {model}: stream", [run.gain for run in runs])
            report(f"{name}, {model}: unseen", [run.unseen.gains["ndcg@10"].mean for run in runs])


def wrong_section(path, seeds, impressions):
    queries, items, judgments = collection(path)
    n = impressions // 3
    print(f"\n# Always the worst result is clicked, {n} times; then {n} true (navigational) impressions")
    for cap in (1.0, 0.5):
        curves = []
        for seed in range(seeds):
            own = mahala_search.QueryAdapter(cap=cap)
            parts = [
                mahala_search.simulate_clicks(
                    own, queries, items, judgments, clicks=c, n_impressions=n, random_state=seed
                )
                for c in ("adversarial", "navigational")
            ]
            curves.append(np.concatenate([part.curve(5)[1] for part in parts]))
        print(f"cap={cap}: gain over time {' '.join(f'{gain:+.3f}' for gain in np.mean(curves, axis=0))}", flush=True)
        report(f"cap={cap}: last fifth", [curve[-1] for curve in curves])


def classes_section(seeds):
    print("\n# Classes as relevance: rows of a class are relevant to a row of it; gain on unseen queries")
    for name in ("caltech10_surf", "mnist", "bbc"):
        table = read_data(Path(os.environ["MAHALA_DATA"]) / f"{name}.npz")
        gains, stream, unseen = [], [], []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            rows = rng.permutation(table.X.shape[0])
            asked, items = rows[:150], np.sort(rows[150:1650])
            X, y = table.X[items], np.asarray(table.labels)[items]
            grades = [(i, int(j), 1) for i, row in enumerate(asked) for j in np.flatnonzero(y == table.labels[row])]
            judgments, Q = mahala_search.Judgments.of(grades, len(asked), len(items)), table.X[asked]
            train, test = split(judgments, seed)
            gains.append(ndcg_gain(adapter(Q, X, judgments, train, seed), Q, X, judgments, test))
            run = mahala_search.simulate_clicks(
                mahala_search.QueryAdapter(), Q, X, judgments, n_impressions=300, random_state=seed
            )
            stream.append(run.gain)
            unseen.append(run.unseen.gains["ndcg@10"].mean)
        report(f"{name}: judgments", gains)
        report(f"{name}: clicks, stream", stream)
        report(f"{name}: clicks, unseen", unseen)


def stsb_section():
    """Pairs of sentences with a similarity from 0 to 5, through Mahalanobis learners."""
    arrays = np.load(Path(os.environ["MAHALA_DATA"]) / "stsb_emb.npz")
    X, pairs, score = normalized(arrays["X"].astype(float)), arrays["pairs"], arrays["score"]
    print("\n# STS-B: Spearman's correlation with the judged similarity, raw cosine -> learned, by fold")

    def correlation(M, own):
        q = X[pairs[own, 0]] - X[pairs[own, 1]]
        return spearmanr(-np.einsum("ij,ij->i", q @ M, q), score[own])[0]

    identity = np.eye(X.shape[1])
    for learner in (mahala.PA("I", psd="end", record=False), mahala.ITML()):
        told = []
        for train, test in KFold(5, shuffle=True, random_state=0).split(pairs):
            learn, choose = train[: len(train) * 3 // 4], train[len(train) * 3 // 4 :]
            clear = learn[(score[learn] <= 2.0) | (score[learn] >= 4.0)]
            own = mahala.Pairs(X, pairs[clear, 0], pairs[clear, 1], score[clear] >= 4.0)
            M = learner.fit(own).metric_.matrix
            M = M * (X.shape[1] / np.trace(M))
            # The plain cosine is a candidate, and the choice is made on pairs that were not learned from.
            share = max(
                (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0), key=lambda a: correlation((1 - a) * identity + a * M, choose)
            )
            told.append((correlation(identity, test), correlation((1 - share) * identity + share * M, test), share))
        name = type(learner).__name__
        print(f"{name}: " + ", ".join(f"{raw:.4f} -> {after:.4f} (α {a:g})" for raw, after, a in told), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", default=["judgments", "clicks", "wrong", "classes", "stsb"])
    parser.add_argument("--collection", help="an .npz file with X, Q and qrels (query row, item row, grade)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--impressions", type=int, default=3000)
    given = parser.parse_args()
    path = given.collection or Path(os.environ["MAHALA_DATA"]) / "cranfield_emb.npz"
    for section in given.sections:
        if section == "judgments":
            judgments_section(path, given.seeds)
        elif section == "clicks":
            clicks_section(path, given.seeds, given.impressions)
        elif section == "wrong":
            wrong_section(path, given.seeds, given.impressions)
        elif section == "classes":
            classes_section(given.seeds)
        elif section == "stsb":
            stsb_section()
        else:
            parser.error(f"no section {section!r}")


if __name__ == "__main__":
    main()
