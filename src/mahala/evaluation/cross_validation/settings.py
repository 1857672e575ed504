"""How a comparison is made: the options of `mahala.compare`."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from mahala.data.preprocessing import TablePreprocessor
from mahala.data.scaling import Scaling
from mahala.evaluation.cross_validation.measures import Measure
from mahala.support.parameters import Count, Positive, Where, check_params, is_count

Folds = Annotated[int, Where(lambda value: is_count(value) and value >= 2, "at least 2")]


@dataclass(frozen=True, eq=False, kw_only=True)
class Settings:
    """The options of :func:`mahala.compare`, which describes them.

    Those of a :class:`Plan` have no "auto" where the plan has decided: numbers of folds and repeats that are possible,
    and what made the rows of a table.
    """

    folds: Folds = 5
    repeats: Literal["auto"] | Count = "auto"
    n_neighbors: Count | None = None
    metric: Literal["auto"] | Measure = "auto"
    scaling: Literal["auto"] | Scaling = "auto"
    groups: Any = None
    times: Any = None
    budget: Positive | None = None
    baselines: bool | Literal["distances"] = True
    random_state: int = 0
    preprocessor: TablePreprocessor | None = None

    def __post_init__(self) -> None:
        check_params(self)
