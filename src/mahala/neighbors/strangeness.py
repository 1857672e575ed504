"""How unlike the training rows a row is: its distance to the nearest ones among the encoded columns, calibrated.

The distance is the plain one: a learned metric overlooks what did not matter for the prediction.
"""

import numpy as np

from mahala.engine import machine_engine
from mahala.neighbors.fitted import Fitted
from mahala.support.arrays import FloatArray, IndexArray, RealArray

# The distance is the mean of those to so many rows. That of so many training rows calibrates it.
N_NEAREST, MOST_CALIBRATED = 3, 5_000


def strangeness(model: Fitted, encoded: RealArray, calibration: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the share of training rows that are less strange, for each row, and the sorted distances of those."""
    reference = model.encoder.encoded(model.rows.points.plain[model.distinct_voters.places])
    if calibration is None:
        every = max(1, -(-len(reference) // MOST_CALIBRATED))
        numbers = np.arange(len(reference))[::every]
        calibration = np.sort(_distances(reference, reference[numbers], numbers))
    distances = _distances(reference, encoded, None)
    return np.searchsorted(calibration, distances, side="left") / (len(calibration) + 1.0), calibration


def _distances(reference: RealArray, rows: RealArray, numbers: IndexArray | None) -> FloatArray:
    """Return the mean distance of rows to their nearest ones in the reference; with their numbers there, to others."""
    k = min(N_NEAREST + (numbers is not None), len(reference))
    near, squared = machine_engine().nearest(reference, rows, k)
    distances = np.sqrt(squared)
    if numbers is None:
        return np.asarray(distances.mean(axis=1))
    itself = near == numbers[:, np.newaxis]
    itself[~itself.any(axis=1), -1] = True  # among more equal rows than were searched for
    if k == 1:
        return np.zeros(len(rows))
    return np.asarray(distances[~itself].reshape(len(rows), k - 1).mean(axis=1))
