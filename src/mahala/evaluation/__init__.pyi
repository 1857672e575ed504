# The public names of this package, loaded on first use.
from mahala.evaluation.benchmarks import Benchmark as Benchmark
from mahala.evaluation.benchmarks import Holdout as Holdout
from mahala.evaluation.benchmarks import SignedRank as SignedRank
from mahala.evaluation.benchmarks import bayesian_signed_rank as bayesian_signed_rank
from mahala.evaluation.benchmarks import benchmark as benchmark
from mahala.evaluation.cross_validation.entries import Entry as Entry
from mahala.evaluation.cross_validation.fitting import refit as refit
from mahala.evaluation.cross_validation.leaderboard import Leaderboard as Leaderboard
from mahala.evaluation.cross_validation.panel import default_panel as default_panel
from mahala.evaluation.knn import KNNErrors as KNNErrors
from mahala.evaluation.knn import knn_error as knn_error
from mahala.evaluation.ranking import mean_average_precision as mean_average_precision
from mahala.evaluation.ranking import precision_at_k as precision_at_k
from mahala.evaluation.regrets import Regret as Regret
from mahala.evaluation.regrets import regret as regret
from mahala.judge import Verdict as Verdict

__all__: list[str]
