"""PyTorch: a learned metric as a layer of a network, and learners that take embeddings from a loader."""

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

import numpy as np

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ImportError("mahala.torch needs PyTorch: pip install 'mahala[gpu]'") from error

from mahala.learner import Learner
from mahala.metric import BilinearMetric, MahalanobisMetric, Metric
from mahala.metric.steps import Scales, Step, UnitRows
from mahala.online.online_learner import OnlineLearner
from mahala.support.arrays import RealArray, check_room
from mahala.support.validation import is_sparse, to_numpy

L = TypeVar("L", bound=Learner)


class MetricLayer(nn.Module):
    """The linear map of a learned metric as a layer: Euclidean distances of what it returns are the learned ones.

    Of a bilinear similarity it maps queries: inner products of what it returns with items are the learned similarities.

    Parameters
    ----------
    metric : Metric or fitted learner
        Scales of features and unit rows, which are applied before the map, are part of the layer. A metric with a
        kernel has no linear map.
    trainable : bool, default=False
        Whether `weight` has a gradient.
    dtype : torch.dtype or None, default=None
        Type of the numbers of the layer; None is PyTorch's default.

    Attributes
    ----------
    weight : Parameter of shape (n_components, n_features), the linear map

    Examples
    --------
    >>> from mahala import MahalanobisMetric
    >>> layer = MetricLayer(MahalanobisMetric([[4.0, 0.0], [0.0, 1.0]]))
    >>> layer(torch.tensor([[1.0, 1.0]]))
    tensor([[2., 1.]])
    >>> layer.metric().matrix.tolist()
    [[4.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, metric: Metric | Learner, *, trainable: bool = False, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        learned = getattr(metric, "metric_", metric)
        if not isinstance(learned, MahalanobisMetric | BilinearMetric):
            raise TypeError(f"metric must be a Metric or a fitted learner, got {type(metric).__name__}")
        if learned.preprocessor is not None:
            advice = "apply metric.preprocessor to rows, and give dataclasses.replace(metric, preprocessor=None)"
            raise ValueError(f"metric must take rows as they are, but it has a preprocessor of tables: {advice}")
        self._start = learned
        self._trainable = trainable
        dtype = dtype or torch.get_default_dtype()
        self.steps = nn.Sequential(*(_Step(step, dtype) for step in getattr(learned, "steps", ())))
        self.weight = nn.Parameter(torch.tensor(_linear_map(learned), dtype=dtype), requires_grad=trainable)

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows of shape (..., n_features) in the coordinates of the metric."""
        return nn.functional.linear(self.steps(rows), self.weight)

    def metric(self) -> MahalanobisMetric | BilinearMetric:
        """Return the metric of the layer as it is, of the kind and after the steps of the one that it was made of.

        That of a trainable layer has no threshold: call `calibrate_threshold`.
        """
        weight = self.weight.detach().to("cpu", torch.float64).numpy()
        about: dict[str, Any] = {"origin": {"learner": type(self).__name__, "params": {}}} if self._trainable else {}
        if isinstance(self._start, BilinearMetric):
            return replace(self._start, matrix=weight.T, **about)
        if self._trainable:
            about |= {"threshold": None, "center": None, "radius": None}
        return replace(self._start, matrix=weight.T @ weight, **about)

    def extra_repr(self) -> str:
        """Return what `repr` says of the layer."""
        n_components, n_features = self.weight.shape
        return f"in_features={n_features}, out_features={n_components}, trainable={self._trainable}"


class _Step(nn.Module):
    """A step before the linear map: rows divided by the scales of their features, or by their lengths."""

    scales: Tensor | None

    def __init__(self, step: Step, dtype: torch.dtype) -> None:
        super().__init__()
        if not isinstance(step, Scales | UnitRows):
            raise ValueError("metric must have a linear map, but it has a kernel: a layer cannot hold it")
        scales = torch.tensor(step.scales, dtype=dtype) if isinstance(step, Scales) else None
        self.register_buffer("scales", scales)

    def forward(self, rows: Tensor) -> Tensor:
        return nn.functional.normalize(rows, dim=-1) if self.scales is None else rows / self.scales


def fit_loader(
    learner: L,
    loader: Iterable[object],
    encoder: Callable[..., Tensor] | None = None,
    *,
    max_memory: float | None = None,
) -> L:
    """Learn from the batches of a DataLoader, by way of a frozen encoder; return the learner.

    An online learner learns from each batch with `partial_fit` and continues from its state, so that another
    call is another pass. It draws `n_pairs` or `n_triplets` from each batch, and batches of one class are joined with
    the next one. Any other learner is fitted to the embeddings of all batches, which are held in memory.

    Parameters
    ----------
    learner : Learner
    loader : iterable of batches
        A batch is (inputs, labels), or inputs for a learner that needs no labels. It may also be a comparison of inputs
        from which the learner learns: (left, right, labels) for pairs, with labels of 1 and -1, or (anchor, positive,
        negative) for triplets.
    encoder : Module, other function or None, default=None
        Maps inputs to a tensor of shape (n_rows, n_features), without gradients. A module is in evaluation mode
        meanwhile, and inputs are moved to its device. None takes inputs as they are.
    max_memory : float or None, default=None
        Bytes that the embeddings of all batches may take; None for what the machine has.

    Examples
    --------
    >>> from mahala import LDA
    >>> rows, labels = torch.tensor([[0.0], [1.0], [5.0], [6.0]]), torch.tensor([0, 0, 1, 1])
    >>> fit_loader(LDA(), [(rows[:2], labels[:2]), (rows[2:], labels[2:])]).transform(rows).shape
    torch.Size([4, 1])
    """
    with _frozen(encoder):
        batches = (_encoded(batch, learner, encoder) for batch in loader)
        if isinstance(learner, OnlineLearner):
            for rows, labels in _with_two_classes(batches):
                learner.partial_fit(rows, labels)
            return learner
        n_batches = len(loader) if isinstance(loader, Sized) else 0
        rows, labels = _joined(list(_within(batches, n_batches, max_memory)))
    learner.fit(rows, labels)
    return learner


Batch = tuple[RealArray, RealArray | None]  # embeddings, or comparisons of them, and labels


def _encoded(batch: Any, learner: Learner, encoder: Callable[..., Tensor] | None) -> Batch:
    """Return the embeddings of a batch, and its labels if it has any."""
    *inputs, labels = batch if isinstance(batch, tuple | list) else (batch,)
    kinds = learner._kinds()
    is_comparison = len(inputs) > 1 and len(inputs) + 1 in kinds
    if not (inputs or learner._needs_labels) or (is_comparison and not (len(inputs) in kinds and np.ndim(labels) == 1)):
        inputs, labels = [*inputs, labels], None
    if len(inputs) != 1 and len(inputs) not in kinds:
        raise ValueError(
            f"a batch must be (inputs, labels), or a comparison from which {type(learner).__name__} learns"
        )
    rows = [_embedding(each, encoder) for each in inputs]
    return rows[0] if len(rows) == 1 else np.stack(rows, axis=1), None if labels is None else np.asarray(
        to_numpy(labels)
    )


def _embedding(inputs: Any, encoder: Callable[..., Tensor] | None) -> RealArray:
    with torch.inference_mode():
        if isinstance(encoder, nn.Module) and hasattr(inputs, "to"):
            place = next(chain(encoder.parameters(), encoder.buffers()), None)
            inputs = inputs if place is None else inputs.to(place.device)
        rows = inputs if encoder is None else encoder(inputs)
    if not isinstance(rows, Tensor) or rows.ndim != 2:
        got = f"shape {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
        raise ValueError(f"encoder must return a tensor of shape (n_rows, n_features) for each batch, got {got}")
    wide = rows.dtype == torch.float64
    result: RealArray = rows.to("cpu", torch.float64 if wide else torch.float32).numpy()
    return result


@contextmanager
def _frozen(encoder: object) -> Iterator[None]:
    """Set an encoder to evaluation mode, and its modules back to the modes in which they were."""
    modes = [(module, module.training) for module in encoder.modules()] if isinstance(encoder, nn.Module) else []
    for module, _ in modes:
        module.training = False
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _with_two_classes(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches; those of one class are joined with what follows, or at the end with what came before."""
    ready: list[Batch] = []
    waiting: list[Batch] = []
    for batch in batches:
        waiting.append(batch)
        rows, labels = _joined(waiting)
        if rows.ndim == 3 or labels is None or len(np.unique(labels)) > 1:
            yield from ready
            ready, waiting = [(rows, labels)], []
    yield _joined([*ready, *waiting])


def _within(batches: Iterable[Batch], n_batches: int, max_memory: float | None) -> Iterator[Batch]:
    """Yield batches; raise MemoryError as soon as it is clear that all of them take too much."""
    n_bytes = 0.0
    for number, batch in enumerate(batches, 1):
        n_bytes += 2.0 * batch[0].nbytes  # the batches, and the array that they are joined to
        advice = "learn online, which holds one batch at a time, or from fewer rows"
        check_room(n_bytes * max(n_batches / number, 1.0), max_memory, "the embeddings of all batches", advice)
        yield batch


def _joined(batches: list[Batch]) -> Batch:
    if not batches:
        raise ValueError("loader must have at least one batch, but it is empty")
    rows, labels = zip(*batches, strict=True)
    return np.concatenate(rows), None if labels[0] is None else np.concatenate(labels)


def _linear_map(metric: MahalanobisMetric | BilinearMetric) -> RealArray:
    """Return the matrix with which rows are multiplied, a row for each of its components."""
    if isinstance(metric, MahalanobisMetric):
        return metric.components
    matrix: RealArray = (metric.matrix.toarray() if is_sparse(metric.matrix) else metric.matrix).T
    return matrix
