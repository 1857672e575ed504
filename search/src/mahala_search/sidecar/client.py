"""Client: embeds queries in the process of the application, and tells the sidecar what was shown and done."""

from __future__ import annotations

import atexit
import base64
import json
import logging
import os
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Self

import httpx
import numpy as np
from numpy.typing import ArrayLike

from mahala_search.adapter.memory.bonuses import limited_order
from mahala_search.arrays import FloatArray
from mahala_search.sidecar.experiment.arms import interleaved
from mahala_search.sidecar.records import BASES
from mahala_search.sidecar.serving import Boost, Served

Id = str | int | None
log = logging.getLogger("mahala_search.client")

# Entries of one request, seconds before what could not be sent is sent again, and seconds for the rest at exit.
_BATCH, _PAUSE, _LAST = 200, 1.0, 2.0


class ServiceError(RuntimeError):
    """The sidecar refused a request; `status` is that of HTTP, and the text says why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True)
class Search:
    """A query to send to the engine.

    Parameters
    ----------
    vector : what to search with
    boosts : what is added to the scores of items that people chose for this query
    held : those of these items that gain at most five places in `order`, until 20 users agree
    id : what `shown` and `event` take
    arm : "learned", "plain" or "mixed" if the gain is measured, else None
    version : that of the model; 0 is the plain one
    """

    vector: FloatArray
    boosts: Mapping[str, float] = field(default_factory=dict)
    held: Collection[str] = ()
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    arm: str | None = None
    version: int = 0
    made: Mapping[str, Any] | None = field(default=None, repr=False)  # what the sidecar has to know of it

    def order(self, scores: Mapping[str, float]) -> list[str]:
        """Return the ids of results of the engine, best first, by their scores there and the boosts.

        >>> Search(np.zeros(2), {"b": 0.5}).order({"a": 0.9, "b": 0.8, "c": 0.1})
        ['b', 'a', 'c']
        """
        ids, plain = list(scores), np.array(list(scores.values()), dtype=np.float64)
        added, is_held = [self.boosts.get(id, 0.0) for id in ids], [id in self.held for id in ids]
        return [ids[at] for at in limited_order(plain, plain + added, np.array(is_held, dtype=bool))]


class Client:
    """Embeds queries by what a sidecar has learned, and sends it what was shown and done in the background.

    No search waits for the sidecar or fails by it: without it, queries are embedded by the last model or not at all,
    and what cannot be sent is dropped beyond a number of entries. `dropped` counts these, and those that the sidecar
    refused or ignored; the log says why. What waits when a process ends has two seconds to be sent.

    Parameters
    ----------
    address, space : where the sidecar is, and the name of the space
    key : an API key with the role write; none is needed on the same machine
    vectors : a function from ids to their vectors {id: vector}; it is asked in the background for those that the
        sidecar misses. A space with a resolver needs none.
    refresh : seconds between two looks for a newer model
    timeout : seconds for one request
    queue : entries that wait to be sent at most
    http : an `httpx.Client` to use instead of a new one; unlike that, it cannot be shared with a fork of the process
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8417",
        space: str = "dishes",
        *,
        key: str | None = None,
        vectors: Callable[[list[str]], Mapping[str, ArrayLike]] | None = None,
        refresh: float = 2.0,
        timeout: float = 2.0,
        queue: int = 10_000,
        http: httpx.Client | None = None,
    ) -> None:
        self._given, self._connect = http, partial(httpx.Client, base_url=address, timeout=timeout)
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._base, self._vectors, self._pause = f"/v1/spaces/{space}", vectors, refresh
        self._served: Served | None = None
        self._tag = ""
        self._most = queue
        self.dropped = 0
        self._closed = False
        self._begin()
        self._follow()
        self._start()
        _open.add(self)

    def _begin(self) -> None:
        """Begin, also in the child of a fork, where no thread runs: the parent sends what waited by its connections."""
        self._http = self._given or self._connect(verify=_certificates())
        self._http.headers.update(self._headers)
        self._queue: deque[tuple[str, dict[str, Any]]] = deque()
        self._sending = 0  # entries that are on their way
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="mahala-client", daemon=True)

    def _start(self) -> None:
        """Start the thread unless it was started in this process."""
        with self._change:
            if self._thread.ident is None:
                self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self, seconds: float = 5.0) -> None:
        """Send what waits, for some seconds at most, and close the connection."""
        self.flush(seconds)
        with self._change:
            self._closed = True
            self._change.notify_all()
        if self._thread.is_alive():
            self._thread.join(seconds)
        if self._given is None:
            self._http.close()
        _open.discard(self)

    def embed(self, vector: ArrayLike, id: Id = None, *, user: Id = None, **more: Id) -> Search:
        """Return what to search with for a query, whose `id` tells it from others; `user` is who searches.

        `text` is stored by spaces that keep texts, and `arm` is that of a comparison which the team makes itself.
        Numbers are taken as their text.
        """
        served, own, search_id = self._served, np.asarray(vector, dtype=np.float64), uuid.uuid4().hex
        self._start()
        given = id, user, more.get("text"), more.get("arm")
        id, user, text, arm = (None if one is None else str(one) for one in given)
        mapped, boosts, version = own, list[Boost](), 0
        if served is not None:
            row = served.vector(own)
            key, person = served.query_key(text if id is None else id, row), served.user_key(user)
            arm, version = arm or served.arm(person or search_id), served.version
            if arm not in BASES:
                rows, scales = served.embed(row[np.newaxis])
                mapped, boosts = rows[0], served.boosts(row, key, float(scales[0]))
        query = {"f32": _encoded(own), "id": id, "user": user, "text": text, "arm": arm}
        made = {"query": query, "version": version, "at": time.time()}
        added, held = {one.id: one.add for one in boosts}, [one.id for one in boosts if one.places is not None]
        return Search(mapped, added, held, search_id, arm, version, made)

    def shown(
        self,
        search: Search | str,
        ids: Iterable[str],
        *,
        seen: int | None = None,
        positions: Sequence[int] | None = None,
        teams: str | None = None,
        vectors: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        """Tell what was shown for a search, from the top, and how many of it came into view."""
        body: dict[str, Any] = {"search_id": search if isinstance(search, str) else search.id}
        body |= {"ids": [str(id) for id in ids], "seen": seen, "positions": positions, "teams": teams}
        body["vectors"] = {str(id): _encoded(vector) for id, vector in (vectors or {}).items()}
        body["search"] = None if isinstance(search, str) else search.made
        self._put("/shown", body)

    def event(self, search: Search | str, item: str, type: str = "click", **more: Any) -> None:
        """Tell what a user did with an item: click, dwell (with `seconds`), like, watch, add_to_cart or purchase.

        `user`, `value`, `revenue` and `timestamp` may be given, too.
        """
        id = search if isinstance(search, str) else search.id
        self._put("/events", {"search_id": id, "item": str(item), "type": type, "timestamp": time.time(), **more})

    @staticmethod
    def interleave(search: Search, learned: Sequence[str], plain: Sequence[str], k: int = 10) -> tuple[list[str], str]:
        """Return the mixture of two rankings for a search of the arm "mixed", and the teams, which `shown` takes."""
        return interleaved(learned, plain, k, search.id)

    def rerank(
        self, vector: ArrayLike, candidates: Sequence[Mapping[str, Any]], k: int | None = None, **query: Any
    ) -> Any:
        """Return candidates {"id", "score", "signals"} of the engine in a better order, and the id of the search.

        It asks the sidecar; without an answer, the order of the engine is returned, and None.
        """
        query["f32"] = _encoded(np.asarray(vector, dtype=np.float64))
        try:
            body = {"query": query, "candidates": list(candidates)} | ({} if k is None else {"k": k})
            answer = self.call("POST", "/rerank", body)
            return [one["id"] for one in answer["results"]], answer["search_id"]
        except Exception as error:  # also the answer of something else in the place of the sidecar
            log.warning("the sidecar did not rerank: %s", error)
            return [one["id"] for one in sorted(candidates, key=lambda one: -one["score"])][:k], None

    def call(self, method: str, path: str = "", body: Any = None) -> Any:
        """Send a request to the space, such as ("GET", "/report"); return the answer, or raise ServiceError."""
        answer = self._http.request(method, self._base + path, json=body)
        if not answer.is_success:
            raise ServiceError(answer.status_code, _detail(answer))
        return answer.json()

    def refresh(self) -> int:
        """Take the newest model now; return its version."""
        headers = {"If-None-Match": self._tag} if self._tag else {}
        answer = self._http.get(f"{self._base}/model", headers=headers)
        if answer.status_code == 200:
            self._served, self._tag = Served.from_bytes(answer.content), answer.headers["ETag"]
        elif answer.status_code != 304:
            raise ServiceError(answer.status_code, _detail(answer))
        return 0 if self._served is None else self._served.version

    def flush(self, seconds: float = 5.0) -> bool:
        """Wait until all is sent that waits; return whether it was."""
        with self._change:
            return self._change.wait_for(lambda: not self._queue and not self._sending, seconds)

    def _follow(self) -> None:
        try:
            self.refresh()
        except Exception as error:  # also the answer of something else in the place of the sidecar
            log.warning("the model of the sidecar could not be read: %s", error)

    def _put(self, path: str, body: dict[str, Any]) -> None:
        self._start()
        with self._change:
            self._queue.append((path, body))
            while len(self._queue) > self._most:
                self._queue.popleft()
                self.dropped += 1
            self._change.notify_all()

    def _run(self) -> None:
        """Send what waits, and look for a newer model from time to time."""
        due = time.monotonic() + self._pause
        while not self._closed:
            with self._change:
                self._change.wait_for(lambda: self._closed or self._queue, max(0.0, due - time.monotonic()))
                entries = [self._queue.popleft() for _ in range(min(_BATCH, len(self._queue)))]
                self._sending = len(entries)
            if time.monotonic() >= due and not self._closed:
                self._follow()
                due = time.monotonic() + self._pause
            try:
                for path in ("/shown", "/events"):  # what was shown goes first: its events name it
                    if bodies := [body for kind, body in entries if kind == path]:
                        self._send(path, bodies)
                        entries = [entry for entry in entries if entry[0] != path]
            except Exception as error:  # whatever it is, the thread continues
                log.warning("what was shown and done is sent again later: %r", error)
            with self._change:
                if entries:
                    self._queue.extendleft(reversed(entries))
                    self._change.wait_for(lambda: self._closed, _PAUSE)
                self._sending = 0
                self._change.notify_all()

    def _send(self, path: str, entries: list[dict[str, Any]]) -> None:
        """Send entries; an error is raised if they are to be sent again, as by an answer that is not the sidecar's."""
        body = json.dumps(entries, default=str)  # the sidecar refuses what is no JSON
        answer = self._http.post(self._base + path, content=body, headers={"Content-Type": "application/json"})
        is_refused = answer.is_client_error and answer.status_code not in (408, 429)
        if is_refused and len(entries) > 1:  # one of them is wrong
            for entry in entries:
                self._send(path, [entry])
            return
        if is_refused:
            told: Any = {"stored": True, "missing": [], "problems": [{"entry": 0, "reason": _detail(answer)}]}
        else:
            told = answer.raise_for_status().json()
        stored, missing, problems = told["stored"], set(told["missing"]), told["problems"]
        if problems:
            reasons = sorted({one["reason"] for one in problems})
            log.warning("the sidecar did not take %d entries: %s", len(problems), "; ".join(reasons[:3]))
            self.dropped += len(problems)
        if path != "/shown" or self._vectors is None:
            return
        refused = {one["entry"] for one in problems}
        pages = [entry for at, entry in enumerate(entries) if at not in refused]
        # Which vectors are missing is not known of pages in the sidecar's spool: all are sent, once.
        wanted = {id for page in pages for id in page["ids"] if not stored or id in missing}
        wanted -= {id for page in pages for id in page["vectors"]}
        if not wanted:
            return
        try:
            vectors = {id: _encoded(one) for id, one in self._vectors(sorted(wanted)).items() if id in wanted}
        except Exception:
            log.exception("the vectors of missing items could not be read")
            return
        for page in pages:
            here = {id: vectors.pop(id) for id in page["ids"] if id in vectors}
            if here:
                self._put(path, {**page, "vectors": page["vectors"] | here})


_certificates = cache(httpx.create_ssl_context)  # they take a tenth of a second
_open = weakref.WeakSet[Client]()  # those that are not closed
atexit.register(lambda: [client.flush(_LAST) for client in _open])
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: [*map(Client._begin, _open)])


def _encoded(vector: ArrayLike) -> str:
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]
