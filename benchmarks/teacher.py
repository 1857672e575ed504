"""How much `mahala.Teacher` learns from chosen and from random questions, and how long an answer takes.

    python benchmarks/teacher.py                        # all data sets and the time, some minutes
    python benchmarks/teacher.py zappos --seeds 3
    python benchmarks/teacher.py time

People answered nearly all questions about 45 shoes (zappos), and rated pairs of 751 words (men), whose ratings answer
questions; other questions are skipped. The columns are shares of answers that are predicted: "unseen" about items that
were never asked about, a third of all, "same" about the other items, without the questions that were asked. The data
are in the folder that the environment variable MAHALA_DATA names: zappos45.npz and men_emb.npz. Their rows are scaled
to length 1. "served" are the shares for the ranking of `mahala serve`, which maps queries alone: by the inner product
of Mx and an item. The time is that of 200 answers about 2,000 made-up rows of 384 features.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import mahala

FOLDER = Path(os.environ.get("MAHALA_DATA", "data"))
COUNTS = 20, 50, 100, 300


def shoes():
    data = np.load(FOLDER / "zappos45.npz")
    return data["X"].astype(float), data["triplets"].astype(int)


def words():
    data = np.load(FOLDER / "men_emb.npz")
    pairs, score = data["pairs"].astype(int), np.tile(data["score"], 2)
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    answers = []
    for word in np.unique(ends[:, 0]):
        others, ratings = ends[ends[:, 0] == word, 1], score[ends[:, 0] == word]
        near, far = np.nonzero(ratings[:, None] > ratings)
        answers.append(np.stack([np.full(len(near), word), others[near], others[far]], axis=1))
    return data["X"].astype(float), np.concatenate(answers)


def predicted(rows, answers):
    query, near, far = (rows[column] for column in answers.T)
    margins = np.square(query - far).sum(axis=1) - np.square(query - near).sum(axis=1)
    return share(margins)


def share(margins):
    return float(np.mean(np.where(margins == 0.0, 0.5, margins > 0.0)))


def rounds(X, answers, seed, chosen):
    """Return rows (unseen, same, both as the service ranks), at the start and after each number of answers."""
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    _, lengths, axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    X = X @ axes[lengths > 1e-9 * lengths[0]].T  # the same distances
    rng = np.random.default_rng(seed)
    asked_about = rng.permutation(len(X))[: round(len(X) * (2 / 3 if len(X) < 100 else 0.7))]
    number = np.full(len(X), -1)
    number[asked_about] = np.arange(len(asked_about))
    numbers = number[answers]
    same, unseen = answers[(numbers >= 0).all(axis=1)], answers[(numbers < 0).all(axis=1)]
    nearer = {(q, *sorted((a, b))): a for q, a, b in number[same].tolist()}
    keys = [(q, *sorted((a, b))) for q, a, b in number[same].tolist()]
    questions = iter(rng.permutation(list(nearer)).tolist())
    teacher = mahala.Teacher(X[asked_about], random_state=seed)
    results, given = [], set()
    for n in range(max(COUNTS) + 1):
        if n in (0, *COUNTS):
            metric, rest = teacher.metric_, same[[key not in given for key in keys]]
            rows = metric.transform(X)
            served = [
                share(np.einsum("ij,ij->i", (X @ metric.matrix)[q], X[a] - X[b])) for q, a, b in (unseen.T, rest.T)
            ]
            results.append((predicted(rows, unseen), predicted(rows, rest), *served))
        question = teacher.ask() if chosen else next(questions)
        while (key := (question[0], *sorted(question[1:]))) not in nearer:
            teacher.skip(*question)
            question = teacher.ask()
        given.add(key)
        teacher.answer(*question, nearer=nearer[key])
    return results


def measure(load: Callable, seeds: int) -> None:
    X, answers = load()
    for chosen in (True, False):
        results = np.array([rounds(X, answers, seed, chosen) for seed in range(seeds)])
        gains = results - results[:, :1]
        for at, n in enumerate((0, *COUNTS)):
            (unseen, same, *served), worst = results[:, at].mean(axis=0), gains[:, at, :2].min(axis=0)
            how = "raw" if n == 0 else "chosen" if chosen else "random"
            text = f"{load.__name__:6} {how:7} {n:4}  unseen {unseen:.3f}  same {same:.3f}  least gain {worst.round(3)}"
            print(f"{text}  served {served[0]:.3f} {served[1]:.3f}", flush=True)


def measure_time() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 384)) * np.linspace(1.0, 0.1, 384)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    weights = rng.exponential(size=384)
    start = time.perf_counter()
    teacher = mahala.Teacher(X, random_state=0)
    print(f"Teacher(X) takes {time.perf_counter() - start:.2f} s")
    times: dict[str, list[float]] = {"ask": [], "answer": [], "CPU time of both": [], "metric_": []}
    for _ in range(200):
        began = time.process_time()
        start = time.perf_counter()
        query, a, b = teacher.ask()
        times["ask"].append(time.perf_counter() - start)
        nearer = min(a, b, key=lambda row: np.square(X[row] - X[query]) @ weights)
        start = time.perf_counter()
        teacher.answer(query, a, b, nearer=nearer)
        times["answer"].append(time.perf_counter() - start)
        times["CPU time of both"].append(time.process_time() - began)
        start = time.perf_counter()
        _ = teacher.metric_
        times["metric_"].append(time.perf_counter() - start)
    for name, seconds in times.items():
        print(f"{name}: median {1e3 * np.median(seconds):.3f} ms, worst {1e3 * max(seconds):.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"zappos": shoes, "men": words, "time": measure_time}
    parser.add_argument("part", nargs="*", default=list(parts), choices=list(parts))
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    for part in given.part:
        measure_time() if part == "time" else measure(parts[part], given.seeds)


if __name__ == "__main__":
    main()
