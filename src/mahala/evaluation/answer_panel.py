"""Learners from comparisons by name, and comparisons with their labels or ratings."""

from collections.abc import Iterable, Mapping
from typing import Any

from mahala.batch.boost_metric import BoostMetric
from mahala.batch.gml import GML
from mahala.batch.itml import ITML
from mahala.batch.lmnn import LMNN
from mahala.batch.logistic_metric import LogisticMetric
from mahala.batch.mmc import MMC
from mahala.batch.psd_boost import PSDBoost
from mahala.comparisons import Comparisons, Pairs, Quadruplets, Triplets
from mahala.comparisons.quadruplets import are_labels
from mahala.learner import Learner
from mahala.online.aroma import AROMA
from mahala.online.oasis import OASIS
from mahala.online.passive_aggressive import PA
from mahala.online.pola import POLA


def panel_for(data: Comparisons, random_state: int = 0) -> dict[str, Learner]:
    """Return the learners by name that learn from comparisons of this kind."""
    seed: dict[str, Any] = {"random_state": random_state}
    panel: dict[str, Learner] = {"LogisticMetric": LogisticMetric(**seed)}
    if isinstance(data, Triplets):
        return panel | {
            "LMNN": LMNN(**seed),
            "BoostMetric": BoostMetric(max_iter=100, **seed),
            "PSDBoost": PSDBoost(max_iter=50),
            "OASIS": OASIS(**seed),
            "AROMA": AROMA(**seed),
        }
    if isinstance(data, Pairs):
        return panel | {
            "PA-I": PA("I", C="auto", psd="end", record=False, **seed),
            "POLA": POLA(record=False, **seed),
            "ITML": ITML(**seed),
            "GML": GML(**seed),
            "MMC": MMC(**seed),
        }
    return panel


def chosen_learners(
    data: Comparisons, learners: Mapping[str, Learner] | Iterable[str], random_state: int = 0
) -> dict[str, Learner]:
    """Return learners by name, of which members of the panel may be given by their names."""
    if isinstance(learners, Mapping):
        return dict(learners)
    panel = panel_for(data, random_state)
    unknown = [name for name in learners if name not in panel]
    if unknown:
        kind = kind_of(data)
        raise ValueError(f"learners must be of those that learn from {kind}, {', '.join(panel)}; got {unknown[0]!r}")
    return {name: panel[name] for name in learners}


def answers_of(data: Comparisons, y: Any, random_state: int = 0) -> Comparisons:
    """Return comparisons with their labels; pairs with ratings become quadruplets."""
    if y is None or not isinstance(data, Pairs):
        if y is not None:
            raise ValueError(f"y must be None with {kind_of(data)}: their order is the answer")
        return data.labelled(None) if isinstance(data, Pairs) else data
    if are_labels(y):
        return data.labelled(y)
    return Quadruplets.from_ratings(data.X, data.left, data.right, y, random_state=random_state)


def learns_distance(learner: Learner) -> bool:
    """Whether it learns a distance, not a bilinear similarity."""
    return hasattr(learner, "pair_distance")


def kind_of(data: Comparisons) -> str:
    """Return "pairs", "triplets" or "quadruplets"."""
    return type(data).__name__.lower()
