"""The plan of a comparison by answers: what learners predict about new items, and about the same items."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mahala.comparisons import Comparisons, Pairs, Quadruplets, Triplets
from mahala.comparisons.folds import compared_pairs, folds_over_items, item_codes, with_pairs_once
from mahala.comparisons.quadruplets import are_labels
from mahala.data.scaling import unit_length
from mahala.evaluation.cross_validation.panel import COSINE, EUCLIDEAN, named_learners, panel_for
from mahala.evaluation.cross_validation.plan import Key, digest_of
from mahala.evaluation.cross_validation.settings import Settings
from mahala.evaluation.cross_validation.splits import Parts
from mahala.judge import choose
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric, Metric
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.parameters import check_seed


class Split(NamedTuple):
    """Training and test answers of each fold over items, or over questions.

    measure : what the errors of this split are, "new items" or "same items"
    units : what the units are, whose answers are not independent
    groups : number of the unit of each answer
    """

    measure: str
    units: str
    groups: IndexArray
    parts: Parts


class Agreement(NamedTuple):
    """How many questions were asked more than once, and which share of pairs of answers to one question agree."""

    n_repeated: int
    share: float | None


@dataclass(frozen=True, eq=False)
class AnswerPlan:
    """What is measured of answers, and how.

    Attributes
    ----------
    data : the answers
    learners : candidates besides the Euclidean distance and the cosine
    unit_rows : whether distances learn from rows scaled to length 1, because the cosine predicts more answers
    splits : folds over items, and folds over questions
    """

    data: Comparisons
    learners: Mapping[str, Learner]
    unit_rows: bool
    splits: tuple[Split, Split]
    agreement: Agreement
    settings: Settings

    plain: ClassVar = (EUCLIDEAN, COSINE)
    notes: ClassVar[tuple[str, ...]] = ()
    predictors: ClassVar[Mapping[str, Any]] = {}

    @property
    def candidates(self) -> list[str]:
        """Names of the plain distances and of the learners."""
        return [*self.plain, *self.learners]

    @cached_property
    def parts(self) -> Parts:
        """Training and test answers of the parts of both splits."""
        return [part for split in self.splits for part in split.parts]

    @cached_property
    def keys(self) -> list[Key]:
        """The cells to measure."""
        return [Key(name, part) for part in range(len(self.parts)) for name in self.candidates]

    @property
    def n_items(self) -> int:
        """Number of rows that are compared."""
        rows = np.unique(np.stack(compared_pairs(self.data)))
        return int(np.count_nonzero(rows >= 0))

    @cached_property
    def unit_data(self) -> Comparisons:
        """The answers over rows of length 1."""
        return self.data.over(unit_length(self.data.X))

    def has_unit_rows(self, name: str) -> bool:
        """Whether a candidate learns from rows of length 1."""
        return name == COSINE or (self.unit_rows and name in self.learners and learns_distance(self.learners[name]))

    def digest(self) -> str:
        """Return a digest of what the cells depend on."""
        columns = [column for column in self.data._columns() if column is not None]
        tests = [test for _, test in self.parts]
        return digest_of(self.data.X, [*columns, *tests], self.learners, vars(self.settings))


def plan_answers(
    data: Comparisons, y: Any, learners: Mapping[str, Learner] | Iterable[str] | None, settings: Settings
) -> AnswerPlan:
    """Return the plan of :func:`mahala.compare` for answers.

    "New items": items are divided into folds; a learner learns from answers without any item of the fold, and is
    tested on those whose first item is in it. Answers of one first item count as one unit, and equal rows as one item.
    "Same items": questions are divided into folds; the answers to one question count as one unit.

    Quadruplets may be made of ratings, and the order of two ratings follows from what each was compared with. So both
    pairs of a tested quadruplet have an item of the fold, or are not learned from at all, and no pair is tested twice.
    """
    _refuse(data, settings)
    data = answers_of(data, y, settings.random_state)
    if isinstance(data, Triplets) and data.items is not None:
        raise ValueError("triplets must be over one X: these have items of their own, which a distance cannot compare")
    if not len(data):
        raise ValueError(f"{kind_of(data)} must not be empty: there is nothing to compare")
    if isinstance(data, Pairs) and len(np.unique(np.asarray(data.similar))) < 2:
        raise ValueError("pairs must be of both kinds, similar and dissimilar: else there is nothing to predict")
    questions, answers = questions_of(data)
    agreement = agreement_of(questions, answers, settings.groups)
    if not isinstance(learners, Mapping):
        panel = panel_for(data, settings.random_state)
        learners = panel if learners is None else named_learners(learners, panel)
    plain, everything = MahalanobisMetric.euclidean(data.n_features), np.arange(len(data))
    both = (data, data.over(unit_length(data.X)))
    losses = np.stack([losses_of(plain, rows, everything, everything) for rows in both], axis=1)
    unit_rows = choose(losses[:, :1] - losses, getattr(data, data._names[0])) == 1
    splits = _splits(data, questions, settings.folds, settings.random_state)
    return AnswerPlan(data, learners, unit_rows, splits, agreement, replace(settings, groups=None))


def _refuse(data: Comparisons, settings: Settings) -> None:
    """Raise ValueError for settings of rows with labels."""
    for name in ("repeats", "metric", "scaling", "n_neighbors", "times", "preprocessor"):
        value, usual = getattr(settings, name), getattr(Settings, name)
        if value is not usual and not (isinstance(value, str) and value == usual):
            raise ValueError(f"{name} must be {usual!r} with {type(data).__name__}: it is for rows with labels")


def answers_of(data: Comparisons, y: Any, random_state: int = 0) -> Comparisons:
    """Return comparisons with their labels; pairs with ratings become quadruplets."""
    if not isinstance(data, Pairs):
        if y is not None:
            raise ValueError(f"y must be None with {kind_of(data)}: their order is the answer")
        return data
    if y is None or are_labels(y):
        return data.labelled(y)
    return Quadruplets.from_ratings(data.X, data.left, data.right, y, random_state=random_state)


def _splits(data: Comparisons, questions: IndexArray, folds: int, random_state: int) -> tuple[Split, Split]:
    """Return the folds over items, and those over questions."""
    rng = np.random.default_rng(check_seed(random_state).randint(2**31))
    near, far = item_codes(data.X, np.stack(compared_pairs(data)))
    rated = isinstance(data, Quadruplets)
    by_item = folds_over_items(near, far, folds, rng, pairs_once=rated)
    tested = (rng.permutation(int(questions.max()) + 1) % folds)[questions]
    learned = [np.flatnonzero(tested != fold) for fold in range(folds)]
    if rated:
        # Perhaps made of ratings, so what is tested must not follow from ratings learned from.
        _, pairs = np.unique(np.sort(np.concatenate([near, far], axis=1), axis=0), axis=1, return_inverse=True)
        of_pairs = (rng.permutation(int(pairs.max()) + 1) % folds)[pairs.reshape(2, -1)]
        tested = np.where(of_pairs[0] == of_pairs[1], of_pairs[0], -1)
        learned = [np.flatnonzero((of_pairs != fold).all(axis=0)) for fold in range(folds)]
        tested = np.where(with_pairs_once(near, far, tested >= 0), tested, -1)
    return (
        Split("new items", "items", by_item.items, _parts(data, by_item.tested, by_item.learned)),
        Split("same items", "questions", questions, _parts(data, tested, learned)),
    )


def _parts(data: Comparisons, tested: IndexArray, learned: list[IndexArray]) -> Parts:
    """Return training and test answers of the folds that have both, and of pairs similar and dissimilar ones."""
    kinds = np.asarray(data.similar) if isinstance(data, Pairs) else np.arange(len(data))
    parts = [(train, np.flatnonzero(tested == fold)) for fold, train in enumerate(learned)]
    fewest = 2 if isinstance(data, Pairs) else 1
    return [(train, test) for train, test in parts if len(test) and len(np.unique(kinds[train])) >= fewest]


def losses_of(metric: Metric, data: Comparisons, train: IndexArray, test: IndexArray) -> FloatArray:
    """Return the loss of each tested answer: 0 if it is predicted, 1 if not, and 1/2 for ties.

    A pair is predicted if its distance is on the right side of the threshold that is best for the pairs learned from.
    """
    if not isinstance(data, Pairs):
        margins = metric.margins(data[test])
        return np.asarray(np.where(margins == 0.0, 0.5, margins < 0.0))
    assert isinstance(metric, MahalanobisMetric), "learners from pairs learn distances"
    similar = np.asarray(data.similar)
    if len(np.unique(similar[train])) == 2:
        metric = metric.calibrate_threshold(data[train])
    return np.asarray((metric.margins(data[test]) >= 0.0) != similar[test], dtype=np.float64)


def questions_of(data: Comparisons) -> tuple[IndexArray, IndexArray]:
    """Return the number of the question to which each comparison is an answer, and which of two answers it is."""
    near, far = (np.sort(rows, axis=0).astype(np.int64) for rows in compared_pairs(data))
    keys = np.stack([rows[0] * data.X.shape[0] + rows[1] for rows in (near, far)])
    return np.unique(np.sort(keys, axis=0), axis=1, return_inverse=True)[1].ravel(), (keys[0] < keys[1]).astype(np.intp)


def agreement_of(questions: IndexArray, answers: IndexArray, people: Any) -> Agreement:
    """Return how often answers to one question agree; two answers of one person to a question do not count."""
    n = len(questions)
    who = np.arange(n) if people is None else np.unique(np.asarray(people).astype(str), return_inverse=True)[1]
    if len(who) != n:
        raise ValueError(f"groups must name who gave each of the {n} answers, got {len(who)}")

    def n_pairs(*keys: IndexArray) -> int:
        counts = np.unique(np.stack([questions, *keys]), axis=1, return_counts=True)[1]
        return int((counts * (counts - 1)).sum()) // 2

    total = n_pairs() - n_pairs(who)
    agreeing = n_pairs(answers) - n_pairs(answers, who)
    return Agreement(int(np.count_nonzero(np.bincount(questions) > 1)), agreeing / total if total else None)


def learns_distance(learner: Learner) -> bool:
    """Whether it learns a distance, not a bilinear similarity."""
    return hasattr(learner, "pair_distance")


def kind_of(data: Comparisons) -> str:
    """Return "pairs", "triplets" or "quadruplets"."""
    return type(data).__name__.lower()
