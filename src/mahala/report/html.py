"""Report of a comparison as a single, self-contained HTML page."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

from mahala.evaluation.cross_validation.entries import Entry
from mahala.evaluation.cross_validation.leaderboard import TITLES, Answers, Leaderboard, Line, percent
from mahala.evaluation.examples import Examples
from mahala.report import chart_data
from mahala.report.chart_data import BeforeAfter, Shown
from mahala.report.page import Section, chart, code, facts, header, page
from mahala.support.display import as_table

_MOST_WEIGHTS = 20


def report(
    leaderboard: Leaderboard,
    shown: Shown | None,
    *,
    title: str,
    saved: str,
    commands: Sequence[str],
    measured: Mapping[str, str],
    examples: Examples | None = None,
) -> str:
    """Return the page: the verdict, the leaderboard, figures of `shown`, and how everything was measured.

    `saved` is a sentence on the contents of the model file, `commands` are examples of its use, each of one or more
    lines, and `measured` holds facts by name, such as versions. `examples` are predictions of a few rows. All texts are
    escaped.
    """
    if leaderboard.answers is None:
        sections = _of_rows(leaderboard, shown, examples)
    else:
        sections = _of_answers(leaderboard, leaderboard.answers, shown)
    sections += [Section("What next", code(commands)), Section("How this was measured", _how(leaderboard, measured))]
    return page(f"{title} · mahala compare", _headline(leaderboard, title, saved), sections)


def _of_rows(board: Leaderboard, shown: Shown | None, examples: Examples | None) -> list[Section]:
    by_k = f"Means over all test parts; {_which_k(board)}. Click a name to show or hide its line."
    sections = [
        *([Section("Models", model_table(board), MODEL_NOTE)] if board.models else []),
        *([] if examples is None else [_predictions(examples)]),
        Section("Leaderboard", leaderboard_table(board), LEADERBOARD_NOTE),
        chart("Error by number of neighbours", "by_k", chart_data.errors_by_k(board), by_k),
        *(_classes(board, shown) if board.classes else _predicted_and_true(board, shown)),
        *(_figures(board, shown) if shown is not None else []),
    ]
    if board.columns:
        lines = "".join(f"<tr>{_text_cell(name)}{_text_cell(done)}</tr>" for name, done in board.columns)
        heads = _head("column", "text") + _head("what was done", "text")
        table = f"<table class='sortable columns'><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
        sections.append(Section("What was done to the columns", table))
    return sections


def _of_answers(board: Leaderboard, answers: Answers, shown: Shown | None) -> list[Section]:
    """Return the errors of each learner about new and about the same items, the gains of items, and figures."""
    titles = ("Answers about new items", "Answers about the same items")
    sections = [
        Section(title, leaderboard_table(part), LEADERBOARD_NOTE)
        for title, part in zip(titles, board.boards, strict=True)
    ]
    if board.best_learner is not None and len(answers.gains):
        values = np.sort(answers.gains)[::-1].round(4).tolist()
        gains = {"values": values, "n": len(values), "measure": "answers predicted", "unit": "item"}
        against = f"{board.best_learner.name} against {board.reference}"
        note = f"{against}, for each item that no answer learned from compares."
        sections.append(chart("The gain of each item", "gains", gains, note))
    return sections + ([] if shown is None else _figures(board, shown))


def _which_k(board: Leaderboard) -> str:
    """Return which number of neighbours of the chart the errors elsewhere have."""
    if board.n_neighbors is not None:
        return "the band marks the number that ranks"
    return "the errors elsewhere are those of a k that was chosen inside each training part"


def _headline(board: Leaderboard, title: str, saved: str) -> str:
    target = f"{len(board.classes):,} classes" if board.classes else "a number to predict"
    size = f"{len(board.rows):,} rows · {board.n_features:,} features · {target}"
    size = board.heading() if board.answers is not None else size
    texts = [text for text in (board.context(), saved) if text is not None]
    more = _paragraphs(texts) + _paragraphs((*board.remarks(), *board.notes), " class=note")
    cautions = f"<div class=cautions role=note>{_paragraphs(map(str, board.cautions))}</div>" if board.cautions else ""
    return header(f"{title} · {size}", board.headline, _unbroken(board.summary), more, cautions)


def _paragraphs(texts: Iterable[str], style: str = "") -> str:
    return "".join(f"<p{style}>{escape(_unbroken(text))}</p>" for text in texts)


def _unbroken(text: str) -> str:
    """Return text whose lines do not end between a number and its sign."""
    return text.replace(" %", "\u00a0%").replace("p = ", "p\u00a0=\u00a0")


def leaderboard_table(board: Leaderboard) -> str:
    """Return a line for each entry and a column for each number, with its interval, that any of them has."""
    return _table(board, board.lines(), "metric", board.measure)


def model_table(board: Leaderboard) -> str:
    """Return the table of models that predict by themselves."""
    return _table(board, board.model_lines(), "model", board.loss_name)


def _predictions(examples: Examples) -> Section:
    first, *lines = examples.cells()
    shown = as_table(first, lines) + f"<p>Row {examples.examples[0].row}:</p>" + examples.reasons._repr_html_()
    return Section("Predictions of rows that were held out", f"<p>{escape(examples.heading())}</p>{shown}")


def _table(board: Leaderboard, lines: Sequence[Line], first: str, error: str) -> str:
    twice = {"error": "plain_error", "balanced": "balanced_error"}.get(board.metric)  # the first column has it
    columns = [name for name in TITLES if name != twice and any(line.texts[name] for line in lines)]
    heads = [
        _head(first, "text"),
        _head(error, "number"),
        f"<th class=wide>0 <span class=end>{percent(board.axis_end)}</span></th>",
        *(_head(TITLES[name], "text" if name == "scaling" else "number") for name in columns),
    ]
    body = "".join(_line(board, line, columns) for line in lines)
    table = f"<table class='board sortable'><thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class=scroll>{table}</div>"


MODEL_NOTE = (
    "Models predict test rows by themselves, from raw features; metrics, below, let the nearest rows vote. All are "
    "measured on the same rows. Difference: that from the best plain distance, in percentage points."
)

LEADERBOARD_NOTE = (
    "Dot: mean error; line and small numbers: 95 % interval. Difference: that from the best plain distance, in "
    "percentage points, with its interval. Intervals describe each learner alone and are not adjusted for their "
    "number; the verdict above is the test. Fit: CPU seconds on one thread, the median over training parts. Click a "
    "heading to sort."
)


def _head(title: str, kind: str) -> str:
    """Return a heading that sorts the lines by their values, "text" or "number"."""
    side = "" if kind == "text" else " class=n"
    return f"<th{side} data-kind={kind}><button type=button>{escape(title)}</button></th>"


def _text_cell(text: str) -> str:
    return f"<td data-value='{escape(text)}'>{escape(text)}</td>"


def _line(board: Leaderboard, line: Line, columns: Sequence[str]) -> str:
    entry, name = line.entry, _text_cell(line.entry.name)
    if entry.failure is not None:
        return f"<tr class=failed>{name}<td colspan=20>could not be fitted: {escape(entry.failure)}</td></tr>"
    style = line.style if entry.learned or entry.kind == "model" else "plain"
    cells = "".join(_cell(line, column) for column in columns)
    return f"<tr class='{style}'>{name}{_cell(line, 'error')}<td class=wide>{_bar(board, entry)}</td>{cells}</tr>"


def _cell(line: Line, column: str) -> str:
    text = line.texts[column]
    if not text:
        return "<td></td>"
    if column == "scaling":
        return _text_cell(text)
    shown = f"<b>{text}</b>" if column == "error" else escape(text)
    if column in line.intervals:
        shown += f" <small>{line.intervals[column]}</small>"
    return f"<td class=n data-value={float(getattr(line.entry, column))!r}>{shown.replace('-', '−')}</td>"


def _bar(board: Leaderboard, entry: Entry) -> str:
    alone = math.isnan(entry.low)  # a mean of one test part, which has no interval
    ends = (entry.error, entry.error) if alone else (entry.low, entry.high)
    low, middle, high = (min(100.0 * value / board.axis_end, 100.0) for value in (ends[0], entry.error, ends[1]))
    dot = f'<i class=dot style="left:{middle:.2f}%"></i>' if entry.error <= board.axis_end else "<i class=beyond>›</i>"
    title = percent(entry.error) + ("" if alone else f", 95 % interval {percent(ends[0])} to {percent(ends[1])}")
    reach = f'<i class=reach style="left:{low:.2f}%;width:{high - low:.2f}%"></i>'
    return f'<div class=track title="{title}">{reach}{dot}</div>'


def _predicted_and_true(board: Leaderboard, shown: Shown | None) -> list[Section]:
    """Return the section on predicted numbers."""
    numbers = board.rows if shown is None or shown.numbers is None else shown.numbers
    predictions = chart_data.predictions(board, numbers)
    if predictions is None:
        return []
    note = (
        "Each row is predicted when it is not learned from, in the first cross-validation; on the line, the prediction "
        f"is right. Of more than {chart_data.MOST_PREDICTED:,} rows, a sample is shown."
    )
    return [chart("Predicted and true", "predictions", predictions, note)]


def _classes(board: Leaderboard, shown: Shown | None) -> list[Section]:
    """Return the sections on the classes: their sizes, their errors, and for which other they are taken."""
    drawn, name = chart_data.drawn_classes(board), "" if shown is None else shown.name
    counts, with_errors = board.class_counts, board.euclidean.confusion is not None
    majority = (
        f"The largest class, {board.majority}, has {percent(1.0 - board.majority_error)} of the rows; always "
        f"predicting it has an error of {percent(board.majority_error)}."
    )
    chosen = "k neighbours, a number chosen inside each training part"
    k = chosen if board.n_neighbors is None else f"{board.n_neighbors} neighbours"
    votes = f" Errors are those of {k}." if with_errors else ""
    which = "with the most errors" if with_errors else "with the most rows"
    some = "" if len(drawn) == len(counts) else f" Of {len(counts)} classes, the {len(drawn)} {which}."
    title = "Classes and their errors" if with_errors else "Classes"
    errors = chart_data.errors_by_class(board, drawn, name)
    sections = [chart(title, "classes", errors, majority + votes + some)]
    if with_errors:
        cells = chart_data.confusions(board, drawn, name)
        times = "" if board.repeats == 1 else f", {board.repeats} times each"
        rows = f"The test rows of {board.parts} parts" if board.partial else f"All rows as test rows{times}"
        note = f"{rows}, with {k}. Darker cells have a larger share of their row."
        sections.append(chart("Which classes are confused", "confusion", cells, note + some))
    return sections


def _figures(board: Leaderboard, shown: Shown) -> list[Section]:
    """Return the sections on the learned metric: distances, the rows in a plane, the spectrum, and weights."""
    compared = chart_data.before_and_after(board, shown)
    spectrum, sections = shown.final.spectrum, []
    if board.classes:
        note = (
            f"Pairs of {compared.n_held_out:,} held-out rows, to which {shown.name} was not fitted. The less the two "
            "overlap, the better. Distances are divided by their median, because only their ratios matter."
        )
        sections.append(chart("Distances before and after", "pairs", compared.pairs, note))
    in_plane = _note_on_plane(board, shown, compared)
    rank = (
        f"The rank is {shown.final.n_components:,} of {len(spectrum):,}. If the first few directions hold most of the "
        "sum, rows can be stored with fewer numbers."
    )
    return [
        *sections,
        chart("The rows in a plane, and their neighbours", "plane", compared.plane, in_plane),
        chart(f"Spectrum of {shown.name}", "spectrum", chart_data.spectrum(spectrum), rank),
        _weights(shown),
    ]


def _note_on_plane(board: Leaderboard, shown: Shown, compared: BeforeAfter) -> str:
    """Say what the two maps show."""
    n = compared.n_points
    texts = ["The two directions of largest variance under each distance."]
    if board.answers is None:
        texts.append(f"Strong: held-out rows; faint: rows to which {shown.name} was fitted.")
    else:
        lines = {
            "triplets": "A line joins each first item and the one that was said to be nearer",
            "quadruplets": "A line joins the two items of the pair that was said to be nearer",
            "pairs": "A line joins the two items of each pair",
        }[board.answers.kind]
        texts.append(
            f"{lines}; it is red if the distance contradicts the answer. {shown.name} was fitted to these answers; the "
            "errors above are those of others."
        )
    if compared.spread:
        texts.append("Rows that overlap are spread slightly.")
    if n < shown.X.shape[0]:
        texts.append(f"A sample of {n:,} rows is shown.")
    if len(board.classes) > 70:  # as many pairs of a colour and a shape as the script has
        texts.append("Of more than 70 classes, some look alike.")
    return " ".join([
        *texts,
        "Point at a row to see it in both maps. Click it, or enter its number, to list the nearest of all rows, in "
        "all directions; they get rings. Row numbers are those of the table, from 0. Distances are divided by their "
        "median.",
    ])  # fmt: skip


def _weights(shown: Shown) -> Section:
    """Return the section on what distances consist of."""
    weights = sorted(shown.final.column_weights(shown.X).items(), key=lambda pair: -abs(pair[1]))
    note = "The share of each column in the mean squared distance of two rows; two columns divide their common term."
    if len(weights) > _MOST_WEIGHTS:
        note += f" The {_MOST_WEIGHTS} largest of {len(weights)} are shown."
    return Section("Weights of the columns", _bars(weights[:_MOST_WEIGHTS]), note)


def _bars(shares: Sequence[tuple[str, float]]) -> str:
    most = max((abs(share) for _, share in shares), default=0.0) or 1.0
    lines = (
        f"<li><span>{escape(name)}</span><span class=track><i class='bar{' negative' if share < 0.0 else ''}' "
        f"style='width:{100.0 * abs(share) / most:.2f}%'></i>"
        f"</span><span class=n>{percent(share).replace('-', '−')}</span></li>"
        for name, share in shares
    )
    return f"<ul class=bars>{''.join(lines)}</ul>"


def _how(board: Leaderboard, measured: Mapping[str, str]) -> str:
    if board.answers is not None:
        return facts({**_how_of_answers(board, board.answers), "Seed": str(board.random_state), **measured})
    scaling = {
        "none": "none",
        "numbers": "each feature but 0/1 features divided by its standard deviation in the training part",
        "standard": "each feature divided by its standard deviation in the training part",
        "minmax": "each feature divided by its range in the training part",
        "robust": "each feature divided by the distance between its quartiles in the training part",
    }.get(board.scaling, "chosen for each training part by leave-one-out errors of the Euclidean distance in it")
    how = "the vote" if board.classes else "the mean"
    protocol = {
        "Protocol": f"{board.folds}-fold cross-validation, "
        + ("once" if board.repeats == 1 else f"repeated {board.repeats} times")
        + ", with the same folds for all",
        "Error": f"{board.measure} of test rows by {how} of their {board.n_neighbors or 'k'} nearest training rows; "
        "rows at equal distances share what is left for them",
        **({"Number of neighbours": board.choice_of_k} if board.choice_of_k else {}),
        "Scaling": scaling,
        "Verdict": "for each fold, the learner with the largest lower bound of its gain on the other folds is "
        "measured; the gains, paired over rows with the plain distance, are tested by random signs or Student's t",
        "Caution": "the error of the best learner in the table is slightly optimistic, because it was selected on the "
        "same test parts; the gain in the verdict is not",
        "Seed": str(board.random_state),
        **measured,
    }
    return facts(protocol)


def _how_of_answers(board: Leaderboard, answers: Answers) -> dict[str, str]:
    protocol = {
        "New items": f"{board.folds} folds over items: answers without any item of a fold are learned from, and those "
        "whose first item is in it are predicted",
        "The same items": f"{board.folds} folds over questions; the answers to one question are in one fold",
        "Plain": "the Euclidean distance and the cosine of the rows as they are",
        "Verdict": "the learner of each fold is chosen on the other folds; the gain is over the better plain distance",
    }
    if answers.kind == "quadruplets":
        protocol["The same items"] = f"{board.folds} folds over pairs; both pairs of a tested answer are in one fold"
        protocol["Pairs"] = "both pairs of a tested answer have an item of the fold, and each pair is tested once"
    return protocol
