from __future__ import annotations

import os
import threading
import time
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.compiled import threads
from mahala.support.parameters import config_context


@given(n=st.integers(1, 60), size=st.integers(1, 20), count=st.integers(1, 5))
def test_each_pair_of_rows_is_in_one_round_and_no_row_twice_in_a_round(n, size, count):
    seen = set()
    for pairs in threads.pairs_of_blocks(n, size, count):
        rows = [row for a, b in pairs for block in ([a] if a == b else [a, b]) for row in range(n)[block]]
        assert len(rows) == len(set(rows))
        for a, b in pairs:
            assert a.stop - a.start <= size
            assert a.start <= b.start
            new = {(i, j) for i in range(n)[a] for j in range(n)[b] if i <= j}
            assert not seen & new
            seen |= new
    assert seen == set(combinations_with_replacement(range(n), 2))


@pytest.mark.parametrize("count", [1, 4])
def test_results_are_in_order_and_errors_arrive(count):
    assert threads.in_threads(lambda a, b: (a, b), "abcde", range(5), threads=count) == [
        ("a", 0),
        ("b", 1),
        ("c", 2),
        ("d", 3),
        ("e", 4),
    ]
    assert threads.in_rows(lambda rows: (rows.start, rows.stop), 5, 2) == [(0, 3), (3, 5)]
    with pytest.raises(ZeroDivisionError):
        threads.in_threads(lambda a: 1 // a, [1, 0], threads=count)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_pairs_of_blocks_that_share_rows_run_in_order(count):
    """Each block sees its pairs in the order of the rounds, whatever the threads do; no two of them at once."""
    rng = np.random.default_rng(0)
    pauses = iter(rng.exponential(1e-4, size=10_000).tolist())
    seen, busy = {}, set()

    def visit(left, right):
        own = {left.start, right.start}
        assert not own & busy
        busy.update(own)
        time.sleep(next(pauses))
        for block in own:
            seen.setdefault(block, []).append((left.start, right.start))
        busy.difference_update(own)
        return left.start, right.start

    expected = [(a.start, b.start) for pairs in threads.pairs_of_blocks(40, 3, count) for a, b in pairs]
    assert threads.in_pairs_of_blocks(visit, 40, 3, count) == expected
    for block, pairs in seen.items():
        assert pairs == [pair for pair in expected if block in pair]


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_in_a_pair_of_blocks_ends_the_others(count):
    calls = []

    def fail(left, right):
        calls.append(left)
        if len(calls) == 4:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        threads.in_pairs_of_blocks(fail, 200, 2, count)
    assert len(calls) <= 100  # the pairs of a round


def test_threads_of_ours_do_not_wait_for_each_other():
    with config_context(n_threads=2):
        assert threads.n_threads() == 2
        assert threads.in_threads(lambda _: threads.n_threads(), range(4), threads=2) == [1] * 4


def test_number_of_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert threads.n_threads() == 3
    assert threads.n_threads(threads.DISPATCH * 4.0) == 2
    assert threads.n_threads(10.0) == 1
    with config_context(n_threads=7):
        assert threads.n_threads() == 7
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert threads.n_threads() == threads.n_cores() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_has_threads_of_its_own():
    threads.in_threads(abs, range(4), threads=2)
    child = os.fork()
    if child == 0:
        os._exit(0 if threads.in_threads(abs, [-1, -2], threads=2) == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_there_is_one_pool_whatever_the_number_of_threads():
    for count in (2, 3, 4, 3, 2) * 3:
        threads.in_threads(abs, range(8), threads=count)
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("mahala_")]
    assert 0 < len(ours) <= 2 * max(4, threads.n_cores())


@pytest.mark.parametrize("count", [1, 3])
def test_products(count, monkeypatch):
    monkeypatch.setattr(threads, "DISPATCH", 1)
    rng = np.random.default_rng(0)
    A, B, v = rng.normal(size=(7, 5)), rng.normal(size=(5, 4)), rng.normal(size=5)
    with config_context(n_threads=count):
        np.testing.assert_allclose(threads.product(A, B), A @ B)
        np.testing.assert_allclose(threads.product(A, v), A @ v)
        np.testing.assert_allclose(threads.transposed_product(B, A.T), B.T @ A.T)
        np.testing.assert_allclose(threads.transposed_product(B, v), B.T @ v)
        np.testing.assert_allclose(threads.squared_norms(A), np.square(A).sum(axis=1))


def test_scratch_is_a_threads_own():
    mine = threads.scratch((2, 3), np.float64)
    mine[:] = 1.0
    other = threading.Thread(target=lambda: threads.scratch((2, 3), np.float64).fill(2.0))
    other.start()
    other.join()
    assert (mine == 1.0).all()
    assert np.shares_memory(mine, threads.scratch((1, 3), np.float32))
