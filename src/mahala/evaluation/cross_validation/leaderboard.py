"""Result of a comparison of learners by cross-validation."""

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from mahala.evaluation.cross_validation.advice import Advice
from mahala.evaluation.cross_validation.entries import Entry, knn
from mahala.judge import Verdict
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.display import as_table, paragraph, text_table
from mahala.support.latex import escaped, latex_table
from mahala.support.plots import Interval, Kind, draw_curves, draw_intervals, draw_predictions, plain_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of entries in the printed form and in pictures, and of learners in a picture of lines.
_MOST_LINES, _MOST_CURVES = 20, 8

# What the loss of nearest neighbours is called, by the measure that ranks.
_CALLED = {
    "error": "{} error",
    "balanced": "balanced {} error",
    "f1": "{} error (1 - F1)",
    "roc_auc": "{} error (1 - ROC AUC)",
    "r2": "{} error (1 - R²)",
    "new items": "new-item error",
    "same items": "same-item error",
}
# With fewer questions that were asked more than once, how often answers agree is mostly chance, and is not shown.
FEWEST_REPEATED = 20

CHOICE_OF_K = (
    "k of each metric is chosen inside each training part: the number of neighbours that suits rows of it that are "
    "left out. The column k has the median."
)

# Fields of entries that are shown after the error, and their titles.
TITLES = {
    "n_neighbors": "k",
    "difference": "difference",
    "seconds": "fit",
    "plain_error": "plain error",
    "balanced_error": "balanced error",
    "absolute_error": "mean absolute error",
    "scaling": "scaling",
    "stopped": "stopped",
}


class Line(NamedTuple):
    """An entry as it is shown: its numbers as text by the names of their fields, and their 95 % intervals."""

    entry: Entry
    style: str
    """How the line is set off: "winner", "plain" (a plain distance), "failed", or nothing."""
    texts: dict[str, str]
    intervals: dict[str, str]


class Caution(NamedTuple):
    """What makes a verdict doubtful, in a few words for the headline, and in a sentence."""

    subject: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


class Answers(NamedTuple):
    """The answers that were compared.

    Attributes
    ----------
    kind : "pairs", "triplets" or "quadruplets"
    n_answers, n_items, n_repeated : number of answers, of items that they compare, and of questions asked twice or more
    agreement : how often two answers to one question agree, of different people if they are given; None if no question
        was asked twice
    unit_rows : whether distances learn from rows scaled to length 1, because the cosine predicts more than the
        Euclidean distance
    gains : how many more answers the best learner predicts than the reference, for each new item
    """

    kind: str
    n_answers: int
    n_items: int
    n_repeated: int
    agreement: float | None
    unit_rows: bool
    gains: FloatArray

    @property
    def ceiling(self) -> float | None:
        """The largest share of answers that any metric can predict, or None if no question was asked twice.

        If a share p of people give the usual answer, it is predicted with probability p, and two answers agree with
        probability p² + (1 - p)². The root of that is concave, so questions that differ in p can only have less.

        >>> round((1 + math.sqrt(2 * (0.9**2 + 0.1**2) - 1)) / 2, 3)
        0.9
        """
        return None if self.agreement is None else (1.0 + math.sqrt(max(2.0 * self.agreement - 1.0, 0.0))) / 2.0

    @property
    def sentence(self) -> str:
        """The lowest error that answers allow, in words; empty if too few questions were asked more than once."""
        if self.agreement is None or self.ceiling is None or self.n_repeated < FEWEST_REPEATED:
            return ""
        return (
            f"Two answers to one question agree in {percent(self.agreement)} of the cases ({self.n_repeated:,} "
            f"questions were asked more than once): no metric can have an error below about "
            f"{percent(1.0 - self.ceiling)}."
        )


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Result of :func:`mahala.compare`: entries from the lowest error to the highest, then those that failed.

    Of answers, errors are shares of answers that are not predicted. The entries and the verdict are those on answers
    about new items: no answer learned from compares the first item, while the others may be known. `same_items` has
    those on new answers about the same items.

    Attributes
    ----------
    verdict : Verdict, whether learning helps: the judge chooses a learner on some folds and tests the choice on others
    chosen : name of the learner that the judge chooses, or of the plain distance
    reference : name of the best plain distance: a Euclidean one, unless the cosine or PCA is clearly better
    scaled : name of the scaled plain distance to use where nothing helps: of the two with 0/1 features, that of all
        features scaled, unless the other one is clearly better
    cautions : Caution on each thing that makes the verdict doubtful, such as a column that gives the label away
    neighbor_counts : numbers of neighbours for which errors were measured
    n_neighbors : the number of neighbours of all entries; None if each has its own, chosen in each training part
    scaling : the scaling of the features, or "auto" if it was chosen for each training part
    rows : the rows that were compared: all of them, or a sample of a large table
    notes : sentences about what was done differently than requested
    targets : the numbers of these rows that were predicted, or None
    classes, class_counts : the classes, and how many of these rows are of each; empty if the target is a number
    columns : pairs of the name of each column of a table, or of its file, and what was done to it; empty for an array
    metric : the measure by which entries are ranked: "error", "balanced", "f1", "roc_auc" or "r2"; of answers "new
        items" or "same items"
    answers : the answers that were compared, or None if rows were
    same_items : the leaderboard of answers about the same items, or None
    models : entries of models that predict by themselves, from the lowest error to the highest
    advice : Advice on what to use, a model or k-NN with a metric; None if no model was measured on enough rows, or if
        models and metrics do not differ clearly
    baselines : errors of nearest neighbours with other distances, as context
    left_out : reasons why members of the default panel were left out, by name
    parts : number of test parts that were measured, fewer than planned if the comparison is partial
    planned : number of test parts that were planned
    first_part : training and test rows of the first test part, among `rows`
    """

    entries: tuple[Entry, ...]
    verdict: Verdict
    chosen: str
    reference: str
    scaled: str
    folds: int
    random_state: int
    n_rows: int
    n_features: int
    parts: int
    planned: int
    repeats: int = 1
    scaling: str = "none"
    n_neighbors: int | None = 0
    neighbor_counts: IndexArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    rows: IndexArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    first_part: tuple[IndexArray, IndexArray] | None = None
    notes: tuple[str, ...] = ()
    cautions: tuple[Caution, ...] = ()
    targets: FloatArray | None = None
    classes: tuple[str, ...] = ()
    class_counts: tuple[int, ...] = ()
    columns: Sequence[tuple[str, str]] = ()
    metric: str = "error"
    answers: Answers | None = None
    same_items: Self | None = None
    baselines: tuple[Entry, ...] = ()
    models: tuple[Entry, ...] = ()
    advice: Advice | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def measure(self) -> str:
        """What the errors are, such as "3-NN error", or "k-NN error" if k is chosen in each training part."""
        return _CALLED[self.metric].format(knn(self.n_neighbors))

    @property
    def loss_name(self) -> str:
        """What the errors of models are, such as "error" or "balanced error"."""
        return _CALLED[self.metric].replace("{} ", "")

    @property
    def choice_of_k(self) -> str:
        """A sentence on the number of neighbours, which is empty if it was given."""
        return "" if self.n_neighbors is not None else CHOICE_OF_K

    @property
    def majority(self) -> str:
        """The most frequent class, or an empty text if there are none."""
        return self.classes[self.class_counts.index(max(self.class_counts))] if self.class_counts else ""

    @property
    def majority_error(self) -> float:
        """The plain error of always answering with the most frequent class."""
        total = sum(self.class_counts)
        return (total - max(self.class_counts)) / total if total else math.nan

    @property
    def partial(self) -> bool:
        """Whether the comparison ended before all test parts were measured."""
        return self.parts < self.planned

    @property
    def ranked(self) -> tuple[Entry, ...]:
        """The entries that did not fail."""
        return tuple(entry for entry in self.entries if entry.failure is None)

    def __getitem__(self, name: str) -> Entry:
        """Return the entry of this name."""
        entries = {entry.name: entry for entry in self.entries}
        if name not in entries:
            raise KeyError(f"there is no entry {name!r}, only {', '.join(entries)}")
        return entries[name]

    @property
    def boards(self) -> tuple[Self, ...]:
        """This leaderboard and, of answers, that of the same items."""
        return (self,) if self.same_items is None else (self, self.same_items)

    @property
    def euclidean(self) -> Entry:
        """The best of the plain distances, which is the reference."""
        return self[self.reference]

    @property
    def best_learner(self) -> Entry | None:
        """The learner with the lowest error, or None if all failed or were stopped before they were ahead."""
        return next((entry for entry in self.ranked if entry.learned and not entry.is_set_apart), None)

    @property
    def candidate(self) -> Entry | None:
        """The learner that the judge chooses, which is shown to help or probably helps; None if it chooses none.

        Of answers, it may be one that helps for the same items only.
        """
        entries = ((board.chosen, entry) for board in self.boards for entry in board.entries)
        return next((entry for chosen, entry in entries if entry.learned and entry.name == chosen), None)

    @property
    def winner(self) -> Entry:
        """The learner that is shown to help, or else the best of the plain distances."""
        return self.candidate if self.candidate is not None and self.verdict.kind == "shown to help" else self.euclidean

    @property
    def axis_end(self) -> float:
        """The error at which the axis of a drawing ends: at most twice the median upper end of the intervals.

        Entries far behind would otherwise leave little room for the others.
        """
        shown = [entry for entry in (*self.ranked, *self.models) if not math.isnan(entry.error)]
        highs = sorted(entry.error if math.isnan(entry.high) else entry.high for entry in shown) or [1.0]
        return max(min(highs[-1], 2.0 * highs[len(highs) // 2]), 1e-9)

    @property
    def headline(self) -> str:
        """The outcome in a few words."""
        kind = self.verdict.kind[0].upper() + self.verdict.kind[1:]
        subjects = ", ".join(dict.fromkeys(caution.subject for caution in self.cautions))
        doubt = f" (caution: {subjects})" if subjects else ""
        first = "" if self.advice is None else f"{self.advice.headline} · "
        return f"{first}{kind}{f': {self.chosen}' if self.verdict.helps else ''}{doubt}"

    @property
    def summary(self) -> str:
        """What to use, and the verdict on metrics, in sentences."""
        return " ".join(self.sentences())

    def sentences(self) -> list[str]:
        """Return what to use, the verdicts, and the lowest error that answers allow."""
        texts = [
            "" if self.advice is None else self.advice.sentence,
            *(board.verdict.sentence for board in self.boards),
        ]
        return [text for text in (*texts, "" if self.answers is None else self.answers.sentence) if text]

    def remarks(self) -> list[str]:
        """Return sentences on learners that others were ahead of, that the time limit stopped or that were left out."""
        remarks, stopped, measured = [], Counter[str](), Counter[str]()
        for entry in (*self.models, *(entry for board in self.boards for entry in board.ranked)):
            stopped[entry.name] += entry.stopped
            measured[entry.name] += len(entry.errors)
        if listed := [f"{name} ({n} of {measured[name]})" for name, n in stopped.items() if n]:
            remarks.append(
                f"Not finished within their share of the budget, on so many training parts: {', '.join(listed)}. Their "
                "errors are those of the best so far; a larger budget lets them finish."
            )
        fewer = [entry for entry in self.ranked if entry.learned and len(entry.errors) < self.parts]
        behind = [f"{entry.name} ({len(entry.errors)} of {self.parts})" for entry in fewer]
        if behind and self.answers is None:
            remarks.append(f"Measured on fewer test parts, because others were ahead by then: {', '.join(behind)}.")
        for why in dict.fromkeys(self.left_out.values()):
            names = [name for name, reason in self.left_out.items() if reason == why]
            remarks.append(f"Not compared: {', '.join(names)} ({why}). Name them as learners to include them.")
        return remarks

    def context(self) -> str | None:
        """Return a sentence with what other methods have by the same measure, or None if nothing is known."""
        shown = [self.winner, *(entry for entry in self.baselines if entry.failure is None)]
        errors = {f"{knn(self.n_neighbors)} with {entry.spoken}": entry.error for entry in shown}
        always = {"error": self.majority_error, "balanced": 1.0 - 1.0 / max(len(self.classes), 1)}
        if self.metric in always and self.majority:
            errors[f"always {self.majority!r}"] = always[self.metric]
        if len(errors) == 1:
            return None
        return f"For context: {', '.join(f'{name} {percent(error)}' for name, error in errors.items())}."

    def table(self) -> list[dict[str, Any]]:
        """Return one dictionary per entry, with errors as shares from 0 to 1; of answers, for each kind of items."""
        if self.answers is None:
            return [entry.numbers() for entry in self.entries]
        return [{"errors_of": board.metric} | entry.numbers() for board in self.boards for entry in board.entries]

    def lines(self) -> list[Line]:
        """Return the entries as every form of the leaderboard shows them: text, terminal and page."""
        return [_line_of(entry, self) for entry in self.entries]

    def model_lines(self) -> list[Line]:
        """Return the models as every form of the leaderboard shows them."""
        return [_line_of(entry, self) for entry in self.models]

    def to_latex(self, caption: str | None = None, label: str | None = None) -> str:
        """Return the table as papers print it, in LaTeX with the package booktabs.

        The lowest error is bold. A bullet marks an error that is lower than that of the reference, and a circle one
        that is higher, where the 95 % interval of the difference excludes 0. These intervals are not adjusted for the
        number of entries: the verdict, in the note, is the test.

        Parameters
        ----------
        caption : str or None, default=None
            LaTeX; None says what was compared.
        label : str or None, default=None
            What `\\ref` calls the table.
        """
        groups = [group for board in self.boards for group in board._latex_groups()]
        note = (
            f"Bold: lowest error. $\\bullet$/$\\circ$: lower/higher than {escaped(self.euclidean.spoken)}, by "
            f"95\\,\\% intervals of differences, not adjusted for their number. {escaped(self.headline)}."
        )
        return latex_table(groups, note, escaped(self.heading()) if caption is None else caption, label)

    def _latex_groups(self) -> Iterator[list[list[str]]]:
        """Yield the rows of models and of metrics, each after its heading."""
        errors = [entry.error for entry in (*self.models, *self.ranked) if not entry.is_set_apart]
        lowest = _text("error", min((error for error in errors if error == error), default=math.nan))
        titles = ("model", self.loss_name, self.model_lines()), ("metric", self.measure, self.lines())
        for title, measure, lines in titles:
            if lines:
                heading = [escaped(text) for text in (title, measure, "95 % interval", "difference")]
                yield [heading, *(_latex_cells(line, lowest) for line in lines)]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the errors of metrics and models with their 95 % intervals; return Matplotlib's axes.

        The dashed line is the error of the best plain distance. Of more than 20 entries the best ones are drawn.
        """
        fitted = sorted((*self.models, *self.ranked), key=lambda entry: entry.error)
        fitted = [entry for entry in fitted if entry in fitted[: _MOST_LINES - 1] or entry is self.euclidean]
        intervals = [Interval(e.name, e.error, e.low, e.high, _kind(e)) for e in fitted]
        ax = draw_intervals(ax, intervals, self.euclidean.error, self.axis_end)
        return plain_frame(ax, title=self.headline, xlabel=self.measure)

    def plot_error_by_k(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the error of each metric by the number of neighbours, plain ones in grey; return Matplotlib's axes.

        Of more than 8 learners the best ones are drawn.
        """
        if self.answers is not None:
            raise ValueError("answers have no number of neighbours: see plot")
        learned = [entry for entry in self.ranked if entry.learned][:_MOST_CURVES]
        plain = [self.euclidean, *(e for e in self.ranked if not e.learned and e is not self.euclidean)]
        curves = {entry.name: entry.errors.mean(axis=0) for entry in (*learned, *plain)}
        ax = draw_curves(ax, self.neighbor_counts, curves, [entry.name for entry in plain])
        return plain_frame(ax, ylabel=self.loss_name)

    def plot_predictions(self, name: str | None = None, ax: "Axes | None" = None, level: float = 0.9) -> "Axes":
        """Draw predicted beside true numbers of rows not learned from; return Matplotlib's axes.

        Parameters
        ----------
        name : entry of a metric, whose nearest neighbours predict, or of a model; None for the lowest error
        ax : axes to draw on; None makes new ones
        level : share of the rows that the band holds
        """
        predicted = self.predictions()
        if self.targets is None or not predicted:
            raise ValueError("only predicted numbers can be drawn: classes have a confusion matrix in each entry")
        errors = {entry.name: entry.error for entry in (*self.models, *self.ranked)}
        name = min(predicted, key=lambda key: errors[key]) if name is None else name
        if name not in predicted:
            raise KeyError(f"there is no entry {name!r}, only {', '.join(predicted)}")
        tested = np.isfinite(predicted[name])
        return plain_frame(draw_predictions(ax, self.targets[tested], predicted[name][tested], level), title=name)

    def predictions(self) -> dict[str, FloatArray]:
        """Return the numbers that each model and metric predicts of rows not learned from; NaN of those not tested."""
        entries = (*self.models, *self.ranked)
        return {entry.name: entry.predicted for entry in entries if entry.predicted is not None}

    def __repr__(self) -> str:
        """Return a short table and the verdict, at most 30 lines."""
        models = list(text_table(self._model_cells())) if self.models else []
        most = (_MOST_LINES - len(models)) // len(self.boards)
        text = [self.heading(), *models, *(line for board in self.boards for line in text_table(board._cells(most)))]
        if len(self.entries) > most:
            text.append(f"… and {len(self.entries) - most} more")
        return "\n".join([*text, *textwrap.wrap(self.summary, 100, max_lines=8)])

    def _repr_html_(self) -> str:
        tables = [self._model_cells()] if self.models else []
        tables += [board._cells(len(board.entries)) for board in self.boards]
        shown = "".join(as_table(lines[0], lines[1:]) for lines in tables)
        return paragraph(self.summary, bold=True) + shown + paragraph(self.heading())

    def heading(self) -> str:
        """Return what was compared."""
        if self.answers is not None:
            what = f"{self.answers.n_answers:,} {self.answers.kind} over {self.answers.n_items:,} items"
            return f"{what} of {self.n_features:,} features, {self.folds} folds"
        target = f"{len(self.classes):,} classes" if self.classes else "a number to predict"
        inside = "" if self.n_neighbors is not None else ", k chosen inside"
        size = f"{len(self.rows):,} rows, {self.n_features:,} features, {target}"
        return f"{size}, {self.folds} folds × {self.repeats}{inside}"

    def _model_cells(self) -> list[list[str]]:
        """Return the heading and the cells of the models."""
        cells = [["model", self.loss_name, "95 % interval", "difference", "fit"]]
        for entry, _, texts, intervals in self.model_lines():
            name = textwrap.shorten(entry.name, 40, placeholder="…")
            cells.append(
                [name, texts["error"], intervals.get("error", ""), *(texts[name] for name in ("difference", "seconds"))]
            )
        return cells

    def _cells(self, most: int) -> list[list[str]]:
        """Return the heading and the cells of the first entries."""
        columns = (*(() if self.n_neighbors is not None else ("n_neighbors",)), "difference", "seconds")
        cells = [["metric", self.measure, "95 % interval", *(TITLES[name] for name in columns)]]
        for entry, _, texts, intervals in self.lines()[:most]:
            name = textwrap.shorten(entry.name, 40, placeholder="…")
            cells.append([name, texts["error"], intervals.get("error", ""), *(texts[name] for name in columns)])
        return cells


def _line_of(entry: Entry, board: Leaderboard) -> Line:
    if entry.failure is not None:
        return Line(entry, "failed", dict.fromkeys(TITLES, "") | {"error": "failed"}, {})
    texts = {name: _text(name, getattr(entry, name)) for name in ("error", *TITLES)}
    if entry.is_set_apart:
        texts["error"] = f"not finished: {texts['error']}"
    if entry.kind == "model" or board.metric in ("new items", "same items"):
        texts["scaling"] = "unit length" if entry.unit_rows else ""
    if board.n_neighbors is not None:
        texts["n_neighbors"] = ""  # the heading has it
    ends = {"error": (entry.low, entry.high), "difference": (entry.difference_low, entry.difference_high)}
    if entry is board.euclidean:
        texts["difference"] = "reference"
        del ends["difference"]
    intervals = {n: f"{points(low, n)} to {points(high, n)}" for n, (low, high) in ends.items() if low == low}
    ahead = board.advice is not None and board.advice.name == entry.name and not board.advice.level_with
    is_model = entry.kind == "model"
    style = "winner" if entry is board.winner or (ahead and is_model) else "" if entry.learned or is_model else "plain"
    return Line(entry, style, texts, intervals)


def _latex_cells(line: Line, lowest: str) -> list[str]:
    """Return the cells of an entry in LaTeX; an error that is shown as the lowest one is bold."""
    entry, error = line.entry, escaped(line.texts["error"])
    mark = r"^{\bullet}" if entry.difference_high < 0.0 else r"^{\circ}" if entry.difference_low > 0.0 else ""
    difference = line.texts["difference"]
    return [
        escaped(entry.name),
        rf"\textbf{{{error}}}" if line.texts["error"] == lowest else error,
        line.intervals.get("error", "").replace(" to ", "--"),
        f"${difference}{mark}$" if difference[:1] in ("+", "-") else difference,
    ]


def _kind(entry: Entry) -> Kind:
    return "model" if entry.kind == "model" else "learned" if entry.learned else "plain"


def percent(share: float) -> str:
    """Format a share as a percentage.

    >>> percent(0.0421), percent(-0.0001)
    ('4.2 %', '0.0 %')
    """
    return f"{round(100.0 * share, 1) + 0.0:.1f} %"


def p_text(p: float) -> str:
    """Format a p-value.

    >>> p_text(0.0123), p_text(1e-9)
    ('p = 0.012', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def points(share: float, name: str = "") -> str:
    """Format a share in percentage points; a difference has a sign, but not that of -0.0.

    >>> points(-0.00001), points(0.02, "difference")
    ('0.0', '+2.0')
    """
    value = round(100.0 * share, 1) + 0.0
    return f"{value:+.1f}" if name == "difference" else f"{value:.1f}"


def _text(name: str, value: Any) -> str:
    """Format a field of an entry; what is NaN, no fit that was stopped, or no number of neighbours, is not shown."""
    if isinstance(value, str):
        return value
    if value != value or (name in ("stopped", "n_neighbors") and not value):
        return ""
    if name == "difference":
        return points(value, name)
    if name == "absolute_error":
        return f"{value:.4g}"
    return percent(value) if name.endswith("error") else f"{value:.2f} s" if name == "seconds" else str(value)
