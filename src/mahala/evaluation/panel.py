"""The learners that are compared unless others are given."""

from __future__ import annotations

from typing import Any, Literal

from mahala.batch.boost_metric import BoostMetric
from mahala.batch.gml import GML
from mahala.batch.itml import ITML
from mahala.batch.lda import LDA
from mahala.batch.lmnn import LMNN
from mahala.batch.nca import NCA
from mahala.batch.pca import PCA
from mahala.batch.rca import RCA
from mahala.learner import Learner
from mahala.online.passive_aggressive import PA


def default_panel(n_rows: int, n_features: int, random_state: int = 0) -> dict[str, Learner]:
    """Return learners by name, with settings that suit many tables of about this size.

    Up to 50 features, PA projects its matrix to a positive semi-definite one in every step, above that only at the
    end. NCA has at most 32 components; NCA and LMNN are left out above 10,000 rows. GML uses all pairs if
    n_rows² · n_features is at most 2e9; otherwise it uses 100,000 pairs, and is left out above 128 features. Above
    1,000 features the panel consists of PCA, LDA and NCA.

    >>> ", ".join(default_panel(150, 4))
    'PA-I, LDA, RCA, NCA, LMNN, ITML, GML, GML weights, BoostMetric'
    >>> ", ".join(default_panel(5000, 784))
    'PA-I, LDA, RCA, NCA, LMNN, ITML, BoostMetric'
    """
    without = left_out(n_rows, n_features)
    return {name: learner for name, learner in members(n_rows, n_features, random_state).items() if name not in without}


def left_out(n_rows: int, n_features: int) -> dict[str, str]:
    """Return why members of the panel are left out for a table of this size, by name.

    >>> left_out(12_000, 300)["NCA"]
    '12,000 rows, and above 10,000 each iteration takes long'
    """
    reasons: dict[str, str] = {}
    if n_features > 1000:
        many = f"{n_features:,} features, and above 1,000 its {n_features:,} × {n_features:,} matrix takes long"
        reasons = dict.fromkeys(("PA-I", "RCA", "LMNN", "ITML", "GML", "GML weights", "BoostMetric"), many)
    elif n_features > 128 and _work(n_rows, n_features) > 2e9:
        many = f"{n_rows:,} rows of {n_features:,} features, all pairs of which take long"
        reasons = dict.fromkeys(("GML", "GML weights"), many)
    if n_rows > 10_000:
        few = f"{n_rows:,} rows, and above 10,000 each iteration takes long"
        reasons |= {"NCA": few} | ({"LMNN": few} if n_features <= 1000 else {})
    return reasons


def members(n_rows: int, n_features: int, random_state: int = 0) -> dict[str, Learner]:
    """Return all members of the panel by name, those that are left out for a table of this size included."""
    work = _work(n_rows, n_features)
    psd: Any = "every" if n_features <= 50 else "end"
    n_pairs: Literal["auto"] | int = "auto" if work <= 2e9 else 100_000
    # Up to 1,000 features the other learners are as fast as PCA, and use the labels.
    pca: dict[str, Learner] = {} if n_features <= 1000 else {"PCA": PCA(n_components=min(64, n_rows // 2))}
    return pca | {
        "PA-I": PA("I", C="auto", psd=psd, record=False, random_state=random_state),
        "LDA": LDA(shrinkage="auto"),
        "RCA": RCA(),
        "NCA": NCA(n_components=None if n_features <= 32 else 32, max_iter=50, random_state=random_state),
        "LMNN": LMNN(max_iter=100 if work <= 2e9 else 30),
        "ITML": ITML(random_state=random_state),
        "GML": GML(n_pairs=n_pairs, random_state=random_state),
        "GML weights": GML(diagonal=True, n_pairs=n_pairs, random_state=random_state),
        "BoostMetric": BoostMetric(max_iter=100),
    }


def _work(n_rows: int, n_features: int) -> int:
    return n_rows**2 * n_features
