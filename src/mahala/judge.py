"""Decide between the plain metric and learned ones, on units that were not learned from."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self, cast, get_args

import numpy as np
from scipy import stats

from mahala.support.arrays import BoolArray, FloatArray, IndexArray, row_blocks

Kind = Literal["shown to help", "probably helps", "too early to tell", "does not help"]

# The quantile of the normal distribution at which the lower bound of a gain is taken.
QUANTILE = 1.64
# The gain is shown where its p-value is at most this.
ALPHA = 0.05
# Above this p-value, a learned candidate is not chosen.
PROBABLE = 0.5
# Fewer units than this tell nothing.
FEWEST = 5
# A smaller difference between two values is rounding.
ROUNDING = 1e-12
# Up to so many units that differ, p-values are those of random signs; above, those of Student's t.
MOST_FLIPPED = 200
_FLIPS = 9_999
# Draws of signs with which the folds choose again, and signs in all of them.
_FEWEST_DRAWS, _MOST_DRAWS, _MOST_SIGNS = 199, 1_999, 10_000_000


class Verdict(NamedTuple):
    """What learning gains over the plain metric, on units that were not learned from.

    Attributes
    ----------
    kind : "shown to help" if the 95 % interval of the gain is above 0; "probably helps" if a learned metric was chosen
        and its gain is above 0, with a p-value up to 0.5; "too early to tell" with fewer than 5 units; otherwise
        "does not help"
    gain, low, high : the mean gain per unit, and the ends of its 95 % interval
    n : number of units
    p_value : p-value of no gain; it is at most 0.05 exactly if the interval is on one side of 0
    measure, units : what is gained, such as "nDCG@10", and of what, such as "queries"
    wins, repeats : in how many repeats of the cross-validation the gain was above 0, of how many
    share : the share of the learned map that a search serves; None of a metric
    text : the sentence, where it is not the usual one
    """

    kind: Kind
    gain: float
    low: float
    high: float
    n: int
    p_value: float
    measure: str
    units: str
    wins: int = 0
    repeats: int = 1
    share: float | None = None
    text: str = ""

    @classmethod
    def of(cls, fields: Sequence[object]) -> Self:
        """Return the verdict with these fields, as a model file has them; raise ValueError if it is damaged."""
        kinds: list[Any] = [{float: int | float, Kind: str}.get(kind, kind) for kind in cls.__annotations__.values()]
        if len(fields) == len(kinds) and all(map(isinstance, fields, kinds)) and fields[0] in get_args(Kind):
            return cls(*cast(tuple[Any, ...], fields))
        raise ValueError(f"a verdict should have the fields {', '.join(cls._fields)}, got {list(fields)!r:.200}")

    def as_dict(self) -> dict[str, object]:
        """Return the fields and the sentence, for JSON."""
        return self._asdict() | {"sentence": self.sentence}

    @property
    def helps(self) -> bool:
        """Whether a learned metric is served or saved."""
        return self.kind in ("shown to help", "probably helps")

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.text:
            return self.text
        first = self.kind[0].upper() + self.kind[1:]
        if self.kind == "too early to tell":
            return f"{first}: {self.n} {self.units} were seen.{self._served()}"
        repeats = f" ({self.wins} of {self.repeats} repeats)" if self.repeats > 1 and self.helps else ""
        more = f" More {self.units} are needed to be sure." if self.kind == "probably helps" else ""
        return f"{first}{repeats}: {self.measured}{more}{self._served()}"

    @property
    def measured(self) -> str:
        """The gain and its interval in words; a gain in a share is in points."""
        factor, digits, of = (1.0, 3, "") if self.measure.startswith("nDCG") else (100.0, 1, "points of ")
        gain, low, high = (f"{factor * value:+.{digits}f}" for value in (self.gain, self.low, self.high))
        tested = "before they were learned from" if self.units == "impressions" else "not learned from"
        change = f"{gain} {of}{self.measure} (95 % interval {low} to {high})"
        return f"{change} on {self.n:,} {self.units} {tested}."

    def _served(self) -> str:
        if self.share is None:
            return ""
        return (
            f" {100.0 * self.share:.0f} % of the learned map is served."
            if self.share
            else " The plain ranking is served."
        )

    def __str__(self) -> str:
        return self.sentence


class Decision(NamedTuple):
    """The candidate that was chosen (0 is the plain one), the value of the choice on each unit, and the verdict.

    The value of a unit is that of the candidate chosen without the unit's fold.
    """

    chosen: int
    values: FloatArray
    verdict: Verdict


def lower_bounds(gains: FloatArray, groups: IndexArray | None = None) -> FloatArray:
    """Return the mean of each column of gains minus 1.64 standard errors.

    >>> lower_bounds(np.array([[0.0, 0.1, 0.3], [0.0, 0.1, -0.2]])).round(3)
    array([ 0.  ,  0.1 , -0.36])
    """
    bounds: FloatArray = gains.mean(axis=0) - QUANTILE * standard_errors(gains, groups)
    return bounds


def choose(gains: FloatArray, groups: IndexArray | None = None) -> int:
    """Return the column with the largest lower bound of its gain, or 0, the plain candidate, if none is above 0.

    A mean alone would favour the candidates that vary most.
    """
    if len(gains) < 2:
        return 0
    bounds = lower_bounds(gains, groups)
    best = int(bounds.argmax())
    return best if bounds[best] > ROUNDING else 0


def judge(
    values: FloatArray,
    folds: IndexArray,
    *,
    measure: str,
    units: str,
    groups: IndexArray | None = None,
    overlap: float = 0.0,
) -> Decision:
    """Choose a candidate, and test the gain of the choice on folds that did not make it.

    There is one hypothesis, however many candidates there are: for each fold the other folds choose a learned
    candidate, and that is measured on this fold. Where few units differ, a choice of the plain candidate by the other
    folds would mean that this fold has the gains, so they only choose among the learned ones. All units together
    choose by `choose`; if the measured gain is not above 0, or its p-value above 0.5, they choose the plain candidate.

    Parameters
    ----------
    values : array of shape (n_repeats, n_units, n_candidates), larger is better; candidate 0 is the plain one
    folds : array of shape (n_repeats, n_units), the fold in which each unit was held out
    measure, units : names for the verdict
    groups : number of the group of each unit, whose units are not independent; None if they are
    overlap : if units are whole test parts, the rows of a test part over those of its training part. Standard errors
        then allow for training parts that overlap (Nadeau, Bengio, 2003).
    """
    n = values.shape[1] if groups is None else len(np.unique(groups))
    if values.shape[2] < 2 or len(np.unique(folds)) < 2:  # there is nothing to choose from, or nothing to choose on
        early = Verdict("too early to tell", 0.0, 0.0, 0.0, n, 1.0, measure, units)
        return Decision(0, values[:, :, 0].mean(axis=0), early)
    gains = values - values[:, :, :1]
    gains[np.abs(gains) < ROUNDING] = 0.0
    mean_gains = gains.mean(axis=0)
    tests = [(repeat, fold_of == fold) for repeat, fold_of in enumerate(folds) for fold in np.unique(fold_of)]
    chosen_gains = np.empty(folds.shape)
    for repeat, test in tests:
        bounds = lower_bounds(mean_gains[~test], None if groups is None else groups[~test])
        chosen_gains[repeat, test] = gains[repeat, test, 1 + int(bounds[1:].argmax())]
    unit_gains = chosen_gains.mean(axis=0)
    least = _flipped_p_value(gains[:, :, 1:], tests, groups, float(unit_gains.mean()))
    gain, low, high, p_value = paired_test(unit_gains, groups, overlap=overlap, least=least)
    chosen = choose(mean_gains, groups)
    if not (gain > 0.0 and p_value <= PROBABLE):
        chosen = 0
    kind: Kind
    if n < FEWEST:
        kind, chosen = "too early to tell", 0
    elif not chosen:
        kind = "does not help"
    else:
        kind = "shown to help" if low > 0.0 else "probably helps"
    wins = int((chosen_gains.mean(axis=1) > 0.0).sum())
    verdict = Verdict(kind, gain, low, high, n, p_value, measure, units, wins, len(folds))
    return Decision(chosen, values[:, :, 0].mean(axis=0) + unit_gains, verdict)


def _flipped_p_value(
    gains: FloatArray, tests: list[tuple[int, BoolArray]], groups: IndexArray | None, mean: float
) -> float:
    """Return the p-value of the gain of the choice under random signs, with which the folds choose again.

    The choice for one fold depends on the gains of the others, and theirs on this one, so that gains of the choice are
    not independent even where those of each candidate are. `gains` are those of learned candidates, of shape
    (n_repeats, n_units, n_candidates); units of one group change their signs together. Lower bounds follow from sums
    over groups, which are linear in the signs, and from squares, which do not depend on them.
    """
    n_repeats, n, _ = gains.shape
    means = gains.mean(axis=0)
    codes = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_groups = int(codes.max()) + 1

    rng, hits = np.random.default_rng(0), 0
    n_draws = int(np.clip(_MOST_SIGNS // n_groups, _FEWEST_DRAWS, _MOST_DRAWS))
    for block in row_blocks(n_draws, n_groups):
        size = block.stop - block.start
        signs = rng.integers(2, size=(size, n_groups)) * 2.0 - 1.0
        total = np.zeros(size)
        for repeat, test in tests:
            outside = _group_sums(np.where(test[:, np.newaxis], 0.0, means), groups)
            counts = np.bincount(codes[~test], minlength=n_groups)
            m, n_outside = np.count_nonzero(counts), int(counts.sum())
            center = signs @ outside / n_outside
            # Of the sums of the groups around their sizes times the mean.
            squares = np.square(outside).sum(axis=0) - 2.0 * center * (signs @ (counts[:, np.newaxis] * outside))
            squares += np.square(center) * float(counts @ counts)
            errors = np.sqrt(np.maximum(squares, 0.0) * m / max(m - 1, 1)) / n_outside
            choice = (center - QUANTILE * errors).argmax(axis=1)
            inside = signs @ _group_sums(np.where(test[:, np.newaxis], gains[repeat], 0.0), groups)
            total += inside[np.arange(size), choice]
        hits += int(np.count_nonzero(np.abs(total) / (n * n_repeats) >= abs(mean) * (1.0 - 1e-9)))
    return (1.0 + hits) / (1.0 + n_draws) if hits else 0.0  # less than the draws can tell


def paired_test(
    gains: FloatArray, groups: IndexArray | None = None, *, overlap: float = 0.0, least: float = 0.0
) -> tuple[float, float, float, float]:
    """Return the mean gain, the ends of its 95 % interval, and the p-value of no gain; one unit has no interval.

    The p-value is that of random signs if few units differ (exact but for 9,999 draws), and not below that of
    Student's t, nor below `least`. The interval has the standard error that belongs to the p-value, so the two never
    contradict each other. Units of a group change their signs together.

    >>> [round(number, 3) for number in paired_test(np.repeat([1.0, 0.0], [8, 192]))]
    [0.04, 0.011, 0.069, 0.008]
    """
    sums = gains if groups is None else np.bincount(np.unique(groups, return_inverse=True)[1], gains)
    mean, freedom = float(gains.mean()), len(sums) - 1
    if freedom < 1:
        return mean, np.nan, np.nan, 1.0
    different = sums[np.abs(sums) > ROUNDING]
    if not len(different):
        return 0.0, 0.0, 0.0, 1.0
    error = float(standard_errors(gains[:, np.newaxis], groups)[0]) * np.sqrt(1.0 + overlap * len(sums))
    p_value = least
    if len(different) <= MOST_FLIPPED:
        signs = np.random.default_rng(0).integers(2, size=(_FLIPS, len(different))) * 2.0 - 1.0
        total = abs(different.sum()) - 1e-9 * np.abs(different).sum()  # equal sums in another order differ by rounding
        hits = np.count_nonzero(np.abs(signs @ different) >= total)
        if hits:  # otherwise it is less than the draws can tell, and Student's t does
            p_value = max(p_value, (1.0 + hits) / (1.0 + _FLIPS))
    if 0.0 < p_value < 1.0:
        error = max(error, abs(mean) / float(stats.t.isf(p_value / 2.0, freedom)))
    reach = float(stats.t.ppf(1.0 - ALPHA / 2.0, freedom)) * error
    return mean, mean - reach, mean + reach, float(2.0 * stats.t.sf(abs(mean) / error, freedom)) if error else 0.0


def mean_interval(values: FloatArray, groups: IndexArray | None = None) -> tuple[float, float]:
    """Return the ends of the 95 % interval of a mean by Student's t; NaN if there is one value or group."""
    n = len(values) if groups is None else len(np.unique(groups))
    if n < 2:
        return np.nan, np.nan
    mean, error = float(values.mean()), float(standard_errors(values[:, np.newaxis], groups)[0])
    reach = float(stats.t.ppf(1.0 - ALPHA / 2.0, n - 1)) * error
    return mean - reach, mean + reach


def standard_errors(gains: FloatArray, groups: IndexArray | None) -> FloatArray:
    """Return the standard error of the mean of each column; rows of one group are not independent."""
    centered = _group_sums(gains - gains.mean(axis=0), groups)
    n = len(centered)
    if n < 2:
        return np.full(gains.shape[1], np.inf)
    result: FloatArray = np.sqrt(np.square(centered).sum(axis=0) * n / (n - 1)) / len(gains)
    return result


def _group_sums(rows: FloatArray, groups: IndexArray | None) -> FloatArray:
    """Return the sum of the rows of each group; the rows themselves if each is a group of its own."""
    if groups is None:
        return rows
    codes = np.unique(groups, return_inverse=True)[1]
    sums = np.zeros((int(codes.max()) + 1, rows.shape[1]))
    np.add.at(sums, codes, rows)
    return sums
