"""The HTTP app: `create_app` puts routes, limits, errors and metrics together."""

from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute

import mahala
from mahala_search.sidecar.http.api import Api, Call
from mahala_search.sidecar.http.feedback import add_feedback
from mahala_search.sidecar.http.guard import ServerSettings
from mahala_search.sidecar.http.metrics import metrics_text
from mahala_search.sidecar.http.middleware import BoundedRequests
from mahala_search.sidecar.http.problems import HANDLERS
from mahala_search.sidecar.http.search import add_search
from mahala_search.sidecar.http.spaces import add_spaces
from mahala_search.sidecar.records import Unavailable
from mahala_search.sidecar.service import Sidecar


def create_app(sidecar: Sidecar, settings: ServerSettings | None = None, pages: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the app of a sidecar; `pages` are more routes, which come last, with their own Content-Security-Policy."""
    settings = settings or ServerSettings()
    api = Api(sidecar, settings)

    async def health(call: Call) -> dict[str, str]:
        """Say that the process runs."""
        return {"status": "ok", "version": mahala.__version__}

    async def ready(call: Call) -> dict[str, Any]:
        """Say whether the database can be used, and what is wrong with spaces."""
        if sidecar.problem:
            raise Unavailable(sidecar.problem)
        return {"status": "ready", "alerts": sidecar.alerts}

    def gauges(call: Call) -> PlainTextResponse:
        """Return gauges for Prometheus."""
        call.check_all()
        return PlainTextResponse(metrics_text(sidecar), media_type="text/plain; version=0.0.4")

    async def openapi(call: Call) -> dict[str, Any]:
        """Describe this interface."""
        return api.document(mahala.__version__)

    api.add("GET", "/health", None, health)
    api.add("GET", "/ready", None, ready)
    api.add("GET", "/metrics", "read", gauges)
    for add in (add_spaces, add_search, add_feedback):
        add(api)
    api.add("GET", "/openapi.json", None, openapi)
    around = [Middleware(BoundedRequests, largest=settings.largest, at_once=settings.at_once)]
    if not settings.needs_keys:
        # A name of another site may point to this machine, so that its page could read the answers.
        # Older versions of Starlette take an address of IPv6 up to its first colon, which leaves "[".
        hosts = ["localhost", "127.0.0.1", "[::1]", "[", settings.host]
        around.append(Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False))
    if settings.origins:
        origins = list(settings.origins)
        around.append(Middleware(CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"]))
    app = Starlette(routes=[*api.routes(), *pages], middleware=around, exception_handlers=HANDLERS)
    app.router.redirect_slashes = False
    return app
