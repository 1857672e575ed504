"""The document at `/openapi.json`: FastAPI's own, with the errors, security schemes and headers of all routes."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from mahala.serve.http.middleware import ALWAYS
from mahala.serve.http.responses import Problem

_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}
_KEY = {"type": "http", "scheme": "bearer", "description": "A key of `mahala serve key create`."}


def document(app: FastAPI, *, needs_keys: bool) -> None:
    """Let an app describe all its responses; without `needs_keys`, keys are optional and never refused."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            # FastAPI would describe its own errors, of another form.
            schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            components = schema["components"]
            components["schemas"]["Problem"] = Problem.model_json_schema()
            components["securitySchemes"] = {"key": _KEY}
            for name in ("HTTPValidationError", "ValidationError"):
                components["schemas"].pop(name, None)
            for path, operations in schema["paths"].items():
                for operation in operations.values():
                    _describe(path, operation, needs_keys)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _describe(path: str, operation: dict[str, Any], needs_keys: bool) -> None:
    """Add the security and the errors of an operation."""
    responses = operation["responses"]
    codes = [code for code in responses if code >= "400"]
    if path != "/health":
        codes += ["503"]
    if path not in ALWAYS:
        operation["security"] = [{"key": []}] if needs_keys else [{"key": []}, {}]
        codes += ["401", "403", "429"] if needs_keys else ["403", "429"]
    if "{name}" in path:
        codes += ["404"]
    if "requestBody" in operation:
        codes += ["400", "413", "415", "422"]
    for code in sorted(set(codes)):
        given = responses.get(code, {})
        described = {"description": HTTPStatus(int(code)).phrase} | given | {"content": _PROBLEM}
        responses[code] = described | ({"headers": _RETRY} if code in ("429", "503") else {})
