"""Routes that are asked often, without most of what FastAPI does for each request."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from mahala.serve.store.checks import VISIT
from mahala.serve.store.keys import Key


def direct(check: Callable[[Request], Awaitable[Key]], body: Any) -> type[APIRoute]:
    """Return a class of routes that check the key and the body themselves, in a third of the time.

    The signature of an endpoint is what the API documents; of its parameters, these are given: name, given, key,
    retry, visit.

    Parameters
    ----------
    check : what returns the key of a request, or refuses it
    body : the type of the body
    """
    adapter: TypeAdapter[Any] = TypeAdapter(body)

    class Direct(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            endpoint, names = self.endpoint, list(inspect.signature(self.endpoint).parameters)

            async def handled(request: Request) -> Response:
                values: dict[str, Any] = {"key": await check(request), "name": request.path_params["name"]}
                if "json" not in request.headers.get("content-type", ""):
                    raise ValueError("the header Content-Type must be application/json")
                try:
                    values["given"] = adapter.validate_json(await request.body())
                except ValidationError as error:
                    told = error.errors(include_url=False, include_context=False, include_input=False)
                    raise RequestValidationError([one | {"loc": ("body", *one["loc"])} for one in told]) from None
                values["retry"], values["visit"] = request.headers.get("idempotency-key"), request.cookies.get(VISIT)
                answer: Response = await endpoint(**{name: values[name] for name in names})
                return answer

            return handled

    return Direct
