"""Input checks: the fast path accepts exactly what the full checks accept, and returns the same."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mahala
import mahala.support.validation as validation
from mahala.support.validation import (
    LARGEST_VALUE,
    check_counts,
    check_indices,
    check_labels,
    check_row,
    check_rows,
    check_sign,
    check_signs,
    class_codes,
    is_sparse,
)
from papers.pola2004.filters.paum import PAUM

# Not both infinities: scikit-learn adds the values up, and would warn.
SPECIAL = [np.nan, np.inf, LARGEST_VALUE, -LARGEST_VALUE, np.nextafter(LARGEST_VALUE, np.inf), -1e200, 0.0, 1.5]

# What NumPy makes float64 of, with a warning at most.
NO_NUMBERS = {
    "complex128": np.array([1.0 + 2.0j]),
    "datetime64": np.array(["2020-01-01"], dtype="M8[s]"),
    "masked values": np.ma.masked_array([1.0], mask=[True]),
}


def outcome(check, X, monkeypatch, fast):
    with monkeypatch.context() as patch:
        if not fast:
            patch.setattr(validation, "_is_valid", lambda X, ndim: False)
        try:
            return check(X, "X")
        except (TypeError, ValueError) as error:
            return type(error), str(error)


@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]), ndim=st.integers(1, 3))
def test_the_fast_path_decides_as_the_full_checks(data, dtype, ndim):
    shape = data.draw(hnp.array_shapes(min_dims=ndim, max_dims=ndim, min_side=0, max_side=4))
    special = [value for value in SPECIAL if dtype == np.float64 or not 1e38 < abs(value) < np.inf]
    X = data.draw(hnp.arrays(dtype, shape, elements=st.sampled_from(np.array(special, dtype=dtype).tolist())))
    X = data.draw(st.sampled_from([X, np.asfortranarray(X), X[..., ::-1], X.T, X[::2]]))
    with pytest.MonkeyPatch.context() as patch:
        for check in (check_rows, check_row):
            fast, slow = (outcome(check, X, patch, fast) for fast in (True, False))
            assert type(fast) is type(slow)
            if isinstance(fast, tuple):
                assert fast == slow
            else:
                assert fast.dtype == slow.dtype
                np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_valid_floats_are_returned_without_scikit_learn(dtype, monkeypatch):
    monkeypatch.setattr(validation, "sklearn_checks", None)
    for X in (np.ones((2, 3), dtype), np.ones((2, 3), dtype, order="F"), np.full((1, 1), 1e18, dtype)):
        assert check_rows(X) is X
    assert check_row(np.ones(3, dtype)[::-1], "x").dtype == np.float64
    with pytest.raises(AttributeError, match="check_array"):
        check_rows(np.ones((2, 3), dtype=int))


def test_rows_in_other_forms():
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 4.0]})
    np.testing.assert_array_equal(check_rows(frame), frame)
    assert check_rows([[True, False]]).dtype == bool
    assert check_rows(frame.astype({"a": "category"})).dtype == np.float64
    untidy = sp.csr_matrix((np.ones(2), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))
    rows = check_rows(untidy)
    assert is_sparse(rows)
    assert rows.has_canonical_format
    assert untidy.nnz == 2  # the caller's matrix is not changed
    np.testing.assert_array_equal(rows.toarray(), [[0.0, 2.0]])
    np.testing.assert_array_equal(check_row(sp.csr_array([[0.0, 2.0]]), "x"), [0.0, 2.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_rows([1.0], "points"), "2D array"),
        (lambda: check_rows(np.full((1, 2), np.nan), "points"), "points contains NaN"),
        (lambda: check_rows(np.full((1, 2), np.inf, dtype=np.float32), "points"), "points contains infinity"),
        (lambda: check_rows(np.full((1, 2), -1e46), "points"), r"points has values as large as 1e\+46, whose sixth"),
        (lambda: check_rows(sp.csr_array([[1e46]]), "points"), "points has values as large as"),
        (lambda: check_rows(np.ones((0, 2)), "points"), "0 sample"),
        (lambda: check_row([[1.0]], "x"), r"x must be one vector of features, got an array of shape \(1, 1\)"),
        (lambda: check_row([], "x"), "x must be one vector of features"),
        (lambda: check_row(["a"], "x"), "x must hold real numbers: could not convert string"),
        *((lambda x=x: check_row(x, "x"), f"x must hold real numbers: got {kind}") for kind, x in NO_NUMBERS.items()),
        (lambda: check_row([10**400], "x"), "x must hold real numbers: int too large"),
        (lambda: check_row([1.0, None], "x"), "x contains NaN or infinity"),
        (lambda: check_rows([[1.0, None]], "points"), "points contains NaN"),
        (lambda: check_rows(np.array([[1, None]], dtype=object), "points"), "points contains NaN"),
        (lambda: check_rows(pd.DataFrame({"a": pd.Categorical(["inf", "1"])}), "points"), "points contains infinity"),
        (lambda: check_rows([["a"]], "points"), "points: dtype='numeric' is not compatible"),
        (lambda: check_rows([[10**400]], "points"), "points: int too large"),
        (lambda: check_rows(NO_NUMBERS["complex128"][None], "points"), "points: Complex data not supported"),
        (lambda: check_rows(NO_NUMBERS["datetime64"][None], "points"), "points must hold real numbers, got datetime"),
        (lambda: check_rows([NO_NUMBERS["datetime64"]], "points"), "points must hold real numbers, got datetime"),
        (lambda: check_rows(NO_NUMBERS["masked values"][None], "points"), "points must hold a number in each place"),
        (lambda: check_row([np.nan], "x"), "x contains NaN or infinity"),
        (lambda: check_row([1e46], "x"), "x has values as large as"),
        (lambda: check_indices([[0]], 2, "left"), r"left must be a 1-D array of row numbers, got an array of shape"),
        (lambda: check_indices([0.5], 2, "left"), "left must hold integer row numbers, got dtype float64"),
        (lambda: check_indices([2], 2, "left"), "left must hold row numbers from 0 to 1, got 2"),
        (lambda: check_indices([0, -1], 2, "left"), "left must hold row numbers from 0 to 1, got -1"),
        (lambda: check_signs([1, 1], 3), "similar must be 1-D with one label for each of the 3 pairs"),
        (lambda: check_signs([1, 0], 2), r"similar must hold booleans, or \+1 .*, got \['0', '1'\]"),
        (lambda: check_sign(0), r"similar must be True or False, or \+1 or -1, got 0"),
        (lambda: check_labels([1], 2), "y must be 1-D with a label for each of the 2 rows"),
        (lambda: check_labels(["a", None], 2), "y must hold a class for each row, got None for row 1"),
        (lambda: check_counts([0], range(1, 4), 9, "k", "the rows"), "k must be one or several integers of at least 1"),
        (lambda: check_counts(10, range(1, 4), 9, "k", "the rows"), "k must be at most 9, the rows, got 10"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_labels_and_counts():
    assert check_signs([True, False], 2).tolist() == check_signs([1.0, -1.0], 2).tolist() == [1, -1]
    assert [check_sign(value) for value in (True, np.False_, 1, -1)] == [True, False, True, False]
    assert class_codes(["b", "a", "b"], 3).tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match=r"y must hold class labels, .* got infinity"):
        class_codes([0.0, np.inf], 2)
    with pytest.raises(ValueError, match=r"y must hold class labels, .* got complex numbers"):
        class_codes([0.0, 1j], 2)
    assert check_indices([], 0, "left").dtype == np.intp
    assert check_counts(range(1, 26), range(1, 26), 3, "k", "the rows").tolist() == [1, 2, 3]
    assert check_counts([5, 2, 5], range(1, 26), 9, "k", "the rows").tolist() == [2, 5]


@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("indices", [0, 10**9]),
        ("indices", [-1, 1]),
        ("indices", [0]),
        ("indptr", [0, 10**9, -1]),
        ("indptr", [0, 10**9, 0]),
        ("indptr", [0, 2, 1]),
        ("indptr", [0, 1]),
        ("data", [1.0]),
    ],
)
def test_sparse_rows_whose_arrays_do_not_fit_together_are_refused(form, name, values):
    X = form(np.eye(2))
    setattr(X, name, np.array(values, dtype=getattr(X, name).dtype))
    with pytest.raises(ValueError, match="rows must be a valid sparse matrix: ind"):
        check_rows(X, "rows")


def broken_sparse():
    """Matrices of every form whose arrays do not fit together; SciPy's compiled code would crash on them."""
    dia = sp.dia_array((np.ones((2, 5)), [0, 1]), shape=(5, 5))
    dia.data = np.ones((400, 5))
    lil = sp.lil_array(np.eye(5))
    lil.rows[3] = []
    csr, floats, wide = (sp.csr_array(np.eye(5)) for _ in range(3))
    csr.indptr[2] = -(10**6)
    floats.indices = floats.indices + 0.5
    wide.data = np.ones((5, 2))
    csc, bsr, coo = sp.csc_array(np.eye(5)), sp.bsr_array(np.eye(5)), sp.coo_array(np.eye(5))
    csc.indices[2] = bsr.indices[2] = 10**6
    coo.coords[0][2] = 10**6
    other = {"float indices": floats, "2-D data": wide}
    return other | {"dia": dia, "lil": lil, "csr": csr, "csc": csc, "bsr": bsr, "coo": coo}


@pytest.mark.parametrize("form", broken_sparse())
def test_impossible_sparse_matrices_are_refused_before_compiled_code_reads_them(form):
    broken = broken_sparse()[form]
    message = "X must be a valid sparse matrix"
    learner = mahala.RCA().fit(np.vstack([np.eye(5)] * 2), np.arange(10) % 5)
    for call in (
        lambda: check_rows(broken),
        lambda: mahala.RCA().fit(broken, np.arange(5) % 2),
        lambda: learner.transform(broken),
        lambda: learner.metric_.pairwise(broken),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    for kind in (mahala.MahalanobisMetric, mahala.BilinearMetric):
        with pytest.raises(ValueError, match="matrix must be a valid sparse matrix"):
            kind(broken)


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
def test_sparse_matrices_of_every_form_are_rows(form):
    X = sp.csr_array(np.diag([1.0, 2.0, 0.0])).asformat(form)
    np.testing.assert_array_equal(check_rows(X).toarray(), np.diag([1.0, 2.0, 0.0]))


def test_a_column_named_like_a_mask_is_a_column():
    frame = pd.DataFrame(np.eye(3), columns=["_mask", "u", "v"])
    np.testing.assert_array_equal(check_rows(frame), np.eye(3))


def test_numbers_of_numpy_are_compared_as_python_compares_them():
    """A float32 cannot be compared with 1e100 without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("tau_relevant", "tau_irrelevant", "eta"):
            PAUM(**{name: np.float32(0.5)})._check_params()
