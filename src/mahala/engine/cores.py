"""Sums on the cores of this machine: NumPy arrays, compiled functions, threads."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from mahala.compiled.search.neighbors import nearest, nearest_by_class
from mahala.compiled.sums.pair_sums import sum_between, sum_within
from mahala.compiled.sums.softmax_sums import sum_softmax
from mahala.compiled.sums.vote_sums import VoteSums, drawn_vote_sums, vote_means
from mahala.compiled.threads import product, transposed_product
from mahala.engine.edges import EdgeGraph
from mahala.engine.hinges import RowHinges
from mahala.engine.map_descent import DeviceArrays
from mahala.support.arrays import RealArray

T = TypeVar("T")


class Cores:
    """The engine that is used unless another one is chosen."""

    def place(self, X: RealArray) -> RealArray:
        return X

    def fetch(self, Z: RealArray) -> RealArray:
        return Z

    def of_images(self, function: Callable[[RealArray], T], Z: RealArray) -> T:
        return function(Z)

    def map(self, X: RealArray, L: RealArray) -> RealArray:
        Z: RealArray = X * L if L.ndim == 1 else product(X, L.T)
        return Z

    def gradient(self, pull: RealArray, X: RealArray, *, diagonal: bool = False) -> RealArray:
        return np.asarray(np.einsum("ij,ij->j", pull, X) if diagonal else transposed_product(pull, X))

    softmax = staticmethod(sum_softmax)
    within = staticmethod(sum_within)
    between = staticmethod(sum_between)
    hinges = RowHinges
    edge_graph = EdgeGraph
    vote_sums = VoteSums
    drawn_vote_sums = staticmethod(drawn_vote_sums)
    vote_means = staticmethod(vote_means)
    arrays = DeviceArrays
    nearest = staticmethod(nearest)
    nearest_by_class = staticmethod(nearest_by_class)
