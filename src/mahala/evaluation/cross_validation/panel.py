"""The learners that are compared: a default panel for tables of a size, or learners by name."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from mahala.batch.boost_metric import BoostMetric
from mahala.batch.dmlmj import DMLMJ
from mahala.batch.gml import GML
from mahala.batch.gmml import GMML
from mahala.batch.itml import ITML
from mahala.batch.kissme import KISSME
from mahala.batch.lda import LDA
from mahala.batch.lmnn import LMNN
from mahala.batch.mlkr import MLKR
from mahala.batch.nca import NCA
from mahala.batch.pca import PCA
from mahala.batch.rca import RCA
from mahala.batch.xqda import XQDA
from mahala.comparisons import Comparisons, Pairs, Triplets
from mahala.learner import Learner
from mahala.neighbors.classifier import NeighborClassifier
from mahala.neighbors.model import NeighborModel
from mahala.neighbors.regressor import NeighborRegressor
from mahala.online.passive_aggressive import PA

EUCLIDEAN = "Euclidean"
EUCLIDEAN_SCALED = "Euclidean, scaled"
# 0/1 features, such as those of categories, are divided by their deviation, too.
EUCLIDEAN_ALL = "Euclidean, all scaled"
PLAIN = (EUCLIDEAN, EUCLIDEAN_SCALED, EUCLIDEAN_ALL)
# Of scaled features: what one may try beside the Euclidean distances, without labels.
COSINE: Final = "cosine"
UNSUPERVISED: Final = (COSINE, "PCA")

# NCA looks at all pairs of rows in each iteration.
_NCA_ROWS = 4_000
# Those that form matrices of the features.
_OF_MATRICES = (
    "PA-I", "RCA", "KISSME", "XQDA", "DMLMJ", "GMML", "LMNN", "ITML", "GML", "GML weights", "BoostMetric", "MLKR",
)  # fmt: skip
# Members of the panel that are compared where the target is a number; all but MLKR learn from classes of it.
_OF_NUMBERS = ("MLKR", "PCA", "LDA", "RCA", "LMNN", "GML", "GML weights")


def default_panel(n_rows: int, n_features: int, random_state: int = 0, *, numbers: bool = False) -> dict[str, Learner]:
    """Return learners by name, with settings that suit many tables of about this size.

    Up to 50 features, PA projects its matrix to a positive semi-definite one in every step, above that only at the
    end. NCA has at most 32 components and learns from 4,000 rows, MLKR from 1,000, or 40 per feature if these are more.
    LMNN has 30 iterations, BoostMetric 50, and MLKR 20. GML uses 100,000 pairs instead of all where n_rows² is above
    80,000 n_features. Above 128 features it is left out where n_rows² · n_features is above 2e9. Above 1,000 features
    the panel consists of PCA, LDA and NCA.
    With `numbers`, for a target that is a number, it has MLKR and learners of classes of the target.

    >>> ", ".join(default_panel(150, 4))
    'PA-I, LDA, RCA, KISSME, XQDA, DMLMJ, GMML, NCA, LMNN, ITML, GML, GML weights, BoostMetric'
    >>> ", ".join(default_panel(5000, 784))
    'PA-I, LDA, RCA, KISSME, XQDA, DMLMJ, GMML, NCA, LMNN, ITML, BoostMetric'
    >>> ", ".join(default_panel(500, 10, numbers=True))
    'LDA, RCA, LMNN, GML, GML weights, MLKR'
    """
    without = left_out(n_rows, n_features, numbers=numbers)
    panel = members(n_rows, n_features, random_state, numbers=numbers)
    return {name: learner for name, learner in panel.items() if name not in without}


def default_predictor(random_state: int = 0, *, numbers: bool = False) -> dict[str, NeighborModel]:
    """Return the model that predicts by itself, by its name.

    >>> default_predictor(numbers=True)
    {'NeighborRegressor': NeighborRegressor()}
    """
    model: NeighborModel = (NeighborRegressor if numbers else NeighborClassifier)(random_state=random_state)
    return {type(model).__name__: model}


def left_out(n_rows: int, n_features: int, *, numbers: bool = False) -> dict[str, str]:
    """Return why members of the panel are left out for a table of this size, by name.

    >>> left_out(12_000, 300)["GML"]
    '12,000 rows of 300 features, all pairs of which take long'
    """
    reasons: dict[str, str] = {}
    if n_features > 1000:
        many = f"{n_features:,} features, and above 1,000 its {n_features:,} × {n_features:,} matrix takes long"
        reasons = dict.fromkeys(_OF_MATRICES, many)
    elif n_features > 128 and n_rows**2 * n_features > 2e9:
        many = f"{n_rows:,} rows of {n_features:,} features, all pairs of which take long"
        reasons = dict.fromkeys(("GML", "GML weights"), many)
    names = members(n_rows, n_features, numbers=numbers)
    return {name: why for name, why in reasons.items() if name in names}


def members(n_rows: int, n_features: int, random_state: int = 0, *, numbers: bool = False) -> dict[str, Learner]:
    """Return all members of the panel by name, those that are left out for a table of this size included."""
    psd: Any = "every" if n_features <= 50 else "end"
    n_pairs: Literal["auto"] | int = "auto" if n_rows**2 <= 80_000 * n_features else 100_000
    n_components = None if n_features <= 32 else 32
    # Up to 1,000 features the other learners are as fast as PCA, and use the labels.
    panel: dict[str, Learner] = {} if n_features <= 1000 else {"PCA": PCA(n_components=min(64, n_rows // 2))}
    panel |= {
        "PA-I": PA("I", C="auto", psd=psd, record=False, random_state=random_state),
        "LDA": LDA(shrinkage="auto"),
        "RCA": RCA(),
        "KISSME": KISSME(),
        "XQDA": XQDA(),
        "DMLMJ": DMLMJ(),
        "GMML": GMML(),
        "NCA": NCA(n_components=n_components, n_samples=_NCA_ROWS, max_iter=50, random_state=random_state),
        "LMNN": LMNN(max_iter=30),
        "ITML": ITML(random_state=random_state),
        "GML": GML(n_pairs=n_pairs, random_state=random_state),
        "GML weights": GML(diagonal=True, n_pairs=n_pairs, random_state=random_state),
        "BoostMetric": BoostMetric(max_iter=50),
    }
    if numbers:
        n_samples = max(1_000, 40 * n_features)
        panel |= {"MLKR": MLKR(n_components=n_components, n_samples=n_samples, max_iter=20, random_state=random_state)}
    return {name: learner for name, learner in panel.items() if not numbers or name in _OF_NUMBERS}


def panel_for(data: Comparisons, random_state: int = 0) -> dict[str, Learner]:
    """Return the learners by name that learn from comparisons of this kind."""
    # Here: a comparison on a table need not import them.
    from mahala.batch.logistic_metric import LogisticMetric
    from mahala.batch.mmc import MMC
    from mahala.batch.psd_boost import PSDBoost
    from mahala.online.aroma import AROMA
    from mahala.online.oasis import OASIS
    from mahala.online.pola import POLA

    seed: dict[str, Any] = {"random_state": random_state}
    panel: dict[str, Learner] = {"LogisticMetric": LogisticMetric(**seed)}
    if isinstance(data, Triplets):
        panel |= {
            "LMNN": LMNN(**seed),
            "BoostMetric": BoostMetric(max_iter=100, **seed),
            "PSDBoost": PSDBoost(max_iter=50),
            "OASIS": OASIS(**seed),
            "AROMA": AROMA(**seed),
        }
    if isinstance(data, Pairs):
        panel |= {
            "PA-I": PA("I", C="auto", psd="end", record=False, **seed),
            "POLA": POLA(record=False, **seed),
            "ITML": ITML(**seed),
            "GML": GML(**seed),
            "MMC": MMC(**seed),
            "KISSME": KISSME(),
            "XQDA": XQDA(),
            "GMML": GMML(),
        }
    return panel


def named_learners(names: Iterable[str], panel: Mapping[str, Any]) -> dict[str, Any]:
    """Return members of a panel by their names in a leaderboard, in any case; "PA" is "PA-I"."""
    by_name = {name.lower(): name for name in panel} | ({"pa": "PA-I"} if "PA-I" in panel else {})
    chosen: dict[str, Any] = {}
    for name in names:
        if not isinstance(name, str) or name.lower() not in by_name:
            raise ValueError(f"learners must be learners by name, or names among {', '.join(panel)}, got {name!r}")
        chosen[by_name[name.lower()]] = panel[by_name[name.lower()]]
    return chosen


def check_learners(learners: Mapping[str, Any], *, numbers: bool) -> None:
    """Raise an error unless these are learners of a metric, or predictors, that suit the target, by free names."""
    if not isinstance(learners, Mapping) or not learners:
        raise ValueError(f"learners must be one or more learners by name, got {learners!r}")
    for name, learner in learners.items():
        if isinstance(learner, NeighborModel) and isinstance(learner, NeighborRegressor) != numbers:
            kind = "numbers" if numbers else "classes"
            raise ValueError(f"learners must predict {kind} here, but {name!r} is a {type(learner).__name__}")
        if not isinstance(name, str) or name in PLAIN:
            raise ValueError(f"learners must have names other than {', '.join(map(repr, PLAIN))}, got {name!r}")
        if not isinstance(learner, Learner | NeighborModel):
            raise TypeError(f"learners must be learners of mahala, got {learner!r} for {name!r}")
        if isinstance(learner, Learner) and learner._learns_numbers and not numbers:
            raise ValueError(f"learners must learn from classes, but {type(learner).__name__} learns target values")
