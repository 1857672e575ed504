# What a package that is built on mahala may import beside the public names, loaded on first use.

# Deciding between the plain metric and learned ones, on units that were not learned from
from mahala.judge import Kind as Kind  # the words of a verdict
from mahala.judge import judge as judge  # the verdict on the candidates' values
from mahala.evaluation.cross_validation.leaderboard import p_text as p_text  # a p-value as text

# Estimators that are written to model files, and the fields of their states
from mahala.saved_estimator import SavedEstimator as SavedEstimator  # the base class: save, load, to_bytes
from mahala.saved_estimator import learner_from_bytes as learner_from_bytes  # reads what `to_bytes` returned
from mahala.support.states import Stateful as Stateful  # base class of the parts of a state
from mahala.support.states import Array as Array  # a field that is an array of finite numbers
from mahala.support.states import Integer as Integer  # a field that is a whole number
from mahala.support.states import Number as Number  # a field that is a finite number
from mahala.support.states import Texts as Texts  # a field that is a list of texts
from mahala.support.states import Part as Part  # a field that is an object with fields of its own
from mahala.support.model_files import array_value as array_value  # an array of a model file, checked
from mahala.support.model_files import header_value as header_value  # a header entry of a model file, checked

# Types of parameters, and checks of them
from mahala.support.parameters import Count as Count  # an integer of at least 1
from mahala.support.parameters import WholeNumber as WholeNumber  # an integer of at least 0
from mahala.support.parameters import Positive as Positive  # a number above 0
from mahala.support.parameters import NonNegative as NonNegative  # a number of at least 0
from mahala.support.parameters import Share as Share  # a number from 0 to 1
from mahala.support.parameters import Fraction as Fraction  # a number between 0 and 1
from mahala.support.parameters import Seed as Seed  # a random_state
from mahala.support.parameters import ParameterError as ParameterError  # an error that names parameters
from mahala.support.parameters import check_params as check_params  # of a dataclass, by the types of its fields
from mahala.support.parameters import check_value as check_value  # of one value
from mahala.support.parameters import check_seed as check_seed  # returns a generator of random numbers

# Checks of rows and columns, and scores
from mahala.support.validation import check_rows as check_rows  # rows of numbers, dense or sparse
from mahala.support.validation import check_row as check_row  # one vector
from mahala.support.validation import check_indices as check_indices  # numbers of rows
from mahala.support.validation import check_counts as check_counts  # several integers of at least 1
from mahala.support.validation import as_floats as as_floats  # an array of numbers
from mahala.support.validation import is_sparse as is_sparse  # of SciPy
from mahala.support.arrays import check_room as check_room  # memory for a large array
from mahala.metric import scores_in_blocks as scores_in_blocks  # of queries and items under a metric
from mahala.metric.matrices import score_blocks as score_blocks  # inner products of queries and items
from mahala.metric.matrices import leading as leading  # the items with the largest scores

# Calls that are not interrupted halfway, nor run at the same time
from mahala.support.locking import one_at_a_time as one_at_a_time  # a method, under the lock of its object
from mahala.support.locking import all_or_nothing as all_or_nothing  # an object keeps its state if an error is raised
from mahala.support.signals import uninterrupted as uninterrupted  # a block that Ctrl-C waits for
from mahala.support.limits import one_blas_thread as one_blas_thread  # a block of products of small matrices

# Files
from mahala.data.columns.frames import text_file as text_file  # a file of text, also .gz

__all__: list[str]
