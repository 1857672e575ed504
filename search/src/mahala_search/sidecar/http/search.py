"""What answers searches: embed, rerank, interleave, and the model for clients that embed in their own process."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from mahala_search.arrays import FloatArray
from mahala_search.sidecar.experiment.arms import interleaved
from mahala_search.sidecar.http import bodies, tokens
from mahala_search.sidecar.http.api import Api, Call
from mahala_search.sidecar.http.bodies import decoded, encoded
from mahala_search.sidecar.records import BASES, MIXED, Query, Search, Shown, Unavailable, Unknown, Work
from mahala_search.sidecar.service import Current, Sidecar

# Seconds that an answer waits until its search is written; without an id, the search goes on and is not counted.
WAIT = 0.15
# Queries of a request that are embedded without a thread.
_AT_ONCE = 8


def add_search(api: Api) -> None:
    """Add the routes."""
    api.add("POST", "/v1/spaces/{space}/embed", "write", embed)
    api.add("POST", "/v1/spaces/{space}/rerank", "write", rerank)
    api.add("POST", "/v1/spaces/{space}/interleave", "write", interleave)
    api.add("GET", "/v1/spaces/{space}/model", "write", model)


async def embed(call: Call, body: bodies.EmbedBody) -> dict[str, Any]:
    """Return better vectors of queries, what to add to the scores of items, and ids of the searches."""
    current = call.space
    if len(body.queries) <= _AT_ONCE:
        searches, results = embedded(current, body.queries)
    else:
        searches, results = await run_in_threadpool(embedded, current, body.queries)
    if body.record and await written(call.sidecar, current, searches):
        for result, search in zip(results, searches, strict=True):
            result["search_id"] = search.id
            result["token"] = tokens.sign(current.secret, search)
    return {"version": current.served.version, "results": results}


def embedded(current: Current, queries: Sequence[bodies.QueryBody]) -> tuple[list[Search], list[dict[str, Any]]]:
    """Return the searches for queries, and the vectors to search with."""
    searches = [search_of(current, query, f"queries[{at}]") for at, query in enumerate(queries)]
    served = current.served
    rows = np.array([search.query.vector for search in searches])
    mapped, scales = served.embed(rows)
    results: list[dict[str, Any]] = []
    for search, row, vector, scale in zip(searches, rows, mapped, scales, strict=True):
        is_plain = search.arm in BASES
        boosts = [] if is_plain else served.boosts(row, search.query.key, float(scale))
        results.append(
            {
                "f32": encoded(row if is_plain else vector),
                "search_id": None,
                "arm": search.arm,
                "boosts": [one._asdict() for one in boosts],
                "token": None,
            }
        )
    return searches, results


def search_of(current: Current, body: bodies.QueryBody, name: str, **more: Any) -> Search:
    """Return a new search for a query in the arm of its user."""
    served, id = current.served, uuid.uuid4().hex
    vector = served.vector(body.values(name), name)
    query = Query(served.query_key(body.named, vector), vector, body.text if current.space.settings.texts else None)
    user = served.user_key(body.user)
    arm = body.arm if current.space.settings.control.mode == "team" else served.arm(user or id)
    return Search(id, query, user, arm, served.version, **more)


async def written(sidecar: Sidecar, current: Current, works: Sequence[Work]) -> bool:
    """Return whether a search is on the disk; whoever searches does not wait longer for that, nor fails by it."""
    with contextlib.suppress(Unavailable, Unknown, TimeoutError):
        async with asyncio.timeout(WAIT):
            return await asyncio.shield(sidecar.writer.record(current.space.id, works))
    return False


async def rerank(call: Call, body: bodies.RerankBody) -> dict[str, Any]:
    """Order the candidates of the engine by its scores, learned signals and similarities, and record what is shown."""
    current = call.space
    search, shown, results = await run_in_threadpool(reranked, call.sidecar, current, body)
    is_written = await written(call.sidecar, current, [search, shown])
    return {
        "version": search.version,
        "results": results,
        "search_id": search.id if is_written else None,
        "arm": search.arm,
        "teams": shown.teams,
        "token": tokens.sign(current.secret, search) if is_written else None,
    }


def reranked(sidecar: Sidecar, current: Current, body: bodies.RerankBody) -> tuple[Search, Shown, list[Any]]:
    """Return the search, what is shown for it, and the candidates with their scores and positions."""
    candidates, served = body.candidates, current.served
    search = search_of(current, body.query, "query")
    named = [(one.id, one.f32, f"candidates[{at}]") for at, one in enumerate(candidates)]
    given = {id: served.vector(decoded(f32, name), name) for id, f32, name in named if f32}
    ids = [one.id for one in candidates]
    names = dict.fromkeys(name for one in candidates for name in one.signals)
    if "score" in names:
        raise ValueError("candidates must have 'score' beside their signals, not among them")
    signals: dict[str, list[float | None]] = {"score": [one.score for one in candidates]}
    signals |= {name: [one.signals.get(name) for one in candidates] for name in names}
    vectors = given
    if served.maps is not None and len(given) < len(ids):
        with contextlib.suppress(Unavailable):
            vectors = {**sidecar.store.item_vectors(current.space.id, ids), **given}
    assert search.query.vector is not None
    order, scores = served.rerank(search.query.vector, search.query.key, ids, signals, vectors)
    score_of, teams = dict(zip(order, scores, strict=True)), None
    if search.arm in (*BASES, MIXED):
        plain = sorted(range(len(ids)), key=lambda at: -candidates[at].score)
        number = {id: at for at, id in enumerate(ids)}
        if search.arm == MIXED:
            rankings = [ids[at] for at in order], [ids[at] for at in plain]
            mixed, teams = interleaved(*rankings, body.k, search.id)
            plain = [number[id] for id in mixed]
        order = plain
    order = order[: body.k]
    picked = {name: [values[at] for at in order] for name, values in signals.items()}
    top = [ids[at] for at in order]
    shown = Shown(search.id, top, teams=teams, vectors=_of(top, given), signals=picked)
    return search, shown, [{"id": ids[at], "score": score_of[at], "position": at} for at in order]


def _of(ids: Sequence[str], vectors: dict[str, FloatArray]) -> dict[str, FloatArray]:
    return {id: vectors[id] for id in ids if id in vectors}


async def interleave(call: Call, body: bodies.InterleaveBody) -> dict[str, Any]:
    """Mix two rankings by team draft; `shown` takes the ids and the teams."""
    ids, teams = interleaved(body.a, body.b, body.k, body.search_id)
    return {"ids": ids, "teams": teams}


def model(call: Call) -> Response:
    """Return what is served as safetensors, for clients that embed in their own process; its ETag changes with it."""
    served = call.space.served
    told = f"{served.space}:{served.version}:{served.control}"
    headers = {"ETag": f'"{hashlib.sha256(told.encode()).hexdigest()[:32]}"'}
    if headers["ETag"] in call.request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(served.to_bytes(), media_type="application/octet-stream", headers=headers)
