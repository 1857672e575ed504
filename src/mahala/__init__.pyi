# The public names, one per line, in the form "from MODULE import NAME as NAME". Type checkers and editors read this
# list, and so does `__init__.py`, which loads a name from its module on first use.

# Comparisons and metrics
from mahala.comparisons import Pairs as Pairs
from mahala.comparisons import Triplets as Triplets
from mahala.comparisons import Quadruplets as Quadruplets
from mahala.metric import Metric as Metric
from mahala.metric import MahalanobisMetric as MahalanobisMetric
from mahala.metric import BilinearMetric as BilinearMetric

# Models that predict
from mahala.neighbors.classifier import NeighborClassifier as NeighborClassifier
from mahala.neighbors.regressor import NeighborRegressor as NeighborRegressor

# Online learners
from mahala.online.passive_aggressive import PA as PA
from mahala.online.pola import POLA as POLA
from mahala.online.aroma import AROMA as AROMA
from mahala.online.oasis import OASIS as OASIS
from mahala.online.ogd import OGD as OGD
from mahala.online.sors import SORS as SORS
from mahala.online.sors import AdaSORS as AdaSORS
from mahala.online.lego import LEGO as LEGO

# Learners from all the data; others are in mahala.batch
from mahala.batch.nca import NCA as NCA
from mahala.batch.mlkr import MLKR as MLKR
from mahala.batch.gml import GML as GML
from mahala.batch.mmc import MMC as MMC
from mahala.batch.boost_metric import BoostMetric as BoostMetric
from mahala.batch.lmnn import LMNN as LMNN
from mahala.batch.logistic_metric import LogisticMetric as LogisticMetric
from mahala.batch.itml import ITML as ITML
from mahala.batch.rca import RCA as RCA
from mahala.batch.lda import LDA as LDA
from mahala.batch.pca import PCA as PCA

# Evaluation
from mahala.evaluation.auto_metric import AutoMetric as AutoMetric
from mahala.evaluation.compare import compare as compare
from mahala.evaluation.knn import knn_error as knn_error

# Answers
from mahala.answers.teacher import Teacher as Teacher

# Settings
from mahala.support.parameters import set_config as set_config
from mahala.support.parameters import get_config as get_config
from mahala.support.parameters import config_context as config_context

# Streams, files and progress
from mahala.saved_estimator import load as load
from mahala.support.model_files import ModelFileError as ModelFileError
from mahala.support.display import show_progress as show_progress
from mahala.warming import warm_up as warm_up

# Results and helpers
from mahala import answers as answers
from mahala import batch as batch
from mahala import data as data
from mahala import evaluation as evaluation
from mahala import neighbors as neighbors
from mahala import online as online
from mahala import stream as stream

__version__: str
__all__: list[str]
