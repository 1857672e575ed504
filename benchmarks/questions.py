"""How many answers chosen questions save: simulated people teach by chosen and by random questions.

    python benchmarks/questions.py                 # all data sets, about ten minutes
    python benchmarks/questions.py digits --seeds 3 --answers 200

A person is asked which of two items is more like a third one. One who has labels skips a question unless exactly one
of the two has the label of the third; one who has a hidden metric always answers, and with noise sometimes wrongly.
Accuracy is the share of comparisons, with items that were never asked about as queries, that the served map has in
the right order. The ratio is the number of random answers over that of chosen answers, at the accuracy that random
questions reach at last, both on the mean curves of all seeds; the second ratio counts skipped questions as well.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

import mahala
from mahala.feedback.questions import best_question, candidates

EVERY = 10  # answers between two measurements
N_TESTS, N_CANDIDATES = 20_000, 500


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def labelled(load):
    def make(seed):
        X, y = load(return_X_y=True)
        same = lambda one, other: (y[one] == y[other]).astype(int)  # noqa: E731
        return unit(StandardScaler().fit_transform(X)), lambda q, a, b: same(q, a) - same(q, b)

    return make


def hidden(noise):
    def make(seed):
        rng = np.random.default_rng(seed)
        X = unit(rng.normal(size=(1000, 30)))
        turned = np.linalg.qr(rng.normal(size=(30, 30)))[0]
        metric = turned * np.exp(rng.normal(size=30)) @ turned.T
        scores = X @ metric @ X.T

        def answer(q, a, b):
            gap = scores[q, a] - scores[q, b]
            return np.sign(gap + noise * scores.std() * rng.normal(size=np.shape(gap))).astype(int)

        return X, answer

    return make


DATA = {
    "digits": labelled(load_digits),
    "wine": labelled(load_wine),
    "breast-cancer": labelled(load_breast_cancer),
    "hidden": hidden(0.0),
    "hidden, noisy": hidden(0.3),
}


def curve(make, chosen, n_answers, seed):
    """Return rows (answers, questions, accuracy)."""
    X, answer = make(seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    test, train = order[: len(X) // 4], order[len(X) // 4 :]
    tests = candidates(len(X), N_TESTS, rng)
    tests[:, 0] = rng.choice(test, N_TESTS)
    truth = make(seed)[1](*tests.T) if make is not DATA["hidden, noisy"] else hidden(0.0)(seed)[1](*tests.T)
    tests, truth = tests[truth != 0], truth[truth != 0]
    apart = X[tests[:, 1]] - X[tests[:, 2]]

    def accuracy(adapter):
        return float((np.sign(np.einsum("ij,ij->i", adapter.embed(X[tests[:, 0]]), apart)) == truth).mean())

    adapter = mahala.QueryAdapter(random_state=0)
    rows, answers, questions = [(0, 0, accuracy(adapter))], 0, 0
    matrix, trust = None, 0.0
    while answers < n_answers:
        asked = train[candidates(len(train), N_CANDIDATES if chosen else 1, rng)]
        at = best_question(*(X[column] for column in asked.T), matrix, trust)
        q, a, b = asked[at]
        questions += 1
        reaction = int(answer(q, a, b))
        if reaction == 0:
            continue
        answers += 1
        adapter.learn_one(X[q], X[[a, b]], [reaction > 0, reaction < 0])
        matrix, trust = adapter.maps().new, adapter.trust_["new"]
        if answers % EVERY == 0:
            rows.append((answers, questions, accuracy(adapter)))
    return rows


def reached(rows, accuracy, column):
    """Return how many answers or questions a curve needs for an accuracy that it keeps from there on."""
    below = np.flatnonzero(rows[:, 2] < accuracy)
    first = below[-1] + 1 if len(below) else 0
    return rows[first, column] if first < len(rows) else np.inf


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", default=list(DATA), metavar="DATA", help=", ".join(DATA))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--answers", type=int, default=400)
    given = parser.parse_args()
    print(f"{'data':15} {'before':>7} {'random':>7} {'chosen':>7} {'answers saved':>14} {'with skipped':>13}")
    for name in given.data:
        random, chosen = (
            np.mean([curve(DATA[name], how, given.answers, seed) for seed in range(given.seeds)], axis=0)
            for how in (False, True)
        )
        goal = random[-1, 2]
        ratios = [reached(random, goal, column) / reached(chosen, goal, column) for column in (0, 1)]
        print(
            f"{name:15} {random[0, 2]:7.3f} {goal:7.3f} {chosen[-1, 2]:7.3f} {ratios[0]:13.1f}x {ratios[1]:12.1f}x",
            flush=True,
        )


if __name__ == "__main__":
    main()
