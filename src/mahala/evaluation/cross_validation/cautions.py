"""What makes a verdict doubtful: copies of rows, columns that give the label away, ids of groups, a constant answer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from mahala.data.copies import Copies
from mahala.data.leaks import joint_leak, possible_leaks
from mahala.evaluation.cross_validation.advice import listed
from mahala.evaluation.cross_validation.entries import Units
from mahala.evaluation.cross_validation.leaderboard import Caution, Leaderboard, percent
from mahala.evaluation.cross_validation.measures import row_losses
from mahala.evaluation.cross_validation.measuring import Cell, choose, measure_cell
from mahala.evaluation.cross_validation.plan import Key, Plan
from mahala.evaluation.cross_validation.splits import group_columns, parts_of
from mahala.judge import lower_bounds
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.parameters import get_config
from mahala.support.validation import is_sparse

# Where the lowest of all errors, or 1 - R² of a number, is at most this, columns may determine the label together.
_LOW_ERROR, _LOW_LOSS = 0.05, 0.1
# Without names of columns, leaks are looked for up to so many features.
_MOST_UNNAMED = 64
# A share of the mean squared distance.
_MOST_OF_DISTANCE = 0.5
# Columns that may be ids of groups whose errors on new groups are measured.
_MEASURED = 3


def cautions_of(
    plan: Plan, board: Leaderboard, units: Units, cells: Mapping[Key, Cell], done: Sequence[int]
) -> Iterator[Caution]:
    """Yield what makes the verdict doubtful; `units` has the losses of the plain distances."""
    if board.metric in ("error", "balanced"):
        constant = {"error": board.majority_error, "balanced": 1.0 - 1.0 / len(board.classes)}[board.metric]
        if board.winner.error > constant:
            yield Caution(
                "worse than a constant answer",
                f"k-NN is worse than always answering {board.majority!r}: {percent(board.winner.error)} against "
                f"{percent(constant)}.",
            )
    if plan.copies is not None:
        yield _copies(plan, plan.copies)
    if is_sparse(plan.X):
        return
    features = _columns(plan)
    groups = None if plan.unit == "groups" else _groups(plan, board, units, features)
    # Rows of one group share the label, so an id of groups determines it, too.
    yield from _leaks(plan, board, {name: own for name, own in features.items() if groups is None or name != groups[0]})
    if groups is not None:
        yield groups[1]
    yield from _records(plan, board, cells, done)


def _copies(plan: Plan, copies: Copies) -> Caution:
    n = plan.n_rows - copies.n_different
    same = plan.n_rows - copies.n_labelled
    labels = "all with the same label" if same == n else f"{same:,} with the same label"
    counted = f"{n:,} of {plan.n_rows:,} rows are copies"
    one = "Copies are kept in one part, so that errors are those on new rows."
    return Caution(counted, f"{counted} of others ({labels}). {one}")


def _columns(plan: Plan) -> dict[str, list[int]]:
    """Return the features of each column, or of each feature if they have no names and are not many."""
    if plan.settings.preprocessor is not None:
        return plan.settings.preprocessor.feature_groups()
    n_features = plan.X.shape[1]
    return {f"x{j}": [j] for j in range(n_features)} if n_features <= _MOST_UNNAMED else {}


def _leaks(plan: Plan, board: Leaderboard, features: dict[str, list[int]]) -> Iterator[Caution]:
    """Yield the columns that alone determine the label, and those of the others that do so together."""
    numbers, target = plan.target.is_number, plan.target
    X = plan.X
    if plan.copies is not None:  # with its copies, a row left out is known
        one_of_each = np.unique(plan.copies.sets[plan.rows], return_index=True)[1]
        X, target = X[one_of_each], target.select(one_of_each)
    alone = possible_leaks(X, target.codes, features)
    for name in alone:
        yield Caution("a possible leak", f"Column {name!r} alone nearly determines the label: a leak? If so, drop it.")
    best = min(
        (entry for entry in (*board.ranked, *board.models) if entry.failure is None),
        key=lambda entry: entry.error if numbers else entry.balanced_error,
    )
    if (best.error > _LOW_LOSS) if numbers else (best.balanced_error > _LOW_ERROR):
        return
    labels = target.numbers(target.values) if numbers else target.codes
    others = {name: own for name, own in features.items() if name not in alone}
    if names := joint_leak(X, labels, others, numbers=numbers):
        yield Caution(
            "a possible leak",
            f"Columns {listed([repr(name) for name in names])} together nearly determine the label "
            f"({board.loss_name} of {best.spoken}: {percent(best.error)}): a leak? If so, drop them.",
        )


def _groups(plan: Plan, board: Leaderboard, units: Units, features: dict[str, list[int]]) -> tuple[str, Caution] | None:
    """Return the column by whose groups the error of the reference rises most, if it rises clearly.

    Of columns that do not differ clearly it is the one with the most groups: who has an age determines the age, too.
    """
    if units.rows is None:
        return None
    reference = board.euclidean
    old = units.losses[reference.name].mean(axis=0)
    rising = []
    for name, groups in group_columns(plan.X, plan.target.codes, features)[:_MEASURED]:
        new = _losses_on_new_groups(plan, reference.name, groups)[units.rows]
        rise = lower_bounds((new - old)[:, np.newaxis], groups[units.rows])[0]
        if rise > 0.0:
            rising.append((rise, name, groups[units.rows], new))
    if not rising:
        return None
    _, _, groups, most = max(rising, key=lambda column: column[0])
    level = [column for column in rising if lower_bounds((most - column[3])[:, np.newaxis], groups)[0] <= 0.0]
    _, name, _, new = max(level, key=lambda column: len(np.unique(column[2])))
    return name, Caution(
        "a column of groups",
        f"Column {name!r} looks like an id of groups, because rows with the same value share the label. On new "
        f"groups the {board.measure} of {reference.spoken} is {percent(float(new.mean()))}, not "
        f"{percent(reference.error)}: pass it as groups, or drop it.",
    )


def _losses_on_new_groups(plan: Plan, name: str, groups: IndexArray) -> FloatArray:
    """Return the loss of each row by a plain distance where rows of one group are not in both parts."""
    codes = None if plan.target.is_number else plan.target.codes
    folds, seed = min(plan.settings.folds, int(groups.max()) + 1), plan.settings.random_state
    parts = parts_of(codes, folds, 1, seed, groups, n_rows=len(plan.rows))
    plan, config = replace(plan, parts=parts, groups=groups), get_config()
    predicted = np.empty_like(plan.target.values)
    for part, (_, test) in enumerate(parts):
        predicted[test] = measure_cell(plan, Key(name, part), choose(plan, part, config), None, config)[1].predicted
    return cast(FloatArray, row_losses(plan.measure, predicted, plan.target.values))


def _records(plan: Plan, board: Leaderboard, cells: Mapping[Key, Cell], done: Sequence[int]) -> Iterator[Caution]:
    """Yield that most of the distance is a column that says when or as which number rows were recorded."""
    for name in dict.fromkeys(entry.name for entry in (board.winner, board.candidate) if entry is not None):
        own = [cell.record_shares for key, cell in cells.items() if key.name == name and key.part in done]
        shares = dict(zip(plan.records, np.mean(own, axis=0), strict=True))
        yield from record_cautions(shares, plan.records, board[name].spoken)


def record_cautions(shares: Mapping[str, float], records: Mapping[str, str], distance: str) -> Iterator[Caution]:
    """Yield that most of a distance is one column that says when or as which number rows were recorded.

    Parameters
    ----------
    shares : those of columns in the mean squared distance
    records : what such columns hold, by name
    distance : its name
    """
    for column, what in records.items():
        if shares[column] > _MOST_OF_DISTANCE:
            yield Caution(
                "a date or number of rows",
                f"{100.0 * shares[column]:.0f} % of the distance is {column!r}, {what} ({distance}): rows that were "
                "recorded one after the other are near. Drop this column, unless rows should be compared by it.",
            )
