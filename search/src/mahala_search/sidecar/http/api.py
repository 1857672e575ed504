"""Api: endpoints with typed bodies, the checks before them, and their description in OpenAPI."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, get_type_hints

from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mahala_search.sidecar.http.guard import LOCAL, ServerSettings, key_of
from mahala_search.sidecar.records import Unknown
from mahala_search.sidecar.service import ApiKey, Current, Sidecar

_KEY = {"type": "http", "scheme": "bearer", "description": "A key of `mahala serve keys create`."}
_REF = "#/components/schemas/{model}"


class Call(NamedTuple):
    """A request whose key permits it."""

    request: Request
    key: ApiKey
    sidecar: Sidecar

    @property
    def name(self) -> str:
        """The name of a space in the path."""
        return str(self.request.path_params.get("space", ""))

    @property
    def trusted(self) -> bool:
        """Whether what the request says needs no token."""
        return self.key.role in ("write", "admin")

    @property
    def space(self) -> Current:
        """The space that the path names; a key of another one does not say whether it is there."""
        try:
            current = self.sidecar.space(self.name)
        except Unknown:
            self.check_all()
            raise
        if self.key.space != current.space.id:
            self.check_all()
        return current

    def check_all(self) -> None:
        """Refuse a key that is that of one space."""
        if self.key.space:
            raise HTTPException(403, "this key is that of one space, and this needs another one, or one of all spaces")


class Endpoint(NamedTuple):
    """An operation: who may do it, what does it, its body, and the status of its result."""

    method: str
    path: str
    role: str | None
    handler: Callable[..., Any]
    body: TypeAdapter[Any] | None
    status: int


class Api:
    """The endpoints of a sidecar."""

    def __init__(self, sidecar: Sidecar, settings: ServerSettings) -> None:
        self.sidecar, self.settings = sidecar, settings
        self.endpoints: list[Endpoint] = []

    def add(self, method: str, path: str, role: str | None, handler: Callable[..., Any], *, status: int = 200) -> None:
        """Let a function answer; it takes a `Call` and perhaps a `body`. One that is not async runs in a thread."""
        hints = get_type_hints(handler, include_extras=True)
        body = TypeAdapter(hints["body"]) if "body" in hints else None
        self.endpoints.append(Endpoint(method, path, role, handler, body, status))

    def routes(self) -> list[Route]:
        """Return the routes: of endpoints with the same path one, so that other methods are answered by 405."""
        paths: dict[str, dict[str, Endpoint]] = {}
        for endpoint in self.endpoints:
            paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
        return [Route(path, self._answerer(by_method), methods=[*by_method]) for path, by_method in paths.items()]

    def _answerer(self, by_method: Mapping[str, Endpoint]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            endpoint = by_method["GET" if request.method == "HEAD" else request.method]
            request.scope["endpoint_path"] = endpoint.path  # for the log
            key = LOCAL
            if endpoint.role is not None:
                key = await key_of(request, endpoint.role, self.sidecar, self.settings)
            arguments: list[Any] = [call := Call(request, key, self.sidecar)]
            if self.sidecar.lacks(call.name):
                await self.sidecar.look()
            if endpoint.body is not None:
                kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if not kind.endswith(("/json", "+json")):
                    detail = f"the body must have the Content-Type application/json, got {kind[:80] or 'none'}"
                    raise HTTPException(415, detail)
                arguments.append(endpoint.body.validate_json(await request.body()))
            if inspect.iscoroutinefunction(endpoint.handler):
                result = await endpoint.handler(*arguments)
            else:
                result = await run_in_threadpool(endpoint.handler, *arguments)
            return result if isinstance(result, Response) else JSONResponse(result, endpoint.status)

        return answer

    def document(self, version: str) -> dict[str, Any]:
        """Return the description of all endpoints and of the bodies that they take, in OpenAPI 3.1."""
        bodies: list[Any] = [(one[:2], "validation", one.body) for one in self.endpoints if one.body is not None]
        schemas, definitions = TypeAdapter.json_schemas(bodies, ref_template=_REF)
        paths: dict[str, dict[str, Any]] = {}
        for one in self.endpoints:
            body = schemas.get((one[:2], "validation"))
            paths.setdefault(one.path, {})[one.method.lower()] = self._operation(one, body)
        return {
            "openapi": "3.1.0",
            "info": {"title": "mahala", "version": version, "summary": "Search that learns, beside an engine."},
            "paths": paths,
            "components": {"schemas": definitions.get("$defs", {}), "securitySchemes": {"key": _KEY}},
        }

    def _operation(self, one: Endpoint, body: Any) -> dict[str, Any]:
        """Describe an endpoint whose body has a JSON schema, or None."""
        schema = {"type": "string", "minLength": 1, "maxLength": 64}
        space = {"name": "space", "in": "path", "required": True, "schema": schema}
        operation: dict[str, Any] = {
            "operationId": one.handler.__name__,
            "summary": (inspect.getdoc(one.handler) or "").partition("\n")[0],
            "parameters": [space] if "{space}" in one.path else [],
            "responses": {
                str(one.status): {"description": HTTPStatus(one.status).phrase},
                "default": {"description": "What is wrong, by RFC 9457."},
            },
        }
        if one.role is not None:
            operation["security"] = [{"key": []}] if self.settings.needs_keys else [{"key": []}, {}]
        if body is not None:
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
        return operation
