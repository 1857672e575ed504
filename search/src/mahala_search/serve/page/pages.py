"""The routes of the page: three tabs and their files.

A tab is the same for everyone: its script asks the API for the content, with the key that the visitor has given.
"""

import secrets
from collections.abc import Callable
from pathlib import Path
from string import Template

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute

from mahala_search.serve.http.guard import VISIT
from mahala_search.serve.store.database import Unknown

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
TABS = {"search": "/", "teach": "/teach", "watch": "/watch"}
_TYPES = {".css": "text/css", ".js": "text/javascript"}
_FOLDER = Path(__file__).parent


def pages() -> list[BaseRoute]:
    """Return the routes of the page, for `create_app`."""
    router = APIRouter(include_in_schema=False)
    files = {path.name: path for path in _FOLDER.iterdir() if path.suffix in _TYPES}

    @router.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in files:
            raise Unknown(f"the page has no file {name[:64]!r}")
        return Response(files[name].read_bytes(), media_type=_TYPES[files[name].suffix])

    for tab, path in TABS.items():
        router.add_api_route(path, _tab(tab), methods=["GET"], response_class=HTMLResponse)
    return router.routes


def _tab(tab: str) -> Callable[[Request], HTMLResponse]:
    frame, main = ((_FOLDER / f"{name}.html").read_text(encoding="utf-8") for name in ("page", tab))
    links = "".join(
        f'<li><a href="{path}"{" aria-current=page" if name == tab else ""}>{name.capitalize()}</a></li>'
        for name, path in TABS.items()
    )
    text = Template(frame).substitute(tab=tab, title=tab.capitalize(), links=links, main=main)

    def answer(request: Request) -> HTMLResponse:
        response = HTMLResponse(text, headers={"content-security-policy": POLICY})
        if VISIT not in request.cookies:
            secure = request.url.scheme == "https"
            response.set_cookie(VISIT, secrets.token_hex(16), httponly=True, samesite="strict", secure=secure)
        return response

    return answer
