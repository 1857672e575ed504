"""QueryAdapter: a map of queries that is learned from clicks and judgments, and used as far as gains support it."""

import math
from collections.abc import Collection, Hashable
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mahala import ModelFileError
from mahala.evaluation import Verdict
from mahala.extend import (
    Array,
    Count,
    Integer,
    Number,
    Part,
    Seed,
    Share,
    all_or_nothing,
    as_floats,
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
from mahala_search.adapter.maps.click_map import ENOUGH, ClickMap
from mahala_search.adapter.memory.bonuses import Keys
from mahala_search.adapter.memory.click_memory import ClickMemory, RankRates, item_keys
from mahala_search.adapter.memory.remembered import Remembered, digest_of
from mahala_search.adapter.memory.vectors import Vectors
from mahala_search.adapter.trust.pairs import page_losses, page_pairs
from mahala_search.adapter.trust.signal_ranker import SignalRanker
from mahala_search.adapter.trust.signals import Signals, check_signals
from mahala_search.arrays import Arrays, FloatArray, IndexArray
from mahala_search.quality.gains import RunningGain
from mahala_search.quality.judgments import Judgments

# The map is fitted again after this many clicks, or after this share of all clicks if that is more.
FRESH_CLICKS, FRESH_SHARE = 100.0, 0.125
# A smaller difference between scores, in products of the vectors' lengths, is one of rounding.
ROUNDING = 1e-12
# Scales of scores outside of this range are those of no vectors.
SMALLEST_SCALE, LARGEST_SCALE = 1e-20, 1e20
# Parameters that cannot change while a stream runs.
_FIXED = ("cap", "memory")


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
    ranks: IndexArray | None = None  # of the results on the page, from 0; None: it is not ranked
    signals: Signals | None = None
    first: bool = True  # False if what was shown was counted before, with other reactions


@dataclass(eq=False, repr=False)
class QueryAdapter(AdapterRanking):
    """A map of queries, learned from clicks or judgments, for an index over frozen vectors that ranks by inner product.

    What is learned is M in the score xᵀ M z of a query x and an item z. What is sent to the index is Mᵀx, so the items
    stay as they are. How much of the learned map is used is decided on queries that were not learned from, with the
    plain ranking always among the candidates.

    **Clicks.** For each query and item, the clicks are counted, and the clicks that its ranks alone explain. Every few
    hundred clicks a map is fitted to all counts, with an L2 penalty (`adapter.maps.click_map.ClickMap`). The same fit
    to three quarters of the queries must make clicks for the others more likely; the share that is used grows with that
    gain and its standard errors. A query counts up to ten expected clicks, and moves the share by at most 0.02.

    In `rank`, items that were clicked for the same query also have bonuses: what is remembered of them, as far as the
    clicks of this query depend on the items (`adapter.memory.click_memory.ClickMemory`). An item gains at most five
    places from that until 20 users agree. `embed` has the map only. `rerank` ranks the results of another engine by its
    scores and other signals (`mahala_search.adapter.trust.signals`).

    **Judgments.** `fit` chooses among shares of maps by the lower bounds of their gains in nDCG, by cross-validation
    over queries. Clicks are then learned on top of the map that was chosen.

    Parameters
    ----------
    cap : float
        The largest share of the learned map, and of bonuses, from 0 to 1. It bounds what consistently wrong clicks do.
    user_cap : int or None
        The n-th impression of a user counts with the weight min(1, user_cap / n). While all impressions are from one
        user, the weight is 1.
    memory : int
        Number of queries, and of users, that are remembered; those not seen for the longest time are forgotten first.
    k : int
        The cut-off of the nDCG by which `fit` chooses.
    n_folds : int
        Folds of the cross-validation over queries in `fit`.
    verbose : bool
        Whether `fit` shows a progress bar.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    metric_ : BilinearMetric that maps queries
    trust_ : dict, the share of the learned map in what is served ("new"), and that of queries whose clicks depend on
        the items ("known"), by which clicks for the same query count
    verdict_ : Verdict on the gain over the plain ranking, on queries that were not learned from
    signal_weights_ : dict, the weight of each signal in `rerank`
    cross_validation_ : CrossValidation, by query, after `fit`; it is not part of a model file
    n_impressions_, n_learned_, n_ignored_ : int, impressions in all; with pairs to learn from; with none
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np, mahala_search
    >>> rng = np.random.default_rng(0)
    >>> items, queries = rng.normal(size=(200, 8)), rng.normal(size=(40, 8))
    >>> taste = np.array([3.0, 2.0, 2.0, 1.0, 1.0, 0.2, 0.2, 0.2])
    >>> qrels = [(i, j, 1) for i in range(40) for j in np.argsort(-items @ (taste * queries[i]))[:5]]
    >>> adapter = mahala_search.QueryAdapter(random_state=0).fit(queries[:30], items, [q for q in qrels if q[0] < 30])
    >>> adapter.embed(queries[30]).shape
    (8,)
    """

    _: KW_ONLY
    cap: Share = 1.0
    user_cap: Count | None = None
    memory: Count = 20_000
    k: Count = 10
    n_folds: Count = 5
    verbose: bool = False
    random_state: Seed = None

    FIELDS: ClassVar = (
        *(Integer(name) for name in ("n_impressions_", "n_learned_", "n_ignored_", "_has_ids")),
        *(Number(name, least=0.0) for name in ("_n_clicks", "_n_fresh")),
        Array("_base"),
        Array("_asked", shape=(None,)),
        *(Part(name) for name in ("_model", "_users", "_rates", "_memory", "_queries", "_items")),
        *(Part(name) for name in ("_signals", "_page_scale", "_gain")),
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
            search = judged.Search.of(queries, items, judgments, int(self.k))
            rng = np.random.default_rng(int(check_seed(self.random_state).randint(2**31)))
            fold_of = rng.permutation(n) % folds
            with task_bar(type(self).__name__, self.verbose) as update:
                tick = judged.counted(update, len(judged.PENALTIES) * (folds + 1))
                change, self._judged, self.cross_validation_ = judged.fit_map(
                    search, fold_of, float(self.cap), int(self.k), tick
                )
            if change is not None:
                self._base = self._base + change
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

        None is returned if the reactions are all equal: there are no pairs.

        Parameters
        ----------
        query : vector
        shown : vectors of the results, from the top
        clicked : a reaction to each of them: True or False, or numbers of which larger ones are better, such as grades
            or dwell times; 0 is no reaction, and below 0 means "not this one". The largest on a page counts as 1.
        query_id : what tells queries apart, any hashable; it is remembered by its `repr`. None: the vector itself.
        user : who asked, for `user_cap` and for how many users agree. None: somebody; all of these count as one of the
            users who agree.
        item_ids : an id of each result, any hashables, by which it is remembered. None: its vector. With ids, `rank`
            and `rerank` need them as well.
        ranked : whether the results were in ranked order; False for answers and judgments, in which the position of a
            result means nothing
        signals : as for `rerank`, from which `rerank` learns; None if there are none
        """
        x = self._vector(query)
        if (shown.shape[:1] == (0,)) if hasattr(shown, "shape") else (isinstance(shown, Collection) and not len(shown)):
            raise ValueError("shown must have at least one item, got none")
        rows = check_rows(shown, "shown")
        self._check_same(len(x), rows.shape[1], "shown")
        values = _check_reactions(clicked, rows.shape[0])
        numbers = None if signals is None else check_signals(signals, rows.shape[0])
        check_params(self)
        keys = item_keys(item_ids, rows)
        ranks = np.arange(len(values)) if ranked else None
        page = Page(x, judged.dense_rows(rows), values, keys, query_id, user, ranks, numbers)
        return self._learn_page(page, has_ids=item_ids is not None)

    @one_at_a_time
    def learn_page(self, page: Page) -> float | None:
        """Learn from an impression whose arrays have been checked, and whose keys are of ids, as `learn_one` does."""
        return self._learn_page(page, has_ids=True)

    def _learn_page(self, page: Page, has_ids: bool) -> float | None:
        is_new = not self.__sklearn_is_fitted__()
        with all_or_nothing(self) if is_new else nullcontext():
            if is_new:
                self._begin(len(page.query))
            self._check_fixed()
            if page.signals is not None:
                self._signals.check_room(page.signals)
            self._has_ids = int(self._has_ids or has_ids)
            return self._learn(page)

    def _learn(self, page: Page) -> float | None:
        x, items, pairs = page.query, page.items, page_pairs(page.values)
        with uninterrupted():
            self.n_impressions_ += 1
            key = digest_of(x.tobytes() if page.query_id is None else page.query_id)
            share = self._user_share(page.user)
            plain = items @ (x @ self._base)
            right = None
            if len(pairs[0]):
                scores = np.column_stack([plain, self._similarities(x, items, page.keys, key)])
                if page.signals is not None:
                    signals = page.signals | {"similarity": scores[:, 1]}
                    ranked = pairs if page.ranks is None else self._rates.corrected(pairs, page.ranks)
                    self._signals.learn(signals, ranked, share)
                before, loss = page_losses(scores, pairs)
                if key not in self._memory:
                    self._gain.add(float(before - loss))
                right = 1.0 - float(loss)
            if key not in self._memory:  # so that no query counts more than another
                self._see_scale(x, items, plain)
            self._remember(key, page, share)
            self.n_learned_ += right is not None
            self.n_ignored_ += right is None
            if self._n_fresh >= max(FRESH_CLICKS, FRESH_SHARE * self._n_clicks):
                self._fit_map()
        return right

    def _user_share(self, user: Hashable) -> float:
        """Return the weight of the next impression of a user."""
        if self.user_cap is None or user is None:
            return 1.0
        n = self._users.add(user)
        return min(1.0, self.user_cap / n) if n < self.n_impressions_ else 1.0  # otherwise there is nobody else

    def _see_scale(self, x: FloatArray, items: FloatArray, scores: FloatArray) -> None:
        """Take the difference of scores on a page into its mean: that of the second and the last one, from three on."""
        order = np.sort(scores)
        scale = float(order[-2 if len(order) > 2 else -1] - order[0])
        size = math.sqrt(float(x @ x) * float(np.vdot(items, items)) / len(items))
        if SMALLEST_SCALE < scale < LARGEST_SCALE and scale > ROUNDING * size:
            self._page_scale.add(scale)

    def _remember(self, key: int, page: Page, share: float) -> None:
        """Count the clicks on a page, and those that were expected at the rates of its ranks."""
        clicks, expected = self._rates.see(page.values, page.ranks, share, page.first)
        self._memory.learn(key, page.keys, clicks, expected, page.user, share)
        self._queries.add(np.array([key], dtype=np.uint64), page.query[np.newaxis])
        self._items.add(page.keys, page.items)
        if self._memory.expected(key) <= ENOUGH:  # beyond, the query counts no more
            self._n_clicks += share * float(clicks.sum())
            self._n_fresh += share * float(clicks.sum())
            self._asked = np.union1d(self._asked, np.array([key], dtype=np.uint64))

    def _fit_map(self) -> None:
        """Fit the map to all that is remembered, and forget the vectors of the rest."""
        counts = self._memory.counts()
        self._queries.keep(counts.queries)
        self._items.keep(np.unique(counts.items))
        self._model.fit(counts, self._queries, self._items, self._base, self._page_scale.mean, len(self._asked))
        self._asked, self._n_fresh, self._served = self._asked[:0], 0.0, None

    @property
    @one_at_a_time
    def trust_(self) -> dict[str, float]:
        """The shares of the learned map and of remembered clicks that are used, from 0 (the plain ranking) to `cap`."""
        self._check_fitted()
        return {"new": self._map_share, "known": float(self.cap) * self._memory.share}

    @property
    @one_at_a_time
    def verdict_(self) -> Verdict:
        """What is gained over the plain ranking, on queries that were not learned from.

        After `fit` it is that of cross-validation, in nDCG. In a stream it is the share of pairs in the right order, in
        the first impression of each query, more than the plain ranking had. Those pairs are among the results shown, so
        it is a sign and not an estimate of quality: judge by `mahala_search.evaluate_ranking` on held-out queries.
        """
        self._check_fitted()
        if self._judged is not None and (self._judged.helps or not self._gain.n):
            return self._judged
        return self._gain.verdict(self._map_share)

    def _begin(self, n_features: int) -> None:
        """Start over, with nothing learned."""
        self.n_features_in_ = n_features
        self._fixed_values = {name: getattr(self, name) for name in _FIXED}
        self._base, self._model, self._served = np.eye(n_features), ClickMap(n_features), None
        self._judged = None
        self._users, self._rates = Remembered(int(self.memory)), RankRates()
        self._memory = ClickMemory(int(self.memory))
        self._queries, self._items = Vectors(n_features), Vectors(n_features)
        self._signals = SignalRanker(float(self.cap))
        self._page_scale = RunningGain()
        self._gain = RunningGain()  # on queries that were not asked before
        self._asked = np.zeros(0, dtype=np.uint64)  # queries since the last fit
        self._n_clicks, self._n_fresh = 0.0, 0.0  # that counted, and since the last fit
        self._has_ids = 0
        self.n_impressions_, self.n_learned_, self.n_ignored_ = 0, 0, 0

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        self._check_fixed()  # what is written must fit the parameters that are written with it
        header, arrays = super()._get_state()
        header["judged"] = None if self._judged is None else list(self._judged)
        return header, arrays

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        check_params(self)
        n = self.n_features_in_
        if (shape := np.shape(arrays.get("base", 0.0))) != (n, n):  # before room for it is made
            raise ModelFileError(f"its map should be a matrix of {n} × {n} features, found one of shape {shape}")
        self._begin(n)
        fields = header_value(header, "judged", list, type(None))
        try:
            self._judged = None if fields is None else Verdict.of(fields)
        except ValueError as error:
            raise ModelFileError(f"header entry 'judged' is damaged ({error})") from None
        super()._set_state(header, arrays)


def _check_reactions(clicked: Any, n_shown: int) -> FloatArray:
    """Return one finite number per result shown."""
    if n_shown == 0:
        raise ValueError("shown must have at least one item, got none")
    values = as_floats(clicked, "clicked")
    if values.shape != (n_shown,):
        wanted = f"one entry for each of the {n_shown} items shown"
        raise ValueError(f"clicked must have {wanted}, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("clicked contains NaN or infinity; every reaction must be a finite number")
    return values
