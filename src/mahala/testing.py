"""What every learner promises, in checks that need no test framework.

`check_learner` is to learners what scikit-learn's `check_estimator` is to estimators: a package with a learner of its
own calls it in a test.
"""

import copy
import json
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mahala
from mahala.batch.batch_learner import BatchLearner
from mahala.comparisons import Comparisons, Pairs, Triplets
from mahala.learner import Learner
from mahala.metric import BilinearMetric
from mahala.online.online_learner import OnlineLearner
from mahala.saved_estimator import kind_named
from mahala.support.arrays import Array, FloatArray, IndexArray, IntArray, Rows, RowsLike, SignArray
from mahala.support.parameters import choices
from mahala.support.validation import is_sparse

L = TypeVar("L", bound=Learner)


def check_learner(learner: Learner | type[Learner]) -> None:
    """Raise AssertionError unless a learner does what every learner of mahala does.

    Each check fits copies of the learner to 90 rows of three classes in five features, or to comparisons of them. Run
    scikit-learn's `check_estimator`, too.

    Parameters
    ----------
    learner : class of learners, which is checked with each of its `_test_settings`, or a learner that is not fitted,
        with the parameters to check it with

    Examples
    --------
    >>> check_learner(mahala.RCA)
    """
    for instance in learner._test_instances() if isinstance(learner, type) else [learner]:
        for name, check in learner_checks(instance):
            try:
                check()
            except Exception as error:
                raise AssertionError(f"{instance!r} fails the check {name!r}: {error}") from error


def learner_checks(learner: Learner) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name of each check that concerns a learner, and a function that runs it."""
    case = Case(learner)
    checks = [*OF_BASE_CLASSES, *OF_ALGORITHMS]
    if isinstance(learner, BatchLearner):
        checks += OF_BATCH_LEARNERS
        checks += OF_ITERATIONS if "callback" in learner.get_params() else ()
    if isinstance(learner, OnlineLearner):
        checks += OF_STREAMS if case.is_stream else ()
    for check in checks:
        yield check.__name__.replace("_", " "), partial(check, case)


@dataclass
class Case:
    """A learner with the data that it is checked on."""

    learner: Any

    @cached_property
    def X(self) -> FloatArray:
        """Three overlapping classes in five features, of which two are noise."""
        rows: FloatArray = np.random.default_rng(8).normal(size=(90, 5))
        rows[:, :3] += 2.0 * np.eye(3)[self.y]
        return rows

    @cached_property
    def y(self) -> IndexArray:
        """The classes of the rows."""
        return np.random.default_rng(7).integers(0, 3, size=90)

    @cached_property
    def comparisons(self) -> Comparisons:
        """Comparisons of the rows, of the kind that the learner learns from."""
        return draw(self.learner, self.X, self.y)

    @cached_property
    def _fitted(self) -> Any:
        return self.new().fit(self.X, self.y)

    def fitted(self) -> Any:
        """Return a copy of the learner that is fitted to the rows."""
        return copy.deepcopy(self._fitted)

    def new(self, **params: object) -> Any:
        """Return a copy that is not fitted, with other parameters."""
        return clone(self.learner).set_params(**params)

    @property
    def is_stream(self) -> bool:
        """Whether the learner takes more comparisons after the first ones."""
        try:
            self.new().partial_fit(self.comparisons[:2])
        except ValueError:
            return False
        return True


Check = Callable[[Case], None]


# Checks of what the base classes do


def rows_that_overflow_are_refused(case: Case) -> None:
    """A ValueError says that numbers are too large, or not finite in sparse rows; scikit-learn tries others."""
    for wrong in (np.nan, 1e150):
        rows = np.where(np.arange(450).reshape(90, 5) == 16, wrong, case.X)
        for X in (rows, sp.csr_array(rows)):
            refuses(partial(case.new().fit, X, case.y), f"a number of {wrong}")


def labels_that_cannot_be_learned_from_are_refused(case: Case) -> None:
    """A ValueError says what is wrong with labels; a learner without labels needs none."""
    X, y = case.X, case.y
    if not case.learner._needs_labels:
        require(bool(np.isfinite(case.new().fit(X).transform(X)).all()), "fit without labels gives NaN or infinity")
        return
    refuses(lambda: case.new().fit(X), "no labels")
    refuses(lambda: case.new().fit(X, y[:-1]), "a label too few")
    refuses(lambda: case.new().fit(X, np.where(np.arange(90) == 3, np.nan, y)), "a label of NaN")
    if not case.learner._learns_numbers:
        refuses(lambda: case.new().fit(X, np.zeros(90)), "one class")
        refuses(lambda: case.new().fit(X, X[:, 0]), "labels that are not classes")


def a_refused_fit_changes_nothing(case: Case) -> None:
    """A learner is as it was before a fit that raised an error, fitted or not."""
    new, fitted = case.new(), case.fitted()
    before = fitted.transform(case.X)
    learns = (getattr(each, name, each.fit) for each in (new, fitted) for name in ("fit", "partial_fit"))
    for learn in learns:
        refuses(partial(learn, case.X[:, :3], case.y[:-1]), "a label too few")
    require(not hasattr(new, "n_features_in_"), "a refused fit leaves n_features_in_")
    same(fitted.transform(case.X), before, "transform after a refused fit")
    refuses(lambda: new.metric_, "metric_ before fit", NotFittedError)
    refuses(lambda: new.save("nowhere"), "save before fit", NotFittedError)
    same(fitted.fit(case.X, case.y).transform(case.X), before, "transform after a second fit")


def rows_of_every_form_are_taken(case: Case) -> None:
    """Lists, arrays in any order and sparse rows give one model, and float32 a similar one."""
    X = np.round(8.0 * case.X) / 8.0  # which float32 holds exactly
    expected, comparisons = case.new().fit(X, case.y), draw(case.learner, X, case.y)
    for name, rows in {"a list": X.tolist(), "Fortran's order": np.asfortranarray(X), "CSR": sp.csr_array(X)}.items():
        models_agree(case.new().fit(rows, case.y), expected, comparisons, name)
    single = case.new().fit(X.astype(np.float32), case.y)
    near(single.score(X, case.y), expected.score(X, case.y), 0.06, "score of a fit to float32")


def copies_are_models_of_their_own(case: Case) -> None:
    """`pickle` and `deepcopy` give the same model, and a new fit of it leaves the first as it was."""
    fitted = case.fitted()
    for copied in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        same_model(copied, fitted, "the metric of a copy")
        copied.fit(case.X[:, :3], case.y)
        same_model(fitted, case._fitted, "the metric after a copy was fitted")


def a_metric_names_its_learner(case: Case) -> None:
    """`metric_.origin` has the name and the parameters of the learner."""
    origin, plain = case.fitted().metric_.origin, (type(None), bool, int, float, str)
    require(origin["learner"] == type(case.learner).__name__, "metric_.origin has the name of another learner")
    for name, value in case.learner.get_params().items():
        expected = value if isinstance(value, plain) else repr(value)
        require(origin["params"][name] == expected, f"metric_.origin has another {name}")


# Checks of algorithms


def a_fit_can_be_repeated(case: Case) -> None:
    """The same rows and seed give the same model, whatever the classes are called; labels may be a column."""
    y = case.y if case.learner._learns_numbers else np.array([["ash"], ["beech"], ["oak"]])[case.y]
    same_model(case.new().fit(case.X, y), case.fitted(), "the metric of a second fit, to labels of text")
    if "random_state" in case.learner.get_params():
        one, other = (case.new(random_state=np.random.default_rng(3)).fit(case.X, case.y) for _ in range(2))
        same_model(one, other, "the metrics of two equal generators")
    if isinstance(case.learner, OnlineLearner):
        other = case.new(random_state=1).fit(case.X, case.y)
        refuses(lambda: same_model(other, case.fitted()), "a fit with another seed", AssertionError)


def a_metric_judges_as_its_matrix_says(case: Case) -> None:
    """`transform`, `margins`, `predict_comparisons` and `score` follow from the matrix, which is finite."""
    fitted = case.fitted()
    metric, Z = fitted.metric_, dense(fitted.transform(case.X))
    require(bool(np.isfinite(dense(metric.matrix)).all()), "the matrix has NaN or infinity")
    require(fitted.get_feature_names_out().shape == (Z.shape[1],), "get_feature_names_out has another length")
    if isinstance(metric, BilinearMetric):
        expected, got = case.X @ dense(metric.matrix), Z
    else:
        require(metric.is_psd, "the matrix has a negative eigenvalue")
        expected, got = metric.pairwise(case.X), np.linalg.norm(Z[:, np.newaxis] - Z, axis=2)
    near(got, expected, 1e-6 * np.abs(expected).max(initial=1e-300), "transform")
    triplets = draw(case.learner, case.X, case.y)
    if not isinstance(triplets, Triplets):
        return
    margins = fitted.margins(triplets)
    same(fitted.predict_comparisons(triplets), np.where(margins > 0.0, 1, -1), "predict_comparisons")
    near(fitted.score(triplets), float(np.mean(margins > 0.0)), 1e-12, "score")


def a_file_holds_the_whole_learner(case: Case) -> None:
    """What `save` wrote is read as the same learner, which `save` writes as the same file."""
    if kind_named(type(case.learner).__name__) is not type(case.learner):
        return  # files hold the learners that mahala exports
    fitted = case.fitted()
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "first.safetensors"), Path(folder, "second.safetensors")
        fitted.save(first)
        loaded = mahala.load(first)
        loaded.save(second)
        require(first.read_bytes() == second.read_bytes(), "a file that is read and written again is another one")
    require(loaded.get_params() == fitted.get_params(), "the parameters in a file are others")
    same_model(loaded, fitted, "the metric in a file")
    same(dense(loaded.transform(case.X)), dense(fitted.transform(case.X)), "transform of a loaded learner")


def every_choice_of_a_parameter_is_learned_with(case: Case) -> None:
    """Each word that a parameter may be gives a finite metric, or a ValueError that names the parameter.

    So a word that no test setting has is checked, too.
    """
    for name, words in choices(type(case.learner)).items():
        for word in words:
            learner = case.new(**{name: word})
            try:
                metric = learner.fit(case.X, case.y).metric_
            except ValueError as error:
                require(name in str(error), f"{name}={word!r} is refused by an error that does not name it: {error}")
                continue
            except Exception as error:
                raise AssertionError(f"{name}={word!r} cannot be learned with: {error!r}") from error
            require(bool(np.isfinite(dense(metric.matrix)).all()), f"{name}={word!r} gives NaN or infinity")


# Checks of learners from all the data


def a_fit_says_how_it_ended(case: Case) -> None:
    """`objectives_`, `objective_`, `n_iter_` and `stop_reason_` belong together."""
    fitted = case.fitted()
    require(len(fitted.objectives_) == fitted.n_iter_ >= 1, "objectives_ has not n_iter_ values")
    require(fitted.objective_ == fitted.objectives_[-1], "objective_ is not the last of objectives_")
    require(bool(fitted.stop_reason_), "stop_reason_ is empty")


def an_origin_far_away_changes_little(case: Case) -> None:
    """Distances do not change where all rows move alike; what rounding does then does not matter."""
    far = case.new().fit(case.X + 1e6, case.y)
    near(far.score(case.X, case.y), case.fitted().score(case.X, case.y), 0.06, "score of a fit far from the origin")


def comparisons_are_learned_from(case: Case) -> None:
    """A learner from comparisons takes them as objects and as arrays; others are refused."""
    kinds = case.learner._kinds().values()
    others: list[Any] = [kind for kind in (Pairs, Triplets) if kind not in kinds]
    for kind in others:
        wrong = kind.from_labels(case.X, case.y, 20, random_state=0)
        refuses(partial(case.new().fit, wrong), f"{kind.__name__}, of which it does not learn", TypeError)
    if case.learner._learns_from is None:
        return
    array, y = as_array(case.comparisons)
    for fitted in (case.new().fit(case.comparisons), case.new().fit(array, y)):
        require(fitted.score(case.comparisons) > 0.6, "a fit to comparisons does not predict them")
    refuses(lambda: case.new().fit(case.comparisons[:0]), "no comparisons")


# Checks of learners with iterations


def a_callback_sees_every_iteration(case: Case) -> None:
    """It gets the iterations in their order, changes nothing, and may end the fit."""
    seen: list[Any] = []
    fitted = case.new(callback=seen.append).fit(case.X, case.y)
    require([each.number for each in seen] == list(range(1, len(seen) + 1)), "iterations are not numbered from 1")
    require(fitted.n_iter_ <= len(seen), "there are more iterations than a callback has seen")
    same([each.objective for each in seen[: fitted.n_iter_]], fitted.objectives_, "objectives that a callback has seen")
    same(seen[fitted.n_iter_ - 1].metric.matrix, fitted.metric_.matrix, "the metric that a callback has seen")
    same_model(fitted, case.fitted(), "the metric of a fit with a callback")
    stopped = case.new(callback=lambda iteration: iteration.number == 1).fit(case.X, case.y)
    require((stopped.stop_reason_, stopped.n_iter_) == ("callback", 1), "a callback that returns True does not stop it")


def an_error_in_a_callback_changes_nothing(case: Case) -> None:
    """A fit that ends with an error leaves the learner as it was."""

    def fail(iteration: object) -> None:
        raise ZeroDivisionError

    new, fitted = case.new(callback=fail), case.fitted().set_params(callback=fail)
    refuses(lambda: new.fit(case.X, case.y), "a callback that fails", ZeroDivisionError)
    require(not hasattr(new, "n_features_in_"), "a fit that failed leaves n_features_in_")
    refuses(lambda: fitted.fit(case.X[:, :3], case.y), "a callback that fails", ZeroDivisionError)
    same_model(fitted, case._fitted, "the metric after a fit that failed")


# Checks of learners from streams


def a_stream_gives_one_model(case: Case) -> None:
    """`fit`, `partial_fit` of chunks and `learn_one` of each comparison give one model and one record."""
    comparisons = case.comparisons[:80]
    whole = as_stream(case.learner, comparisons).fit(comparisons)
    single, chunks = as_stream(case.learner, comparisons), as_stream(case.learner, comparisons)
    predicted = feed_one_by_one(single, comparisons)
    for part in np.array_split(np.arange(80), [1, 2, 20, 21, 60]):
        chunks.partial_fit(comparisons[part])
    same(predicted, whole.history_.predicted, "what learn_one returns")
    rough = tolerance(case.learner)
    for name, other in {"one by one": single, "in chunks": chunks}.items():
        models_agree(other, whole, comparisons, f"comparisons {name}")
        for number in ("p", "tau"):
            got, expected = getattr(other.history_, number), getattr(whole.history_, number)
            near(got, expected, rough * (1.0 + 1e3 * np.abs(expected)), f"history_.{number} of comparisons {name}")
        counts = other.n_steps_, other.n_updates_, other.n_mistakes_
        require(counts == (80, whole.n_updates_, whole.n_mistakes_), f"counts of comparisons {name} are others")


def a_saved_stream_goes_on(case: Case) -> None:
    """A learner that is loaded from a file or a pickle continues exactly like the original, random draws included."""
    X, y, comparisons = case.X, case.y, case.comparisons
    stopped = case.new().partial_fit(comparisons[:70])
    copies = [pickle.loads(pickle.dumps(stopped)), as_read_from_a_file(stopped), as_memory_map(stopped)]
    copies.append(copy.deepcopy(stopped))
    if kind_named(type(stopped).__name__) is type(stopped):
        copies.append(mahala.saved_estimator.learner_from_bytes(stopped.to_bytes()))
    for each in (stopped, *copies):
        each.partial_fit(comparisons[70:]).partial_fit(X, y)
    for resumed in copies:
        same_model(resumed, stopped, "the metric of a stream that was stopped")
        same_record(resumed, stopped)


def a_refused_step_changes_nothing(case: Case) -> None:
    """A bad comparison raises a ValueError and changes nothing, so that the stream can continue."""
    fitted, twin = (case.new().partial_fit(case.comparisons) for _ in range(2))
    arguments = next(single_comparisons(case.comparisons))
    n_rows = as_array(case.comparisons)[0].shape[1]
    rows: dict[str, Any] = {
        "a row of other features": np.zeros(4),
        "a row with NaN": np.full(5, np.nan),
        "a row with infinity": np.full(5, np.inf),
        "a row of numbers of 1e150": np.full(5, 1e150),
        "two rows": np.zeros((2, 5)),
        "a row of text": ["a", "b", "c", "d", "e"],
        "None": None,
    }
    for name, wrong in rows.items():
        for place in range(n_rows):
            refuses(partial(fitted.learn_one, *arguments[:place], wrong, *arguments[place + 1 :]), name)
    refuses(lambda: fitted.partial_fit(case.X[:, :4], case.y), "rows of other features")
    refuses(lambda: fitted.partial_fit(case.X, np.zeros(90)), "labels of one class")
    refuses(lambda: fitted.predict_comparisons(case.X), "rows to predict_comparisons")
    for each in (fitted, twin):  # draws go on alike, too
        each.partial_fit(case.X, case.y)
    same_model(fitted, twin, "the metric after refused steps")
    same_record(fitted, twin)


OF_BASE_CLASSES: Sequence[Check] = (
    rows_that_overflow_are_refused,
    labels_that_cannot_be_learned_from_are_refused,
    a_refused_fit_changes_nothing,
    rows_of_every_form_are_taken,
    copies_are_models_of_their_own,
    a_metric_names_its_learner,
)
OF_ALGORITHMS: Sequence[Check] = (
    a_fit_can_be_repeated,
    a_metric_judges_as_its_matrix_says,
    every_choice_of_a_parameter_is_learned_with,
    a_file_holds_the_whole_learner,
)
OF_BATCH_LEARNERS: Sequence[Check] = (
    a_fit_says_how_it_ended,
    an_origin_far_away_changes_little,
    comparisons_are_learned_from,
)
OF_ITERATIONS: Sequence[Check] = (a_callback_sees_every_iteration, an_error_in_a_callback_changes_nothing)
OF_STREAMS: Sequence[Check] = (a_stream_gives_one_model, a_saved_stream_goes_on, a_refused_step_changes_nothing)


# How to compare learners, and to talk to each


def require(condition: bool, problem: str) -> None:
    """Raise an AssertionError with a sentence unless a condition holds."""
    if not condition:
        raise AssertionError(problem)


def refuses(call: Callable[[], object], problem: str, error: type[Exception] = ValueError) -> None:
    """Require that a call raises an error."""
    try:
        call()
    except error:
        return
    raise AssertionError(f"{problem} should raise {error.__name__}")


def same(got: ArrayLike, expected: ArrayLike, what: str) -> None:
    """Require that two arrays are equal, to the last bit."""
    near(got, expected, 0.0, what)


def near(got: ArrayLike, expected: ArrayLike, most: float | FloatArray, what: str) -> None:
    """Require that two arrays differ by at most so much."""
    got, expected = np.asarray(got), np.asarray(expected)
    require(got.shape == expected.shape, f"{what} has the shape {got.shape}, not {expected.shape}")
    differences = np.abs(np.subtract(got, expected, dtype=np.float64))
    require(bool((differences <= most).all()), f"{what} differs by up to {differences.max(initial=0.0):.2g}")


def same_model(one: Learner, other: Learner, what: str = "the metric") -> None:
    """Require that the metrics of two learners are equal to the last bit."""
    a, b = one.metric_, other.metric_
    require(is_sparse(a.matrix) == is_sparse(b.matrix), f"{what} is sparse in one of them only")
    same(dense(a.matrix), dense(b.matrix), what)
    require(getattr(a, "threshold", None) == getattr(b, "threshold", None), f"{what} has another threshold")


def same_record(one: OnlineLearner, other: OnlineLearner) -> None:
    """Require that two streams have recorded the same."""
    for name in ("y", "predicted", "p", "tau"):
        same(getattr(one.history_, name), getattr(other.history_, name), f"history_.{name}")
    for name in ("n_steps_", "n_updates_", "n_mistakes_", "loss_", "squared_loss_"):
        require(getattr(one, name) == getattr(other, name), f"{name} differs")


def models_agree(
    one: Learner, other: Learner, comparisons: Comparisons, what: str = "the model", rtol: float | None = None
) -> None:
    """Require the same metric and threshold; with a kernel the same distances, since rounding may change its basis."""
    rtol = tolerance(one) if rtol is None else rtol
    a, b = one.metric_, other.metric_
    if getattr(one, "kernel", None) is None:
        expected = dense(b.matrix)
        near(dense(a.matrix), expected, rtol * np.abs(expected).max(), f"the matrix of {what}")
    left, right = as_array(comparisons)[0][:, :2].swapaxes(0, 1)
    if isinstance(a, BilinearMetric):
        got, expected = (metric.similarity(left, right) for metric in (a, b))
    else:
        require((a.threshold is None) == (b.threshold is None), f"{what} has a threshold in one of them only")
        if b.threshold is not None:
            near(a.threshold, b.threshold, rtol * abs(b.threshold), f"the threshold of {what}")
        got, expected = (metric.distance(left, right, squared=True) for metric in (a, b))
    near(got, expected, 10 * rtol * np.abs(expected).max(), f"the distances or similarities of {what}")


def as_read_from_a_file(learner: L) -> L:
    """Return a copy of a learner with what a model file holds of its state; files hold those that mahala exports."""
    header, arrays = learner._get_state()
    copied: L = clone(learner)
    copied.n_features_in_ = learner.n_features_in_
    copied._set_state(json.loads(json.dumps(header)), {name: array.copy() for name, array in arrays.items()})
    return copied


def as_memory_map(learner: Learner) -> Any:
    """Return a copy of a learner whose arrays are in a file and read-only."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        joblib.dump(learner, Path(folder, "learner"))
        return joblib.load(Path(folder, "learner"), mmap_mode="r")


def tolerance(learner: Learner) -> float:
    """Return how near two ways to the same model come, relative: as near as the numbers that it is held in."""
    return 1e-4 if getattr(learner, "dtype", None) == "float32" else 1e-10


def dense(matrix: Rows) -> Array:
    """Return a matrix as an array."""
    return matrix.toarray() if is_sparse(matrix) else np.asarray(matrix)


def draw(learner: Learner, X: RowsLike, y: ArrayLike, n: int = 150, random_state: int = 1) -> Comparisons:
    """Return comparisons of the kind that a learner learns from, or triplets if it learns from rows only."""
    return (learner._learns_from or Triplets).from_labels(X, y, n, random_state=random_state)


def as_array(comparisons: Comparisons) -> tuple[FloatArray, SignArray | None]:
    """Return comparisons as one array, and the y that goes with it."""
    names = ("left", "right") if isinstance(comparisons, Pairs) else type(comparisons)._names
    array = np.stack([comparisons.X[getattr(comparisons, name)] for name in names], axis=1)
    return array, getattr(comparisons, "y", None)


def single_comparisons(comparisons: Comparisons) -> Iterator[tuple[object, ...]]:
    """Yield the arguments of `learn_one` for each comparison."""
    array, y = as_array(comparisons)
    for number, rows in enumerate(array):
        yield (*rows, y[number]) if y is not None else tuple(rows)


def feed_one_by_one(learner: Any, comparisons: Comparisons) -> IntArray:
    """Learn from one comparison after the other; return what was predicted."""
    return np.where([learner.learn_one(*arguments) for arguments in single_comparisons(comparisons)], 1, -1)


def as_stream(learner: OnlineLearner, comparisons: Comparisons) -> Any:
    """Return a copy of a learner that takes comparisons as they come.

    What the first chunk decides, as targets of distances, is what all the comparisons decide.
    """
    estimated = [name for name in learner._from_first_chunk if getattr(learner, name) == "auto"]
    whole: Any = clone(learner).fit(comparisons) if estimated else learner
    return clone(learner).set_params(**{name: getattr(whole, f"{name}_") for name in estimated})
