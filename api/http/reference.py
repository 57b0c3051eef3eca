"""The page `/docs`: the API reference, with scripts from this server only."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import fastapi_offline
from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

from shared.http import openapi

_FILES = Path(fastapi_offline.__file__).parent / "static"
_ADDRESS = "/docs"
_FILES_ADDRESS = f"{_ADDRESS}/files"
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def install(app: FastAPI) -> None:
    """Serve the page and its files. No key is required, because they contain no data of a tenant."""
    app.mount(_FILES_ADDRESS, StaticFiles(directory=_FILES), name="reference")

    @app.get(_ADDRESS, include_in_schema=False)
    async def reference(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        page = get_swagger_ui_html(
            openapi_url=f"{root}{openapi.ADDRESS}",
            title=app.title,
            swagger_js_url=f"{root}{_FILES_ADDRESS}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{_FILES_ADDRESS}/swagger-ui.css",
            swagger_favicon_url=f"{root}{_FILES_ADDRESS}/favicon.png",
        )
        page.headers["content-security-policy"] = _policy(bytes(page.body).decode())
        return page


def _policy(page: str) -> str:
    """Return the policy: the page's inline script, which starts Swagger UI, may run, because its hash is listed.

    Swagger UI sets styles of elements, which no hash can allow.
    """
    digests = [hashlib.sha256(script.encode()).digest() for script in _INLINE_SCRIPT.findall(page)]
    hashes = "".join(f" 'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'self'{hashes}; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        " connect-src 'self'; frame-ancestors 'none'"
    )
