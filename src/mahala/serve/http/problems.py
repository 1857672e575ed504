"""Errors as problem details (RFC 9457), all of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import JSONResponse

from mahala.serve.store.collection_store import KeyReused
from mahala.serve.store.database import Unavailable, Unknown

log = logging.getLogger("mahala.serve")


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> JSONResponse:
    """Return an answer that says what is wrong."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, dict(headers or {}), media_type="application/problem+json")


def handle_errors(app: FastAPI) -> None:
    """Let an app answer every error by problem details."""

    async def of_http(request: Request, error: Any) -> JSONResponse:
        return problem(error.status_code, str(error.detail), error.headers)

    async def of_body(request: Request, error: Any) -> JSONResponse:
        # Without the input itself, which may be large, secret, or no JSON.
        errors = [{"at": ".".join(map(str, one["loc"])), "problem": one["msg"]} for one in error.errors()[:10]]
        where = "; ".join(f"{one['at']}: {one['problem']}" for one in errors[:3])
        return problem(422, where[:500], errors=errors)

    def answered(status: int, headers: Mapping[str, str] | None = None) -> Any:
        async def answer(request: Request, error: Exception) -> JSONResponse:
            return problem(status, str(error.args[0] if error.args else error), headers)

        return answer

    async def failed(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed: %s", request.method, request.url.path, type(error).__name__, exc_info=error)
        return problem(500, "the service failed; its log says why")

    handlers: dict[type[Exception], Any] = {
        StarletteHTTPException: of_http,
        RequestValidationError: of_body,
        KeyReused: answered(409),
        ValueError: answered(422),
        Unknown: answered(404),
        Unavailable: answered(503, {"Retry-After": "1"}),
        Exception: failed,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
