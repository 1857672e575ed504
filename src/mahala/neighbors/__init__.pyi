# The public names of this package, loaded on first use.
from mahala.neighbors.classifier import NeighborClassifier as NeighborClassifier
from mahala.neighbors.regressor import NeighborRegressor as NeighborRegressor

__all__: list[str]
