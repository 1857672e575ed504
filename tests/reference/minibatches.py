"""The descent of a map over minibatches in plain NumPy, in float64, one comparison after another."""

import numpy as np


def descend(batches, A, threshold, *, temperature, lam=0.0, noise=0.0, prior=None, n_steps):
    """Return the map, the threshold in units of the temperature, and the mean loss of each step.

    A batch is a list of (near, far, weight), each a difference of two rows, or None for the threshold.
    """
    start, size, theta = A.copy(), np.linalg.norm(A), threshold / temperature
    momentum, square, drift, drift_square, losses = np.zeros_like(A), 0.0, 0.0, 0.0, []
    for k, batch in enumerate(batches, 1):
        gradient, by_threshold, loss = 2 * lam * (A - start), 0.0, 0.0
        for near, far, weight in batch:
            near, far = (v if v is None or prior is None else prior @ v for v in (near, far))
            low = theta if near is None else np.sum((A @ near) ** 2) / temperature
            high = theta if far is None else np.sum((A @ far) ** 2) / temperature
            p = 1 / (1 + np.exp(low - high))
            right = noise + (1 - 2 * noise) * p
            loss -= weight * np.log(right) / len(batch)
            slope = weight * (1 - 2 * noise) * p * (1 - p) / right / len(batch)
            for v, sign in ((near, 1.0), (far, -1.0)):
                if v is None:
                    by_threshold += sign * slope
                else:
                    gradient = gradient + sign * slope * 2 * np.outer(A @ v, v) / temperature
        losses.append(loss)
        rate = min(0.1, 30 / n_steps) * min(k / (0.02 * n_steps), 1 - (k - 1) / n_steps)
        momentum, drift = 0.9 * momentum + 0.1 * gradient, 0.9 * drift + 0.1 * by_threshold
        square = 0.99 * square + 0.01 * np.sum(gradient**2)
        drift_square = 0.99 * drift_square + 0.01 * by_threshold**2
        full, full_square = 1 - 0.9**k, 1 - 0.99**k
        A = A - rate * size * (momentum / full) / np.sqrt(square / full_square)
        if drift_square:
            theta -= rate * (drift / full) / np.sqrt(drift_square / full_square)
    return A, theta, losses
