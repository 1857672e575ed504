"""The bridge to PyTorch: layers of metrics, and learners that learn from the batches of a loader."""

from __future__ import annotations

import copy
import io
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine

import mahala
from mahala.metric.steps import Scales, UnitRows

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'mahala[gpu]'")
bridge = pytest.importorskip("mahala.torch")
MetricLayer, fit_loader = bridge.MetricLayer, bridge.fit_loader
nn = torch.nn

rng = np.random.default_rng(0)
X, Y = load_wine(return_X_y=True)
X = X.astype(np.float64)
SCALES = Scales(X.std(axis=0))
Z = SCALES.apply(X)
LEARNERS = [
    mahala.LDA(), mahala.PCA(n_components=3), mahala.NCA(max_iter=5, random_state=0), mahala.PA(random_state=0)
]  # fmt: skip
STEPS = {"none": (), "scales": (SCALES,), "unit rows": (UnitRows(),), "both": (SCALES, UnitRows())}


def double(metric, **options):
    return MetricLayer(metric, dtype=torch.float64, **options)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_a_layer_maps_rows_as_its_metric_does_and_back(learner, steps):
    metric = replace(clone(learner).fit(Z, Y).metric_, steps=STEPS[steps], threshold=2.0)
    layer = double(metric)
    mapped = layer(torch.as_tensor(X))
    np.testing.assert_allclose(mapped.numpy(), metric.transform(X), rtol=1e-9, atol=1e-9)
    for shape in ((13,), (2, 3, 13)):  # one row, or rows in any shape
        rows = torch.as_tensor(X[: np.prod(shape) // 13].reshape(shape))
        np.testing.assert_allclose(layer(rows), mapped[: np.prod(shape) // 13].reshape(*shape[:-1], -1), rtol=1e-9)
    back = layer.metric()
    np.testing.assert_allclose(back.matrix, metric.matrix, atol=1e-9 * abs(metric.matrix).max())
    assert (back.steps, back.threshold, back.origin) == (metric.steps, 2.0, metric.origin)


def test_a_layer_takes_a_learner_and_single_precision():
    learner = mahala.LDA().fit(Z, Y)
    layer = MetricLayer(learner)
    assert layer.weight.dtype == torch.float32
    mapped = layer(torch.tensor(Z).float())
    np.testing.assert_allclose(torch.cdist(mapped, mapped), learner.metric_.pairwise(Z), atol=1e-2)
    assert repr(layer).startswith("MetricLayer(\n  in_features=13, out_features=2, trainable=False")
    assert not layer.weight.requires_grad


def test_a_layer_of_a_similarity_maps_queries():
    learner = mahala.OASIS(n_triplets=200, random_state=0).fit(Z, Y)
    layer = double(learner)
    np.testing.assert_allclose(
        layer(torch.as_tensor(Z)).numpy() @ Z[0], learner.metric_.similarity(Z, Z[:1].repeat(178, 0))
    )
    np.testing.assert_array_equal(layer.metric().matrix, learner.metric_.matrix)
    sparse = mahala.OASIS(n_triplets=200, storage="sparse", random_state=0).fit(Z, Y)
    np.testing.assert_allclose(double(sparse).weight, layer.weight, atol=1e-12)


def test_a_trainable_layer_learns_and_gives_the_metric_that_it_learned():
    metric = replace(mahala.PA(random_state=0).fit(Z, Y).metric_, steps=(SCALES,)).learned_from(X)
    assert metric.threshold is not None
    assert metric.radius is not None
    layer = double(metric, trainable=True)
    rows, start = torch.as_tensor(X), layer.weight.detach().clone()
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
    layer(rows).square().mean().backward()
    optimizer.step()
    assert not torch.equal(layer.weight, start)
    learned = layer.metric()
    np.testing.assert_allclose(
        learned.pairwise(X[:9]), torch.cdist(layer(rows[:9]), layer(rows[:9])).detach(), atol=1e-6
    )
    assert (learned.threshold, learned.center, learned.radius) == (None, None, None)
    assert learned.origin["learner"] == "MetricLayer"
    assert learned.steps == metric.steps


def test_a_layer_is_saved_copied_and_loaded_with_its_scales():
    metric = replace(mahala.LDA().fit(Z, Y).metric_, steps=(SCALES,))
    layer, rows = double(metric), torch.as_tensor(X)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = double(replace(metric, matrix=2.0 * metric.matrix, steps=(Scales(np.ones(13)),)))
    other.load_state_dict(torch.load(file))
    for each in (other, copy.deepcopy(layer), nn.Sequential(layer)):
        np.testing.assert_array_equal(each(rows), layer(rows))
    np.testing.assert_array_equal(other.metric().matrix, layer.metric().matrix)


def test_what_is_no_linear_map_is_refused():
    kernel = mahala.PA(kernel="rbf", n_pairs=40, random_state=0).fit(Z, Y)
    with pytest.raises(ValueError, match="metric must have a linear map, but it has a kernel"):
        MetricLayer(kernel)
    with pytest.raises(TypeError, match="metric must be a Metric or a fitted learner, got Linear"):
        MetricLayer(nn.Linear(2, 2))
    table = mahala.data.TablePreprocessor().fit(X)
    with pytest.raises(ValueError, match=r"it has a preprocessor of tables: apply metric\.preprocessor"):
        MetricLayer(mahala.MahalanobisMetric(np.eye(13), preprocessor=table))
    with pytest.raises(ValueError, match="components needs a positive semi-definite matrix"):
        MetricLayer(mahala.MahalanobisMetric(np.diag([1.0, -1.0])))


class Encoder(nn.Module):
    """A linear map after dropout, which is off while it is frozen."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.drop, self.map = nn.Dropout(0.5), nn.Linear(13, 6, dtype=torch.float64)

    def forward(self, rows):
        assert torch.is_inference_mode_enabled()
        return self.map(self.drop(rows))


def loader(*columns, size=32, **options):
    tensors = torch.utils.data.TensorDataset(*map(torch.as_tensor, columns))
    return torch.utils.data.DataLoader(tensors, batch_size=size, **options)


def test_a_batch_learner_is_fitted_to_the_embeddings_of_all_batches():
    encoder = Encoder()
    encoder.map.eval()
    learner = mahala.LDA()
    assert fit_loader(learner, loader(Z, Y), encoder) is learner
    assert (encoder.training, encoder.drop.training, encoder.map.training) == (True, True, False)
    with torch.inference_mode():
        rows = encoder.map(torch.as_tensor(Z)).numpy()
    np.testing.assert_array_equal(learner.metric_.matrix, mahala.LDA().fit(rows, Y).metric_.matrix)
    np.testing.assert_allclose(
        fit_loader(mahala.PCA(), loader(Z, Y)).metric_.matrix, mahala.PCA().fit(Z, Y).metric_.matrix
    )


def test_a_learner_without_labels_needs_none():
    expected = mahala.PCA().fit(Z).metric_.matrix
    for batches in (loader(Z), [torch.tensor(Z[:90]), torch.tensor(Z[90:])]):
        np.testing.assert_allclose(fit_loader(mahala.PCA(), batches).metric_.matrix, expected)
    with pytest.raises(ValueError, match=r"a batch must be \(inputs, labels\)"):
        fit_loader(mahala.LDA(), loader(Z))


def test_labels_may_be_tensors_that_are_no_arrays_of_numpy():
    """As those on a GPU, or with a gradient."""
    labels = torch.tensor(Y, dtype=torch.float64, requires_grad=True)
    learner = fit_loader(mahala.LDA(), [(torch.tensor(Z), labels)])
    np.testing.assert_array_equal(learner.metric_.matrix, mahala.LDA().fit(Z, Y).metric_.matrix)


@pytest.mark.parametrize(
    "learner", [mahala.PA(n_pairs=50, random_state=0), mahala.OASIS(n_triplets=50, random_state=0)]
)
def test_an_online_learner_goes_on_from_batch_to_batch(learner):
    order = rng.permutation(len(Z))
    online, expected = clone(learner), clone(learner)
    for _ in range(2):
        fit_loader(online, loader(Z[order], Y[order], size=60))
        for first in range(0, 178, 60):
            rows = order[first : first + 60]
            expected.partial_fit(Z[rows], Y[rows])
    np.testing.assert_array_equal(online.metric_.matrix, expected.metric_.matrix)


def test_batches_of_one_class_are_joined_with_others():
    learner = mahala.PA(n_pairs=9, random_state=0)
    fit_loader(learner, loader(Z, Y, size=59))  # rows are sorted by class, of 59, 71 and 48 rows
    online = mahala.PA(n_pairs=9, random_state=0)
    online.partial_fit(Z[:118], Y[:118]).partial_fit(Z[118:], Y[118:])
    np.testing.assert_array_equal(learner.metric_.matrix, online.metric_.matrix)
    with pytest.raises(ValueError, match="y has one class"):
        fit_loader(mahala.PA(), loader(Z[:50], Y[:50], size=20))


def test_comparisons_of_inputs_are_learned_from():
    triplets = mahala.Triplets.from_labels(Z, Y, 80, random_state=0)
    columns = [Z[getattr(triplets, name)] for name in ("anchor", "positive", "negative")]
    learner = fit_loader(mahala.OASIS(), loader(*columns))
    np.testing.assert_array_equal(learner.metric_.matrix, mahala.OASIS(shrinkage=0).fit(triplets).metric_.matrix)
    pairs = mahala.Pairs.from_labels(Z, Y, 80, random_state=0)
    columns = Z[pairs.left], Z[pairs.right], pairs.y
    learner = fit_loader(mahala.PA(), loader(*columns))
    np.testing.assert_array_equal(learner.metric_.matrix, mahala.PA().fit(pairs).metric_.matrix)
    both = fit_loader(
        mahala.LogisticMetric(max_iter=5, random_state=0), loader(*columns)
    ).metric_.matrix  # learns from triplets, too
    np.testing.assert_array_equal(
        both, mahala.LogisticMetric(max_iter=5, random_state=0).fit(np.stack(columns[:2], 1), pairs.y).metric_.matrix
    )


def test_memory_is_bounded_before_it_is_full():
    read = []

    def batches():
        for batch in loader(Z, Y):
            read.append(batch)
            yield batch

    message = "the embeddings of all batches takes .* learn online, which holds one batch at a time"
    with pytest.raises(MemoryError, match=message):
        fit_loader(mahala.LDA(), loader(Z, Y), max_memory=2 * Z.nbytes - 1000)
    with pytest.raises(MemoryError, match=message):  # of unknown length: as soon as it is full
        fit_loader(mahala.LDA(), batches(), max_memory=Z.nbytes)
    assert 1 < len(read) < 6
    fit_loader(mahala.LDA(), batches(), max_memory=2 * Z.nbytes)


def test_what_cannot_be_learned_from_is_said():
    with pytest.raises(ValueError, match="loader must have at least one batch, but it is empty"):
        fit_loader(mahala.LDA(), [])
    with pytest.raises(ValueError, match=r"encoder must return a tensor of shape \(n_rows, n_features\).*got shape"):
        fit_loader(mahala.LDA(), loader(Z, Y), lambda rows: rows[:, 0])
    with pytest.raises(ValueError, match="for each batch, got list"):
        fit_loader(mahala.PA(), loader(Z, Y), lambda rows: rows.tolist())
    with pytest.raises(ValueError, match=r"a batch must be \(inputs, labels\), or a comparison from which PA learns"):
        fit_loader(mahala.PA(), loader(Z, Z, Z, Y))
