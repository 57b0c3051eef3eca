"""Pages of other origins: browsers let the pages of the listed origins call the API, with a key that the page sends.

Browsers attach nothing to such requests: the replies do not allow credentials, and no cookie exists. The routes of the
page itself, of its sign-in and of MCP do not take part, and refuse the pages of other sites themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

_SHARED = ("/v1/", "/retrieval", "/openapi.json")
_OWN = "/v1/sign-in"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
# Replies may use more headers, but scripts read only these, and the few that each page may read.
_READABLE = (
    "Accept-Ranges",
    "Allow",
    "Content-Disposition",
    "Content-Range",
    "ETag",
    "Link",
    "Location",
    "Preference-Applied",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "WWW-Authenticate",
    "X-Request-Id",
)
_SECONDS = 600  # for which a browser remembers the permission; Chromium allows two hours


class OriginsMiddleware:
    """Cross-origin resource sharing by Starlette's middleware, for the addresses of the API alone.

    Args:
        app: the application.
        origins: the allowed origins, as browsers send them.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._sharing = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=_METHODS,
            allow_headers=["*"],  # the requested ones are repeated: clients add their own, such as x-stainless-lang
            allow_private_network=True,  # older browsers ask; a listed page may call a server in its own network
            expose_headers=_READABLE,
            max_age=_SECONDS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._sharing if scope["type"] == "http" and _is_shared(scope) else self._app
        await app(scope, receive, send)


def _is_shared(scope: Scope) -> bool:
    path: str = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))
    return path.startswith(_SHARED) and not path.startswith(_OWN)
