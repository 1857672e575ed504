"""Looking into a fitted model: the rows behind a prediction, strange rows, doubtful labels, weights of columns."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mahala.compiled.sums.vote_sums import leading_votes
from mahala.data.columns.values import is_frame
from mahala.engine import engine_for
from mahala.metric.plots import distance_shares, leading_plane, row_differences
from mahala.neighbors.model import NeighborModel
from mahala.neighbors.reasons import Reasons, reasons_of
from mahala.neighbors.strangeness import strangeness
from mahala.support import plots
from mahala.support.arrays import Array, BoolArray, FloatArray, RowsLike
from mahala.support.parameters import Count, check_value
from mahala.support.validation import is_sparse

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Suspects(NamedTuple):
    """Training rows, their labels, what the others say, and by how much these are contradicted: the most first."""

    rows: Array
    labels: Array
    predicted: Array
    doubts: FloatArray


class MapPoints(NamedTuple):
    """Rows in two dimensions, their class codes or numbers, the classes, and the rows that others contradict."""

    points: FloatArray
    labels: Array
    classes: Array | None
    wrong: BoolArray


class InspectedModel(NeighborModel):
    """A model that predicts, with methods that show what its predictions come from."""

    def neighbors(self, X: "RowsLike", k: int = 5) -> tuple[Array, FloatArray]:
        """Return the training rows with the largest shares of the votes for each row, and these shares.

        Parameters
        ----------
        X : rows as in `fit`
        k : how many

        Returns
        -------
        rows : array of shape (n_rows, k), row numbers, or names from the index of the data frame of `fit`
        shares : array of shape (n_rows, k), of all votes; a row's shares sum to at most 1
        """
        check_value(k, "k", Count)
        X, model = self._table(X, reset=False), self._fitted_model()
        voters = model.distinct_voters
        Z = model.embed(model.points_of(X))
        places, shares = leading_votes(Z, voters.Z, min(int(k), len(voters.Z)), voters.weights)
        return self._called(model.rows.numbers[voters.places[places]]), shares.astype(np.float64)

    def explain(self, x: "RowsLike", k: int = 5) -> Reasons:
        """Return why the prediction for one row is what it is; print it, show it in a notebook, or call its `plot`.

        Parameters
        ----------
        x : a row, as a data frame or array of one row
        k : how many of the rows that voted are named
        """
        x = np.asarray(x)[np.newaxis] if not is_frame(x) and not is_sparse(x) and np.asarray(x).ndim == 1 else x
        X = self._table(x, reset=False)
        if X.shape[0] != 1:
            raise ValueError(f"x must be one row, got {X.shape[0]}: use explain_each")
        return next(self.explain_each(X, k))

    def explain_each(self, X: "RowsLike", k: int = 5, rows: Iterable[int] | None = None) -> Iterator[Reasons]:
        """Return an iterator of what `explain` says of each row.

        Parameters
        ----------
        X : rows as in `fit`
        k : how many of the rows that voted are named
        rows : numbers of the rows of X to explain; None for all
        """
        check_value(k, "k", Count)
        X, model = self._table(X, reset=False), self._fitted_model()
        points = model.points_of(X)

        def reasons(row: int) -> Reasons:
            parts = reasons_of(
                model, points.part(slice(row, row + 1)), int(k),
                lambda places: self._called(model.rows.numbers[places]).tolist(),
                lambda places: self._labels(model.rows.target.y[places]).tolist(),
            )  # fmt: skip
            return self._reasons(parts)

        return map(reasons, range(len(points.plain)) if rows is None else rows)

    def strangeness(self, X: "RowsLike") -> FloatArray:
        """Return for each row the share of training rows that are less unlike the others, from 0 to 1.

        Of rows like those of `fit`, one in twenty has a value above 0.95; a row unlike anything seen is near 1. The
        distances are those of the encoded columns, not the learned ones.

        Parameters
        ----------
        X : rows as in `fit`
        """
        model = self._fitted_model()
        X = self._table(X, reset=False)
        with engine_for(X):
            encoded = model.encoder.encoded(model.encoder.plain(X))
            result, self._calibration = strangeness(model, encoded, vars(self).get("_calibration"))
        return result

    def duplicates(self) -> list[Array]:
        """Return groups of training rows that are equal in all columns, by number or name: a list of arrays."""
        model = self._fitted_model()
        places = model.distinct_voters.places
        _, codes, counts = np.unique(model.rows.points.plain[places], axis=0, return_inverse=True, return_counts=True)
        numbers = model.rows.numbers[places]
        return [self._called(np.sort(numbers[codes.ravel() == code])) for code in np.flatnonzero(counts > 1)]

    def suspects(self, k: int | None = 20) -> Suspects:
        """Return the training rows whose label the model doubts most when they are left out: likely errors.

        Parameters
        ----------
        k : how many; None for all that were left out
        """
        model = self._fitted_model()
        left_out = model.left_out_by_number(self._n_rows)
        places = model.distinct_voters.places
        places = places[np.isfinite(left_out[model.rows.numbers[places], 0])]
        y, predicted = model.rows.target.y[places], left_out[model.rows.numbers[places]]
        doubts = self._doubts(y, predicted)
        order = np.argsort(-doubts, kind="stable")[: None if k is None else int(k)]
        answers = predicted.argmax(axis=1) if model.rows.target.n_classes else predicted[:, 0]
        numbers = model.rows.numbers[places]
        return Suspects(
            self._called(numbers[order]), self._labels(y[order]), self._labels(answers[order]), doubts[order]
        )

    def column_weights(self) -> dict[str, float]:
        """Return the share of each column in the mean squared distance of two training rows under the metric."""
        model = self._fitted_model()
        if model.fixed_metric is not None:
            raise ValueError("the columns of a metric that was given are its own: see its explain")
        rows = model.encoder.encoded(model.rows.points.plain)
        return distance_shares(row_differences(rows), model.map.astype(np.float64), model.encoder.feature_groups())

    def map_points(self) -> "MapPoints":
        """Return the training rows in the two leading directions of the metric."""
        model = self._fitted_model()
        voters = model.distinct_voters
        points = leading_plane(voters.Z)
        left_out = model.left_out_by_number(self._n_rows)[model.rows.numbers[voters.places]]
        y, known = model.rows.target.y[voters.places], np.isfinite(left_out[:, 0])
        if model.rows.target.n_classes:
            wrong = known & (np.nan_to_num(left_out).argmax(axis=1) != y)
        else:
            errors = np.abs(np.where(known, left_out[:, 0] - y, 0.0))
            wrong = errors > np.quantile(errors, 0.95)
        classes = getattr(self, "classes_", None)
        return MapPoints(points, y if classes is not None else self._labels(y), classes, wrong)

    def left_out_pairs(self) -> tuple[Array, FloatArray]:
        """Return true and predicted numbers of rows left out, or whether predictions are right and how probable."""
        model = self._fitted_model()
        rated = model.rows.folds >= 0
        left_out, y = model.left_out[rated].astype(np.float64), model.rows.target.y[rated]
        if not model.rows.target.n_classes:
            return self._labels(y), np.asarray(self._labels(left_out[:, 0]))
        return left_out.argmax(axis=1) == y, left_out.max(axis=1)

    @property
    def is_classifier(self) -> bool:
        """Whether classes are predicted, not numbers."""
        return hasattr(self, "classes_")

    def plot_map(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the training rows in two learned dimensions, with rings around those that others contradict.

        Of more than 2,000 rows a sample is drawn. Return Matplotlib's axes.
        """
        at = self.map_points()
        some = np.sort(np.random.default_rng(0).permutation(len(at.points))[: plots.MOST_POINTS])
        marked = {"wrong when left out" if self.is_classifier else "far off when left out": at.wrong[some]}
        ax = ax or plots.new_axes(1, 6.5, 5.0)[0]
        plots.draw_points(ax, at.points[some], at.labels[some], at.classes, label_name=self.target_name_, marked=marked)
        ax.set_title("Training rows under the learned metric")
        return ax

    def plot_weights(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how much each column counts in distances; return Matplotlib's axes."""
        texts = {"title": "What distances consist of", "xlabel": "share of the mean squared distance"}
        return plots.draw_bars(self.column_weights(), ".0%", ax, **texts)

    def plot_predictions(self, ax: "Axes | None" = None, level: float = 0.9) -> "Axes":
        """Draw left-out predictions beside the truth, with a band that holds a share `level`; return Matplotlib's axes.

        Of a classifier it is the calibration: how often the predicted class is right, by its probability.
        """
        truth, predicted = self.left_out_pairs()
        if self.is_classifier:
            return plots.draw_calibration(ax, truth, predicted)
        return plots.draw_predictions(ax, truth, predicted, level)

    @abstractmethod
    def _labels(self, y: Array) -> Array:
        """Return class codes or standardised numbers as `fit` got them."""

    @abstractmethod
    def _doubts(self, y: Array, predicted: FloatArray) -> FloatArray:
        """Return how much left-out predictions contradict labels, from 0 to 1."""

    @abstractmethod
    def _reasons(self, parts: dict[str, Any]) -> Reasons:
        """Return reasons in the units of `fit`."""
