"""Where descent begins: the linear map L, m × d, before the first iteration."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.lda import LDA
from mahala.batch.pca import PCA
from mahala.batch.run import Floats, Model
from mahala.metric import MahalanobisMetric, Metric
from mahala.support.params import is_count

Init = Literal["auto", "identity", "pca", "lda", "random"] | Metric
INITS = ("auto", "identity", "pca", "lda", "random")


def check_start(init: Any, n_components: Any) -> None:
    """Refuses what is no start, or no number of directions."""
    if not isinstance(init, Metric) and not (isinstance(init, str) and init in INITS):
        raise ValueError(f"init must be a Metric or one of {', '.join(map(repr, INITS))}, got {init!r}")
    if n_components is not None and not is_count(n_components):
        raise ValueError(f"n_components must be None or an integer of at least 1, got {n_components!r}")


def first_components(
    init: Init,
    n_components: int | None,
    X: Floats,
    codes: NDArray[np.intp] | None,
    rng: np.random.Generator,
    warm: Model | None = None,
) -> Floats:
    """L of n_components rows (None: as many as features), in the dtype of X.

    "identity" takes the first features, "pca" the directions of most variance, "lda" those that separate the classes
    (and after them those of "pca"), "random" normal numbers of variance 1/d; "auto" is "identity" where L is square,
    else "lda" where there are enough of them, else "pca". Of a Metric it takes the leading components. Where there is
    a `warm` model, its L.
    """
    d = X.shape[1]
    m = d if n_components is None else int(n_components)
    if m > d:
        raise ValueError(f"n_components must be at most {d}, the number of features, got {m}")
    if warm is not None:
        if warm["L"].shape != (m, d):
            raise ValueError(
                f"n_components is {m}, but a warm start goes on with the {len(warm['L'])} components of the last fit"
            )
        return warm["L"].astype(X.dtype)
    n_separating = 0 if codes is None else int(codes.max())
    if isinstance(init, str) and init == "auto":
        init = "identity" if m == d else "lda" if m <= n_separating else "pca"
    if isinstance(init, Metric):
        if not isinstance(init, MahalanobisMetric) or init.kernel_map is not None or init.matrix.shape != (d, d):
            raise ValueError(f"init must be a Mahalanobis metric of {d} features without a kernel, got {init!r}")
        L = init.components[:m]
        # A row of zeros would never move: the gradient of a row is a multiple of it.
        missing = m - len(L)
        filler = rng.normal(size=(missing, d)) * 1e-3 * np.sqrt(np.square(L).mean() if L.size else 1.0 / d)
        L = np.vstack([L, filler])
    elif init == "identity":
        L = np.eye(m, d)
    elif init == "random":
        L = rng.normal(size=(m, d)) / np.sqrt(d)
    else:
        L = np.empty((0, d))
        if init == "lda" and codes is not None:
            L = _directions(LDA(), X, codes)[:m]
        if len(L) < m:
            L = np.vstack([L, _directions(PCA(min(m - len(L), *X.shape), random_state=0), X, codes)])
        if len(L) < m:  # fewer rows than directions
            L = np.vstack([L, rng.normal(size=(m - len(L), d)) / np.sqrt(d)])
    return np.ascontiguousarray(L, dtype=X.dtype)


def _directions(learner: BatchLearner, X: Floats, codes: NDArray[np.intp] | None) -> NDArray[np.float64]:
    """The directions that it finds, of unit length; none where the rows hold none."""
    try:
        L = learner.fit(X, codes).components_
    except ValueError:
        return np.empty((0, X.shape[1]))
    return np.asarray(L / np.linalg.norm(L, axis=1, keepdims=True))
