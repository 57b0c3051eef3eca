"""The page: what people look at, drawn in the browser by modules that use this API and nothing else.

The files of `api/web` are what the browser runs; nothing is built. They are read once, kept compressed, and served
under an address that names their content, so that a browser keeps them until they change.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path, PurePosixPath

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.routing import Route

_FOLDER = Path(__file__).parent / "web"
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
ADDRESSES = ("/", "/ask", "/documents", "/documents/{document_id}", "/work", "/questions", "/lab/explain", "/lab/try")
_IMPORT = re.compile(r'\bfrom\s*"(\.{1,2}/[^"]+\.js)"')
_FOREVER = {"cache-control": "public, max-age=31536000, immutable"}
# Scripts and styles are files of this server, and no text becomes HTML but lit-html's own templates.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types lit-html"
)


@dataclass(frozen=True, slots=True)
class WebFile:
    content: bytes
    compressed: bytes
    kind: str


class Page:
    """The files of the page, and the document that begins it."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        contents = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.suffix in _KINDS
        }
        digest = hashlib.sha256(b"\0".join(name.encode() + b"\0" + data for name, data in contents.items()))
        self.address = f"/page/{digest.hexdigest()[:16]}"
        self.files = {
            name: WebFile(data, gzip.compress(data, mtime=0), _KINDS[PurePosixPath(name).suffix])
            for name, data in contents.items()
        }
        self._template = (folder / "index.html").read_text()
        self._styles = [name for name in contents if name.endswith(".css")]
        self._modules = imported("app.js", {name: data.decode() for name, data in contents.items()})

    def document(self, root: str) -> str:
        """The document that every address of the page answers with.

        Args:
            root: where a proxy has put the API.
        """
        files = escape(root + self.address)
        styles = [f'<link rel="stylesheet" href="{files}/{name}">' for name in self._styles]
        modules = [f'<link rel="modulepreload" href="{files}/{name}">' for name in self._modules]
        return self._template.format(files=files, head="\n".join(styles + modules))


def imported(first: str, sources: dict[str, str]) -> list[str]:
    """The modules that a module imports, and those that they import: a browser that knows them asks for all at once."""
    found: list[str] = []
    waiting = [first]
    while waiting:
        name = waiting.pop()
        for reference in _IMPORT.findall(sources[name]):
            path = _joined(PurePosixPath(name).parent, reference)
            if path not in found and path != first:
                found.append(path)
                waiting.append(path)
    return sorted(found)


def _joined(folder: PurePosixPath, reference: str) -> str:
    parts = list(folder.parts)
    for part in PurePosixPath(reference).parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def install(app: FastAPI) -> None:
    """Serve the page. No key is needed: it holds nothing of a tenant, and asks for a key where the API does."""
    page = Page()

    async def begin(request: Request) -> Response:
        headers = {
            "content-security-policy": _POLICY,
            "cross-origin-opener-policy": "same-origin",
            "cache-control": "no-cache",
        }
        return Response(page.document(request.scope.get("root_path", "")), media_type="text/html", headers=headers)

    async def file(request: Request) -> Response:
        found = page.files.get(request.path_params["name"])
        if found is None:
            return Response(status_code=404)
        headers = _FOREVER | {"vary": "accept-encoding", "content-security-policy": "default-src 'none'"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(found.compressed, media_type=found.kind, headers=headers | {"content-encoding": "gzip"})
        return Response(found.content, media_type=found.kind, headers=headers)

    app.router.routes.extend(Route(address, begin, include_in_schema=False) for address in ADDRESSES)
    app.router.routes.append(Route(page.address + "/{name:path}", file, include_in_schema=False))
