"""Draw what the guide to people's answers shows: `python docs/answer_pictures.py` writes docs/images/answers.svg."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.manifold import MDS

import mahala


def main() -> None:
    rng = np.random.default_rng(0)
    shoes = rng.normal(size=(60, 8))
    shoes /= np.linalg.norm(shoes, axis=1, keepdims=True)
    seen = shoes[:, :3]  # what people look at
    teacher = mahala.Teacher(shoes, random_state=0)
    for _ in range(100):
        query, a, b = teacher.ask()
        nearer = min(a, b, key=lambda item: np.square(seen[query] - seen[item]).sum())
        teacher.answer(query, a, b, nearer=nearer)
    answers = teacher.answers_
    figure, both = plt.subplots(1, 2, figsize=(9, 4.4))
    metrics = {"Euclidean": mahala.MahalanobisMetric.euclidean(8), "after 100 answers": teacher.metric_}
    for axes, (title, metric) in zip(both, metrics.items(), strict=True):
        places = MDS(dissimilarity="precomputed", random_state=0, n_init=4).fit_transform(metric.pairwise(shoes))
        for query, other in zip(answers.anchor, answers.positive, strict=True):
            axes.plot(*places[[query, other]].T, color="0.8", linewidth=0.6, zorder=1)
        axes.scatter(*places.T, c=_colours(seen), s=45, edgecolor="0.3", linewidth=0.5, zorder=2)
        axes.set_title(title)
        axes.set_axis_off()
    figure.tight_layout()
    figure.savefig(Path(__file__).parent / "images" / "answers.svg", metadata={"Date": None})


def _colours(rows: np.ndarray) -> np.ndarray:
    low, high = rows.min(axis=0), rows.max(axis=0)
    return (rows - low) / (high - low)


if __name__ == "__main__":
    main()
