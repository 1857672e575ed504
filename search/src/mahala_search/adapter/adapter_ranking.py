"""What a query adapter serves: vectors of queries, rankings of items, and what serves them without the learner."""

from collections.abc import Collection, Hashable, Mapping
from typing import Any

import numpy as np

from mahala import BilinearMetric
from mahala.evaluation import Verdict
from mahala.extend import Count, SavedEstimator, check_row, check_rows, check_value, is_sparse, leading, one_at_a_time
from mahala_search.adapter.maps import judged
from mahala_search.adapter.maps.click_map import ClickMap
from mahala_search.adapter.maps.query_maps import QueryMaps
from mahala_search.adapter.memory.bonuses import NO_BONUS, Bonus, Keys, place_values
from mahala_search.adapter.memory.click_memory import ClickMemory, item_keys
from mahala_search.adapter.trust.signal_ranker import SignalRanker
from mahala_search.adapter.trust.signals import ENGINE, check_signals
from mahala_search.arrays import FloatArray, IndexArray
from mahala_search.quality.gains import RunningGain


class AdapterRanking(SavedEstimator):
    """Base class of `QueryAdapter`: embeds queries and ranks items by the learned map, memory and signals."""

    cap: float
    n_features_in_: int
    _n_clicks: float  # that counted for the map
    _n_fresh: float  # and since it was fitted
    _asked: Keys  # queries since then
    _base: FloatArray  # the map that judgments gave
    _model: ClickMap
    _judged: Verdict | None  # by judgments, after `fit`
    _memory: ClickMemory
    _has_ids: int  # 1 if items were told apart by ids
    _page_scale: RunningGain  # usual differences of scores on a page
    _signals: SignalRanker
    _served: FloatArray | None  # the matrix

    @one_at_a_time
    def embed(self, query: Any, query_id: Any = None) -> Any:
        """Return what to send to the index: one vector for a vector, or rows for rows.

        Before anything is learned that is the query itself.

        Parameters
        ----------
        query : vector, or dense or CSR rows
        query_id : not used; all queries have one map, and ids count in `rank` only
        """
        is_one = (query.ndim if is_sparse(query) else np.ndim(query)) == 1
        rows = self._vector(query)[np.newaxis] if is_one else judged.dense_rows(check_rows(query, "query"))
        self._check_same(rows.shape[1])
        mapped = rows @ self._matrix() if self.__sklearn_is_fitted__() else rows.copy()
        return mapped[0] if is_one else mapped

    @one_at_a_time
    def rank(
        self, query: Any, items: Any, k: int | None = None, query_id: Any = None, *, item_ids: Any = None
    ) -> IndexArray:
        """Return the row numbers of the k best items, best first, for a query or for each row of queries.

        Scores are those of the map, plus the bonuses of items that were clicked for this query. An item gains at most
        five places from clicks until 20 users agree.

        Parameters
        ----------
        query : vector, or dense or CSR rows
        query_id : the id that `learn_one` was given for this query, or a sequence of ids for rows. None is the vector
            itself, as in `learn_one`, and for rows that all are new.
        items : dense or CSR rows
        k : how many; None for all
        item_ids : the ids of all items, needed if `learn_one` was given such; None if vectors tell the items apart
        """
        is_one = (query.ndim if is_sparse(query) else np.ndim(query)) == 1
        queries = self._vector(query)[np.newaxis] if is_one else judged.dense_rows(check_rows(query, "query"))
        rows = check_rows(items, "items")
        self._check_same(queries.shape[1], rows.shape[1])
        if k is not None:
            check_value(k, "k", Count)
        ids = [query_id] if is_one else _row_ids(query_id, len(queries))
        mapped, bonuses = queries, {}
        if self.__sklearn_is_fitted__():
            self._check_ids(item_ids)
            mapped = queries @ self._matrix()
            for at, id in enumerate(ids or ()):
                bonus = self._bonus(queries[at].tobytes() if id is None else id)
                if len(bonus.items):
                    bonuses[at] = bonus
        best = _rank_items(mapped, bonuses, rows, int(k or rows.shape[0]), item_ids)
        return best[0] if is_one else best

    @one_at_a_time
    def rerank(
        self, query: Any, candidates: Any, signals: Any, *, query_id: Hashable = None, item_ids: Any = None
    ) -> tuple[IndexArray, FloatArray]:
        """Rank the results of another engine; return their row numbers, best first, and their scores in that order.

        The score is the engine's own plus a weighted sum of signals. Their weights are learned by `learn_one` from
        impressions with signals, and used as far as they improve the engine's order; before that its order is kept.

        Parameters
        ----------
        query, query_id, item_ids : as for `rank`, with one query
        candidates : vectors of the results in the order of the engine, dense or CSR rows
        signals : dict of up to 32 names, each with a number for each candidate, None or NaN where it is missing. The
            engine's own scores, under the name "score", are needed; larger is better, so negate distances. The score
            of `rank` is added under the name "similarity".
        """
        x = self._vector(query)
        rows = check_rows(candidates, "candidates")
        self._check_same(len(x), rows.shape[1], "candidates")
        numbers = check_signals(signals, rows.shape[0])
        keys = item_keys(item_ids, rows)
        if not self.__sklearn_is_fitted__():
            return ENGINE.rank(numbers, np.full(len(keys), np.nan), NO_BONUS, keys)
        self._check_ids(item_ids)
        similarity = np.asarray(judged.dense_rows(rows) @ (x @ self._matrix()))
        bonus = self._bonus(x.tobytes() if query_id is None else query_id)
        return self._signals.served().rank(numbers, similarity, bonus, keys)

    def _similarities(self, x: FloatArray, items: FloatArray, keys: Keys, key: Hashable) -> FloatArray:
        """Return the scores of items by which `rank` ranks them."""
        bonus = self._bonus(key)
        return np.asarray(items @ (x @ self._matrix()) + place_values(bonus.items, bonus.values, keys))

    @property
    @one_at_a_time
    def signal_weights_(self) -> dict[str, float]:
        """The weight of each signal in `rerank`, in usual spreads of the engine's score per spread of the signal."""
        self._check_fitted()
        served = self._signals.served()
        return dict(zip(served.names, served.weights.tolist(), strict=True))

    @property
    def _scale(self) -> float:
        """What is added to a score for a bonus of 1."""
        return float(self.cap) * self._page_scale.mean

    def _bonus(self, key: Hashable) -> Bonus:
        """Return the bonus of the items that are remembered for a query."""
        return self._memory.bonus(key, self._scale)

    def _check_ids(self, item_ids: Any) -> None:
        if self._has_ids and item_ids is None:
            raise ValueError("item_ids must be the ids of the items, by which learn_one remembers clicks, got None")

    @property
    @one_at_a_time
    def metric_(self) -> BilinearMetric:
        """The similarity that serves queries."""
        self._check_fitted()
        return BilinearMetric(self._matrix(), origin={"learner": type(self).__name__, "trust": self._map_share})

    @one_at_a_time
    def maps(self) -> QueryMaps:
        """Return what is served at the moment, which maps queries without the learner and does not change."""
        self._check_fitted()
        return QueryMaps(self._matrix(), self._memory.bonuses(self._scale), self._signals.served())

    def _matrix(self) -> FloatArray:
        """Return the matrix that maps queries."""
        if self._served is None:
            self._served = self._model.matrix(self._base, float(self.cap))
        return self._served

    @property
    def _map_share(self) -> float:
        """The share of a learned map in what is served."""
        judged_share = (self._judged.share or 0.0) if self._judged is not None and self._judged.helps else 0.0
        return max(float(self.cap) * self._model.share, judged_share)

    def _vector(self, query: Any) -> FloatArray:
        if not is_sparse(query) and np.ndim(query) == 2 and len(query) == 1:
            query = query[0]
        return check_row(query, "query")

    def _check_same(self, n_query: int, n_item: int | None = None, name: str = "items") -> None:
        n_features = self.n_features_in_ if self.__sklearn_is_fitted__() else n_query
        if n_query != n_features:
            raise ValueError(f"query has {n_query} features, but QueryAdapter was fitted with {n_features} features")
        if n_item is not None:
            check_width(n_query, n_item, name)


def _row_ids(query_id: Any, n: int) -> list[Hashable] | None:
    if query_id is None:
        return None
    if not isinstance(query_id, Collection) or len(query_id) != n:
        raise ValueError(f"query_id must have one id for each of the {n} rows, got {query_id!r:.80}")
    return list(query_id)


def _rank_items(
    mapped: FloatArray, bonuses: Mapping[int, Bonus], items: Any, k: int, item_ids: Any = None
) -> IndexArray:
    """Return the row numbers of the k best items for each query, best first.

    Parameters
    ----------
    mapped : mapped queries, dense rows
    bonuses : by the number of a query, the items that are remembered for it
    items, item_ids : as for `QueryAdapter.rank`
    """
    best = np.empty((len(mapped), min(k, items.shape[0])), dtype=np.intp)
    keys = item_keys(item_ids, items) if bonuses else np.empty(0, dtype=np.uint64)
    near, exponents = judged.rough(mapped, items), judged.exponents(mapped)
    for block, scores in judged.score_blocks(near, items):
        best[block] = leading(scores, best.shape[1])
        for at in bonuses.keys() & range(block.start, min(block.stop, len(mapped))):
            bonus = bonuses[at]._replace(values=np.ldexp(bonuses[at].values, -exponents[at]))
            best[at] = bonus.order(np.asarray(scores[at - block.start]), keys, best.shape[1])
    return best


def check_width(n_query: int, n_item: int, name: str) -> None:
    if n_item != n_query:
        features = f"the {n_query} features of the queries"
        raise ValueError(f"{name} must have {features}, got {n_item}: scores are inner products")
