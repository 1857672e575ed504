"""The base class of every learner: validation, transform, score."""

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, NamedTuple, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d

from mahala.comparisons import Comparisons, Pairs, Quadruplets, Triplets
from mahala.compiled.search.ranking import retrieval
from mahala.engine import engine_for, inputs
from mahala.engine.inputs import apply_to_rows, like
from mahala.engine.neighbors import leave_one_out_errors
from mahala.metric import MahalanobisMetric, scores_in_blocks
from mahala.saved_estimator import SavedEstimator, estimator_names, kind_named
from mahala.support.arrays import FloatArray, IndexArray, RowsLike, SignArray
from mahala.support.citations import references_of
from mahala.support.former_names import OF_LEARNERS, hint
from mahala.support.lazily import ClassNamePrefixFeaturesOutMixin, TransformerMixin, metrics
from mahala.support.parameters import check_seed
from mahala.support.tags import Labels, TagSets, n_classes, read_tags
from mahala.support.validation import check_features, class_codes, is_chunked, to_numpy

# Neighbours that vote where a learner is scored on labelled rows.
SCORE_NEIGHBORS = 3
P = ParamSpec("P")
T = TypeVar("T")


class LabelledRows(NamedTuple):
    """Rows, the class code 0..c-1 or the tags of each and, if they are not all one, their positive weights."""

    X: Any
    labels: Labels
    weights: FloatArray | None = None

    @property
    def codes(self) -> IndexArray:
        """The class codes, for what needs one class of each row; a ValueError with tags."""
        if isinstance(self.labels, TagSets):
            advice = "with tags use a learner from pairs or triplets, or Pairs.from_labels(X, y)"
            raise ValueError(f"y must hold one class for each row here, got sets of tags: {advice}")
        return self.labels


class Learner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SavedEstimator):
    """A scikit-learn estimator whose fitted state yields a `metric_`."""

    # The comparisons from which it learns, if not from rows with class labels only.
    _learns_from: ClassVar[type[Pairs] | type[Triplets] | type[Quadruplets] | None] = None
    # Whether rows must have class labels.
    _needs_labels: ClassVar[bool] = True
    # Whether labels are target values instead of classes.
    _learns_numbers: ClassVar[bool] = False
    # Parameters with which the promises of a learner are checked, for each form of its model.
    _test_settings: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)

    random_state: Any = None  # a parameter of those that draw
    _seed: int
    _rng: np.random.Generator

    @classmethod
    def _kinds(cls) -> dict[int, type[Comparisons]]:
        """Return the comparisons from which it can learn, by the number of rows in one."""
        return {} if cls._learns_from is None else {cls._learns_from._arity: cls._learns_from}

    @classmethod
    def _test_instances(cls) -> Iterator[Self]:
        """Yield a learner for each of the test settings, with a seed if it draws."""
        seed = {"random_state": 0} if "random_state" in cls._get_param_names() else {}
        for setting in cls._test_settings:
            yield cls(**seed, **setting)

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from comparisons, or from rows and their labels."""

    @property
    @abstractmethod
    def metric_(self) -> Any:
        """What has been learned so far, as an immutable Metric."""

    def _check_params(self) -> None:
        """Raise ValueError for parameters that do not go together."""

    @classmethod
    def cite(cls) -> str:
        """Return the paper of the algorithm as BibTeX: `print(learner.cite())`."""
        return "\n\n".join(reference.bibtex() for reference in references_of(cls))

    def transform(self, X: "RowsLike") -> Any:
        """Map rows into the space in which Euclidean distances are the learned ones.

        Under a bilinear similarity rows are mapped as queries: the similarity to an item is the inner product with the
        item as it is.

        Parameters
        ----------
        X : array, CSR matrix, data frame or tensor of shape (n_rows, n_features); a tensor gives a tensor, and rows of
            Dask a Dask array, which is not computed yet
        """
        self._check_fitted()
        if isinstance(X, Comparisons):
            raise TypeError(f"transform takes rows, got {type(X).__name__}; give their rows, which are its X")
        rows = inputs.check_features(self, X, reset=False)
        return like(apply_to_rows(self._embed, rows, self._n_features_out), X)

    def _embed(self, X: Any) -> Any:
        return self.metric_.embed(X)

    @property
    def _n_features_out(self) -> int:
        metric = self.metric_
        return int(metric.n_components if isinstance(metric, MahalanobisMetric) else metric.matrix.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        tags.input_tags.pairwise = getattr(self, "kernel", None) == "precomputed"
        return tags

    if not TYPE_CHECKING:  # a type checker would take it that any attribute is there

        def __getattr__(self, name: str) -> Any:
            if name in OF_LEARNERS:
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint(OF_LEARNERS, name)}")
            return object.__getattribute__(self, name)  # the error that brought us here

    def margins(self, X: "Comparisons | ArrayLike") -> FloatArray:
        """Return by how much each comparison is decided: positive for similar pairs and for triplets in their order.

        Parameters
        ----------
        X : Pairs, Triplets or Quadruplets, or an array of shape (n, 2 to 4, n_features) of those from which the learner
            learns
        """
        return self.metric_.margins(self._judged(X))  # type: ignore[no-any-return]

    def predict_comparisons(self, X: "Comparisons | ArrayLike") -> SignArray:
        """Return +1 for similar pairs and for triplets in their order, else -1.

        Pairs need a threshold, which learners from all the data get from `calibrate_threshold`.

        Parameters
        ----------
        X : as for `margins`
        """
        return self.metric_.predict_comparisons(self._judged(X))  # type: ignore[no-any-return]

    def _judged(self, X: Comparisons | RowsLike) -> Comparisons:
        """Return valid comparisons of any kind, given as such or as an array."""
        self._check_fitted()
        comparisons = X if isinstance(X, Comparisons) else self._from_array(X)
        self._check_features(comparisons, reset=False)
        return comparisons

    def score(self, X: Any, y: "ArrayLike | None" = None) -> float:
        """Return how well the metric judges: a number from 0 to 1, the higher the better.

        For triplets and quadruplets, the share in the right order. For pairs, the share on the right side of the
        threshold, or without a threshold the area under the ROC curve of their distances. For rows with class labels,
        the accuracy of leave-one-out 3-NN, in which neighbours at equal distances share votes, or under a bilinear
        similarity the mean average precision of each row as a query for the rows of its class.

        Parameters
        ----------
        X : Pairs, Triplets or Quadruplets, an array of the comparisons from which the learner learns, or rows
        y : labels of pairs that have none of their own, or class labels of rows
        """
        self._check_fitted()
        if isinstance(X, Comparisons) or (self._learns_from is not None and n_axes(X) == 3):
            comparisons = self._judged(X)
            return quality(self.metric_, comparisons.labelled(y) if isinstance(comparisons, Pairs) else comparisons)
        return quality(self.metric_, LabelledRows(*self._labelled_rows(X, y, reset=False)))

    def _reset_seed(self) -> None:
        seed = self.random_state if "random_state" in self.get_params(deep=False) else 0  # some draw nothing
        self._seed = int(check_seed(seed).randint(2**31))
        self._rng = np.random.default_rng(self._seed)

    def _validated(self, X: Any, y: Any, *, reset: bool) -> LabelledRows | Comparisons:
        """Validate what there is to learn from: comparisons, or rows with class labels.

        With `reset` the features are learned, else compared with those seen before.
        """
        if reset:
            vars(self).pop("preprocessor_", None)  # which belongs to the rows of an earlier fit
        kinds = list(self._kinds().values())
        if isinstance(X, Comparisons) and type(X) not in kinds:
            wanted = " or ".join([*(kind.__name__.lower() for kind in kinds), "labelled rows"])
            raise TypeError(f"{type(self).__name__} learns from {wanted}, got {type(X).__name__}")
        if isinstance(X, Comparisons) or (kinds and n_axes(X) == 3):
            comparisons = X if isinstance(X, Comparisons) else self._from_array(X)
            if isinstance(comparisons, Pairs):
                comparisons = comparisons.labelled(y)
            elif y is not None:
                raise ValueError(f"y must be None with {_kind(comparisons)}: their order says which items are nearer")
            if len(comparisons) == 0:
                name = _kind(comparisons)
                raise ValueError(f"{name} must not be empty: 0 {name} given, at least one is needed")
            self._check_features(comparisons, reset=reset)
            return comparisons
        if y is None and not self._needs_labels:
            X = self._rows(X, reset=reset)
            return LabelledRows(X, np.zeros(X.shape[0], dtype=np.intp))
        X, labels = self._labelled_rows(X, y, reset=reset)
        if self._needs_labels and n_classes(labels) == 1:
            raise ValueError(f"y has one class; {type(self).__name__} needs rows of at least two classes")
        return LabelledRows(X, labels)

    def _rows(self, X: RowsLike, *, reset: bool) -> Any:
        check = inputs.check_features if is_chunked(X) else check_features
        return check(self, X, reset=reset, at_least=2)

    def _labelled_rows(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Labels]:
        """Validate rows; return them with the codes 0..c-1 of their class labels, or with their tags."""
        if y is None:
            problem = "requires y to be passed, but the target y is None"
            raise ValueError(f"{type(self).__name__} {problem}; with rows X it holds class labels")
        X, y = self._rows(X, reset=reset), inputs.computed(y) if is_chunked(y) else to_numpy(y)
        if (tags := read_tags(y, X.shape[0])) is not None:
            inputs.refuse_chunks(X, "y must hold one class for each row")
            return X, tags
        # A list stays as it is, since an array of it would lose its NaN.
        y = column_or_1d(y) if getattr(y, "ndim", 1) == 2 else y
        codes = class_codes(y, X.shape[0])
        labels = np.asarray(y)
        if labels.dtype.kind == "f" and (labels % 1.0).any():
            example = labels[labels % 1.0 != 0.0][0]
            raise ValueError(f"y must hold class labels, such as integers or text, got continuous values: {example}")
        return X, codes

    def _from_array(self, X: RowsLike) -> Comparisons:
        """Return comparisons of a kind from which the learner learns, given as an array."""
        kinds = self._kinds()
        if not kinds:
            raise TypeError(f"Expected Pairs or Triplets, got {type(X).__name__}; use transform on rows")
        shape = np.shape(X)  # type: ignore[arg-type]  # of sparse rows, too
        if len(shape) != 3 or (shape[1] not in kinds and len(kinds) > 1):
            names = ", ".join(kind.__name__ for kind in kinds.values())
            shapes = " or ".join(f"(n, {arity}, n_features)" for arity in kinds)
            advice = "rows alone hold no comparisons. Reshape your data, or use transform on rows"
            raise ValueError(f"Expected {names} or a 3-D array of shape {shapes}, got shape {shape}; {advice}")
        kind: Any = kinds.get(shape[1], self._learns_from)
        return kind.from_array(X)  # type: ignore[no-any-return]

    def _check_features(self, comparisons: Comparisons, *, reset: bool) -> None:
        """Compare the features of comparisons with those seen before; with `reset` learn them."""
        names = comparisons.feature_names
        if reset:
            self.n_features_in_ = comparisons.n_features
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
            return
        kind, fitted = _kind(comparisons), f"{type(self).__name__} was fitted with"
        if comparisons.n_features != self.n_features_in_:
            given = f"{kind} have {comparisons.n_features} features"
            raise ValueError(f"{given}, but {fitted} {self.n_features_in_} features")
        if names is not None and list(names) != list(getattr(self, "feature_names_in_", names)):
            raise ValueError(f"{kind} have other feature names than {fitted}: {names}")

    def _about(self) -> dict[str, Any]:
        """Return the feature names, the origin and the preprocessor of a metric."""
        plain = (type(None), bool, int, float, str)
        params = {key: value if isinstance(value, plain) else repr(value) for key, value in self.get_params().items()}
        names, preprocessor = getattr(self, "feature_names_in_", None), vars(self).get("preprocessor_")
        origin = {"learner": type(self).__name__, "params": params}
        return {"feature_names": names, "origin": origin, "preprocessor": preprocessor}


class DistanceMixin:
    """What a learner of a Mahalanobis metric has: used beside Learner."""

    def get_mahalanobis_matrix(self: Any) -> FloatArray:
        """Return the learned matrix M."""
        return self.metric_.matrix  # type: ignore[no-any-return]

    def pair_distance(self: Any, pairs: "Pairs | ArrayLike", *, squared: bool = False) -> FloatArray:
        """Return the learned distance of the two rows of each pair.

        Parameters
        ----------
        pairs : Pairs, or an array of shape (n_pairs, 2, n_features)
        squared : whether to return squared distances
        """
        return self.metric_.pair_distance(self._pairs(pairs), squared=squared)  # type: ignore[no-any-return]

    def _pairs(self: Any, pairs: "Pairs | ArrayLike") -> Pairs:
        """Return valid pairs, given as such or as an array."""
        self._check_fitted()
        checked = pairs if isinstance(pairs, Pairs) else Pairs.from_array(pairs)
        self._check_features(checked, reset=False)
        return checked


def quality(metric: Any, data: LabelledRows | Comparisons) -> float:
    """Return how well a metric judges labelled rows or comparisons, as `Learner.score` describes."""
    if isinstance(data, Comparisons):
        margins = metric.margins(data)
        if not isinstance(data, Pairs):
            return float(np.mean(margins > 0.0))
        if metric.threshold is None:
            return float(metrics.roc_auc_score(data.similar, margins))
        return float(np.mean((margins >= 0.0) == data.similar))
    if isinstance(metric, MahalanobisMetric):
        with engine_for(data.X):
            return 1.0 - float(leave_one_out_errors(metric.transform(data.X), data.codes, SCORE_NEIGHBORS)[-1])
    average, _ = retrieval(scores_in_blocks(metric, data.X), data.codes, data.codes, exclude_self=True)
    if np.isnan(average).all():
        raise ValueError("y must hold a class of at least two rows, but each row has a class of its own")
    return float(np.nanmean(average))


def learner_kinds() -> list[type[Learner]]:
    """Return the classes of all learners that mahala exports."""
    kinds = map(kind_named, sorted(estimator_names()))
    return [kind for kind in kinds if kind is not None and issubclass(kind, Learner)]


def checked_options(fit: Callable[Concatenate[T, P], T]) -> Callable[Concatenate[T, P], T]:
    """Decorate `fit`: an argument that it does not take is refused by the name of the object's own class."""
    accepted = inspect.signature(fit).parameters

    @wraps(fit)
    def checked(self: T, *args: P.args, **options: P.kwargs) -> T:
        for name in options:
            if name not in accepted:
                advice = f"; {_takers(name)} take it" if name == "sample_weight" else ""
                raise TypeError(f"{type(self).__name__}.fit does not take {name}{advice}")
        return fit(self, *args, **options)

    return checked  # type: ignore[return-value]


def _takers(argument: str) -> str:
    """Return the names of the estimators whose `fit` takes an argument."""
    fits = {name: getattr(kind_named(name), "fit", None) for name in estimator_names()}
    names = [name for name, fit in fits.items() if fit and argument in inspect.signature(fit).parameters]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def n_axes(X: object) -> int:
    """Return the number of axes of an array, a frame or nested lists."""
    return int(X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim)


def _kind(comparisons: Comparisons) -> str:
    return type(comparisons).__name__.lower()
