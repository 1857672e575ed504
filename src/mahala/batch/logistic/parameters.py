"""The parameters of LogisticMetric, which its two ways to descend share."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal

from mahala.batch.logistic.prior_space import Prior
from mahala.batch.run import IterationParams
from mahala.support.parameters import Count, NonNegative, Positive, Seed, Where, between

Noise = Annotated[float, Where(between(0.0, 0.499), "a number of at least 0 and below 0.5")]


@dataclass(eq=False, repr=False)
class LogisticParams(IterationParams):
    """The fields of LogisticMetric, which describes them."""

    prior: Prior = None
    _: KW_ONLY
    lam: Literal["auto"] | Positive = "auto"
    n_components: Count | None = None
    noise: Noise = 0.0
    n_pairs: Literal["auto"] | Count = "auto"
    batch_size: Literal["auto"] | Count | None = None
    checkpoint: str | None = None
    max_iter: Count = 200
    tol: NonNegative = 1e-6
    random_state: Seed = None
