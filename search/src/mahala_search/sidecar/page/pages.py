"""The routes of the page and its files, for `create_app`."""

from collections.abc import Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def pages() -> list[BaseRoute]:
    """Return the routes of the page."""
    files = [path for path in Path(__file__).parent.iterdir() if path.suffix in _TYPES]
    return [Route("/" if path.suffix == ".html" else f"/static/{path.name}", _answer(path)) for path in files]


def _answer(path: Path) -> Callable[[Request], Response]:
    content, headers = path.read_bytes(), {"content-security-policy": POLICY, "cache-control": "no-cache"}

    def answer(request: Request) -> Response:
        return Response(content, media_type=_TYPES[path.suffix], headers=headers)

    return answer
