"""The pictures of the first page and of the gallery, drawn when the site is built.

Those of the first page show what the examples of other pages learn; those of the gallery, every learner on one table.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mkdocs.structure.files import File
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

import mahala
from mahala.saved_estimator import kind_named

EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
GALLERY = re.compile(r'(?<=<div class="gallery" markdown>\n).*?(?=\n</div>)', re.DOTALL)
ENTRY = re.compile(r"^\[(?P<text>.*?)\]\((?P<page>[\w/]+\.md)\)$", re.MULTILINE)
GREY = "#8a8f98"  # seen on white and on black
DRAFT = bool(os.environ.get("MAHALA_DRAFT"))  # leave the pictures empty: the site builds in half the time


def classes_in_a_plane(names: dict[str, Any], axes: Axes) -> None:
    """Test rows in the two leading directions."""
    Z = names["learner"].metric_.truncate(2).transform(names["X_test"])
    axes.scatter(*Z.T, c=names["y_test"], cmap="tab10", s=6, linewidths=0)
    axes.set(xlabel="first direction", ylabel="second direction", xticks=[], yticks=[])


def distances_of_pairs(names: dict[str, Any], axes: Axes) -> None:
    """Squared distances of pairs that the learner has not seen, and its threshold."""
    pairs, learner = names["unseen"], names["learner"]
    squared = learner.metric_.distance(pairs.X[pairs.left], pairs.X[pairs.right], squared=True)
    bins = np.linspace(0.0, float(np.quantile(squared, 0.99)), 40)
    for similar, name in ((True, "similar"), (False, "dissimilar")):
        axes.hist(squared[pairs.similar == similar], bins, alpha=0.6, label=name)
    axes.axvline(learner.threshold_, color=GREY, linestyle="--", label="threshold")
    axes.set(xlabel="squared distance of unseen pairs", yticks=[])
    axes.legend(frameon=False, labelcolor=GREY)


def weights_of_features(names: dict[str, Any], axes: Axes) -> None:
    """Weights in units of the features' variance, which makes them comparable."""
    weights = names["mdm"].feature_importances_ * names["X_train"].var(axis=0)
    axes.bar(np.arange(len(weights)), weights / weights.max())
    axes.set(xlabel="feature", ylabel="weight, for equal variances", yticks=[])


def target_along_a_direction(names: dict[str, Any], axes: Axes) -> None:
    """Targets of test rows against their leading direction."""
    Z = names["learner"].metric_.truncate(1).transform(names["X_test"])
    axes.scatter(Z[:, 0], names["y_test"], s=8, linewidths=0)
    axes.set(xlabel="first direction", ylabel="target")


def similarities(names: dict[str, Any], axes: Axes) -> None:
    """Similarities of test rows, which are sorted by their class."""
    order = np.argsort(names["y_test"], kind="stable")
    rows = names["X_test"][order]
    S = names["learner"].metric_.pairwise(rows)
    axes.imshow(S, vmin=np.quantile(S, 0.02), vmax=np.quantile(S, 0.98), aspect="auto")
    axes.set(xlabel="items, by class", ylabel="queries, by class", xticks=[], yticks=[])


def distances_of_rows(names: dict[str, Any], axes: Axes) -> None:
    """Distances of test rows, of one class and of different ones."""
    squared = names["learner"].metric_.pairwise(names["f"](names["X_test"]), squared=True)
    y = names["y_test"]
    left, right = np.triu_indices(len(y), 1)
    bins = np.linspace(0.0, float(np.sqrt(squared.max())), 40)
    for same, name in ((True, "same class"), (False, "other class")):
        chosen = (y[left] == y[right]) == same
        axes.hist(np.sqrt(squared[left, right][chosen]), bins, alpha=0.6, density=True, label=name)
    axes.set(xlabel="distance of unseen rows", yticks=[])
    axes.legend(frameon=False, labelcolor=GREY)


PICTURES: dict[str, Callable[[dict[str, Any], Axes], None]] = {
    "learners/NCA.md": classes_in_a_plane,
    "learners/GML.md": distances_of_rows,
    "learners/PA.md": distances_of_pairs,
    "learners/OASIS.md": similarities,
    "learners/MDM.md": weights_of_features,
    "learners/MLKR.md": target_along_a_direction,
}


def picture(page: str, folder: Path) -> bytes:
    """Run the first example of a page, and draw the fitted model as SVG."""
    names: dict[str, Any] = {}
    example = EXAMPLE.search((folder / page).read_text(encoding="utf-8"))
    assert example is not None, page
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(example[1], page, "exec"), names)
    return draw(page, names)


def draw(page: str, names: dict[str, Any]) -> bytes:
    """Draw as SVG what the first example of a page has defined."""
    figure = Figure(figsize=(4.0, 2.6), layout="constrained")
    axes = figure.subplots()
    (PICTURES[page] if page in PICTURES else names["draw"])(names, axes)
    axes.tick_params(colors=GREY)
    for part in (axes.xaxis.label, axes.yaxis.label):
        part.set_color(GREY)
    for side, spine in axes.spines.items():
        spine.set(color=GREY, visible=side in ("left", "bottom"))
    written = io.BytesIO()
    figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return written.getvalue()


def wines_by(name: str) -> bytes:
    """Fit a learner to half of the wines, and draw the others as SVG."""
    X, y = load_wine(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(scale(X), y, test_size=0.5, stratify=y, random_state=0)
    kind = kind_named(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what few rows cannot determine
        learner = kind(**({"random_state": 0} if "random_state" in kind().get_params() else {})).fit(X_train, y_train)
    is_distance = isinstance(learner.metric_, mahala.MahalanobisMetric)
    names = {"learner": learner, "X_test": X_test, "y_test": y_test}
    return draw("", names | {"draw": classes_in_a_plane if is_distance else similarities})


def on_files(files: Any, config: Any) -> Any:
    """Add the pictures to the site."""
    folder, empty = Path(config.docs_dir), b"<svg xmlns='http://www.w3.org/2000/svg'/>"
    for page in PICTURES:
        content = empty if DRAFT else picture(page, folder)
        files.append(File.generated(config, _address("index.md", page), content=content))
    for entry in ENTRY.finditer((folder / "gallery.md").read_text(encoding="utf-8")):
        content = empty if DRAFT else wines_by(Path(entry["page"]).stem)
        files.append(File.generated(config, _address("gallery.md", entry["page"]), content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **more: Any) -> str:
    """Put each picture into its link, which without it is an item of a list of links."""
    here = page.file.src_uri
    if here not in ("index.md", "gallery.md"):
        return markdown
    return GALLERY.sub(lambda found: ENTRY.sub(lambda entry: _with_picture(here, entry), found[0]), markdown)


def _with_picture(here: str, entry: re.Match[str]) -> str:
    alternative = f"Picture of what {Path(entry['page']).stem} learns"
    return f"[![{alternative}]({_address(here, entry['page'])})\n{entry['text']}]({entry['page']})"


def _address(here: str, page: str) -> str:
    return f"images/{Path(here).stem}-{Path(page).stem}.svg"
