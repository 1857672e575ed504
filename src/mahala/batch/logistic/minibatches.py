"""LogisticMetric's problem on minibatches: what a sample says about it, the rounds of the descent, and checkpoints."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from mahala.batch.logistic.all_answers import Outcome
from mahala.batch.logistic.answers import PENALTY, Answers, LogisticLoss
from mahala.batch.logistic.parameters import LogisticParams
from mahala.batch.logistic.prior_space import prior_map
from mahala.batch.run import Model, Run, check_n_components
from mahala.comparisons import Pairs
from mahala.comparisons.pairs import draw_pairs
from mahala.compiled.threads import product, transposed_product
from mahala.engine import current_engine
from mahala.engine.map_descent import MapProblem, first_state
from mahala.engine.minibatches import GivenComparisons, Minibatches
from mahala.engine.row_parts import read_rows
from mahala.learner import LabelledRows
from mahala.support.arrays import Arrays, FloatArray, IndexArray, RealArray, StoredRows
from mahala.support.model_files import ModelFileError, count_value, read_model, write_model
from mahala.support.validation import check_rows

# Pairs that "auto" sees in all: the larger one of a number, and of so many for each row or answer.
FEWEST_SEEN, SEEN_OF_EACH = 1_000_000, 4
# "auto" divides what is seen into so many minibatches, of a size within these limits that is a power of two.
AUTO_STEPS, AUTO_SIZES = 1_000, (256, 16_384)
# Comparisons, or twice the number of components, that say how large distances are and what the leading axes are.
SAMPLE = 2_000
# Seconds between two checkpoints.
CHECKPOINT_SECONDS = 30.0
_TOO_LARGE = (
    "X contains NaN, infinity or values that are too large; every feature must be a finite number, whose squared "
    "differences float32 can hold"
)


class Sample(NamedTuple):
    """Comparisons of a sample, the prior and the first map of its space."""

    answers: Answers
    prior: FloatArray | None
    start: RealArray


class AnswersInMinibatches:
    """The problem of `AllAnswers` in steps on minibatches, without folds; no answers are kept.

    Of rows with class labels, pairs are drawn, half of them within classes.
    """

    def __init__(self, data: LabelledRows | Answers, params: LogisticParams, run: Run, seed: int) -> None:
        X, labelled = data.X, isinstance(data, LabelledRows)
        n = data.size if isinstance(data, Answers) else X.shape[0]
        n_pairs = params.n_pairs if not isinstance(params.n_pairs, str) else max(FEWEST_SEEN, SEEN_OF_EACH * n)
        size: Any = params.batch_size
        if isinstance(size, str):
            size = int(np.clip(2 ** round(np.log2(max(n_pairs / AUTO_STEPS, 1.0))), *AUTO_SIZES))
        size = max(2, min(size, n_pairs)) if labelled else min(size, n_pairs, n)
        n_steps = -(-n_pairs // size)
        n_answers = float(data.weights.sum()) if isinstance(data, Answers) else n_pairs
        lam = PENALTY / n_answers if isinstance(params.lam, str) else params.lam
        self.outcome = Outcome(lam)
        about = {"n_rows": X.shape[0], "n_features": X.shape[1], "n_steps": n_steps, "batch_size": size}
        about |= {"lam": lam, "components": params.n_components, "noise": params.noise}
        self._checkpoint = Checkpoint(params.checkpoint, about)
        self._seed, state = self._checkpoint.read(run, seed)
        self._sample = sample = _sample(data, params, np.random.default_rng(self._seed))
        loss = LogisticLoss(sample.answers, product(sample.answers.X, sample.start.T), params.noise)
        if abs(loss.threshold) > float(np.finfo(np.float32).max) * loss.temperature:
            raise ValueError(_TOO_LARGE)
        problem = MapProblem(sample.prior, sample.start, loss.threshold, loss.temperature, lam, params.noise, n_steps)
        if state is None and run.warm is not None:
            state = _warm_state(run.warm, sample, loss.temperature)
        answers = GivenComparisons(data.near, data.far, data.weights) if isinstance(data, Answers) else data.codes
        arrays = current_engine().arrays()
        self._batches = Minibatches(arrays, X, answers, problem, batch_size=size, seed=self._seed, state=state)
        self._n_steps, self._n_rounds = n_steps, min(params.max_iter, n_steps)

    def solve(self, run: Run) -> str:
        """Take all steps, in rounds after each of which the objective is recorded; return the stop reason."""
        descent, stopped = self._batches.descent, False
        while descent.n_done < self._n_steps and not stopped:
            end = -(-(len(run.objectives) + 1) * self._n_steps // self._n_rounds)
            with np.errstate(over="ignore", invalid="ignore"):
                objective = self._batches.run(end - descent.n_done)
            if not np.isfinite(objective):
                raise ValueError(_TOO_LARGE)
            stopped = run.step(objective, self._model)
            self._checkpoint.write(descent.state, run.objectives, self._seed, now=stopped)
        if not stopped:
            self._checkpoint.remove()
        return "callback" if stopped else "max_iter"

    def _model(self) -> Model:
        descent, sample = self._batches.descent, self._sample
        A = descent.fetch_map()
        learned: Model = {"L": A if sample.prior is None else A @ sample.prior}
        return learned | ({"threshold": np.array([descent.threshold])} if sample.answers.has_threshold else {})


def _sample(data: LabelledRows | Answers, params: LogisticParams, rng: np.random.Generator) -> Sample:
    n_components = params.n_components
    most = max(SAMPLE, 2 * (n_components or 0))
    if isinstance(data, LabelledRows):
        drawn = draw_pairs(data.labels, most, 0.5, rng, name="n_pairs", at_most=True)
        answers = Answers.of(Pairs._build(data.X, *drawn)).compact(_floats)
    else:
        answers = data.select(rng.permutation(data.size)[:most]).compact(_floats)
    prior = prior_map(params.prior, answers.X)
    Z = answers.X if prior is None else product(answers.X, prior.T)
    d = Z.shape[1]
    start = np.eye(d) if n_components is None else _leading_axes(Z[rng.permutation(len(Z))[:most]], n_components)
    return Sample(answers._replace(X=Z), prior, start.astype(Z.dtype))


def _floats(X: StoredRows, rows: IndexArray) -> RealArray:
    values = read_rows(X, rows)
    return check_rows(values.astype(np.float64 if values.dtype == np.float64 else np.float32))  # type: ignore[no-any-return]


def _leading_axes(Z: RealArray, m: int) -> RealArray:
    """Return the orthonormal directions in which rows vary most."""
    n, d = Z.shape
    check_n_components(m, min(d, n - 1), "the dimensions of the rows")
    Z = Z - Z.mean(axis=0)
    scatter = transposed_product(Z, Z) if d <= n else product(Z, Z.T)
    values, vectors = scipy.linalg.eigh(scatter, subset_by_index=[len(scatter) - m, len(scatter) - 1])
    axes = vectors.T if d <= n else product(vectors.T, Z) / np.sqrt(np.maximum(values, np.finfo(Z.dtype).tiny))[:, None]
    return np.asarray(axes[::-1])


def _warm_state(warm: Model, sample: Sample, temperature: float) -> Arrays:
    """Return the state of a descent that starts at an earlier model."""
    L = warm["L"]
    if sample.prior is not None:
        L = L @ np.linalg.pinv(sample.prior)
    if L.shape != sample.start.shape:
        raise ValueError(f"n_components must be {len(L)}, as in the last fit, got {len(sample.start)}")
    return first_state(L, float(warm["threshold"][0]) / temperature if "threshold" in warm else 0.0)


class Checkpoint:
    """The file of an unfinished fit, from which the same fit resumes; without a path there is none."""

    def __init__(self, path: str | None, about: dict[str, object]) -> None:
        self._path = None if path is None else Path(path)
        self._about = about
        self._written = time.monotonic()

    def read(self, run: Run, seed: int) -> tuple[int, Arrays | None]:
        """Return the seed and the state of the descent in the file; those of a new fit if there is no file."""
        if self._path is None or not self._path.exists():
            return seed, None
        header, arrays = read_model(self._path, "learner")
        about = header.get("checkpoint")
        if not isinstance(about, dict) or "objectives" not in arrays:
            raise ModelFileError(f"checkpoint {self._path} is not the file of an unfinished fit; choose another name")
        others = {name: value for name, value in about.items() if self._about.get(name) != value}
        if others:
            problem = f"checkpoint {self._path} belongs to another fit, with {others}"
            raise ValueError(f"{problem}; remove it, or choose another name")
        run.objectives.extend(arrays.pop("objectives").tolist())
        return count_value(header, "seed"), arrays

    def write(self, state: Callable[[], Arrays], objectives: list[float], seed: int, *, now: bool) -> None:
        """Write the state, `now` or if the last time is long ago."""
        if self._path is None or not (now or time.monotonic() - self._written >= CHECKPOINT_SECONDS):
            return
        arrays = state() | {"objectives": np.array(objectives)}
        write_model(self._path, "learner", arrays, {"checkpoint": self._about, "seed": seed})
        self._written = time.monotonic()

    def remove(self) -> None:
        """Remove the file of a fit that is finished."""
        if self._path is not None:
            with suppress(FileNotFoundError):
                self._path.unlink()
