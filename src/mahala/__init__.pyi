# The public names, one per line, in the form "from MODULE import NAME as NAME". Type checkers and editors read this
# list, and so does `__init__.py`, which loads a name from its module on first use.

# Comparisons and metrics
from mahala.comparisons import Pairs as Pairs
from mahala.comparisons import Triplets as Triplets
from mahala.comparisons import Judgments as Judgments
from mahala.comparisons import Impressions as Impressions
from mahala.metric import Metric as Metric
from mahala.metric import MahalanobisMetric as MahalanobisMetric
from mahala.metric import BilinearMetric as BilinearMetric
from mahala.metric import Explanation as Explanation

# Online learners
from mahala.online.passive_aggressive import PA as PA
from mahala.online.pola import POLA as POLA
from mahala.online.aroma import AROMA as AROMA
from mahala.online.oasis import OASIS as OASIS
from mahala.online.ogd import OGD as OGD
from mahala.online.sors import SORS as SORS
from mahala.online.sors import AdaSORS as AdaSORS
from mahala.online.lego import LEGO as LEGO
from mahala.online.rdml import RDML as RDML
from mahala.online.history import History as History

# Learners from all the data
from mahala.batch.nca import NCA as NCA
from mahala.batch.mlkr import MLKR as MLKR
from mahala.batch.gml import GML as GML
from mahala.batch.mmc import MMC as MMC
from mahala.batch.boost_metric import BoostMetric as BoostMetric
from mahala.batch.psd_boost import PSDBoost as PSDBoost
from mahala.batch.lmnn import LMNN as LMNN
from mahala.batch.itml import ITML as ITML
from mahala.batch.rca import RCA as RCA
from mahala.batch.lda import LDA as LDA
from mahala.batch.pca import PCA as PCA
from mahala.batch.relief import Relief as Relief
from mahala.batch.simba import Simba as Simba
from mahala.batch.mdm import MDM as MDM
from mahala.batch.run import Iteration as Iteration

# Evaluation
from mahala.evaluation.compare import compare as compare
from mahala.evaluation.fitting import refit as refit
from mahala.evaluation.leaderboard import Leaderboard as Leaderboard
from mahala.evaluation.plan import default_panel as default_panel
from mahala.evaluation.knn import knn_error as knn_error
from mahala.evaluation.knn import KNNErrors as KNNErrors
from mahala.evaluation.ranking import mean_average_precision as mean_average_precision
from mahala.evaluation.ranking import precision_at_k as precision_at_k
from mahala.evaluation.ranking_quality import evaluate_ranking as evaluate_ranking
from mahala.evaluation.ranking_quality import RankingQuality as RankingQuality
from mahala.evaluation.statistics import friedman_holm as friedman_holm
from mahala.evaluation.statistics import FriedmanResult as FriedmanResult
from mahala.evaluation.statistics import PairedGain as PairedGain

# Feedback
from mahala.feedback.query_adapter import QueryAdapter as QueryAdapter
from mahala.feedback.gains import Gain as Gain
from mahala.feedback.gains import CrossValidation as CrossValidation
from mahala.feedback.wrappers import adapt_queries as adapt_queries
from mahala.feedback.click_models import ClickModel as ClickModel
from mahala.feedback.click_models import click_model as click_model
from mahala.feedback.simulation import Simulation as Simulation
from mahala.feedback.simulation import simulate_clicks as simulate_clicks
from mahala.serve.client import Client as Client

# Settings
from mahala.support.parameters import set_config as set_config
from mahala.support.parameters import get_config as get_config
from mahala.support.parameters import config_context as config_context

# Streams, files and progress
from mahala.stream.stream import Stream as Stream
from mahala.data.tables import read_table as read_table
from mahala.data.preprocessing import TablePreprocessor as TablePreprocessor
from mahala.data.search_files import read_qrels as read_qrels
from mahala.data.search_files import read_vectors as read_vectors
from mahala.saved_estimator import load as load
from mahala.support.model_files import ModelFileError as ModelFileError
from mahala.support.display import show_progress as show_progress
from mahala.warming import warm_up as warm_up

__version__: str
__all__: list[str]
