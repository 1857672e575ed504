"""Routes that check keys first, and one that answers usual requests without FastAPI's resolution of parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, get_type_hints

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from mahala_search.serve.http.guard import GUARD

_RETRY = re.compile("[ -~]{1,200}")


class GuardedRoute(APIRoute):
    """A route that checks the key of a request before its body is parsed, which FastAPI does last."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers requests."""
        answer = super().get_route_handler()
        checks: list[Any] = [one.call for one in self.dependant.dependencies if hasattr(one.call, GUARD)]

        async def guarded(request: Request) -> Response:
            for check in checks:
                await check(request)
            return await answer(request)

        return guarded


class QuickRoute(GuardedRoute):
    """A route for endpoints with the parameters name, body, key, visit and perhaps retry.

    FastAPI takes longer to find them in a request than the endpoint needs to answer it. Here Pydantic reads the body
    from its bytes, and the key is checked. Requests with cookies, and all that are not valid, take FastAPI's way, which
    says what is wrong with them.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers requests."""
        answer_any, endpoint = super().get_route_handler(), self.endpoint
        parameters = inspect.signature(endpoint).parameters
        check: Callable[[Request], Awaitable[Any]] = parameters["key"].default.dependency
        reader: TypeAdapter[Any] = TypeAdapter(get_type_hints(endpoint, include_extras=True)["body"])
        takes_retry = "retry" in parameters

        async def answer(request: Request) -> Response:
            headers, name = request.headers, request.path_params["name"]
            retry = headers.get("idempotency-key") if takes_retry else None
            is_usual = headers.get("content-type") == "application/json" and "cookie" not in headers
            if not is_usual or len(name) > 64 or (retry is not None and not _RETRY.fullmatch(retry)):
                return await answer_any(request)
            key = await check(request)
            try:
                body = reader.validate_json(await request.body())
            except ValidationError:
                return await answer_any(request)
            more = {"retry": retry} if takes_retry else {}
            response: Response = await endpoint(name=name, body=body, key=key, **more)
            return response

        return answer
