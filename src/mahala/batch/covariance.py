"""Covariance: the Mahalanobis distance (Mahalanobis, 1936)."""

from dataclasses import dataclass

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.run import Run
from mahala.batch.whitening import check_varies, covariances, whiten_varying
from mahala.learner import LabelledRows


@dataclass(eq=False, repr=False)
class Covariance(BatchLearner):
    """The Mahalanobis distance of the rows: M = C⁺, the pseudo-inverse of their covariance C.

    M minimises tr(M C) - log |M| over the matrices whose range is that of C; labels are not needed. C has n - 1 as its
    divisor. Directions in which the rows do not differ have weight zero.

    Attributes
    ----------
    objective_ : float, the criterion above, with the product of the positive eigenvalues of M as |M|

    References
    ----------
    P. C. Mahalanobis: On the generalised distance in statistics. Proceedings of the National Institute of Sciences of
    India 2, 1936, 49-55.

    Examples
    --------
    >>> from mahala.batch import Covariance
    >>> Covariance().fit([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0], [2.0, 4.0]]).get_mahalanobis_matrix().round(4)
    array([[0.75  , 0.    ],
           [0.    , 0.1875]])
    """

    _needs_labels = False

    def _learn(self, data: LabelledRows, run: Run) -> str:
        X = data.X
        check_varies(X)
        n = len(X)
        scatter = covariances(X, np.zeros(n, dtype=np.intp))
        white = whiten_varying(scatter.total, max(X.shape) * float(np.finfo(X.dtype).eps))
        spread = scatter.spread * np.sqrt(n / (n - 1))
        L = white / spread
        square = L
        if len(L) < L.shape[1]:  # projected onto the range of C; else M would be another generalised inverse
            basis = np.linalg.qr((white * spread).T)[0]
            square = L @ basis
            L = square @ basis.T
        directions = np.zeros((len(L), X.shape[1]))
        directions[:, scatter.varies] = L
        run.step(len(L) - 2.0 * float(np.linalg.slogdet(square)[1]), {"L": directions})
        return "converged"
