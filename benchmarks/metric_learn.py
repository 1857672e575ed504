"""The learners that metric-learn has, too: time and objective on the same input (CPU time, one BLAS thread).

    python benchmarks/metric_learn.py --peer /path/to/other/python     # an interpreter that has metric-learn 0.7.0

metric-learn needs an older scikit-learn (1.4 for SDML), so it runs in an interpreter of its own. Objectives
are computed here for both, from the matrices that were learned.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from threadpoolctl import threadpool_limits

from mahala import Pairs, Quadruplets
from mahala.batch import LFDA, LSML, SCML, SDML, Covariance
from mahala.batch.lfda import _scatters
from mahala.batch.scml import _local_discriminants
from mahala.comparisons import Triplets
from mahala.engine.neighbors import class_neighbors

PEER = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
import metric_learn
file, name = np.load(sys.argv[1]), sys.argv[2]
if name == "SCML":
    learner = metric_learn.SCML(n_basis=len(file["bases"]), random_state=0)
    fit = lambda: learner._fit(file["tuples"], file["bases"], len(file["bases"]))
elif name == "SDML":
    learner = metric_learn.SDML(balance_param=float(file["balance"]), sparsity_param=float(file["sparsity"]))
    fit = lambda: learner.fit(file["tuples"], file["y"])
elif name == "LSML":
    learner = metric_learn.LSML()
    fit = lambda: learner.fit(file["tuples"])
else:
    learner = metric_learn.LFDA(k=7) if name == "LFDA" else metric_learn.Covariance()
    fit = lambda: learner.fit(file["X"], file["y"])
start = time.process_time()
try:
    fit()
except Exception as error:
    print(json.dumps({"error": str(error)[:60]}))
else:
    seconds = time.process_time() - start
    L = learner.components_
    print(json.dumps({"seconds": seconds, "L": L.tolist()}))
"""

ROW = "{:<11} {:<11} {:>14} {:>10} {:>9} {:>10} {:>7} {:>7}"

Objective = Callable[[np.ndarray], float]
Case = tuple[str, str, Any, Any, dict[str, Any], Objective]


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    result = {}
    for name, load in {"wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}.items():
        X, y = load(return_X_y=True)
        result[name] = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0), y
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=6000)
    result["6,000 × 20"] = rng.normal(size=(6000, 20)) + 2.0 * np.eye(3, 20)[y], y
    return result


def divergence(M: np.ndarray) -> float:
    return float(np.trace(M) - np.linalg.slogdet(M)[1] - len(M))


def quadratic(V: np.ndarray, M: np.ndarray) -> np.ndarray:
    return np.maximum(np.einsum("ij,ij->i", V @ M, V), 0.0)


def of_lsml(name: str, X: np.ndarray, y: np.ndarray) -> Case:
    quadruplets = Quadruplets.from_labels(X, y, 5000, random_state=0)
    tuples = np.stack([X[getattr(quadruplets, role)] for role in Quadruplets._names], axis=1)

    def objective(L: np.ndarray) -> float:
        near, far = (np.sqrt(quadratic(tuples[:, i] - tuples[:, i + 1], L.T @ L)) for i in (0, 2))
        return divergence(L.T @ L) + float(np.mean(np.maximum(near - far, 0.0) ** 2))

    return "LSML", name, LSML(), (quadruplets, None), {"tuples": tuples}, objective


def of_sdml(name: str, X: np.ndarray, y: np.ndarray, sparsity: float) -> Case:
    pairs = Pairs.from_labels(X, y, 5000, balance=0.6, random_state=0)
    tuples, balance = np.stack([X[pairs.left], X[pairs.right]], axis=1), SDML(sparsity).fit(pairs).balance_

    def objective(L: np.ndarray) -> float:
        M = L.T @ L
        distances = quadratic(tuples[:, 0] - tuples[:, 1], M)
        return divergence(M) + balance * float(pairs.y @ distances) + sparsity * float(np.abs(M).sum() - np.trace(M))

    arrays = {"tuples": tuples, "y": pairs.y, "balance": balance, "sparsity": sparsity}
    return f"SDML({sparsity})", name, SDML(sparsity, balance=balance), (pairs, None), arrays, objective


def of_scml(name: str, X: np.ndarray, y: np.ndarray) -> Case:
    near, far = class_neighbors(X, y, 3, 10)
    anchor, i, j = (axis.ravel() for axis in np.indices((len(X), 3, 10)))
    triplets = Triplets(X, anchor, near[anchor, i], far[anchor, j])
    bases = _local_discriminants(X, y, 20 * X.shape[1], np.random.default_rng(0))
    tuples = np.stack([X[triplets.anchor], X[triplets.positive], X[triplets.negative]], axis=1)

    def objective(L: np.ndarray) -> float:
        M = L.T @ L
        near, far = (quadratic(tuples[:, 0] - tuples[:, side], M) for side in (1, 2))
        # The bases have length 1, so the sum of their weights is the trace.
        return float(np.mean(np.maximum(1.0 + near - far, 0.0))) + 1e-5 * float(np.trace(M))

    return "SCML", name, SCML(bases=bases), (triplets, None), {"tuples": tuples, "bases": bases}, objective


def of_lfda(name: str, X: np.ndarray, y: np.ndarray) -> Case:
    within, between = _scatters(X - X.mean(axis=0), X, np.unique(y, return_inverse=True)[1], 7)

    def objective(L: np.ndarray) -> float:
        L = L[:2]  # the criterion of all directions is the same for any of them
        return -float(np.trace(np.linalg.solve(L @ within @ L.T, L @ between @ L.T)))

    return "LFDA", name, LFDA(), (X, y), {"X": X, "y": y}, objective


def of_covariance(name: str, X: np.ndarray, y: np.ndarray) -> Case:
    C = np.cov(X.T)

    def objective(L: np.ndarray) -> float:
        values = np.linalg.eigvalsh(L.T @ L)
        return float(np.sum((L.T @ L) * C) - np.log(values[values > 1e-10 * values[-1]]).sum())

    return "Covariance", name, Covariance(), (X, y), {"X": X, "y": y}, objective


def cases() -> list[Case]:
    data = tables()
    small = {name: data[name] for name in ("wine", "cancer", "digits")}
    return [
        *(of_lfda(name, *data[name]) for name in ("wine", "cancer", "6,000 × 20")),
        *(of_covariance(name, *data[name]) for name in ("cancer", "6,000 × 20")),
        *(of_lsml(name, *table) for name, table in small.items()),
        *(of_sdml(name, *table, sparsity) for name, table in small.items() for sparsity in (0.01, 0.1)),
        *(of_scml(name, *table) for name, table in small.items()),
    ]


def peer_result(python: str, name: str, arrays: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input.npz"
        np.savez(path, **arrays)
        single = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        single.pop("PYTHONPATH", None)
        command = [python, "-c", PEER, str(path), name.split("(")[0]]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=single)
    return dict(json.loads(done.stdout))


def seconds_of(learner: Any, given: Any, enough: float = -np.inf) -> float:
    """The best CPU time of fits for a tenth of a second, which end at this objective or by default."""
    times: list[float] = []
    if "callback" in learner.get_params():
        learner.set_params(callback=lambda iteration: iteration.objective <= enough)
    while sum(times) < 0.1:
        start = time.process_time()
        learner.fit(*given)
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", default=sys.executable, help="a Python interpreter that has metric-learn")
    python = parser.parse_args().peer
    console = Console(width=130)
    if subprocess.run([python, "-c", "import metric_learn"], capture_output=True, check=False).returncode:
        console.print(f"skipped: {python} cannot import metric-learn; name one that can by --peer")
        return
    console.print(
        ROW.format("learner", "rows", "metric-learn s", "objective", "mahala s", "objective", "ratio", "ratio*")
    )
    with threadpool_limits(1):
        for name, rows, learner, given, arrays, objective in cases():
            seconds_of(learner, given, np.inf)  # compiles
            whole, reached = seconds_of(learner, given), objective(learner.components_)
            peer = peer_result(python, name, arrays)
            theirs, ratios = np.nan, [np.nan, np.nan]
            if "error" not in peer:
                theirs = objective(np.array(peer["L"]))
                ratios = [peer["seconds"] / own for own in (whole, seconds_of(learner, given, theirs))]
            numbers = peer.get("seconds", np.nan), theirs, whole, reached, *ratios
            console.print(ROW.format(name, rows, *(f"{number:.5g}" for number in numbers)), peer.get("error", ""))
    console.print("ratio*: until mahala's objective is not above that of metric-learn")


if __name__ == "__main__":
    main()
