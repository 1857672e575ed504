"""Online and batch learning of pseudo-metrics (Shalev-Shwartz, Singer, Ng, 2004): Figures 2, 3 and 4.

Figure 2: 16 noisy images for each of two digits and two noise patterns; POLA learns from all pairs until none has a
hinge loss above 0.1. The noise is a random number per odd column, or per odd row, of an image.

Figure 3 is in digits.py, other settings of it are in settings.py, and Figure 4 in topics.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mahala.batch.pca import PCA
from mahala.comparisons import Pairs
from mahala.evaluation.knn import knn_error
from mahala.metric import MahalanobisMetric
from mahala.online.pola import POLA
from mahala.support.arrays import FloatArray, IndexArray
from papers.pola2004.digits import FEW, FEW_DIGITS, FIGURE3
from papers.pola2004.settings import SETTINGS, TABLE1, Won, wins_of
from papers.pola2004.topics import FIGURE4
from papers.study import Cell, Folder, Numbers, Quantity, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from papers.prose import Facts

# Figure 2.
SIDE = 12
COPIES = 16  # of each digit with each pattern of noise
TWO = """
............
..########..
.........#..
.........#..
.........#..
.........#..
..########..
..#.........
..#.........
..#.........
..########..
............"""


def prototypes() -> FloatArray:
    """Return the images of 2 and of 5, its mirror image, with 1 for ink and 0 for paper."""
    two = np.array([[mark == "#" for mark in line] for line in TWO.split()], dtype=float)
    return np.array([two, two[:, ::-1]])


def noisy_images(run: int) -> tuple[FloatArray, IndexArray]:
    """Return 64 images as rows, and whether each shows a 5; 2s come first, and for each digit noise on columns.

    A Gaussian number is added to each odd column, or row. The mean energy of the noise equals that of the image (0 dB).
    """
    rng = np.random.default_rng(run)
    rows = []
    for image in prototypes():
        scale = np.sqrt(np.square(image).sum() / (SIDE * SIDE / 2))
        for on_columns, _ in itertools.product((True, False), range(COPIES)):
            lines = np.zeros((1, SIDE))
            lines[0, ::2] = scale * rng.normal(size=SIDE // 2)  # the first line is odd
            rows.append((image + (lines if on_columns else lines.T)).ravel())
    return np.array(rows), np.repeat(np.arange(2), 2 * COPIES)


def reconstruct(X: FloatArray, y: IndexArray, method: str, run: int) -> FloatArray:
    """Reconstruct images from the leading direction of PCA or of POLA's M; for Euclidean return them unchanged."""
    if method == "Euclidean":
        return X
    if method == "PCA":
        metric = PCA(n_components=1, random_state=run).fit(X).metric_
    else:
        left, right = np.triu_indices(len(X), 1)
        order = np.random.default_rng(run).permutation(len(left))
        pairs = Pairs(X, left[order], right[order], (y[left] == y[right])[order])
        metric = POLA(max_loss=0.1).fit(pairs).metric_.truncate(1)
    direction = metric.components[0] / np.linalg.norm(metric.components[0])
    centre = X.mean(axis=0)
    result: FloatArray = centre + np.outer((X - centre) @ direction, direction)
    return result


def _measure_images(dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    X, y = noisy_images(run)
    seen = reconstruct(X, y, method, run)
    distances = MahalanobisMetric.euclidean(X.shape[1]).pairwise(seen)
    same = y[:, None] == y
    within = distances[same].sum() / (same.sum() - len(y))  # without the zero distances of rows to themselves
    error = knn_error(None, seen, y, n_neighbors=1).at(1)
    return {"error": 100.0 * error, "ratio": float(distances[~same].mean() / within)}


def _draw_images(cells: Sequence[Cell], folder: Folder) -> Figure:
    from papers.pola2004.figures import images_and_distances

    X, y = noisy_images(0)
    columns = {}
    for method, title in {"Euclidean": "noisy", "PCA": "PCA, 1 direction", "POLA": "POLA, 1 direction"}.items():
        seen = reconstruct(X, y, method, 0)
        columns[title] = seen, MahalanobisMetric.euclidean(X.shape[1]).pairwise(seen)
    return images_and_distances(columns, SIDE)


FIGURE2 = Study(
    paper="pola2004",
    name="figure2",
    title="POLA 2004, Figure 2: images under noise, seen through one direction",
    quantities=(
        Quantity("error", "Leave-one-out error of 1-NN in per cent", better="lower"),
        Quantity("ratio", "Mean distance between the digits by that within them", better="higher"),
    ),
    datasets=("2 and 5",),
    methods=("Euclidean", "PCA", "POLA"),
    runs=10,
    measure=_measure_images,
    axis="digits",
    draw=_draw_images,
)

STUDIES = (
    replace(FIGURE2, quick=replace(FIGURE2, runs=3)),
    replace(FIGURE3, quick=FEW_DIGITS),
    replace(TABLE1, quick=replace(TABLE1, datasets=FEW[:2], methods=tuple(SETTINGS)[:3])),
    replace(FIGURE4, quick=replace(FIGURE4, datasets=("wheat", "dlr"))),
)


def facts(found: Mapping[str, Facts]) -> dict[str, object]:
    """Return on how many problems and topics each method is better, as the page says it."""
    from papers.results import summarise

    digits, topics = found["figure3"], found["figure4"]
    lines = summarise(FIGURE3, FIGURE3.quantities[1], digits.own_cells)
    rivals = dict.fromkeys(line.method for line in lines)
    won = {rival: ", ".join(f"{line.mean:.1f}" for line in lines if line.method == rival) for rival in rivals}

    def better(first: str, second: str) -> int:
        return sum(topics[f"{topic}, {first}"] < topics[f"{topic}, {second}"] for topic in FIGURE4.datasets)

    settings: dict[str, Won] = wins_of(found["table1"].own_cells)
    scaled = [own.same for name, own in settings.items() if name.startswith("pixels")]
    return {
        "won": won,
        "over_nearest": better("POLA", "1-NN"),
        "paum_over": better("PAUM", "POLA"),
        "perceptron_over": better("Perceptron", "POLA"),
        "settings": settings,
        "least_scaled": min(scaled),
        "most_scaled": max(scaled),
        "most_won": max(own.same for own in settings.values()),
    }
