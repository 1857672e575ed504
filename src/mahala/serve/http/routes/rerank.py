"""The route that orders the results of another engine: /v1/collections/{name}/rerank."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI
from pydantic import Field, FiniteFloat, model_validator

from mahala.feedback.trust.signals import SIGNALS
from mahala.serve.http.guard import Guard, Visit, user_of
from mahala.serve.http.responses import RerankedList
from mahala.serve.http.schemas import COLLECTION, PAGE, Body, Id, Name, QueryBody, SignalName, Vector
from mahala.serve.searches import Reranked, listed_signals, reranked, search_in_arm
from mahala.serve.service import Service
from mahala.serve.store.keys import ApiKey
from mahala.serve.store.rows import SignalLists

_CANDIDATES = [
    {"id": "Salmorejo", "score": 9.1, "signals": {"popularity": 120, "age": 3.5}},
    {"id": "Tarator", "score": 7.4, "signals": {"popularity": 310, "age": None}},
]
_RERANK = {"query": {"item": "Gazpacho"}, "candidates": _CANDIDATES, "user": "u17"}


class CandidateBody(Body):
    """A result of another engine: its score there, other signals, and a vector if the collection does not have it."""

    id: Id
    score: FiniteFloat
    signals: Annotated[dict[SignalName, FiniteFloat | None], Field(max_length=SIGNALS - 1)] = Field(
        default_factory=dict
    )
    vector: Vector | None = None


class RerankBody(Body, json_schema_extra={"examples": [_RERANK]}):
    """A query, and the candidates for it in the order of the engine; the k best of them are returned, or all."""

    query: QueryBody
    candidates: Annotated[list[CandidateBody], Field(min_length=1, max_length=PAGE)]
    k: Annotated[int, Field(ge=1, le=PAGE)] = PAGE
    user: Id | None = None

    @model_validator(mode="after")
    def _check(self) -> RerankBody:
        if len({one.id for one in self.candidates}) < len(self.candidates):
            raise ValueError("candidates must have each id once")
        return self


def add_rerank(app: FastAPI, service: Service, guard: Guard) -> None:
    """Add the route that reranks to an app."""
    key_of = Depends(guard.needs("read"))

    @app.post(f"{COLLECTION}/rerank", tags=["search"], response_model=RerankedList)
    def rerank(name: Name, given: RerankBody, key: ApiKey = key_of, visit: Visit = None) -> dict[str, Any]:
        """Order the results of another engine by its scores and learned signals; events can name the `search_id`."""
        user, query = user_of(key, given.user, visit), service.resolve(name, given.query.model_dump())
        candidates = [dict(one) for one in given.candidates]

        def ranking(plain: bool) -> tuple[int, list[Reranked]]:
            version, found = reranked(service, name, query, candidates, plain, user)
            return version, found[: given.k]

        def signals_of(found: list[Reranked]) -> SignalLists:
            return listed_signals([candidates[one.position] for one in found])

        search, found = search_in_arm(service, name, user, query, given.k, ranking, signals_of=signals_of)
        return {**search, "results": found}
