"""What a query adapter serves: vectors of queries, rankings of items, and what serves them without the learner."""

from collections.abc import Collection, Hashable, Mapping
from typing import Any

import numpy as np

from mahala import BilinearMetric
from mahala.evaluation import Verdict
from mahala.extend import Count, SavedEstimator, check_row, check_rows, check_value, is_sparse, leading, one_at_a_time
from mahala_search.adapter.maps import judged
from mahala_search.adapter.maps.map_learner import MapLearner
from mahala_search.adapter.maps.query_maps import QueryMaps
from mahala_search.adapter.memory.click_memory import (
    NOTHING,
    ClickMemory,
    Keys,
    item_keys,
    personal_key,
    place_values,
    summed,
)
from mahala_search.adapter.memory.remembered import Remembered
from mahala_search.adapter.trust.signal_ranker import SignalRanker
from mahala_search.adapter.trust.signals import ENGINE, check_signals
from mahala_search.adapter.trust.trust import Trust
from mahala_search.arrays import FloatArray, IndexArray

# The weight of a user's own clicks, in units of the usual difference of scores on a page.
PERSONAL = 0.6


class AdapterRanking(SavedEstimator):
    """Base class of `QueryAdapter`: embeds queries and ranks items by the learned map, memory and signals."""

    personal: bool
    n_features_in_: int
    _model: MapLearner
    _trust: Trust
    _judged: Verdict | None  # by judgments, after `fit`
    _ids: Remembered
    _memory: ClickMemory
    _personal: ClickMemory
    _signals: SignalRanker
    _served: dict[str, FloatArray | None]  # the matrix for new and for known queries

    @one_at_a_time
    def embed(self, query: Any, query_id: Any = None) -> Any:
        """Return what to send to the index: one vector for a vector, or rows for rows.

        Before anything is learned that is the query itself.

        Parameters
        ----------
        query : vector, or dense or CSR rows
        query_id : the id that `learn_one` was given for this query, or a sequence of ids for rows. None is the vector
            itself, as in `learn_one`, and for rows that all are new.
        """
        if (query.ndim if is_sparse(query) else np.ndim(query)) == 1:
            x = self._vector(query)
            self._check_same(len(x))
            if not self.__sklearn_is_fitted__():
                return x.copy()
            return self._embed(x, self._kind(x.tobytes() if query_id is None else query_id))
        rows = check_rows(query, "query")
        self._check_same(rows.shape[1])
        dense = judged.dense_rows(rows)
        if not self.__sklearn_is_fitted__():
            return dense
        result = dense @ self._matrix("new")
        ids = _row_ids(query_id, len(dense))
        if ids is not None:
            is_known = np.array([self._kind(id) == "known" for id in ids])
            if is_known.any():
                result[is_known] = dense[is_known] @ self._matrix("known")
        return result

    def _embed(self, x: FloatArray, kind: str) -> FloatArray:
        if kind not in self._served:
            self._served[kind] = None  # a second query before anything is learned is worth a matrix
            _, mean, last = self._trust.shares(kind)
            products = self._model.map.products(x)
            return np.asarray(x + last * (products[0] - x) + mean * (products[1] - x))
        return np.asarray(x @ self._matrix(kind))

    @one_at_a_time
    def rank(
        self,
        query: Any,
        items: Any,
        k: int | None = None,
        query_id: Any = None,
        *,
        item_ids: Any = None,
        user: Hashable = None,
    ) -> IndexArray:
        """Return the row numbers of the k best items, best first, for a query or for each row of queries.

        Scores are those of the map, plus what is remembered of clicks for this query.

        Parameters
        ----------
        query, query_id : as for `embed`
        items : dense or CSR rows
        k : how many; None for all
        item_ids : the ids of all items that `learn_one` was given; None if they are told apart by their vectors
        user : who asks; with `personal`, what this user clicked counts as well
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
            mapped = queries @ self._matrix("new") if ids is None else mapped.copy()
            for at, id in enumerate(ids or ()):
                key = queries[at].tobytes() if id is None else id
                mapped[at] = self._embed(queries[at], self._kind(key))
                bonus = self._bonus(key, user)
                if len(bonus[0]):
                    bonuses[at] = bonus
        best = _rank_items(mapped, bonuses, rows, int(k or rows.shape[0]), item_ids)
        return best[0] if is_one else best

    @one_at_a_time
    def rerank(
        self,
        query: Any,
        candidates: Any,
        signals: Any,
        *,
        query_id: Hashable = None,
        item_ids: Any = None,
        user: Hashable = None,
    ) -> tuple[IndexArray, FloatArray]:
        """Rank the results of another engine; return their row numbers, best first, and their scores in that order.

        The score is the engine's own plus a weighted sum of signals. Their weights are learned by `learn_one` from
        impressions with signals, and used as far as they improve the engine's order; before that its order is kept.

        Parameters
        ----------
        query, query_id, item_ids, user : as for `rank`, with one query
        candidates : vectors of the results in the order of the engine, dense or CSR rows
        signals : dict of up to 32 names, each with a number for each candidate, None or NaN where it is missing. The
            engine's own scores, under the name "score", are needed; larger is better, so negate distances. The score
            of `rank` is added under the name "similarity".
        """
        x = self._vector(query)
        rows = check_rows(candidates, "candidates")
        self._check_same(len(x), rows.shape[1], "candidates")
        numbers = check_signals(signals, rows.shape[0])
        if not self.__sklearn_is_fitted__():
            return ENGINE.rank(numbers)
        key = x.tobytes() if query_id is None else query_id
        similarity = self._similarities(x, judged.dense_rows(rows), item_keys(item_ids, rows), key, user)
        return self._signals.served().rank(numbers | {"similarity": similarity})

    def _similarities(
        self, x: FloatArray, items: FloatArray, keys: Keys, key: Hashable, user: Hashable = None
    ) -> FloatArray:
        """Return the scores of items by which `rank` ranks them."""
        return np.asarray(items @ self._embed(x, self._kind(key)) + place_values(*self._bonus(key, user), keys))

    @property
    @one_at_a_time
    def signal_weights_(self) -> dict[str, float]:
        """The weight of each signal in `rerank`, in usual spreads of the engine's score per spread of the signal."""
        self._check_fitted()
        served = self._signals.served()
        return dict(zip(served.names, served.weights.tolist(), strict=True))

    def _bonus(self, key: Hashable, user: Hashable) -> tuple[Keys, FloatArray]:
        """Return the keys of the items that are remembered for a query of a user, and what is added to their scores."""
        items, clicks = self._memory.net(key)
        crowd = items, (self._weights[0] if self._kind(key) == "known" else 0.0) * clicks
        if not self.personal or user is None:
            return crowd
        items, clicks = self._personal.net(personal_key(user, key))
        return summed(crowd, (items, self._weights[1] * clicks))

    @property
    def _weights(self) -> FloatArray:
        """What is added to the score of an item for a click on it by anyone, and by the same user."""
        gap = self._model.gap
        return np.array([gap * self._trust.click_weight, gap * PERSONAL])

    @property
    @one_at_a_time
    def metric_(self) -> BilinearMetric:
        """The similarity that serves new queries."""
        self._check_fitted()
        origin = {"learner": type(self).__name__, "trust": self._trust.learned_share("new")}
        return BilinearMetric(self._matrix("new"), origin=origin)

    @one_at_a_time
    def maps(self) -> QueryMaps:
        """Return what is served at the moment, which maps queries without the learner and does not change."""
        self._check_fitted()
        personal = self._personal.bonuses() if self.personal else NOTHING
        more = self._memory.bonuses(), personal, self._weights, self._signals.served()
        models = self._model.map.matrices()
        return QueryMaps(self._matrix("new", models), self._matrix("known", models), self._ids.digests, *more)

    def _matrix(self, kind: str, models: tuple[FloatArray, FloatArray] | None = None) -> FloatArray:
        """Return the matrix for new or known queries; `models` are the last model and the mean of all, if computed."""
        served = self._served.get(kind)
        if served is None:
            _, mean, last = self._trust.shares(kind)
            models = models or self._model.map.matrices()
            served = last * models[0] + mean * models[1]
            # What is left of the shares, rounding included, so that models that are the identity give the identity.
            served[np.diag_indices(len(served))] += 1.0 - (last + mean)
            self._served[kind] = served
        return served

    def _kind(self, query_id: Hashable) -> str:
        return "known" if query_id in self._ids else "new"

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
    mapped: FloatArray, bonuses: Mapping[int, tuple[Keys, FloatArray]], items: Any, k: int, item_ids: Any = None
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
        for at in bonuses.keys() & range(block.start, min(block.stop, len(mapped))):
            scores[at - block.start] += np.ldexp(place_values(*bonuses[at], keys), -exponents[at])
        best[block] = leading(scores, best.shape[1])
    return best


def check_width(n_query: int, n_item: int, name: str) -> None:
    if n_item != n_query:
        features = f"the {n_query} features of the queries"
        raise ValueError(f"{name} must have {features}, got {n_item}: scores are inner products")
