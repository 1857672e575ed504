"""Models in files: the rows, the maps and the lines. Trees are fitted again when they are needed, and checked."""

from collections.abc import Mapping

import numpy as np

from mahala.data.encoding import Encoder
from mahala.metric import MahalanobisMetric
from mahala.neighbors.fitted import Fitted, Points, Rows
from mahala.neighbors.line import Line
from mahala.neighbors.maps import Target
from mahala.support.arrays import Arrays
from mahala.support.model_files import ModelFileError, array_value, count_value, finite, finite_array, header_value
from mahala.support.states import prefixed, without_prefix


def to_parts(model: Fitted) -> tuple[dict[str, object], Arrays]:
    """Return what was learned as a header and arrays for a model file."""
    encoder, encoder_arrays = model.encoder.to_parts()
    rows = model.rows
    header: dict[str, object] = {"encoder": encoder, "n_classes": rows.target.n_classes, "seed": model.seed}
    header |= {"weights": list(model.weights), "n_folds": model.n_folds}
    arrays: Arrays = prefixed("encoder", encoder_arrays)
    arrays |= {"plain": rows.points.plain, "numbers": rows.numbers, "folds": rows.folds}
    arrays |= {"y": rows.target.y, "weights": rows.target.weights, "left_out": model.left_out}
    arrays |= {"map": model.map, "maps": np.stack(model.maps)}
    if model.line is not None:
        lines = [model.line, *model.lines]
        arrays["slopes"] = np.stack([line.slopes for line in lines])
        arrays["constants"] = np.stack([line.constants for line in lines]).astype(np.float64)
        header["penalty"] = model.line.penalty
    digest = None if model.tree_rows is None else model.tree_digest()
    optional = {"coordinates": rows.points.coordinates, "groups": rows.groups, "tree_rows": model.tree_rows}
    arrays |= {name: array for name, array in (optional | {"tree_digest": digest}).items() if array is not None}
    return header, arrays


def from_parts(header: Mapping[str, object], arrays: Arrays, fixed_metric: MahalanobisMetric | None) -> Fitted:
    """Return what `to_parts` wrote; raise ModelFileError for what it cannot be."""
    encoder = Encoder.from_parts(header_value(header, "encoder", dict), without_prefix("encoder", arrays))
    n_classes, n_folds = count_value(header, "n_classes"), count_value(header, "n_folds")
    plain = finite(array_value(arrays, "plain", np.float64, (None, None)), "plain")
    n, width = len(plain), n_classes or 1
    y = array_value(arrays, "y", np.intp if n_classes else np.float64, (n,))
    if n_classes and len(y) and not 0 <= y.min() <= y.max() < n_classes:
        raise ModelFileError(f"array 'y' should hold classes from 0 to {n_classes - 1}")
    target = Target(finite(y, "y"), finite(array_value(arrays, "weights", np.float32, (n,)), "weights"), n_classes)
    coordinates = array_value(arrays, "coordinates", np.float32, (n, None)) if "coordinates" in arrays else None
    n_features = len(encoder.get_feature_names_out()) if coordinates is None else coordinates.shape[1]
    maps = finite(array_value(arrays, "maps", np.float32, (n_folds, None, n_features)), "maps")
    folds = array_value(arrays, "folds", np.intp, (n,))
    numbers = array_value(arrays, "numbers", np.intp, (n,))
    if n == 0 or numbers.min() < 0 or folds.min() < -1 or folds.max() >= n_folds or plain.shape[1] != encoder.n_plain:
        raise ModelFileError("the rows of the model do not fit together")
    weights = [float(weight) for weight in header_value(header, "weights", list)]
    if len(weights) != 3:
        raise ModelFileError(f"header entry 'weights' should be three numbers, found {weights!r:.40}")
    line, lines = None, []
    if "slopes" in arrays:
        slopes = finite(array_value(arrays, "slopes", np.float32, (n_folds + 1, None, width)), "slopes")
        constants = finite_array(arrays, "constants", (n_folds + 1, width))
        penalty = float(header_value(header, "penalty", float, int))
        line, *lines = (Line(*pair, penalty) for pair in zip(slopes, constants, strict=True))
    groups = array_value(arrays, "groups", np.intp, (n,)) if "groups" in arrays else None
    model = Fitted(
        encoder, fixed_metric, Rows(Points(plain, coordinates), target, numbers, groups, folds), list(maps),
        finite(array_value(arrays, "map", np.float32, (None, n_features)), "map"), count_value(header, "seed"),
        array_value(arrays, "left_out", np.float32, (n, width)), tuple(weights), lines, line,
        array_value(arrays, "tree_rows", np.bool_, (n,)) if "tree_rows" in arrays else None,
    )  # fmt: skip
    if model.tree_rows is not None:
        model.expected_trees = finite(array_value(arrays, "tree_digest", np.float64, (None,)), "tree_digest")
    return model
