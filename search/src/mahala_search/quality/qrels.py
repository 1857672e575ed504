"""Read relevance judgments of items for queries from files."""

import math
import os

from mahala.extend import text_file


def read_qrels(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """Read relevance judgments as {query id: {item id: grade}}, the form that `Judgments.from_ids` takes.

    The file is BEIR's, with the tab-separated columns query-id, corpus-id and score after a header line, or TREC's,
    with lines `query-id 0 item-id grade` and no header; either may be a .gz file. Ids are text. Grades below 0, which
    some collections give to spam, are read as 0, as trec_eval treats them.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "qrels.tsv")
    ...     _ = path.write_text("query-id\\tcorpus-id\\tscore\\nq1\\td8\\t2\\nq1\\td3\\t0\\n")
    ...     read_qrels(path)
    {'q1': {'d8': 2.0, 'd3': 0.0}}
    """
    path = os.fspath(path)
    qrels: dict[str, dict[str, float]] = {}
    beir: bool | None = None
    with text_file(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            fields = [field.strip() for field in line.split("\t")]
            if beir is None:
                beir = len(fields) == 3
                if beir and _grade(fields[2]) is None:
                    continue  # the header
            if not beir:
                fields = line.split()
            where = f"{path}: line {number}"
            if len(fields) != (3 if beir else 4) or not all(fields):
                form = "query-id, corpus-id and score, separated by tabs" if beir else "query-id 0 item-id grade"
                raise ValueError(f"{where} must be {form}, got {_shown(line)}")
            query, item, text = fields[0], fields[-2], fields[-1]
            grade = _grade(text)
            if grade is None:
                raise ValueError(f"{where} must end with a grade, a finite number, got {_shown(text)}")
            if qrels.setdefault(query, {}).setdefault(item, grade) != grade:
                earlier = f"but an earlier line gives {qrels[query][item]:g}"
                raise ValueError(f"{where} gives query {query!r} and item {item!r} the grade {grade:g}, {earlier}")
    if not qrels:
        raise ValueError(f"{path} has no judgments: it must have lines of a query id, an item id and a grade")
    return qrels


def _grade(text: str) -> float | None:
    try:
        grade = float(text)
    except ValueError:
        return None
    return max(grade, 0.0) if math.isfinite(grade) else None


def _shown(line: str) -> str:
    line = line.strip()
    return repr(line if len(line) <= 60 else f"{line[:60]}…")
