"""How many answers of people each learner from triplets predicts, at its defaults, beside the plain distance.

    python benchmarks/answers.py                      # both data sets, about ten minutes
    python benchmarks/answers.py men --seeds 3 --learners LMNN OASIS

An answer is "a is more like b than like c". "unseen" are answers all of whose items occur in no answer learned from,
"same" are other answers about the items learned from. The reference of a distance is the Euclidean one, that of a
similarity the inner product; the last two columns are the mean and the smallest gain over it. The data are in the
folder that the environment variable MAHALA_DATA names: men_emb.npz (words, ratings of pairs) and zappos45.npz (shoes).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np

import mahala

LEARNERS = {
    "LogisticMetric": lambda seed: mahala.LogisticMetric(random_state=seed),
    "LMNN": lambda seed: mahala.LMNN(random_state=seed),
    "BoostMetric": lambda seed: mahala.BoostMetric(random_state=seed),
    "PSDBoost": lambda seed: mahala.batch.PSDBoost(),
    "OASIS": lambda seed: mahala.OASIS(random_state=seed),
    "OASIS auto": lambda seed: mahala.OASIS("auto", margin="auto", random_state=seed),
    "OGD": lambda seed: mahala.OGD(random_state=seed),
    "SORS": lambda seed: mahala.SORS(random_state=seed),
    "AdaSORS": lambda seed: mahala.AdaSORS(random_state=seed),
    "AROMA": lambda seed: mahala.AROMA(random_state=seed),
    "AROMA diagonal": lambda seed: mahala.AROMA(covariance="diagonal", random_state=seed),
}
MOST_TESTS = 20_000
FOLDER = Path(os.environ.get("MAHALA_DATA", "data"))


def words(seed, n=3_000):
    """Return rows, answers to learn from, and answers about other words and about the same ones."""
    data = np.load(FOLDER / "men_emb.npz")
    rng = np.random.default_rng(seed)
    pairs, score = data["pairs"], data["score"]
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    scores = np.concatenate([score, score])
    answers = []
    for word in np.unique(ends[:, 0]):
        others, ratings = ends[ends[:, 0] == word, 1], scores[ends[:, 0] == word]
        near, far = np.nonzero(ratings[:, None] > ratings)
        answers.append(np.stack([np.full(len(near), word), others[near], others[far]], axis=1))
    return data["X"], *split(np.concatenate(answers), len(data["X"]), 0.7, n, rng)


def shoes(seed, n=300):
    """Shoes as directions, in as many coordinates as there are shoes."""
    data = np.load(FOLDER / "zappos45.npz")
    X = data["X"] / np.linalg.norm(data["X"], axis=1, keepdims=True)
    axes, lengths, _ = np.linalg.svd((X - X.mean(axis=0)).astype(float), full_matrices=False)
    return axes * lengths, *split(data["triplets"], len(X), 2 / 3, n, np.random.default_rng(seed))


def split(answers, n_items, share, n, rng):
    seen = np.zeros(n_items, dtype=bool)
    seen[rng.permutation(n_items)[: round(share * n_items)]] = True
    answers = rng.permutation(answers)
    n_seen = seen[answers].sum(axis=1)
    same, unseen = answers[n_seen == 3], answers[n_seen == 0]
    return same[:n], unseen[:MOST_TESTS], same[n:][:MOST_TESTS]


def share_predicted(metric, X, answers):
    margins = metric.margins(mahala.Triplets(X, *answers.T))
    return float(np.mean(np.where(margins == 0.0, 0.5, margins > 0.0)))


def measure(name, make, data, seeds):
    rows, gains, seconds = [], [], []
    for seed in range(seeds):
        X, train, *tests = data(seed)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metric = make(seed).fit(mahala.Triplets(X, *train.T)).metric_
        seconds.append(time.process_time() - start)
        kind = type(metric)
        plain = kind.euclidean(X.shape[1]) if kind is mahala.MahalanobisMetric else kind(np.eye(X.shape[1]))
        rows.append([share_predicted(metric, X, test) for test in tests])
        gains.append(np.subtract(rows[-1], [share_predicted(plain, X, test) for test in tests]))
    (unseen, same), gains = np.mean(rows, axis=0), np.array(gains)
    values = f"{unseen:.3f} {gains[:, 0].mean():+.3f} {gains[:, 0].min():+.3f}   "
    values += f"{same:.3f} {gains[:, 1].mean():+.3f} {gains[:, 1].min():+.3f}"
    print(f"{name:16} {values}   {np.mean(seconds):6.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", choices=["men", "zappos", []], default=[])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    args = parser.parse_args()
    sets = {"men, 3,000 answers": words} if "men" in (args.data or ["men"]) else {}
    if "zappos" in (args.data or ["zappos"]):
        sets |= {f"zappos, {n:,} answers": lambda seed, n=n: shoes(seed, n) for n in (100, 300, 1_000)}
    for title, data in sets.items():
        X, train, unseen, same = data(0)
        print(f"\n{title}: {X.shape[1]} features, {len(np.unique(train))} items asked about, {args.seeds} seeds")
        print(f"{len(unseen):,} answers about unseen items, {len(same):,} about the same: share, mean gain, worst gain")
        for name in args.learners:
            measure(name, LEARNERS[name], data, args.seeds)


if __name__ == "__main__":
    main()
