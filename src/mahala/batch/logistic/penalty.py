"""The choice of LogisticMetric's penalty by folds over items."""

from typing import NamedTuple

import numpy as np

from mahala.batch.logistic.answers import PENALTY, Answers, Fit, LogisticLoss, fit_map, predicted_margins
from mahala.batch.run import Run
from mahala.comparisons.folds import folds_over_items, item_codes
from mahala.judge import Verdict, choose, judge, standard_errors
from mahala.support.arrays import FloatArray, IndexArray, RealArray

# What the folds choose from, beside the prior: multiples of the default penalty.
MULTIPLES = 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3
_DEFAULT = 1 + MULTIPLES.index(1.0)  # after the prior
FOLDS = 5
# The folds see at most so many answers, and their fits take at most so many iterations.
MOST_JUDGED, MOST_ITERATIONS = 4_000, 100
# With fewer items, folds are not used.
FEWEST_ITEMS = 6


class Choice(NamedTuple):
    """The multiple of the default penalty that folds over items chose, infinity for the prior, and the verdict."""

    multiple: float
    verdict: Verdict


def choose_penalty(answers: Answers, start: RealArray, noise: float, rng: np.random.Generator) -> Choice:
    """Choose the penalty by folds over items: learn without the items of a fold, test the answers about them.

    Folds of few answers are noisy. So the default penalty stays unless another candidate has a gain over it whose lower
    bound is above 0. Then the largest penalty is taken whose value is within a standard error of the best one.
    """
    measure, units = "answers predicted", "items"
    if answers.size > MOST_JUDGED:
        answers = answers.select(rng.permutation(answers.size)[:MOST_JUDGED])
    answers = answers.compact()
    near, far = item_codes(answers.X, np.stack([answers.near, answers.far]))
    quadruplets = ((near[0] != far[0]) & (near[0] >= 0) & (far[0] >= 0)).any()  # perhaps made of ratings

    def predicted(learned: IndexArray, test: IndexArray) -> FloatArray | None:
        train = answers.select(learned)
        return None if few or train.only_kind else _values(train, answers.select(test), start, noise)

    few = int(max(near.max(), far.max())) + 1 < FEWEST_ITEMS
    by_item = folds_over_items(near, far, FOLDS, rng, pairs_once=bool(quadruplets))
    values, folds, items = by_item.measure(predicted, 1 + len(MULTIPLES))
    chosen = _against_default(values, items) if len(values) else _DEFAULT
    # Nothing was chosen where the default stands.
    candidates = values[:, [0, _DEFAULT]] if chosen == _DEFAULT else values
    verdict = judge(candidates[np.newaxis], folds[np.newaxis], measure=measure, units=units, groups=items).verdict
    if verdict.kind == "too early to tell":
        return Choice(1.0, _used(verdict))
    if chosen == 0 or verdict.high < 0.0:
        none = verdict._replace(kind="does not help")
        return Choice(np.inf, none._replace(text=f"{none.sentence} The prior is used."))
    if verdict.helps:
        return Choice(MULTIPLES[chosen - 1], verdict)
    return Choice(MULTIPLES[chosen - 1], _used(verdict._replace(kind="too early to tell")))


def _against_default(values: FloatArray, items: IndexArray) -> int:
    """Return the default candidate, or the one with the largest penalty that is as good as the best one."""
    order = [_DEFAULT, *(candidate for candidate in range(values.shape[1]) if candidate != _DEFAULT)]
    best = order[choose((values - values[:, [_DEFAULT]])[:, order], items)]
    if best == _DEFAULT:
        return _DEFAULT
    shortfalls = values[:, [best]] - values
    return int(np.flatnonzero(shortfalls.mean(axis=0) <= standard_errors(shortfalls, items) + 1e-12)[0])


def _used(verdict: Verdict) -> Verdict:
    """Return a verdict of "too early to tell", after which the learned metric is used."""
    measured = verdict.measured if verdict.high > verdict.low else "too few items were compared."
    text = f"Too early to tell: {measured} The learned metric is used, near the prior."
    return verdict._replace(text=text)


def _values(train: Answers, test: Answers, start: RealArray, noise: float) -> FloatArray:
    """Return whether the prior, and maps learned with each penalty, predict the answers: 1, 0, or 1/2 for ties."""
    fit, fits = None, [Fit(start, LogisticLoss(train, train.X @ start.T, noise).threshold)]
    for multiple in MULTIPLES:
        penalty, run = multiple * PENALTY / float(train.weights.sum()), Run(max_iter=MOST_ITERATIONS, tol=1e-6)
        fit = fit_map(train, start, penalty, noise, run, warm=fit, to_model=lambda fit: {"L": fit.A})
        fits.append(fit)
    margins = np.stack([predicted_margins(test, test.X @ fit.A.T, fit.threshold) for fit in fits], axis=1)
    return np.where(margins == 0.0, 0.5, margins > 0.0)
