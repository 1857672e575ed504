"""Errors as problem details (RFC 9457), all of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import JSONResponse

from mahala.serve.service import Unknown
from mahala.serve.store.database import Unavailable
from mahala.serve.store.store import KeyReused

log = logging.getLogger("mahala.serve")


class Refused(HTTPException):
    """A request that is refused, with the status of the answer and the reason in words."""


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
        told = [{"at": ".".join(map(str, one["loc"])), "problem": one["msg"]} for one in error.errors()[:10]]
        where = "; ".join(f"{one['at']}: {one['problem']}" for one in told[:3])
        return problem(422, where[:500], errors=told)

    async def of_value(request: Request, error: Exception) -> JSONResponse:
        return problem(422, str(error))

    async def unknown(request: Request, error: Exception) -> JSONResponse:
        return problem(404, str(error.args[0]))

    async def reused(request: Request, error: Exception) -> JSONResponse:
        return problem(409, str(error))

    async def unavailable(request: Request, error: Exception) -> JSONResponse:
        return problem(503, str(error), {"Retry-After": "1"})

    async def failed(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed: %s", request.method, request.url.path, type(error).__name__, exc_info=error)
        return problem(500, "the service failed; its log says why")

    handlers: dict[type[Exception], Any] = {
        StarletteHTTPException: of_http,
        RequestValidationError: of_body,
        KeyReused: reused,
        ValueError: of_value,
        Unknown: unknown,
        Unavailable: unavailable,
        Exception: failed,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
