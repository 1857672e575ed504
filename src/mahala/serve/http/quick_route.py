"""QuickRoute: a route that answers usual requests without FastAPI's resolution of parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

_RETRY = re.compile("[ -~]{1,200}")


class QuickRoute(APIRoute):
    """A route for endpoints with the parameters name, given, key, visit and perhaps retry.

    FastAPI takes longer to find them in a request than the endpoint needs to answer it. Here Pydantic reads the body
    from its bytes, and the key is checked. Requests with cookies, and all that are not valid, take FastAPI's way, which
    says what is wrong with them.
    """

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Return the function that answers requests."""
        answer_any, endpoint = super().get_route_handler(), self.endpoint
        parameters = inspect.signature(endpoint).parameters
        check: Callable[[Request], Awaitable[Any]] = parameters["key"].default.dependency
        body: TypeAdapter[Any] = TypeAdapter(get_type_hints(endpoint, include_extras=True)["given"])
        takes_retry = "retry" in parameters

        async def answer(request: Request) -> Response:
            headers, name = request.headers, request.path_params["name"]
            retry = headers.get("idempotency-key") if takes_retry else None
            is_usual = headers.get("content-type") == "application/json" and "cookie" not in headers
            if not is_usual or len(name) > 64 or (retry is not None and not _RETRY.fullmatch(retry)):
                return await answer_any(request)
            try:
                given = body.validate_json(await request.body())
            except ValidationError:
                return await answer_any(request)
            more = {"retry": retry} if takes_retry else {}
            response: Response = await endpoint(name=name, given=given, key=await check(request), **more)
            return response

        return answer
