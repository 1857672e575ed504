"""OASIS: online similarity by passive-aggressive steps (Chechik, Sharma, Shalit, Bengio, 2010)."""

from dataclasses import dataclass
from typing import Literal

from mahala.online.similarity_learner import SimilarityLearner, length_of
from mahala.online.state.similarity import SimilarityRule
from mahala.support.parameters import Positive


@dataclass(eq=False, repr=False)
class OASIS(SimilarityLearner):
    """Learn a bilinear similarity xᵀ M x' from triplets, by the smallest change that repairs each of them.

    Parameters
    ----------
    C : float or "auto", default=0.1
        Aggressiveness: the longest step. "auto" is margin² / s³, where s is the running median of ‖x‖ ‖x⁺‖ over the
        first 100 triplets, and constant after them.
    margin : float or "auto", default=1.0
        How much more similar x⁺ should be than x⁻. The paper has 1.0, which unit vectors never reach, because their
        similarities differ by a tenth. "auto" is the running median of |xᵀx⁺ - xᵀx⁻| over the first 100 triplets. It is
        the same in `fit`, in `partial_fit` with any chunks, and in `learn_one`.
    init : {"identity", "zero"} or BilinearMetric, default="identity"
        M before the first step. Queries and items with different features need "zero" or a metric.
    average : bool, default=False
        Whether `metric_` is the mean of the models before each step instead of the last one.
    shrinkage : float or "auto", default="auto"
        Share of `init` in `metric_`, both on one scale, after a `fit` to Triplets; 0 for the paper's result. If there
        are fewer triplets than numbers in M, or no more items than features, "auto" is 1/2, and a warning says so.
        Otherwise "auto" is 0, and so it is with labels, with `init="zero"` and for streams. `partial_fit` after `fit`
        keeps the weights of both.
    n_triplets : int, default=100_000
        Triplets drawn from labelled rows: x from all rows, x⁺ from its class, x⁻ from the rest.
    storage : {"auto", "dense", "sparse", "gram"}, default="auto"
        How M is held: in full, only where it was ever changed, or (in `fit`, from triplets of a fixed set of rows)
        through the rows' inner products. All give the same model; "auto" takes the cheapest.
    dtype : {"float64", "float32"}, default="float64"
        Type of the numbers of M; sums are in float64.
    max_memory : float or None, default=None
        Bytes that the model may take; None for what the machine has. A saved model is loaded whatever it takes, and
        `set_params` can raise the limit before it learns more.
    record : bool or int, default=100_000
        Number of last steps that `history_` holds, at 18 bytes each; True for all, False for none.
    random_state : int, RandomState, Generator or None, default=None

    Attributes
    ----------
    metric_ : BilinearMetric, whose matrix is sparse where M is held so, or is large and mostly zero
    sparsity_ : float, share of entries of M that are zero
    margin_ : float, the margin in use
    shrinkage_ : float, the share of `init` in `metric_`
    history_ : History, what happened at each step: y is 1, `predicted` whether x⁺ was the more similar,
        p = margin - xᵀMq
    n_steps_, n_updates_, n_mistakes_ : int
    n_skipped_ : int, steps that were not taken because their numbers would overflow
    loss_, squared_loss_ : float, the hinge loss and its square summed over all steps
    n_features_in_, n_item_features_ : int

    Notes
    -----
    With q = x⁺ - x⁻ and the hinge loss l = max(0, margin - xᵀMq), each step is M ← M + τ x qᵀ,
    τ = min(C, l / (‖x‖² ‖q‖²)).

    References
    ----------
    G. Chechik, V. Sharma, U. Shalit, S. Bengio: Large scale online learning of image similarity through ranking.
    Journal of Machine Learning Research 11, 2010, 1109-1135.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = normalize(StandardScaler().fit_transform(X))
    >>> learner = mahala.OASIS(C=0.1, n_triplets=5000, random_state=0).fit(X, y)
    >>> round(mahala.evaluation.mean_average_precision(None, X, y), 2)
    0.87
    >>> round(mahala.evaluation.mean_average_precision(learner.metric_, X, y), 2)
    0.99
    """

    _test_settings = (
        {},
        {"storage": "gram", "average": True, "init": "zero"},
        {"storage": "sparse", "average": True, "dtype": "float32"},
    )

    C: Literal["auto"] | Positive = 0.1

    def _step_rule(self, margin: float, size: float) -> SimilarityRule:
        return SimilarityRule(1.0, 0.0, length_of(self.C, margin, size))
