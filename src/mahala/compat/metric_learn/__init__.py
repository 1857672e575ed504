"""metric-learn's interface over mahala's learners: `import mahala.compat.metric_learn as metric_learn`.

Classes, parameters, methods and messages are those of metric-learn 0.7.0. What is learned comes from mahala's learners,
and `learner_` is the one that was fitted.
"""

from mahala.compat.metric_learn.constraints import Constraints
from mahala.compat.metric_learn.points import LFDA, LMNN, MLKR, NCA, RCA, Covariance, RCA_Supervised
from mahala.compat.metric_learn.scml import SCML, SCML_Supervised
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
__all__ = ["ITML", "LFDA", "LMNN", "LSML", "MLKR", "MMC", "NCA", "RCA", "SCML", "SDML", "Constraints", "Covariance",
           "ITML_Supervised", "LSML_Supervised", "MMC_Supervised", "RCA_Supervised", "SCML_Supervised",
           "SDML_Supervised", "__version__"]  # fmt: skip
