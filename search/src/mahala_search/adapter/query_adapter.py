"""QueryAdapter: a map of queries that is learned from clicks and judgments, and used as far as gains support it."""

from collections.abc import Collection, Hashable, Iterable
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from mahala import OASIS, OGD, ModelFileError
from mahala.evaluation import Verdict
from mahala.extend import (
    Count,
    Integer,
    NonNegative,
    Part,
    Positive,
    Seed,
    Share,
    all_or_nothing,
    check_params,
    check_rows,
    check_seed,
    header_value,
    one_at_a_time,
    one_blas_thread,
    uninterrupted,
)
from mahala.extend.commands import task_bar
from mahala_search.adapter.adapter_ranking import AdapterRanking, check_width
from mahala_search.adapter.maps import judged
from mahala_search.adapter.maps.map_learner import MapLearner
from mahala_search.adapter.memory.click_memory import ClickMemory, Keys, RankRates, item_keys, personal_key
from mahala_search.adapter.memory.remembered import Remembered, digest_of
from mahala_search.adapter.trust.signal_ranker import SignalRanker
from mahala_search.adapter.trust.signals import Signals, check_signals
from mahala_search.adapter.trust.trust import Trust, page_pairs
from mahala_search.arrays import Arrays, FloatArray, slices
from mahala_search.events.impression_lines import ImpressionReader
from mahala_search.events.impressions import Impression, Impressions, check_reactions
from mahala_search.quality.gains import RunningGain
from mahala_search.quality.judgments import Judgments

# The weight of a click on a page with n of them is n to the power of minus this.
CLICK_COUNT_EXPONENT = 0.5
# Impressions whose queries are looked at together in `partial_fit`.
BLOCK = 128
# Parameters that cannot change while a stream runs.
_FIXED = ("learner", "cap", "half_life", "personal", "memory")


class Page(NamedTuple):
    """An impression: query, results from the top, reactions, what tells results apart; the rest is as in `learn_one`.

    The arrays are of finite numbers in float64, C-contiguous.
    """

    query: FloatArray
    items: FloatArray
    values: FloatArray
    keys: Keys
    query_id: Hashable = None
    user: Hashable = None
    ranked: bool = True
    signals: Signals | None = None


@dataclass(eq=False, repr=False)
class QueryAdapter(AdapterRanking):
    """A map of queries, learned from clicks or judgments, for an index over frozen vectors that ranks by inner product.

    A similarity learner learns M in the score xᵀ M z of a query x and an item z. What is sent to the index is Mᵀx, so
    the items stay as they are. How much of the learned map is used is decided on what was not learned from, with the
    plain ranking always among the candidates: by cross-validation over queries in `fit`, and by `trust_` in a stream.

    For queries that are known, the clicks on each item are remembered, and the clicks that the ranks at which it was
    shown alone explain (`adapter/memory/click_memory.py`). `rank` uses both the map and the memory; `embed` the
    map only. `rerank` ranks the results of another engine by its scores and other signals
    (`mahala_search.adapter.trust.signals`).

    Before each impression is learned from, 17 experts are judged by it: the plain scores, and plain + α (learned -
    plain) for eight α up to `cap`, with the mean of all models so far and with the last model. An expert's loss is the
    share of pairs (one result that people reacted to more than to another) that it has in the wrong order; a click
    counts less where clicks are frequent. Exponential weights on these losses, for queries that are new and for queries
    that are known, give `trust_`; the weighted mean of the experts is served. For known queries all experts but the
    plain scores pay 0.06. New queries have two sets of weights: one that starts with a tenth on the map, and, while the
    map is ahead of the plain scores on known queries by at least 0.06 of the pairs (the lower end of the 95 %
    interval), one that starts with four tenths.

    Remembered clicks count as far as clicks repeat: a page agrees with the memory by the sum over its results of the
    clicks beyond those expected, now times before. If the sum over pages is at most three standard errors above 0,
    they do not count; from eight standard errors on, a click counts 0.8 of the usual difference of scores on a page.
    They count less if they put more pairs on pages in the right order than the map alone by fewer than two standard
    errors, and not at all if they do not.

    What is guaranteed, if `half_life` and `fit` are not used: the weighted mean of the losses of the 17 experts, summed
    over impressions of the total weight T, is above the loss of the plain ranking by at most 0.86 sqrt(T) for new
    queries and 1.5 sqrt(T) for known ones, for any clicks (`adapter.trust.trust.Hedge` has the theorem; the
    constants are for cap=1). That is a statement about pairs among the results shown, and about an expert drawn by the
    weights. It says nothing about nDCG, about remembered clicks, nor about the ranking by the mean: that these follow
    was seen in simulations, and not proved.

    Parameters
    ----------
    learner : OASIS, OGD or None
        Whose steps M takes, from the identity. Its `margin`, its C or eta and its `max_memory` count. None is
        ``OASIS(C="auto", margin="auto")``, with a margin that is the mean difference between the best and the worst raw
        score among the results shown, or in `fit` the median one between the first and the tenth. Two results may have
        been chosen because they are close, so that their difference is that between the first scores of two pages.
    cap : float
        The largest share of the learned map, from 0 to 1. It bounds what consistently wrong clicks can do.
    half_life : float or None
        Impressions after which evidence for and against the experts counts half; None never forgets.
    bias : None, "skip-above" or float
        Correction for positions. None compares a clicked result with all that were not clicked; "skip-above" only with
        those above it; a number η weights a pair by (rank of the better result / number shown)^η.
    user_cap : int or None
        The n-th impression of a user is learned from, and counts for and against the experts, with the weight
        min(1, user_cap / n). While all impressions are from one user, the weight is 1.
    personal : bool
        Whether the clicks of each user are remembered for this user as well, at their full weight. They count in
        `rank` for the same user only.
    memory : int
        Number of query ids, and of users, that are remembered; those not seen for the longest time are forgotten first.
    k : int
        The cut-off of the nDCG by which `fit` chooses.
    n_passes, n_negatives, depth : int
        In `fit`: passes over the judged queries; negatives drawn for each relevant item in each pass; the number of
        leading results they are drawn from.
    n_folds : int
        Folds of the cross-validation over queries in `fit`.
    verbose : bool
        Whether `fit` shows a progress bar.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    metric_ : BilinearMetric that serves new queries
    trust_ : dict, the share of the learned map in what is served to "new" and to "known" queries
    verdict_ : Verdict on the gain over the plain ranking, on queries that were not learned from
    stream_verdicts_ : dict, the Verdict on the impressions of "new" and of "known" queries, where there were any
    signal_weights_ : dict, the weight of each signal in `rerank`
    cross_validation_ : CrossValidation, by query, after `fit`; it is not part of a model file
    n_impressions_, n_learned_, n_ignored_ : int, impressions in all; with pairs to learn from; with none
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np, mahala
    >>> rng = np.random.default_rng(0)
    >>> items, queries = rng.normal(size=(200, 8)), rng.normal(size=(40, 8))
    >>> taste = np.array([3.0, 2.0, 2.0, 1.0, 1.0, 0.2, 0.2, 0.2])
    >>> qrels = [(i, j, 1) for i in range(40) for j in np.argsort(-items @ (taste * queries[i]))[:5]]
    >>> adapter = mahala_search.QueryAdapter(random_state=0).fit(queries[:30], items, [q for q in qrels if q[0] < 30])
    >>> adapter.embed(queries[30]).shape
    (8,)
    """

    learner: OASIS | OGD | None = None
    _: KW_ONLY
    cap: Share = 1.0
    half_life: Positive | None = None
    bias: Literal["skip-above"] | NonNegative | None = None
    user_cap: Count | None = None
    personal: bool = False
    memory: Count = 100_000
    k: Count = 10
    n_passes: Count = 12
    n_negatives: Count = 5
    depth: Count = 30
    n_folds: Count = 5
    verbose: bool = False
    random_state: Seed = None

    FIELDS: ClassVar = (
        *(Integer(name) for name in ("n_impressions_", "n_learned_", "n_ignored_")),
        *(Part(name) for name in ("_model", "_trust", "_ids", "_users", "_rates", "_memory", "_personal", "_signals")),
    )

    @one_at_a_time
    def fit(self, queries: Any, items: Any, qrels: Any) -> Self:
        """Learn from judgments; how much of the map is used is decided by cross-validation over the queries.

        Parameters
        ----------
        queries, items : dense or CSR rows with the same features
        qrels : judgments in any form of `mahala_search.Judgments.of`; queries without a relevant item are left out
        """
        check_params(self)
        queries, items = check_rows(queries, "queries"), check_rows(items, "items")
        check_width(queries.shape[1], items.shape[1], "items")
        judgments = Judgments.of(qrels, queries.shape[0], items.shape[0])
        n = len(judgments.judged_queries)
        if n < 2:
            raise ValueError(f"qrels must have relevant items for at least 2 queries, to test on some, got {n}")
        folds = min(int(self.n_folds), n)
        if folds < 2:
            raise ValueError(f"n_folds must be at least 2, got {self.n_folds}")
        with all_or_nothing(self), one_blas_thread():
            self._begin(queries.shape[1])
            search, k = judged.Search.of(queries, items, judgments, int(self.k)), int(self.k)
            self._model.see(search.gap(), search.size(), n)
            with task_bar(type(self).__name__, self.verbose) as update:
                tick = judged.counted(update, int(self.n_passes) * n * folds)
                passes = judged.Passes(int(self.n_passes), int(self.n_negatives), int(self.depth), self._rng, tick)
                expert, learned, self._judged, self.cross_validation_ = judged.fit_map(
                    search, passes, self._model.new_map, self._model.rule, self._trust.experts, folds, k
                )
            if learned is not None:
                self._model.map = learned
                self._trust.prefer(expert)
        return self

    @one_at_a_time
    def learn_one(
        self,
        query: Any,
        shown: Any,
        clicked: Any,
        *,
        query_id: Hashable = None,
        user: Hashable = None,
        item_ids: Any = None,
        ranked: bool = True,
        signals: Any = None,
    ) -> float | None:
        """Learn from one impression; return the share of its pairs that were served in the right order.

        Nothing is learned, and None is returned, if the reactions are all equal.

        Parameters
        ----------
        query : vector
        shown : vectors of the results, from the top
        clicked : a reaction to each of them: True or False, or numbers of which larger ones are better, such as grades
            or dwell times; 0 is no reaction, and below 0 means "not this one". Every two results with different
            reactions are a pair, with a weight in proportion to the difference.
        query_id : what tells queries apart, any hashable; it is remembered by its `repr`. None: the vector itself.
        user : who asked, for `user_cap` and `personal`
        item_ids : an id of each result, any hashables, by which it is remembered. None: its vector.
        ranked : whether the results were in ranked order; False for answers and judgments, in which the position of a
            result means nothing
        signals : as for `rerank`, from which `rerank` learns; None if there are none
        """
        x = self._vector(query)
        if (shown.shape[:1] == (0,)) if hasattr(shown, "shape") else (isinstance(shown, Collection) and not len(shown)):
            raise ValueError("shown must have at least one item, got none")
        rows = check_rows(shown, "shown")
        self._check_same(len(x), rows.shape[1], "shown")
        values = check_reactions(clicked, rows.shape[0])
        numbers = None if signals is None else check_signals(signals, rows.shape[0])
        check_params(self)
        keys = item_keys(item_ids, rows)
        return self.learn_page(Page(x, judged.dense_rows(rows), values, keys, query_id, user, ranked, numbers))

    @one_at_a_time
    def learn_page(self, page: Page) -> float | None:
        """Learn from an impression whose arrays have been checked, as `learn_one` does."""
        is_new = not self.__sklearn_is_fitted__()
        with all_or_nothing(self) if is_new else nullcontext():
            if is_new:
                self._begin(len(page.query))
            self._check_fixed()
            if page.signals is not None:
                self._signals.check_room(page.signals)
            return self._learn(page)

    @one_at_a_time
    def expect(self, queries: FloatArray) -> None:
        """Have what learning from these queries needs computed for many of them at a time; it changes no result."""
        if self.__sklearn_is_fitted__():
            self._model.map.expect(queries)

    def partial_fit(self, impressions: Iterable[Any]) -> Self:
        """Learn from impressions in their order, as `learn_one` does from each.

        Parameters
        ----------
        impressions : `mahala_search.Impressions`
        """
        if not isinstance(impressions, Impressions):
            raise TypeError(f"impressions must be mahala_search.Impressions, got {type(impressions).__name__}")
        self._check_same(impressions.queries.shape[1], impressions.items.shape[1], "items")
        for block in slices(len(impressions), BLOCK):
            self.expect(judged.dense_rows(impressions.queries[impressions.query[block]]))
            for query, shown, clicked, query_id, user in impressions[block]:
                self.learn_one(query, shown, clicked, query_id=query_id, user=user)
        return self

    line_reader: ClassVar = ImpressionReader  # of `mahala.stream.Stream`

    def learn_line(self, impression: Impression) -> tuple[bool, dict[str, object]]:
        """Learn from an impression of a stream; return whether half its pairs were in order, and what to print."""
        query, shown, clicked, query_id, user = impression
        share = self.learn_one(query, shown, clicked, query_id=query_id, user=user)
        # An impression without pairs has none in the wrong order.
        return share is None or share >= 0.5, {"right": share, "trust": self.trust_}

    def _learn(self, page: Page) -> float | None:
        positive, negative, weights = page_pairs(page.values, self.bias)
        x, items = page.query, page.items
        with uninterrupted():
            self.n_impressions_ += 1
            scores = self._model.score_page(x, items, learned=len(positive) > 0)
            key = digest_of(x.tobytes() if page.query_id is None else page.query_id)
            share = 1.0
            if self.user_cap is not None and page.user is not None:
                n = self._users.add(page.user)
                if n < self.n_impressions_:  # otherwise there is nobody else
                    share = min(1.0, self.user_cap / n)
            if len(positive):
                kind, pairs = self._kind(key), (positive, negative, weights)
                remembered = self._memory.net_of(key, page.keys, self._model.gap) if kind == "known" else None
                corrected = weights, 1.0
                if page.ranked and self.bias is None:
                    corrected = self._rates.correct(len(items), positive, weights)
                if page.signals is not None:
                    signals = page.signals | {"similarity": self._similarities(x, items, page.keys, key)}
                    self._signals.learn(signals, (positive, negative, corrected[0]), share)
                loss = self._trust.judge(kind, scores, remembered, pairs, share, corrected)
                # A click among many is less certain.
                weights = weights * (share / len(set(positive.tolist())) ** CLICK_COUNT_EXPONENT)
                self._model.map.feed_query(x, items, (positive, negative, weights), self._model.rule)
                self._ids.add(key)
            self._remember(key, page, share)
            self._served.clear()
            self.n_learned_ += bool(len(positive))
            self.n_ignored_ += not len(positive)
        return 1.0 - loss if len(positive) else None

    def _remember(self, key: Hashable, page: Page, share: float) -> None:
        """Count the clicks on a page, and those that were expected at the rates of its ranks."""
        clicks, expected = self._rates.see(page.values, page.ranked, share)
        self._trust.repeats.add(share * self._memory.learn(key, page.keys, clicks, expected, share))
        if self.personal and page.user is not None:
            self._personal.learn(personal_key(page.user, key), page.keys, clicks, expected)

    @property
    @one_at_a_time
    def trust_(self) -> dict[str, float]:
        """The share of the learned map in what is served, from 0 (the plain ranking) to `cap`."""
        self._check_fitted()
        return {kind: self._trust.learned_share(kind) for kind in ("new", "known")}

    @property
    @one_at_a_time
    def verdict_(self) -> Verdict:
        """What is gained over the plain ranking, on queries that were not learned from.

        After `fit` it is that of cross-validation, in nDCG. In a stream it is the share of pairs in the right order, in
        the first impression of each query, more than the plain ranking had. Those pairs are among the results shown, so
        it is a sign and not an estimate of quality: judge by `mahala_search.evaluate_ranking` on held-out queries.
        """
        self._check_fitted()
        stream = self._trust.verdicts().get("new")
        if self._judged is not None and (self._judged.helps or stream is None):
            return self._judged._replace(share=self._trust.learned_share("new") if self._judged.helps else 0.0)
        return stream or RunningGain().verdict()

    @property
    @one_at_a_time
    def stream_verdicts_(self) -> dict[str, Verdict]:
        """The verdicts on a stream, as `verdict_` has them, for impressions of new and of known queries."""
        self._check_fitted()
        return self._trust.verdicts()

    def _begin(self, n_features: int) -> None:
        """Start over, with nothing learned."""
        self.n_features_in_ = n_features
        self._model = MapLearner(self.learner, n_features)
        self._fixed_values = {name: getattr(self, name) for name in _FIXED}
        self._rng = np.random.default_rng(int(check_seed(self.random_state).randint(2**31)))
        self._trust = Trust(float(self.cap), self.half_life)
        self._judged = None
        self._ids, self._users = Remembered(int(self.memory)), Remembered(int(self.memory))
        self._rates, self._memory, self._personal = RankRates(), ClickMemory(), ClickMemory()
        self._signals = SignalRanker(float(self.cap), self.half_life)
        self._served: dict[str, FloatArray | None] = {}
        self.n_impressions_ = self.n_learned_ = self.n_ignored_ = 0

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        self._check_fixed()  # what is written must fit the parameters that are written with it
        header, arrays = super()._get_state()
        header["judged"] = None if self._judged is None else list(self._judged)
        return header | {"random_state": self._rng.bit_generator.state}, arrays

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        check_params(self)
        n = self.n_features_in_
        if (shape := np.shape(arrays.get("model.map.M", 0.0))) != (n, n):  # before room for it is made
            raise ModelFileError(f"its map should be a matrix of {n} × {n} features, found one of shape {shape}")
        self._begin(n)
        self._rng.bit_generator.state = header_value(header, "random_state", dict)
        fields = header_value(header, "judged", list, type(None))
        try:
            self._judged = None if fields is None else Verdict.of(fields)
        except ValueError as error:
            raise ModelFileError(f"header entry 'judged' is damaged ({error})") from None
        super()._set_state(header, arrays)
