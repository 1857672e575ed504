"""OASIS: online similarity by passive-aggressive steps (Chechik, Sharma, Shalit, Bengio, 2010)."""

from dataclasses import dataclass
from typing import Literal

from mahala.online.similarity_learner import SimilarityLearner
from mahala.online.state.similarity import SimilarityRule
from mahala.support.parameters import Positive


@dataclass(eq=False, repr=False)
class OASIS(SimilarityLearner):
    r"""Online learning of a bilinear similarity xᵀ M x' from triplets, as little change as needed in each step.

    With q = x⁺ - x⁻ and the hinge loss l = max(0, margin - xᵀMq), each step is M ← M + τ x qᵀ,
    τ = min(C, l / (‖x‖² ‖q‖²)).

    Parameters
    ----------
    C : float or "auto"
        Aggressiveness: the longest step. "auto" is margin² / s³, where s is the running median of ‖x‖ ‖x⁺‖
        over the first 100 comparisons, then at rest: a share margin / s of the step that repairs a typical loss.
    margin : float or "auto"
        By how much x⁺ should be more similar than x⁻. The paper has 1.0, which unit vectors, whose similarities
        differ by a tenth, never reach; "auto" is the running median of |xᵀx⁺ - xᵀx⁻| over the first 100
        comparisons. It is the same for `fit`, `partial_fit` in any chunks and `learn_one`.
    init : "identity", "zero" or Metric
        M before the first step. Queries and items with different features need "zero" or a bilinear Metric.
    average : bool
        Whether `metric_` is the mean of the models before each step instead of the last one.
    shrinkage : "auto" or float
        Share of `init` in `metric_`, both on one scale, after a `fit` to Triplets; 0 for the paper's result. If there
        are fewer triplets than numbers in M, or no more items than features, "auto" is 1/2, unless answers about
        held-out items favour a larger share, and a warning says what they show. Otherwise "auto" is 0, and so it
        is with labels, with `init="zero"` and for streams. `partial_fit` after `fit` keeps the weights of both.
    n_triplets : int
        Triplets drawn from labelled rows: x from all rows, x⁺ from its class, x⁻ from the rest.
    storage : "auto", "dense", "sparse" or "gram"
        How M is held: in full, only where it was ever changed, or (in `fit`, from triplets of a fixed set of rows)
        through the rows' inner products. All give the same model; "auto" takes the cheapest.
    dtype : "float64" or "float32"
        Numbers in which M is held; sums are in float64.
    max_memory : float or None
        Bytes that the model may take; by default what the machine has. A model that was saved is loaded whatever it
        takes, and `set_params` can raise the limit before it learns more.
    record : bool
        Keep `history_`. It grows by 18 bytes a step: turn it off for a stream without end.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    metric_ : Metric, bilinear; its matrix is sparse where M is held so, or is large and mostly zero
    sparsity_ : float, share of entries of M that are zero
    margin_ : float, the margin in force
    shrinkage_ : float, the share of `init` in `metric_`
    history_ : History, what happened at each step: y is 1, `predicted` whether x⁺ was the more similar,
        p = margin - xᵀMq
    n_steps_, n_updates_, n_mistakes_ : int
    n_skipped_ : int, steps that were not taken because their numbers would overflow
    loss_, squared_loss_ : float, the hinge loss and its square summed over all steps
    n_features_in_, n_item_features_ : int

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

    C: Literal["auto"] | Positive = 0.1

    def _step_rule(self) -> SimilarityRule:
        return SimilarityRule(1.0, 0.0, self._length(self.C))
