"""Speed of the online pair learners, as ratios within one run (machines are noisy; CPU time, one BLAS thread).

    python benchmarks/online_pairs.py            # everything, about three minutes
    python benchmarks/online_pairs.py --quick    # small dimensions and short streams

Each row times mahala and the plain NumPy way on the same part of the same stream, from the same model, after a
warm-up of WARM steps. Streams are 3,600 pairs of a synthetic 10-class problem, fed in cycles.
"""

from __future__ import annotations

import argparse
import copy
import functools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from mahala import Pairs
from mahala.compiled.pairs.steps import stream_dual
from mahala.online.state.margin import MarginRule, MarginState, PairChunk, sparse_is_cheaper

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from reference.online_pairs import RULES, project

WARM = 3_600
PAIRS = 3_600
VARIANTS = {"I": RULES["I"](0.1), "LS": RULES["LS"](0.1)}
COMPILE = """
import sys, time
import numpy as np, mahala
from mahala import PA, POLA, Pairs
rng = np.random.default_rng(0)
X, y = rng.normal(size=(60, 6)), rng.integers(0, 2, 60)
pairs = Pairs.from_labels(X, y, 300, random_state=0)
learner = {"PA, psd='end'": PA(psd="end"), "PA, psd='every'": PA(), "POLA": POLA(),
           "PA, psd='end', many passes": PA(psd="end", n_steps=10**6),
           "PA, C='auto', labels": PA(C="auto")}[sys.argv[1]]
start = time.perf_counter()
learner.fit(X, y) if "labels" in sys.argv[1] else learner.fit(pairs)
print(time.perf_counter() - start)
"""


def stream(d: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ten overlapping classes that live in part of the space, features scaled to [0, 1]."""
    rng = np.random.default_rng(seed)
    latent = max(2, d // 4)
    centres = rng.normal(size=(10, latent))
    labels = rng.integers(0, 10, size=1000)
    X = (centres[labels] + 1.5 * rng.normal(size=(1000, latent))) @ rng.normal(size=(latent, d))
    X += 2.0 * rng.normal(size=X.shape)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    i, j = rng.integers(0, 1000, size=(2, PAIRS))
    order = np.arange(n) % PAIRS
    return (X[i] - X[j])[order], np.where(labels[i] == labels[j], 1, -1).astype(np.int8)[order]


def feed(model, V, y, rule):
    """Take a step for each label; with more labels than differences these are fed in cycles."""
    steps = np.empty(len(y)), np.empty(len(y)), np.empty(len(y), dtype=np.int8)
    model.feed(PairChunk(V, y), MarginRule(*rule), steps)
    return steps


def numpy_loop(V, y, M, b, rule, psd):
    """What the papers do: a step in NumPy, and with psd an eigendecomposition after every update."""
    slack, lower, upper = rule
    for v, label in zip(V, y, strict=True):
        p = 1 - label * (b - v @ M @ v)
        tau = min(max(p / (1 + slack + (v @ v) ** 2), lower), upper)
        if tau != 0:
            M = M - tau * label * np.outer(v, v)
            b = b + tau * label
            if psd:
                M, b = project(M), max(b, 1.0)
    return M, b


def timed(call, repeat: int = 1) -> float:
    best = np.inf
    for _ in range(repeat):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def warm(V, y, rule, psd) -> MarginState:
    model = MarginState(np.zeros((V.shape[1],) * 2), 0.0, psd)
    feed(model, V[:WARM], y[:WARM], rule)
    return model


def per_step(V, y, rule, psd, n) -> tuple[float, float]:
    """Microseconds a step (best of three) and the share of steps that update, from a warm model."""
    warmed = warm(V, y, rule, psd)
    V, y = V[WARM : WARM + n], y[WARM : WARM + n]
    best, share = np.inf, 0.0
    for _ in range(3):
        model = copy.deepcopy(warmed)
        start = time.process_time()
        _, tau, _ = feed(model, V, y, rule)
        best, share = min(best, time.process_time() - start), float(np.mean(tau != 0))
    return 1e6 * best / n, share


def per_step_numpy(V, y, rule, psd, n) -> float:
    model = warm(V, y, rule, psd)
    V, y = V[WARM : WARM + n], y[WARM : WARM + n]
    return 1e6 * timed(lambda: numpy_loop(V, y, model.M, model.b, rule, psd)) / n


def memory_floor(d: int) -> float:
    """Microseconds to read and write the lower triangle of M once, at the speed of NumPy's own copy loop."""
    triangle = np.ones(d * (d + 1) // 2)
    return 1e6 * timed(lambda: [np.negative(triangle, out=triangle) for _ in range(200)], 5) / 200


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    Console(width=140).print(table)


def bench_indefinite(dims) -> dict[tuple[int, str], float]:
    rows, costs = [], {}
    for d in dims:
        n = 4_000 if d < 500 else 300
        V, y = stream(d, WARM + n)
        for name, rule in VARIANTS.items():
            ours, share = per_step(V, y, rule, 0, n)
            plain = per_step_numpy(V, y, rule, 0, n)
            floor = memory_floor(d)
            costs[d, name] = ours
            rows.append([str(d), f"PA-{name}", f"{share:.0%}", f"{plain:.1f}", f"{ours:.2f}", f"{plain / ours:.0f}×"])
            rows[-1] += [f"{floor:.1f}", f"{ours / floor:.2f}"]
    show(
        '"-": one compiled call against the NumPy loop (µs per step)',
        ["d", "learner", "updates", "NumPy", "mahala", "ratio", "memory floor", "mahala / floor"],
        rows,
    )
    return costs


def bench_dual(d: int, n: int) -> None:
    V, y = stream(d, PAIRS)
    gram2 = (V @ V.T) ** 2
    rows = []
    for name, rule in VARIANTS.items():
        whole = timed(lambda rule=rule: feed(MarginState(np.zeros((d, d)), 0.0, 0), V, np.resize(y, n), rule))
        taken = np.empty(n), np.empty(n), np.empty(n, dtype=np.int8)
        arrays = gram2, np.zeros(PAIRS), np.zeros(PAIRS), y[:PAIRS], 0.0, (*rule, 0.0), taken
        steps = timed(functools.partial(stream_dual, *arrays))
        ours, share = 1e6 * steps / n, np.mean(taken[1] != 0)
        plain = per_step_numpy(*stream(d, WARM + 300), rule, 0, 300)
        rows.append([str(d), f"PA-{name}", f"{share:.0%}", f"{plain:.0f}", f"{ours:.2f}", f"{plain / ours:.0f}×"])
        rows[-1] += [f"{whole - steps:.2f} s", f"{plain * n / 1e6 / whole:.0f}×"]
    show(
        f'"-", dual form: {PAIRS} fixed pairs fed for {n} steps (µs per step)',
        ["d", "learner", "updates", "NumPy", "mahala", "ratio a step", "set-up", "ratio, set-up included"],
        rows,
    )


def bench_psd(dims, indefinite) -> None:
    rows = []
    for d in dims:
        n = 4_000 if d < 40 else 2_000 if d < 150 else 400 if d < 500 else 80
        V, y = stream(d, WARM + n)
        for name, rule in VARIANTS.items():
            ours, share = per_step(V, y, rule, 1, n)
            plain = per_step_numpy(V, y, rule, 1, n)
            minus = indefinite.get((d, name)) or per_step(V, y, rule, 0, n)[0]
            rows.append([str(d), f"PA-{name}", f"{share:.0%}", f"{plain:.0f}", f"{ours:.1f}", f"{plain / ours:.0f}×"])
            rows[-1].append(f"{ours / minus:.1f}")
    show(
        '"+": exact projection against an eigendecomposition after every update (µs per step)',
        ["d", "learner", "updates", "eigh", "mahala", "ratio", '"+" / "-"'],
        rows,
    )


def bench_sparse(shapes) -> None:
    """Rows with few non-zeros, as CSR and as dense rows."""
    rows = []
    for d, nnz in shapes:
        rng = np.random.default_rng(0)
        X = sp.random_array((1000, d), density=nnz / d, format="csr", random_state=rng)
        pairs = Pairs(X, *rng.integers(0, 1000, size=(2, 500)), rng.random(500) < 0.3)
        times = []
        for sparse in (False, True):
            V, model = pairs.differences(sparse=sparse), MarginState(np.zeros((d, d)), 0.0, 0)
            feed(model, V[:2], pairs.y[:2], VARIANTS["LS"])
            steps = functools.partial(feed, model, V, pairs.y, VARIANTS["LS"])
            times.append(1e6 * timed(steps, 3) / len(pairs))
        rows.append([str(d), str(nnz), f"{times[0]:.1f}", f"{times[1]:.1f}", f"{times[0] / times[1]:.0f}×"])
        rows[-1].append("yes" if sparse_is_cheaper(X) else "no")
    show(
        '"-", PA-LS on rows with few non-zeros: our dense and sparse kernels (µs per step)',
        ["d", "non-zeros per row", "dense", "sparse", "ratio", "sparse is chosen"],
        rows,
    )


def bench_length(d: int, n: int) -> None:
    rows = []
    V, y = stream(d, n)
    tenth = n // 10
    for name, rule in VARIANTS.items():
        for psd in (0, 1):
            model = MarginState(np.zeros((d, d)), 0.0, psd)
            parts = []
            for start in range(0, n, tenth):
                part = slice(start, start + tenth)
                parts.append(timed(lambda part=part, model=model, rule=rule: feed(model, V[part], y[part], rule)))
            sign = "+" if psd else "-"
            rows.append([str(d), f"PA-{name}{sign}", f"{1e6 * parts[0] / tenth:.2f}", f"{1e6 * parts[-1] / tenth:.2f}"])
            rows[-1].append(f"{parts[-1] / parts[0]:.2f}")
    show(
        f"Length: µs per step in the first and the last tenth of {n} steps",
        ["d", "learner", "first", "last", "last / first"],
        rows,
    )


def bench_drift(d: int, n: int) -> None:
    rows = []
    V, y = stream(d, n)
    for name, rule in VARIANTS.items():
        model = MarginState(np.zeros((d, d)), 0.0, 1)
        feed(model, V, y, rule)
        M, _ = numpy_loop(V, y, np.zeros((d, d)), 0.0, rule, 1)
        rows.append([str(d), f"PA-{name}+", f"{np.linalg.norm(model.M - M) / np.linalg.norm(M):.1e}"])
    show(f"Drift: ‖M - M_eigh‖ / ‖M_eigh‖ after {n} steps", ["d", "learner", "drift"], rows)


def bench_compile() -> None:
    rows = []
    for name in ("PA, psd='end'", "PA, psd='end', many passes", "PA, psd='every'", "PA, C='auto', labels", "POLA"):
        with tempfile.TemporaryDirectory() as folder:
            times = []
            for _ in range(2):
                run = subprocess.run(
                    [sys.executable, "-c", COMPILE, name],
                    env={"NUMBA_CACHE_DIR": folder, "PATH": "/usr/bin:/bin"},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                times.append(float(run.stdout))
        rows.append([name, f"{times[0]:.1f} s", f"{times[1]:.2f} s"])
    show("First fit in a new process, compilation included (wall time)", ["learner", "cold", "from the cache"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    for psd in (0, 1):  # compile before the clock runs
        V, y = stream(6, 10)
        feed(MarginState(np.zeros((6, 6)), 0.0, psd), V, y, VARIANTS["I"])
    feed(MarginState(np.zeros((6, 6)), 0.0, 0), V, np.resize(y, 20), VARIANTS["I"])
    with threadpool_limits(1):
        costs = bench_indefinite([9, 64] if quick else [9, 36, 64, 256, 784])
        if not quick:
            bench_dual(784, 50_000)
            bench_sparse([(300, 5), (1000, 20), (3000, 20), (3000, 60), (3000, 300)])
        bench_psd([4, 9, 16, 36, 64] if quick else [4, 9, 16, 36, 57, 64, 104, 256, 784], costs)
        bench_length(32 if quick else 64, 20_000 if quick else 100_000)
        bench_drift(16 if quick else 64, 5_000 if quick else 25_000)
    bench_compile()


if __name__ == "__main__":
    main()
