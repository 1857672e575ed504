"""metric-learn's interface over mahala's learners: `import mahala.compat.metric_learn as metric_learn`.

Classes, parameters, methods and messages are those of metric-learn 0.7.0; what is learned comes from mahala's learners,
which are in `learner_` after a fit.
"""

from mahala.compat.metric_learn.constraints import Constraints
from mahala.compat.metric_learn.points import LFDA, LMNN, MLKR, NCA, RCA, Covariance, RCA_Supervised
from mahala.compat.metric_learn.tuples import (
    ITML,
    LSML,
    MMC,
    SDML,
    ITML_Supervised,
    LSML_Supervised,
    MMC_Supervised,
    SDML_Supervised,
)

__version__ = "0.7.0"
__all__ = [
    "ITML",
    "LFDA",
    "LMNN",
    "MLKR",
    "MMC",
    "NCA",
    "RCA",
    "Constraints",
    "Covariance",
    "ITML_Supervised",
    "MMC_Supervised",
    "RCA_Supervised",
    "__version__",
]
