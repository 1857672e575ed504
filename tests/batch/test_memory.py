"""Batch learners of d × d matrices refuse features for which there is no room, and the others learn from them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import mahala
from mahala.batch import ANMM, DMLMJ, GMML, KISSME, LFDA, LSML, MCML, NCMML, SDML, XQDA, Covariance
from mahala.support import arrays

D = 2_000
Y = np.arange(12) % 2
X = sp.random_array((12, D), density=0.2, format="csr", random_state=np.random.default_rng(0))


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch):
    monkeypatch.setattr(arrays, "memory_limit", lambda max_memory: 8.0 * D * D)


@pytest.mark.parametrize(
    "learner",
    [
        *(mahala.LDA(shrinkage=0.1), mahala.RCA(), LFDA(), mahala.ITML(), mahala.NCA(), mahala.MLKR(), mahala.LMNN()),
        *(mahala.GML(), mahala.MMC(), mahala.LogisticMetric(lam=0.1), LSML(), SDML(), Covariance()),
        *(GMML(), KISSME(), XQDA(), DMLMJ(), ANMM(), NCMML(), MCML()),
    ],
    ids=repr,
)
def test_refused(learner):
    with pytest.raises(MemoryError, match=r"matrices of \d+ × \d+ takes .* GiB.*; reduce the features first"):
        learner.fit(X, Y)


@pytest.mark.parametrize(
    "learner",
    [
        *(
            mahala.PCA(2),
            mahala.LDA(),
            mahala.batch.Relief(),
            mahala.batch.MDM(),
            mahala.NCA(2, max_iter=2),
            mahala.LMNN(n_components=2),
        ),
        mahala.BoostMetric(max_iter=2),
    ],
    ids=repr,
)
def test_learned_from(learner):
    assert learner.fit(X, Y).transform(X).shape[0] == 12
