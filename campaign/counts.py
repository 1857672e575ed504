"""Write what a campaign has tried, from its state file, into the table of docs/reliability.md.

    python -m campaign --state campaign.jsonl --budget 3h
    python -m campaign.counts campaign.jsonl

Each row has what one version tried of one part: the cases that were run, what they tried, and how many failed.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from mahala.evaluation.cell_file import CellFile

from .__main__ import PARTS
from .runner import Block

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- counts of the campaign: written by python -m campaign.counts -->", "<!-- end of the counts -->"
_HEAD = "| part | version | day | cases | tried | failed | seconds |\n|---|---|---|---|---|---|---|\n"


def table(path: Path) -> str:
    """Return the rows of a state file, a part and version each, as a table in Markdown."""
    runs: dict[tuple[str, str], list[tuple[Block, dict[str, Any]]]] = defaultdict(list)
    for block, done in CellFile(path, Block, "campaign").cells.items():
        runs[block.part, done.get("version", "unknown")].append((block, done))
    rows = []
    for (part, version), blocks in sorted(runs.items(), key=lambda run: (PARTS.index(run[0][0]), run[0][1])):
        cases = sum(done["stop"] - block.start for block, done in blocks)
        tried = sum(done["tried"] for _, done in blocks)
        failed = sum(len(done["failures"]) for _, done in blocks)
        days = sorted({done.get("day", "unknown") for _, done in blocks})
        day = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        seconds = sum(done["seconds"] for _, done in blocks)
        rows.append(f"| {part} | {version} | {day} | {cases:,} | {tried:,} | {failed:,} | {seconds:,.0f} |\n")
    return _HEAD + "".join(rows)


def written(page: str, rows: str) -> str:
    """Return a page with other rows between the two marks."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the page must have the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{rows}\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser("campaign.counts", description=__doc__.partition("\n")[0])
    parser.add_argument("state", type=Path, help="the file of --state")
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    if not given.state.exists():
        parser.error(f"{given.state} does not exist: run the campaign with --state {given.state}")
    page = given.page.read_text(encoding="utf-8")
    given.page.write_text(written(page, table(given.state)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
