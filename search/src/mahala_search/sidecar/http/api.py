"""Api: endpoints with typed bodies, the checks before them, and their description in OpenAPI."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, NamedTuple, get_type_hints

from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mahala_search.sidecar.http.answers import Problem
from mahala_search.sidecar.http.guard import Guard
from mahala_search.sidecar.records import Unknown
from mahala_search.sidecar.service import ApiKey, Current, Sidecar

_RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}
_KEY = {"type": "http", "scheme": "bearer", "description": "A key of `mahala serve keys create`."}
_REF = "#/components/schemas/{model}"


class Call(NamedTuple):
    """A request whose key permits it."""

    request: Request
    key: ApiKey
    sidecar: Sidecar

    @property
    def parameter(self) -> str:
        """What the path has in braces."""
        return next(iter(self.request.path_params.values()), "")

    def choice(self, name: str, values: Sequence[str]) -> str:
        """Return a parameter of the address, which is one of some values, and the first of them by default."""
        value = self.request.query_params.get(name, values[0])
        if value not in values:
            raise ValueError(f"{name} must be one of {', '.join(values)}, got {value!r:.40}")
        return value

    @property
    def trusted(self) -> bool:
        """Whether what the request says needs no token."""
        return self.key.role in ("write", "admin")

    @property
    def space(self) -> Current:
        """The space that the path names; a key of another one does not say whether it is there."""
        try:
            current = self.sidecar.space(self.parameter)
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
    """An operation: who may do it, what does it, and its body and result (a `Response` of its own media type)."""

    method: str
    path: str
    role: str | None
    handler: Callable[..., Any]
    body: TypeAdapter[Any] | None
    result: Any
    status: int
    media: str
    choices: Mapping[str, Sequence[str]]  # of parameters of the address


class Api:
    """The endpoints of a sidecar."""

    def __init__(self, sidecar: Sidecar, guard: Guard) -> None:
        self.sidecar, self.guard = sidecar, guard
        self.endpoints: list[Endpoint] = []

    def add(
        self,
        method: str,
        path: str,
        role: str | None,
        handler: Callable[..., Any],
        *,
        status: int = 200,
        media: str = "application/json",
        choices: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """Let a function answer; it takes a `Call` and perhaps a `body`. One that is not async runs in a thread."""
        hints = get_type_hints(handler, include_extras=True)
        result = hints["return"]
        body = TypeAdapter(hints["body"]) if "body" in hints else None
        self.endpoints.append(Endpoint(method, path, role, handler, body, result, status, media, choices))

    def routes(self) -> list[Route]:
        """Return the routes: of endpoints with the same path one, so that other methods are answered by 405."""
        paths: dict[str, dict[str, Endpoint]] = {}
        for endpoint in self.endpoints:
            paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
        return [Route(path, self._answerer(by_method), methods=[*by_method]) for path, by_method in paths.items()]

    def _answerer(self, by_method: Mapping[str, Endpoint]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            endpoint = by_method[request.method]
            request.scope["endpoint_path"] = endpoint.path  # for the metrics
            key = self.guard.local if endpoint.role is None else await self.guard.key_of(request, endpoint.role)
            arguments: list[Any] = [Call(request, key, self.sidecar)]
            if self.sidecar.lacks(request.path_params.get("space", "")):
                await run_in_threadpool(self.sidecar.refresh)
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
        """Return the description of all endpoints in OpenAPI 3.1."""
        adapters: list[Any] = [(("Problem", "problem"), "serialization", TypeAdapter(Problem))]
        for one in self.endpoints:
            of = one.method + one.path
            if one.body is not None:
                adapters.append(((of, "body"), "validation", one.body))
            if not inspect.isclass(one.result) or not issubclass(one.result, Response):
                adapters.append(((of, "result"), "serialization", TypeAdapter(one.result)))
        schemas, defs = TypeAdapter.json_schemas(adapters, ref_template=_REF)
        by_key: dict[Any, Any] = {key: schema for (key, _), schema in schemas.items()}
        paths: dict[str, dict[str, Any]] = {}
        for one in self.endpoints:
            paths.setdefault(one.path, {})[one.method.lower()] = self._operation(one, by_key)
        return {
            "openapi": "3.1.0",
            "info": {"title": "mahala", "version": version, "summary": "Search that learns, beside an engine."},
            "paths": paths,
            "components": {"schemas": defs.get("$defs", {}), "securitySchemes": {"key": _KEY}},
        }

    def _operation(self, one: Endpoint, schemas: Mapping[Any, Any]) -> dict[str, Any]:
        """Describe an endpoint."""
        name, at = one.handler.__name__, one.method + one.path
        summary = inspect.getdoc(one.handler) or ""
        operation: dict[str, Any] = {"operationId": name, "summary": summary.partition("\n")[0]}
        content = {one.media: {"schema": schemas.get((at, "result"), {"type": "string"})}}
        responses = {str(one.status): {"description": HTTPStatus(one.status).phrase, "content": content}}
        codes = {503} if one.path != "/health" else set()
        if one.role is not None:
            needs = self.guard.settings.needs_keys
            operation["security"] = [{"key": []}] if needs else [{"key": []}, {}]
            codes |= {401, 403, 429} if needs else {403, 429}
        parameters: list[dict[str, Any]] = [
            {"name": choice, "in": "query", "schema": {"enum": list(values), "default": values[0]}}
            for choice, values in one.choices.items()
        ]
        if "{" in one.path:
            codes |= {404, 409}
            parameter = one.path.partition("{")[2].partition("}")[0]
            schema = {"type": "string", "minLength": 1, "maxLength": 64}
            parameters.append({"name": parameter, "in": "path", "required": True, "schema": schema})
        if parameters:
            operation["parameters"] = parameters
        if one.choices:
            codes |= {422}
        if one.body is not None:
            operation["requestBody"] = {
                "required": True, "content": {"application/json": {"schema": schemas[at, "body"]}},
            }  # fmt: skip
            codes |= {400, 413, 415, 422}
        wrong = {"application/problem+json": {"schema": schemas["Problem", "problem"]}}
        for code in sorted(codes):
            described: dict[str, Any] = {"description": HTTPStatus(code).phrase, "content": wrong}
            responses[str(code)] = described | ({"headers": _RETRY} if code in (429, 503) else {})
        return operation | {"responses": responses}
