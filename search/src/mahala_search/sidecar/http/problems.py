"""Errors of requests as problem details, by RFC 9457."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from mahala_search.sidecar.http.bodies import TAGS
from mahala_search.sidecar.records import Conflict, Unavailable, Unknown

log = logging.getLogger("mahala_search")


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> JSONResponse:
    """Return an answer that says what is wrong."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, dict(headers or {}), media_type="application/problem+json")


def _answered(status: int, headers: Mapping[str, str] | None = None) -> Any:
    async def answer(request: Request, error: Exception) -> JSONResponse:
        return problem(status, str(error.args[0] if error.args else error), headers)

    return answer


async def _of_http(request: Request, error: Any) -> JSONResponse:
    return problem(error.status_code, str(error.detail), error.headers)


async def _of_body(request: Request, error: Any) -> JSONResponse:
    # Without the input itself, which may be large or secret.
    found = error.errors(include_url=False, include_input=False)[:10]
    if found[0]["type"] == "json_invalid":
        return problem(400, f"the body must be JSON: {found[0]['msg']}")
    errors = [{"at": _place(one["loc"]), "problem": _words(one["msg"])} for one in found]
    where = "; ".join(f"{one['at']}: {one['problem']}" if one["at"] else one["problem"] for one in errors[:3])
    return problem(422, where[:500], errors=errors)


def _place(loc: Sequence[str | int]) -> str:
    """Return where in a body something is wrong; whether it is one object or a list is no part of it."""
    return ".".join(str(part) for at, part in enumerate(loc) if at or part not in TAGS)


def _words(message: str) -> str:
    return message.removeprefix("Value error, ").replace("dictionary or instance", "object")


async def _failed(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed: %s", request.method, request.url.path, type(error).__name__, exc_info=error)
    return problem(500, "the sidecar failed; its log says why")


HANDLERS: dict[Any, Any] = {
    HTTPException: _of_http,
    ValidationError: _of_body,
    Conflict: _answered(409),
    ValueError: _answered(422),
    Unknown: _answered(404),
    Unavailable: _answered(503, {"Retry-After": "1"}),
    Exception: _failed,
}
