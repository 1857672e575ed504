"""Votes of rows on a device: the definitions are those of `compiled.sums.vote_sums`."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mahala.compiled.sums.vote_sums import FARTHEST, SHIFT, TIE, Votes
from mahala.engine.torch.memory import DeviceMemory
from mahala.support.arrays import IndexArray, RealArray, slices


class _Placed:
    """Votes on a device."""

    def __init__(self, engine: DeviceMemory, votes: Votes) -> None:
        self.values, self.weights = engine.place(votes.values), engine.place(votes.weights)
        self.first, self.end = engine.place(votes.first), engine.place(votes.end)
        self.numbers = votes.numbers
        self.total = float(votes.weights.sum(dtype=np.float64)) or 1.0


def vote_sums(engine: DeviceMemory, votes: Votes) -> Callable[[Tensor], tuple[float, Tensor]]:
    """Return the mean loss of rows that vote for each other and its gradient, as a function of Z."""
    placed = _Placed(engine, votes)

    def loss(Z: Tensor) -> tuple[float, Tensor]:
        itself = torch.arange(len(Z), device=Z.device)
        value, pull, back = _sums(engine, Z, placed, Z, placed, itself)
        return value, pull + back

    return loss


def drawn_vote_sums(
    engine: DeviceMemory, Z: Tensor, votes: Votes, voters: Tensor, their: Votes, itself: IndexArray
) -> tuple[float, Tensor, Tensor]:
    """Return the mean loss of rows Z for which others vote, and its gradients."""
    return _sums(engine, Z, _Placed(engine, votes), voters, _Placed(engine, their), engine.place(itself))


def vote_means(
    engine: DeviceMemory, queries: RealArray, voters: RealArray, values: RealArray, weights: RealArray | None = None
) -> RealArray:
    """Return the mean of the voters' values for each query."""
    center = voters.mean(axis=0)
    Z, V, placed = engine.place(queries - center), engine.place(voters - center), engine.place(values)
    logs = None if weights is None else engine.place(np.log(weights).astype(np.float32))
    norms = V.square().sum(1)
    results = []
    for rows in slices(len(Z), engine.rows_per_block(len(V), V)):
        distances = torch.addmm(norms, Z[rows], V.T, alpha=-2.0).add_(Z[rows].square().sum(1)[:, None])
        exponents = distances.clamp_(min=0.0).sqrt_().neg_()
        exponents = exponents if logs is None else exponents + logs
        results.append(torch.softmax(exponents, dim=1) @ placed)
    return engine.fetch(torch.cat(results))


def _sums(
    engine: DeviceMemory, Z: Tensor, votes: _Placed, voters: Tensor, their: _Placed, itself: Tensor
) -> tuple[float, Tensor, Tensor]:
    """Return the mean loss of rows Z and its gradients with respect to them and to the voters."""
    center = voters.mean(0)
    z, v = Z - center, voters - center
    norms, at = v.square().sum(1), torch.arange(len(v), device=v.device)
    pull, back, total = torch.zeros_like(z), torch.zeros_like(v), 0.0
    for rows in slices(len(z), engine.rows_per_block(len(v), v)):
        part = z[rows]
        squared = torch.addmm(norms, part, v.T, alpha=-2.0).add_(part.square().sum(1)[:, None]).clamp_(min=0.0)
        distances = squared.sqrt()
        shares = torch.exp(SHIFT - distances)
        own = itself[rows]
        shares.masked_fill_((distances >= FARTHEST) | (at == own[:, None]), 0.0)
        slopes = torch.where(squared > TIE, shares / distances, torch.zeros_like(shares))
        shares = shares * their.weights
        here = (at >= votes.first[rows, None]) & (at < votes.end[rows, None])
        every, mine = shares.sum(1), (shares * their.values).masked_fill_(~here, 0.0).sum(1)
        voted = (every if votes.numbers else mine) > 1e-20
        every, mine = every.where(voted, torch.ones_like(every)), mine.where(voted, torch.ones_like(mine))
        if votes.numbers:
            means = mine / every
            errors = (means - votes.values[rows]).where(voted, torch.zeros_like(means))
            losses, beta = errors.square(), -2.0 * errors / every
            alpha = -beta * means
        else:
            losses, alpha, beta = torch.log(every) - torch.log(mine), -1.0 / every, 1.0 / mine
        scale = votes.weights[rows] * voted / votes.total
        total += float((losses * scale).sum(dtype=torch.float64))
        factors = (beta[:, None] * their.values).masked_fill_(~here, 0.0).add_(alpha[:, None])
        slopes = slopes * factors * their.weights * scale[:, None]
        pull[rows] = slopes.sum(1)[:, None] * part - slopes @ v
        back += slopes.sum(0)[:, None] * v - slopes.T @ part
    return total, pull, back
