"""Steps over a full matrix in blocks, shared among threads."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mahala.compiled.threads import in_threads, n_threads, product
from mahala.compiled.triplets import dense_blocks as kernels
from mahala.compiled.triplets.rows import Layout, lay_out
from mahala.online.storage.model import Steps
from mahala.online.storage.similarity_model import TripletChunk
from mahala.support.arrays import FloatArray, RealArray, slices

BLOCK = 128  # steps
FEWEST = 16  # steps for which a block pays
# Triplets that touch so large a part of M are dense: whole rows in a block cost less than their entries one by one.
DENSE = 1 / 32
# Bytes of M from which blocks pay: those that do not stay near the processor or, where each entry has a threshold of
# the same size, whose stamps need not be read, those of a few hundred features.
FAR = 2**25
FEW = 2**20
# AdaGrad's sums are estimated from one in so many rows and columns.
SAMPLED = 16
# In float32, larger numbers could overflow when they are squared.
LARGEST = 1e6
LARGEST_SUM = 1e15


def may_take_blocks(touched: float, planes: RealArray, layout: Layout) -> bool:
    """Whether blocks are faster for steps that touch so many entries of M; sums over all models are not kept there."""
    width, adaptive, average = layout
    if average or touched < DENSE * len(planes) * planes.shape[2]:
        return False
    if adaptive and planes.itemsize == 8:
        return False  # the roots and quotients of whole rows take longer than what is saved
    return planes.nbytes >= (FAR if adaptive or width == 1 else FEW)


def takes_blocks(planes: RealArray, layout: Layout, chunk: TripletChunk) -> bool:
    """Whether the steps of a chunk are taken in blocks."""
    if len(chunk.y) < FEWEST:
        return False
    rows, items, (anchor, positive, negative), _ = chunk
    x, q = np.diff(rows[0]), np.diff(items[0])
    touched = float(x[anchor].mean() * (q[positive] + q[negative]).mean())
    if not may_take_blocks(touched, planes, layout):
        return False
    if planes.dtype == np.float64:
        return True
    largest = max(abs(side[2]).max(initial=0.0) for side in (rows, items))
    return bool(largest <= LARGEST and (not layout[1] or planes[:, 2].max() <= LARGEST_SUM))


def stream_blocks(
    planes: RealArray,
    layout: Layout,
    clock: int,
    settings: Any,
    left: FloatArray,
    right: FloatArray,
    chunk: TripletChunk,
    steps: Steps,
) -> None:
    """Take one step for each triplet, as `lazy_dense.stream` does."""
    rule, penalty, eta, shrinkage = settings
    rows, items, numbers, _ = chunk
    d, width, e = planes.shape
    dtype = planes.dtype
    late = width > 1  # then a step is taken in full or not
    starts = np.empty(d + 1, dtype=np.int64)
    stamps = np.full(d, -1, dtype=np.int64)
    Q, W, X = (np.empty((BLOCK, n), dtype=dtype) for n in (e, e, d))
    lengths = np.diff(rows[0])
    for own in slices(len(chunk.y), BLOCK):
        anchor, positive, negative = (column[own] for column in numbers)
        p, tau, predicted = steps[0][own], steps[1][own], steps[2][own]
        n = int(lengths[anchor].sum())
        at, places = np.empty((2, n), dtype=np.int64)
        x = np.empty(n, dtype=dtype)
        lay_out(rows, items, anchor, positive, negative, starts, at, x, places, Q)
        row_of = np.repeat(np.arange(d), np.diff(starts))
        products = np.empty((0, 0))
        if not len(left):
            x_full, q_full = np.zeros((len(tau), d)), Q[: len(tau)].astype(np.float64)
            x_full[at, row_of] = x
            products = product(x_full, x_full.T) * product(q_full, q_full.T)
        tau[:] = 0.0
        weights = np.zeros_like(x)
        # With AdaGrad the factor of a term differs between entries.
        unit = eta / (penalty[2] + float(planes[::SAMPLED, 2, ::SAMPLED].mean())) if layout[1] else 1.0
        threads = n_threads(n * e)
        share = kernels.STRIP * -(-d // (kernels.STRIP * threads))
        bounds = [*range(0, d, share), d]
        scores = np.empty((-(-d // kernels.STRIP), len(tau)))
        given = planes, layout, penalty, eta, clock + own.start, stamps, (starts, at, x), weights
        # Each thread has its rows of M, and its strips of the scores.
        read = partial(kernels.sweep, *given, Q, writes=False, scores=scores)
        write = partial(kernels.sweep, *given, W, writes=True, scores=scores)
        decide = partial(
            kernels.decide, rows, anchor, Q, unit=unit, rule=rule, left=left, right=right, shrinkage=shrinkage,
            places=places, products=products, X=X, W=W, weights=weights, p=p, tau=tau, predicted=predicted,
        )  # fmt: skip
        if late:
            # A first guess, from M as it is before the block, which costs less than to read it step by step.
            images = product(planes[:, 0], Q[: len(tau)].T)
            guessed = np.zeros(len(tau))
            np.add.at(guessed, at, x * images[row_of, at])
            decide(scores=guessed)
        wrong = True
        while wrong:
            in_threads(read, bounds[:-1], bounds[1:], threads=threads)
            wrong = decide(scores=scores.sum(axis=0)) > 0 and late
        if tau.any():
            in_threads(write, bounds[:-1], bounds[1:], threads=threads)
    if late:
        written = np.flatnonzero(stamps >= 0)
        planes[written, 1] = stamps[written, np.newaxis]
