"""Client: the HTTP API of `mahala serve` in Python."""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

# Answers after which the same request may succeed.
_AGAIN = (429, 503)
# Seconds to wait before that, at most.
_LONGEST = 5


@dataclass(frozen=True)
class Result:
    """An item that was found."""

    id: str
    score: float
    payload: dict[str, Any]


@dataclass(frozen=True)
class Results:
    """The items that were found, the version that ranked them, perhaps the plain ranking, and the id of the search.

    With a control share, `arm` is "learned", "plain" or "mixed".
    """

    version: int
    results: list[Result]
    plain: list[Result] | None = None
    search_id: str = ""
    arm: str | None = None

    @property
    def ids(self) -> list[str]:
        """The ids of the items, best first."""
        return [result.id for result in self.results]


class ServiceError(RuntimeError):
    """The service refused a request; `status` is that of HTTP, and the text says why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Client:
    """Searches in a collection of `mahala serve`, and sends feedback to it.

    A query is ``vector=[...]``, ``item="id"`` or ``text="..."``; ``id`` identifies it, and a text is its own id.
    Feedback carries an idempotency key, so that it is counted once however often it is sent.

    Parameters
    ----------
    address : address of the service
    collection : collection name
    key : an API key; none is needed on the same machine
    timeout : seconds for one attempt
    attempts : how often a request is sent if there is no answer, or if the service is busy
    http : an `httpx.Client` to use instead of a new one
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8417",
        collection: str = "demo",
        *,
        key: str | None = None,
        timeout: float = 10.0,
        attempts: int = 3,
        http: Any = None,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise ImportError("mahala_search.serve.Client needs httpx: pip install 'mahala-search'") from None
        self.collection, self.attempts = collection, attempts
        self._http = http or httpx.Client(base_url=address, timeout=timeout)
        self._http.headers.update({} if key is None else {"Authorization": f"Bearer {key}"})
        self._lost: type[Exception] = httpx.TransportError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def search(
        self,
        *,
        k: int = 10,
        filter: Mapping[str, Any] | None = None,
        plain: bool = False,
        user: str | None = None,
        **query: Any,
    ) -> Results:
        """Return the k best items for a query; with `plain`, the plain ranking too. `user` is who searches."""
        body: dict[str, Any] = {"query": query, "k": k, "plain": plain, "user": user}
        answer = self._call("POST", "/search", body | ({"filter": dict(filter)} if filter else {}))
        rankings = {name: [Result(**one) for one in answer[name]] for name in ("results", "plain") if name in answer}
        return Results(answer["version"], **rankings, search_id=answer["search_id"], arm=answer["arm"])

    def rerank(
        self, candidates: Sequence[Mapping[str, Any]], *, k: int | None = None, user: str | None = None, **query: Any
    ) -> dict[str, Any]:
        """Return the results of another engine in a better order, {"results": [...], "search_id": ...}.

        A candidate is {"id": ..., "score": ..., "signals": {name: number or None}}, with a "vector" if the collection
        does not have it. A result has its id, its score and its position among the candidates.
        """
        body = {"query": query, "candidates": list(candidates), "user": user} | ({} if k is None else {"k": k})
        return self._call("POST", "/rerank", body)  # type: ignore[no-any-return]

    def impression(
        self,
        *,
        shown: Sequence[str],
        clicked: Sequence[str] | None = None,
        reactions: Sequence[float] | None = None,
        user: str | None = None,
        version: int | None = None,
        key: str | None = None,
        **query: Any,
    ) -> int | None:
        """Send what was shown for a query, from the top, and what was clicked; return its place in the log.

        `reactions` are numbers instead of clicks, one for each item shown. `key` is the idempotency key. Items that
        are unknown or were deleted are left out; the place is None if nothing to learn from is left.
        """
        body = {"query": query, "shown": list(shown), "clicked": clicked, "reactions": reactions}
        return self._append("/impressions", body | {"user": user, "version": version}, key)[0]

    def impressions(self, impressions: Sequence[Mapping[str, Any]], *, key: str | None = None) -> list[int | None]:
        """Send many impressions, in the form of the API, in one request; return their places in the log."""
        return self._append("/impressions", list(impressions), key)

    def event(
        self,
        search_id: str,
        item: str,
        type: str = "click",
        *,
        user: str | None = None,
        timestamp: float | str | None = None,
        **more: Any,
    ) -> int | None:
        """Send what a user did with an item that `search` found; return its place in the log, None if it is ignored.

        `type` is click, dwell (with `seconds`), like, watch, add_to_cart or purchase; `value` says how much any other
        one counts. The same event is counted once, however often it is sent.
        """
        event = {"search_id": search_id, "item": item, "type": type, "user": user, "timestamp": timestamp} | more
        return self.events([event])["places"][0]  # type: ignore[no-any-return]

    def events(self, events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Send many events, also those of UBI or Metarank, in one request.

        Return {"places": [...], "problems": [...]}: for each event its place in the log or None, and why some of them
        were ignored or refused.
        """
        return self._call("POST", "/events", list(events))  # type: ignore[no-any-return]

    def comparison(
        self, *, better: str, worse: str, user: str | None = None, key: str | None = None, **query: Any
    ) -> int | None:
        """Send which of two items is more like a query; return its place in the log."""
        return self._append("/comparisons", {"query": query, "better": better, "worse": worse, "user": user}, key)[0]

    def pair(
        self, *, other: str, similar: bool, user: str | None = None, key: str | None = None, **query: Any
    ) -> int | None:
        """Send whether an item is like a query or not; return its place in the log.

        It is compared with the same user's verdicts on other items for this query.
        """
        return self._append("/comparisons", {"query": query, "other": other, "similar": similar, "user": user}, key)[0]

    def judgment(
        self, *, grades: Mapping[str, float], user: str | None = None, key: str | None = None, **query: Any
    ) -> int | None:
        """Send the grades of items for a query; return its place in the log."""
        return self._append("/comparisons", {"query": query, "grades": dict(grades), "user": user}, key)[0]

    def question(self) -> dict[str, Any]:
        """Return the question whose answer teaches most: is "left" or "right" more like "query"?

        Each of the three is {"id": ..., "payload": {...}}; `comparison` takes the answer.
        """
        return self._call("GET", "/question")  # type: ignore[no-any-return]

    def explain(self, item: str, *, n: int = 5, **query: Any) -> dict[str, Any]:
        """Return how the score of an item comes about."""
        return self._call("POST", "/explain", {"query": query, "item": item, "n": n})  # type: ignore[no-any-return]

    def create(self, width: int, settings: Mapping[str, Any] | None = None) -> None:
        """Make the collection."""
        self._call("PUT", "", {"width": width, "settings": dict(settings or {})})

    def put_items(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Add or change items {"id": ..., "vector": [...], "payload": {...}}."""
        for start in range(0, len(items), 500):
            self._call("PUT", "/items", [dict(item) for item in items[start : start + 500]])

    def delete_items(self, ids: Sequence[str]) -> int:
        """Delete items; return how many there were."""
        return int(self._call("POST", "/items/delete", {"ids": list(ids)})["n"])

    def item(self, id: str) -> dict[str, Any]:
        """Return an item with its vector and its payload."""
        return self._call("GET", f"/items/{quote(id, safe='')}")  # type: ignore[no-any-return]

    def model(self) -> dict[str, Any]:
        """Return what is served, the status of each learner, and which one is ahead."""
        return self._call("GET", "/model")  # type: ignore[no-any-return]

    def configure(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Set the learners, the one that is served, and the control share; return what `model` returns."""
        return self._call("PUT", "/model", dict(settings))  # type: ignore[no-any-return]

    def control(self) -> dict[str, Any]:
        """Return what people did with the learned ranking and with the plain one, and the difference."""
        return self._call("GET", "/control")  # type: ignore[no-any-return]

    def versions(self) -> list[dict[str, Any]]:
        """Return the versions that are kept, the newest first."""
        return self._call("GET", "/versions")  # type: ignore[no-any-return]

    def serve_version(self, version: int | None) -> None:
        """Roll back to a version that is kept; None follows the newest, and 0 is the plain ranking."""
        self._call("PUT", "/versions/served", {"version": version})

    def forget_user(self, user: str) -> int:
        """Delete what a user did and searched for, and learn again without it; return how many of both there were."""
        return int(self._call("DELETE", f"/users/{quote(user, safe='')}")["n"])

    def log(self) -> Iterator[str]:
        """Yield the log in JSON Lines."""
        with self._http.stream("GET", f"/v1/collections/{self.collection}/log") as answer:
            if answer.status_code != 200:
                answer.read()
                raise _error(answer)
            yield from answer.iter_lines()

    def wait(self, place: int, seconds: float = 30.0) -> dict[str, Any]:
        """Wait until the served version has learned from a place of the log; return what `model` returns."""
        end = time.monotonic() + seconds
        while (model := self.model())["learned"] < place:
            if time.monotonic() > end:
                raise TimeoutError(f"after {seconds:g} s the service has learned up to {model['learned']}, not {place}")
            time.sleep(0.05)
        return model

    def _append(self, path: str, body: Any, key: str | None) -> list[int | None]:
        answer = self._call("POST", path, body, {"Idempotency-Key": key or uuid.uuid4().hex})
        return list(answer["places"])

    def _call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        url = f"/v1/collections/{self.collection}{path}"
        for attempt in range(self.attempts):
            last, wait = attempt == self.attempts - 1, 0.1 * 2**attempt
            try:
                answer = self._http.request(method, url, json=body, headers=headers)
            except self._lost:
                if last:
                    raise
            else:
                if answer.status_code < 400:
                    return answer.json()
                if last or answer.status_code not in _AGAIN:
                    raise _error(answer)
                stated = answer.headers.get("Retry-After", "")
                wait = max(wait, min(int(stated), _LONGEST)) if stated.isdecimal() else wait
            time.sleep(wait)
        raise ValueError(f"attempts must be at least 1, got {self.attempts}")


def _error(answer: Any) -> ServiceError:
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = answer.text[:200]
    return ServiceError(answer.status_code, detail)
