from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from mahala.compiled.sums.edges import best_step, log_loss, weights


@pytest.mark.parametrize("v", [0.0, 0.2])
def test_weights_loss_and_step_are_scipys(v):
    rng = np.random.default_rng(0)
    margins, gains = rng.normal(size=50), rng.normal(loc=0.5, size=50)
    np.testing.assert_allclose(weights(margins), softmax(-margins))
    assert log_loss(margins) == pytest.approx(logsumexp(-margins))
    w = best_step(margins, gains, v, 10.0)
    found = minimize_scalar(lambda w: logsumexp(-margins - w * gains) + v * w, bounds=(0.0, 10.0), method="bounded")
    assert w == pytest.approx(found.x, abs=1e-4)
    assert best_step(margins, gains, v, w / 2) == w / 2
