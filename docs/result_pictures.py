"""The pictures of the papers' results, drawn from their cells when the site is built."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from papers.results import draw
from papers.study import PAPERS, read_cells, studies

DRAFT = bool(os.environ.get("MAHALA_DRAFT"))  # leave these pictures empty: the site builds in half the time


def on_files(files: Any, config: Any) -> Any:
    """Add the pictures to the site."""
    for paper in PAPERS:
        for study in studies(paper).values():
            path = Path(config.docs_dir, "results", paper, study.cells_file)
            cells = [cell for cell in read_cells(path) if cell.dataset in study.datasets]
            for name, figure in draw(study, cells, None).items() if cells else ():
                content = io.BytesIO(b"<svg xmlns='http://www.w3.org/2000/svg'/>")
                if not DRAFT:
                    figure.savefig(content, format="svg", metadata={"Date": None})
                address = f"results/{paper}/{name}.svg"
                files.append(File.generated(config, address, content=content.getvalue()))
    return files
