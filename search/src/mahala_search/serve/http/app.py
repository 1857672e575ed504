"""The HTTP app: `create_app` puts routes, limits, errors and metrics together."""

from collections.abc import Sequence

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import BaseRoute

import mahala
from mahala_search.serve.http.guard import Guard, ServerSettings
from mahala_search.serve.http.metrics import Metrics
from mahala_search.serve.http.middleware import HEALTHY, BoundedRequests, Load, handle_errors, problem
from mahala_search.serve.http.quick_route import GuardedRoute
from mahala_search.serve.http.responses import Health, Ready, document
from mahala_search.serve.http.routes.collections import add_items, add_models
from mahala_search.serve.http.routes.feedback import add_feedback
from mahala_search.serve.http.routes.search import add_search
from mahala_search.serve.service import Service
from mahala_search.serve.store.keys import Keys


def create_app(service: Service, settings: ServerSettings | None = None, pages: Sequence[BaseRoute] = ()) -> FastAPI:
    """Return the app of a service; `pages` are more routes, which come last, with their own Content-Security-Policy."""
    settings = settings or ServerSettings()
    app = FastAPI(
        title="mahala",
        version=mahala.__version__,
        summary="Search that learns from the people who use it.",
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    guard, metrics = Guard(Keys(service.store.database), settings), Metrics(service)
    handle_errors(app)
    app.router.route_class = GuardedRoute

    @app.get("/health", tags=["state"], response_model=Health)
    async def health() -> dict[str, str]:
        """Say that the process runs."""
        return HEALTHY

    @app.get("/ready", tags=["state"], response_model=Ready)
    async def ready() -> JSONResponse:
        """Say whether the database can be used."""
        return problem(503, service.problem) if service.problem else JSONResponse({"status": "ready"})

    @app.get("/metrics", **guard.route("state", "read"), response_class=PlainTextResponse)
    def numbers() -> PlainTextResponse:
        """Return counters and times for Prometheus."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")

    for add in (add_search, add_feedback, add_items, add_models):
        add(app, service, guard)
    app.router.routes.extend(pages)
    document(app, needs_keys=settings.needs_keys)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key"],
        )
    if not settings.needs_keys:
        # A name of another site may point to this machine, so that its page could read the answers.
        # Older versions of Starlette take an address of IPv6 up to its first colon, which leaves "[".
        hosts = ["localhost", "127.0.0.1", "[::1]", "[", settings.host]
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    app.state.load = Load(settings.at_once, metrics.requests.labels("POST", "none", "503").inc)
    app.add_middleware(BoundedRequests, metrics=metrics, largest=settings.largest, load=app.state.load)
    return app
