"""Kernels by name: their parameters, and their values to full precision close to an origin."""

import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from mahala.metric.matrices import row_dots
from mahala.support.arrays import FloatArray, RealArray, Rows
from mahala.support.lazily import pairwise, preprocessing, sp, spatial_distance
from mahala.support.parameters import NonNegative, Where, between, check_value, is_number
from mahala.support.validation import is_sparse

Kernel = str | Callable[[Any, Any], Any]

_DEGREE = Annotated[float, Where(between(1.0), "a number of at least 1")]
_FINITE = Annotated[float, Where(lambda value: is_number(value) and math.isfinite(value), "a finite number")]
# The named kernels, and the types of their parameters.
KERNELS: dict[str, dict[str, Any]] = {
    "linear": {},
    "rbf": {"gamma": NonNegative | None},
    "poly": {"gamma": NonNegative | None, "degree": _DEGREE, "coef0": _FINITE},
    "cosine": {},
    "precomputed": {},
}


def kernel_values(kernel: Kernel, params: dict[str, Any], points: Rows, others: Any, origin: Rows) -> RealArray:
    """Return the kernel values of points (rows) with others (columns; their numbers if precomputed).

    Those of "linear", "cosine" and "rbf" are relative to the one row `origin`, `k(x, y) - k(x, x0) - k(x0, y) +
    k(x0, x0)`: computed so from the start, they keep the digits that subtracting later would lose.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if kernel == "precomputed":
            values = points[:, others]
        elif not isinstance(kernel, str):
            values = kernel(points, others)
        elif kernel == "poly":
            values = pairwise.pairwise_kernels(points, others, metric=kernel, **params)
        elif kernel == "rbf":
            values = _relative_rbf(points, others, origin, params.get("gamma"))
        else:
            if kernel == "cosine":
                points, others, origin = (preprocessing.normalize(rows) for rows in (points, others, origin))
            values = _minus(points, origin) @ _minus(others, origin).T
    values = np.asarray(values.toarray() if is_sparse(values) else values)
    if values.shape != (points.shape[0], others.shape[0]):
        wanted = f"a {points.shape[0]}×{others.shape[0]} matrix"
        raise ValueError(f"kernel must return a value for each pair, {wanted}, got shape {values.shape}")
    if values.dtype.kind not in "fiub":
        raise ValueError(f"kernel must return real numbers, got dtype {values.dtype}")
    if not np.isfinite(values).all():
        raise ValueError("kernel must return finite values, got NaN or infinity: scale the features or its parameters")
    return values


def check_kernel(kernel: Kernel, params: dict[str, Any] | None) -> dict[str, Any]:
    """Return the parameters of a kernel; raise if it is unknown, or if they are not its own or not valid."""
    params = {} if params is None else params
    if not isinstance(params, dict):
        raise TypeError(f"kernel_params must be a dict or None, got {params!r}")
    if not callable(kernel) and not (isinstance(kernel, str) and kernel in KERNELS):
        raise ValueError(f"kernel must be one of {list(KERNELS)} or a function of two blocks of rows, got {kernel!r}")
    types = KERNELS[kernel] if isinstance(kernel, str) else {}
    for name, value in params.items():
        if name not in types:
            raise ValueError(f"kernel {kernel!r} takes {list(types) or 'no parameters'}, got {name!r} in kernel_params")
        check_value(value, f"kernel_params[{name!r}]", types[name])
    return dict(params)


def _minus(points: Rows, origin: Rows) -> Any:
    """The points, dense or CSR, relative to the one row `origin`."""
    if is_sparse(points):
        origin = sp.csr_array(np.ones((points.shape[0], 1))) @ origin
    return points - origin


def _relative_rbf(points: Any, others: Any, origin: Rows, gamma: float | None) -> FloatArray:
    """`k(x, y) - k(x, x0) - k(x0, y) + 1` of the rbf kernel, to full relative precision.

    With a, b and c = γ times the squared distances of x from x0, of y from x0 and of x from y, and the inner
    product p = 2γ (x - x0)ᵀ (y - x0), it is both `(e⁻ᶜ - 1) - (e⁻ᵃ - 1) - (e⁻ᵇ - 1)`, which loses digits close to
    x0, and `e⁻ᵃ e⁻ᵇ (eᵖ - 1) + (e⁻ᵃ - 1) (e⁻ᵇ - 1)`, which loses them far from it.
    """
    gamma = 1 / points.shape[1] if gamma is None else gamma
    u, v = _minus(points, origin), _minus(others, origin)
    products = u @ v.T
    p = 2 * gamma * (products.toarray() if is_sparse(products) else products)
    a, b = gamma * row_dots(u, u)[:, None], gamma * row_dots(v, v)[None, :]
    if is_sparse(points):
        c = np.maximum(a + b - p, 0.0)
    else:
        c = gamma * spatial_distance.cdist(points, others, "sqeuclidean")
    close = a * b < 1.0
    both = np.expm1(np.where(close, p, -c))
    a, b = np.expm1(-a), np.expm1(-b)
    return np.asarray(np.where(close, (1 + a) * (1 + b) * both + a * b, both - a - b))
