"""Compare learners by the answers that they predict: folds over items, and folds over questions."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from mahala.comparisons import Comparisons, Pairs, Quadruplets, Triplets
from mahala.comparisons.folds import folds_over_items, item_codes, with_pairs_once
from mahala.data.scaling import unit_length
from mahala.evaluation.answer_board import AnswerBoard, AnswerEntry
from mahala.evaluation.answer_panel import kind_of, learns_distance, panel_for
from mahala.judge import Decision, choose, judge, mean_interval
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric, Metric
from mahala.support.arrays import BoolArray, FloatArray, IndexArray
from mahala.support.limits import time_limit
from mahala.support.parameters import check_seed

Progress = Callable[[int, int, str], object]
EUCLIDEAN, COSINE = "Euclidean", "cosine"
MEASURE = "answers predicted"


class Split(NamedTuple):
    """Folds of answers: the fold in which each is tested, and which ones each fold learns from.

    units : what the units are, whose answers are not independent
    groups : number of the unit of each answer
    """

    units: str
    folds: IndexArray
    train: list[IndexArray]
    groups: IndexArray

    def tested(self, *values: FloatArray) -> tuple[BoolArray, IndexArray]:
        """Return which answers were tested for all of several candidates, and the number of the unit of each."""
        tested = np.asarray(~np.isnan(values).any(axis=0))
        return tested, np.unique(self.groups[tested], return_inverse=True)[1]


@dataclass
class Measured:
    """Values of a candidate on all answers, NaN where it was not tested; how long its fits took, and which were cut."""

    values: FloatArray
    seconds: list[float] = field(default_factory=list)
    stopped: list[bool] = field(default_factory=list)
    failure: str | None = None


def compare_answers(
    data: Comparisons,
    learners: Mapping[str, Learner] | None = None,
    *,
    folds: int = 5,
    people: Any = None,
    seconds: float | None = None,
    random_state: int = 0,
    callback: Progress | None = None,
) -> AnswerBoard:
    """Compare learners with the Euclidean distance and the cosine by how many answers they predict.

    "New items": items are divided into folds; a learner learns from answers without any item of the fold, and is
    tested on those whose first item is in it. Answers of one first item count as one unit, and equal rows as one item.
    "The same items": questions are divided into folds; the answers to one question count as one unit. The value of an
    answer is 1 if it is predicted, 0 if not, and 1/2 for ties; a pair is predicted if its distance is on the right side
    of the threshold that is best for the pairs learned from.

    Quadruplets may be made of ratings, and the order of two ratings follows from what each was compared with. So both
    pairs of a tested quadruplet have an item of the fold, or are not learned from at all, and no pair is tested twice.

    Parameters
    ----------
    data : Triplets, Quadruplets, or Pairs with labels
    learners : learners by name; None for all that learn from such comparisons
    folds : number of folds
    people : who gave each answer
    seconds : time for all fits, or None
    callback : called after each fit with the number of fits done, their total and the name of the learner
    """
    if isinstance(data, Triplets) and data.items is not None:
        raise ValueError("triplets must be over one X: these have items of their own, which a distance cannot compare")
    if not len(data):
        raise ValueError(f"{kind_of(data)} must not be empty: there is nothing to compare")
    if isinstance(data, Pairs) and len(np.unique(np.asarray(data.similar))) < 2:
        raise ValueError("pairs must be of both kinds, similar and dissimilar: else there is nothing to predict")
    questions, answers = _questions(data)
    repeated, agreement = _agreement(questions, answers, people)
    learners = panel_for(data, random_state) if learners is None else learners
    plain = MahalanobisMetric.euclidean(data.n_features)
    unit = data.over(unit_length(data.X))
    everything = np.arange(len(data))
    by_plain = np.stack([_values(plain, given, everything, everything) for given in (data, unit)], axis=1)
    scaled = choose(by_plain - by_plain[:, :1], _columns(data)[0]) == 1
    splits = _splits(data, questions, folds, random_state)
    candidates = {EUCLIDEAN: (None, data), COSINE: (None, unit)} | {
        name: (learner, unit if scaled and learns_distance(learner) else data) for name, learner in learners.items()
    }
    total, done = len(splits) * folds * len(learners), 0
    share = None if seconds is None else seconds / max(total, 1)
    results: dict[str, list[Measured]] = {name: [] for name in candidates}
    for split in splits:
        for name, (learner, given) in candidates.items():
            measured = _measure(learner, given, split, share)
            results[name].append(measured)
            done += folds if learner is not None else 0
            if callback is not None and learner is not None:
                callback(done, total, name)
    board = _summary(data, results, splits, learners, scaled)
    return replace(board, n_repeated=repeated, agreement=agreement, folds=folds, random_state=random_state)


def _splits(data: Comparisons, questions: IndexArray, folds: int, random_state: int) -> list[Split]:
    """Return the folds over items, and those over questions."""
    rng = np.random.default_rng(check_seed(random_state).randint(2**31))
    codes = item_codes(data.X, _columns(data))
    fold_of = rng.permutation(int(codes.max()) + 1) % folds
    near, far = codes[:2], _second_pair(data, codes)
    item_folds, units = folds_over_items(near, far, fold_of)
    of_items = [np.flatnonzero((fold_of[codes] != fold).all(axis=0)) for fold in range(folds)]
    question_folds = (rng.permutation(int(questions.max()) + 1) % folds)[questions]
    of_questions = [np.flatnonzero(question_folds != fold) for fold in range(folds)]
    if isinstance(data, Quadruplets):
        # Perhaps made of ratings, so what is tested must not follow from ratings learned from.
        _, pairs = np.unique(np.sort(np.concatenate([near, far], axis=1), axis=0), axis=1, return_inverse=True)
        pair_folds = (rng.permutation(int(pairs.max()) + 1) % folds)[pairs.reshape(2, -1)]
        question_folds = np.where(pair_folds[0] == pair_folds[1], pair_folds[0], -1)
        of_questions = [np.flatnonzero((pair_folds != fold).all(axis=0)) for fold in range(folds)]
        item_folds, question_folds = (
            np.where(with_pairs_once(near, far, tested >= 0), tested, -1) for tested in (item_folds, question_folds)
        )
    return [
        Split("items", item_folds, of_items, np.unique(units, return_inverse=True)[1]),
        Split("questions", question_folds, of_questions, questions),
    ]


def _measure(learner: Learner | None, data: Comparisons, split: Split, seconds: float | None) -> Measured:
    """Fit a learner to each fold's training answers, and return the values of the answers that it is tested on."""
    result = Measured(np.full(len(data), np.nan))
    for fold, train in enumerate(split.train):
        test = np.flatnonzero(split.folds == fold)
        if not len(test) or not len(train):
            continue
        if isinstance(data, Pairs) and len(np.unique(np.asarray(data.similar)[train])) < 2:
            continue
        metric: Metric = MahalanobisMetric.euclidean(data.n_features)
        if learner is not None:
            started = time.process_time()
            with warnings.catch_warnings(), time_limit(seconds) as limit:
                warnings.simplefilter("ignore")
                try:
                    metric = clone(learner).fit(data[train]).metric_
                except (ValueError, MemoryError) as error:  # too few answers are left, or too much is asked for
                    return replace(result, failure=str(error))
            result.seconds.append(time.process_time() - started)
            result.stopped.append(limit.stopped)
        result.values[test] = _values(metric, data, train, test)
    return result


def _values(metric: Metric, data: Comparisons, train: IndexArray, test: IndexArray) -> FloatArray:
    """Return the value of each tested answer: 1 if it is predicted, 0 if not, 1/2 for ties."""
    if not isinstance(data, Pairs):
        margins = metric.margins(data[test])
        return np.asarray(np.where(margins == 0.0, 0.5, margins > 0.0))
    assert isinstance(metric, MahalanobisMetric), "learners from pairs learn distances"
    similar = np.asarray(data.similar)
    if len(np.unique(similar[train])) == 2:
        metric = metric.calibrate_threshold(data[train])
    return np.asarray((metric.margins(data[test]) >= 0.0) == similar[test], dtype=np.float64)


def _summary(
    data: Comparisons,
    results: dict[str, list[Measured]],
    splits: list[Split],
    learners: Mapping[str, Learner],
    scaled: bool,
) -> AnswerBoard:
    """Return the entries, from the best for new items to the worst, and the verdicts."""
    entries = [_entry(name, name in learners, parts, splits) for name, parts in results.items()]
    # Rounding must not break a tie with the plain distance, which is simpler.
    entries.sort(key=lambda entry: (entry.failure is not None, -_rounded(entry), entry.learned))
    reference = next(entry.name for entry in entries if not entry.learned)
    names = [reference, *(entry.name for entry in entries if entry.learned and entry.failure is None)]
    (chosen, new), (same_chosen, same) = (_decide(results, at, split, names) for at, split in enumerate(splits))
    notes = ["Rows were scaled to length 1 for distances, because the cosine predicts more answers."] if scaled else []
    cut = {name: sum(sum(part.stopped) for part in parts) for name, parts in results.items()}
    if stopped := [f"{name} ({n} of {sum(len(split.train) for split in splits)})" for name, n in cut.items() if n]:
        notes.append(
            f"Stopped by their share of the budget, on so many training parts: {', '.join(stopped)}. A larger budget "
            "lets them finish."
        )
    return AnswerBoard(
        entries=tuple(entries),
        verdict=new.verdict.of_metric(),
        same_verdict=same.verdict.of_metric(),
        chosen=chosen,
        same_chosen=same_chosen,
        reference=reference,
        unit_rows=scaled,
        kind=kind_of(data),
        n_answers=len(data),
        n_items=len(np.unique(_columns(data))),
        n_features=data.n_features,
        notes=tuple(notes),
        gains=_gains(results, splits[0], names[:2]),
    )


def _gains(results: dict[str, list[Measured]], split: Split, names: list[str]) -> FloatArray:
    """Return how many more answers the second candidate predicts than the first one, for each unit of a split."""
    first, second = (results[name][0].values for name in (names[0], names[-1]))
    tested, groups = split.tested(first, second)
    return np.bincount(groups, (second - first)[tested]) / np.maximum(np.bincount(groups), 1)


def _rounded(entry: AnswerEntry) -> float:
    """Return the share for new items, or for the same ones if there are too few new ones."""
    shares = [share for share in (entry.new_items, entry.same_items) if not np.isnan(share)]
    return round(shares[0], 12) if shares else 0.0


def _entry(name: str, learned: bool, parts: list[Measured], splits: list[Split]) -> AnswerEntry:
    seconds = [second for part in parts for second in part.seconds]
    failure = next((part.failure for part in parts if part.failure is not None), None)
    entry = AnswerEntry(name, learned, seconds=float(np.median(seconds)) if seconds else 0.0, failure=failure)
    if failure is not None:
        return entry
    numbers: dict[str, float] = {}
    for part, split, prefix in zip(parts, splits, ("new", "same"), strict=True):
        tested, groups = split.tested(part.values)
        if tested.any():
            low, high = mean_interval(part.values[tested], groups)
            numbers |= {f"{prefix}_items": float(part.values[tested].mean())}
            numbers |= {f"{prefix}_low": max(low, 0.0), f"{prefix}_high": min(high, 1.0)}
    return replace(entry, **numbers)  # type: ignore[arg-type]


def _decide(results: dict[str, list[Measured]], at: int, split: Split, names: list[str]) -> tuple[str, Decision]:
    """Return the name of the candidate that the judge chooses for one of the splits, and its decision."""
    values = [results[name][at].values for name in names]
    tested, groups = split.tested(*values)
    tested_values, folds = np.stack(values, axis=1)[tested][np.newaxis], split.folds[tested][np.newaxis]
    decision = judge(tested_values, folds, measure=MEASURE, units=split.units, groups=groups)
    return names[decision.chosen], decision


def _questions(data: Comparisons) -> tuple[IndexArray, IndexArray]:
    """Return the number of the question to which each comparison is an answer, and which of two answers it is."""
    columns, n = _columns(data).astype(np.int64), data.X.shape[0]
    if isinstance(data, Pairs):
        keys = np.sort(columns, axis=0)
        answers = np.asarray(data.similar).astype(np.intp)
    else:  # is the one pair nearer, or the other?
        near, far = np.sort(columns[:2], axis=0), np.sort(_second_pair(data, columns), axis=0)
        keys = np.stack([near[0] * n + near[1], far[0] * n + far[1]])
        answers = (keys[0] < keys[1]).astype(np.intp)
        keys = np.sort(keys, axis=0)
    return np.unique(keys, axis=1, return_inverse=True)[1].ravel(), answers


def _agreement(questions: IndexArray, answers: IndexArray, people: Any) -> tuple[int, float | None]:
    """Return the number of repeated questions, and the share of pairs of answers to one question that agree."""
    n = len(questions)
    who = np.arange(n) if people is None else np.unique(np.asarray(people).astype(str), return_inverse=True)[1]
    if len(who) != n:
        raise ValueError(f"groups must name who gave each of the {n} answers, got {len(who)}")

    def n_pairs(*keys: IndexArray) -> int:
        counts = np.unique(np.stack([questions, *keys]), axis=1, return_counts=True)[1]
        return int((counts * (counts - 1)).sum()) // 2

    # Two answers of one person to a question do not count.
    total = n_pairs() - n_pairs(who)
    agreeing = n_pairs(answers) - n_pairs(answers, who)
    return int(np.count_nonzero(np.bincount(questions) > 1)), agreeing / total if total else None


def fit_entry(data: Comparisons, board: AnswerBoard, entry: AnswerEntry, learner: Learner | None) -> Metric:
    """Return the metric of an entry, learned from all answers; it takes rows as they are."""
    if learner is None:
        metric: Metric = MahalanobisMetric.euclidean(data.n_features)
        return replace(metric, unit_rows=entry.name == COSINE)  # type: ignore[call-arg]
    scaled = board.unit_rows and learns_distance(learner)
    metric = clone(learner).fit(data.over(unit_length(data.X)) if scaled else data).metric_
    return replace(metric, unit_rows=True) if scaled else metric  # type: ignore[call-arg]


def _second_pair(data: Comparisons, columns: IndexArray) -> IndexArray:
    """Return the two rows of what the first pair is compared with, -1 for a threshold."""
    if isinstance(data, Pairs):
        return np.full_like(columns, -1)
    return columns[[0, 2]] if isinstance(data, Triplets) else columns[2:]


def _columns(data: Comparisons) -> IndexArray:
    """Return the row numbers of each role."""
    return np.stack([getattr(data, name) for name in data._names[: data._arity]])
