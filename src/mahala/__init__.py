"""Metric and similarity learning, online first."""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

# Names load on first use, so that `import mahala` brings in neither Numba nor scikit-learn.
_HOME = {
    "Pairs": "mahala.comparisons",
    "Triplets": "mahala.comparisons",
    "Metric": "mahala.metric",
    "MahalanobisMetric": "mahala.metric",
    "BilinearMetric": "mahala.metric",
    "Explanation": "mahala.metric",
    "PA": "mahala.online.passive_aggressive",
    "POLA": "mahala.online.pola",
    "AROMA": "mahala.online.aroma",
    "OASIS": "mahala.online.oasis",
    "OGD": "mahala.online.ogd",
    "SORS": "mahala.online.sors",
    "AdaSORS": "mahala.online.sors",
    "LEGO": "mahala.online.lego",
    "RDML": "mahala.online.rdml",
    "NCA": "mahala.batch.nca",
    "GML": "mahala.batch.gml",
    "MMC": "mahala.batch.mmc",
    "BoostMetric": "mahala.batch.boost_metric",
    "PSDBoost": "mahala.batch.psd_boost",
    "LMNN": "mahala.batch.lmnn",
    "ITML": "mahala.batch.itml",
    "RCA": "mahala.batch.rca",
    "LDA": "mahala.batch.lda",
    "PCA": "mahala.batch.pca",
    "Relief": "mahala.batch.relief",
    "Simba": "mahala.batch.simba",
    "MDM": "mahala.batch.mdm",
    "Perceptron": "mahala.filtering.perceptron",
    "PAUM": "mahala.filtering.paum",
    "NearestFilter": "mahala.filtering.nearest",
    "compare": "mahala.evaluation.cross_validation",
    "default_panel": "mahala.evaluation.cross_validation",
    "Leaderboard": "mahala.evaluation.leaderboard",
    "Stream": "mahala.stream",
    "read_table": "mahala.data.tables",
    "knn_error": "mahala.evaluation.knn",
    "mean_average_precision": "mahala.evaluation.ranking",
    "precision_at_k": "mahala.evaluation.ranking",
    "friedman_holm": "mahala.evaluation.statistics",
    "show_progress": "mahala.support.progress",
    "load_learner": "mahala.learner",
    "ModelFileError": "mahala.support.model_files",
}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'mahala' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
