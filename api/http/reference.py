"""The page `/docs`: the API reference, with scripts from this server only."""

from __future__ import annotations

from pathlib import Path

import fastapi_offline
from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

_FILES = Path(fastapi_offline.__file__).parent / "static"
_ADDRESS = "/docs"
_FILES_ADDRESS = f"{_ADDRESS}/files"
# The page starts Swagger UI with an inline script, and Swagger UI sets styles of elements.
_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " connect-src 'self'; frame-ancestors 'none'"
)


def install(app: FastAPI) -> None:
    """Serve the page and its files. No key is required, because they contain no data of a tenant."""
    app.mount(_FILES_ADDRESS, StaticFiles(directory=_FILES), name="reference")

    @app.get(_ADDRESS, include_in_schema=False)
    async def reference(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        page = get_swagger_ui_html(
            openapi_url=f"{root}{app.openapi_url}",
            title=app.title,
            swagger_js_url=f"{root}{_FILES_ADDRESS}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{_FILES_ADDRESS}/swagger-ui.css",
            swagger_favicon_url=f"{root}{_FILES_ADDRESS}/favicon.png",
        )
        page.headers["content-security-policy"] = _POLICY
        return page
