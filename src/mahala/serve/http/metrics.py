"""Counters and times of a process, in the text format of Prometheus."""

from __future__ import annotations

import bisect
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator

from mahala.serve.service import Service

# Upper bounds of the buckets of a time, in seconds.
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.06, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """Requests by route and status, and the time that they took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._times: dict[str, list[int]] = defaultdict(lambda: [0] * (len(_BOUNDS) + 1))
        self._sums: Counter[str] = Counter()

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        with self._lock:
            self._requests[method, route, status] += 1
            self._times[route][bisect.bisect_left(_BOUNDS, seconds)] += 1
            self._sums[route] += seconds  # type: ignore[assignment]

    def text(self, service: Service) -> str:
        """Return all of it, and what the service says about its collections."""
        with self._lock:
            return "\n".join([*self._of_requests(), *_of_collections(service), ""])

    def _of_requests(self) -> Iterator[str]:
        yield "# HELP mahala_requests_total Requests by route and status."
        yield "# TYPE mahala_requests_total counter"
        for (method, route, status), n in sorted(self._requests.items()):
            yield f'mahala_requests_total{{method="{method}",route="{route}",status="{status}"}} {n}'
        yield "# HELP mahala_request_seconds Time to answer."
        yield "# TYPE mahala_request_seconds histogram"
        for route, counts in sorted(self._times.items()):
            total = 0
            for bound, n in zip((*map(str, _BOUNDS), "+Inf"), counts, strict=True):
                total += n
                yield f'mahala_request_seconds_bucket{{route="{route}",le="{bound}"}} {total}'
            yield f'mahala_request_seconds_sum{{route="{route}"}} {self._sums[route]:.6f}'
            yield f'mahala_request_seconds_count{{route="{route}"}} {total}'


def _of_collections(service: Service) -> Iterator[str]:
    values: dict[str, tuple[str, dict[str, float]]] = {
        "items": ("Items that are found.", {}),
        "graph_items": ("Items in the graph by which a search finds candidates; 0: it reads all items.", {}),
        "log_entries": ("Entries that were ever written to the log.", {}),
        "served_version": ("Version of the models that is served.", {}),
        "learned_entries": ("Entries of the log up to which the served version has learned.", {}),
    }
    for name in service.names():
        served = service.served(name)
        values["items"][1][name] = len(served.index)
        graph = served.index.graph
        values["graph_items"][1][name] = 0 if graph is None else graph.n
        values["log_entries"][1][name] = served.collection.n_logged
        values["served_version"][1][name] = served.model.version
        values["learned_entries"][1][name] = served.model.place
    for metric, (text, own) in values.items():
        yield f"# HELP mahala_{metric} {text}"
        yield f"# TYPE mahala_{metric} gauge"
        yield from (f'mahala_{metric}{{collection="{name}"}} {value}' for name, value in own.items())
    yield "# HELP mahala_learns Whether this process learns."
    yield "# TYPE mahala_learns gauge"
    yield f"mahala_learns {int(service.learns)}"
