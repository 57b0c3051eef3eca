"""The page: rendered in the browser by modules that use only this API.

The browser runs the files of `api/web` without their comments; there is no build step. They are read once, compressed
at their first request, and served under an address that contains a digest of their content, so that browsers cache
them until they change.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from html import escape
from pathlib import Path, PurePosixPath

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

_FOLDER = Path(__file__).parents[1] / "web"
_IS_CHECKOUT = (_FOLDER.parents[1] / "tests" / "page").is_dir()
_KINDS = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".bcmap": "application/octet-stream",
}
_GALLERY = "/gallery"  # the parts of the page, for developers: an installed server does not have it
# Addresses of the page, each with the module of its screen.
ADDRESSES = {
    "/": "ask",
    "/ask": "ask",
    "/documents": "documents",
    "/documents/{document_id}": "document",
    "/questions": "questions",
    "/questions/{query_id}": "question",
    "/gaps": "gaps",
    "/work": "work",
    "/sources": "sources",
    "/jobs": "jobs",
    "/keys": "keys",
    "/access": "access",
    "/limits": "limits",
    "/audit": "audit",
    "/tenants": "tenants",
    "/api": "api",
    "/lab/explain": "explain",
    "/lab/try": "try",
    "/collections": "collections",
    "/collections/{name}": "collection",
    "/lab/compare": "compare",
    "/lab/compare/{evaluation_id}": "compare",
    "/answers/{answer_id}": "shared",
    "/erase": "erase",
    "/erase/{erasure_id}": "erase",
    "/signed-in": "signed-in",
    _GALLERY: "gallery",
}
MISSING = "missing"  # the screen of any other address
_SCREENS = frozenset({*ADDRESSES.values(), MISSING})
_CATALOGUE = re.compile(r"words/\w+\.js")
_ENTRY = re.compile(r'^  ("(?:[^"\\]|\\.)*"):\s*"(?:[^"\\]|\\.)*",\n', re.MULTILINE)
_LATER = re.compile(r'\bimport\("(\.{1,2}/[^"]+\.js)"\)')
_IMPORT = re.compile(r'\bfrom\s*"(\.{1,2}/[^"]+\.js)"')
# Comments are for developers, and make up an eighth of the bytes. A comment within code is kept.
_LINE = r"^[ \t]*(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)[ \t]*$"
_AFTER_CODE = r"(?<=[;,{(\[]) // [^\n\"`]*$"
_COMMENT = re.compile(f"{_LINE}|{_AFTER_CODE}", re.DOTALL | re.MULTILINE)
_FOREVER = {"cache-control": "public, max-age=31536000, immutable"}
# Scripts and styles are files of this server, only lit-html's templates become HTML, and the only worker draws PDFs.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types lit-html foreask-worker"
)

# A worker has the policy of its own file: this one may load its decoders, and reach nothing else.
_FILE_POLICY = "default-src 'none'"
_WORKER_POLICY = "default-src 'none'; script-src 'self'"
_STYLE = "style.css"
_OF_WORKER = "vendor/pdfjs/"
_LARGE_BYTES = 100_000


@dataclass(frozen=True)
class WebFile:
    content: bytes
    kind: str

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.content, mtime=0)


class Page:
    """The files of the page, and its HTML document."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        contents = {
            path.relative_to(folder).as_posix(): without_comments(path, path.read_bytes())
            for path in sorted(folder.rglob("*"))
            if path.suffix in _KINDS
        }
        # One file, because each request delays the first screen. The names of the files decide their order.
        styles = [contents.pop(name) for name in list(contents) if name.endswith(".css")]
        contents[_STYLE] = b"\n".join(styles)
        digest = hashlib.sha256(b"\0".join(name.encode() + b"\0" + data for name, data in contents.items()))
        self.address = f"/page/{digest.hexdigest()[:16]}"
        self.files = {name: WebFile(data, _KINDS[PurePosixPath(name).suffix]) for name, data in contents.items()}
        self._folder = folder
        self._template = (folder / "index.html").read_text()
        self._sources = {name: data.decode() for name, data in contents.items() if name.endswith(".js")}
        self._modules: dict[str, list[str]] = {}  # by screen; to find them takes milliseconds
        self._catalogues: dict[tuple[str, str], WebFile] = {}

    def modules(self, screen: str) -> list[str]:
        """Return the modules of a visit that starts at a screen; other screens load theirs on demand."""
        if screen not in self._modules:
            self._modules[screen] = imported(["app.js", f"routes/{screen}.js"], self._sources)
        return self._modules[screen]

    def file(self, name: str, screen: str = "") -> WebFile | None:
        """Return a file; of a catalogue of words, the words of a visit that starts at a screen, if one is given."""
        if screen not in _SCREENS or not _CATALOGUE.fullmatch(name):
            return self.files.get(name)
        if (name, screen) not in self._catalogues:
            self._catalogues[name, screen] = self._catalogue(name, screen)
        return self._catalogues[name, screen]

    def _catalogue(self, name: str, screen: str) -> WebFile:
        first = {"app.js", f"routes/{screen}.js"}
        while first != (more := first | self._imported_later(imported(first, self._sources))):
            first = more
        modules = set(imported(first, self._sources))
        users = json.loads((self._folder / "words" / "en.json").read_text())
        used = {word for word, names in users.items() if not modules.isdisjoint(names)}
        words = _ENTRY.sub(lambda entry: entry[0] if json.loads(entry[1]) in used else "", self._sources[name])
        return WebFile(words.encode(), _KINDS[".js"])

    def _imported_later(self, modules: Iterable[str]) -> set[str]:
        """Return modules that these import when they are needed, except other screens."""
        found = {
            _joined(PurePosixPath(name).parent, reference)
            for name in modules
            for reference in _LATER.findall(self._sources[name])
        }
        return {name for name in found if not name.startswith("routes/")}

    def document(self, root: str, screen: str) -> str:
        """Return the HTML document for an address of the page.

        Args:
            root: path prefix of a proxy.
            screen: screen of the address.
        """
        files = escape(root + self.address)
        style = f'<link rel="stylesheet" href="{files}/{_STYLE}">'
        modules = [f'<link rel="modulepreload" href="{files}/{name}">' for name in self.modules(screen)]
        return self._template.format(files=files, screen=screen, head="\n".join([style, *modules]))


def without_comments(path: Path, content: bytes) -> bytes:
    """Return the content of a file without comments; each line keeps its number, for the browser's error messages.

    Third-party files are served as published, with their licences.
    """
    if path.suffix != ".js" or "vendor" in path.parts:
        return content
    return _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), content.decode()).encode()


def imported(first: Iterable[str], sources: Mapping[str, str]) -> list[str]:
    """Return modules with their transitive imports, so that a browser can request all of them at once."""
    found = {name for name in first if name in sources}
    waiting = [*found]
    while waiting:
        name = waiting.pop()
        others = {_joined(PurePosixPath(name).parent, reference) for reference in _IMPORT.findall(sources[name])}
        waiting += others - found
        found |= others
    return sorted(found)


def _joined(folder: PurePosixPath, reference: str) -> str:
    parts = list(folder.parts)
    for part in PurePosixPath(reference).parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


@cache
def _page() -> Page:
    """Return the page, read once: its files do not change while the process runs."""
    return Page()


def install(app: FastAPI) -> None:
    """Serve the page.

    No key is required, because the page contains no data of a tenant. It asks for a key if the API requires one.
    """
    page = _page()

    async def document(request: Request, screen: str, status: int = 200) -> Response:
        headers = {
            "content-security-policy": _POLICY,
            "cross-origin-opener-policy": "same-origin",
            "cache-control": "no-cache",
        }
        content = page.document(request.scope.get("root_path", ""), screen)
        return Response(content, status, media_type="text/html", headers=headers)

    no_route = app.router.default

    async def missing(scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_visit(scope):
            return await no_route(scope, receive, send)
        reply = await document(Request(scope), MISSING, 404)
        return await reply(scope, receive, send)

    async def file(request: Request) -> Response:
        found = page.file(request.path_params["name"], request.url.query)
        if found is None:
            return Response(status_code=404)
        policy = _WORKER_POLICY if request.path_params["name"].startswith(_OF_WORKER) else _FILE_POLICY
        headers = _FOREVER | {"vary": "accept-encoding", "content-security-policy": policy}
        if "gzip" in request.headers.get("accept-encoding", ""):
            in_thread = len(found.content) > _LARGE_BYTES  # a tenth of a second at the first request
            compressed = await asyncio.to_thread(getattr, found, "compressed") if in_thread else found.compressed
            return Response(compressed, media_type=found.kind, headers=headers | {"content-encoding": "gzip"})
        return Response(found.content, media_type=found.kind, headers=headers)

    for address, screen in ADDRESSES.items():
        if address == _GALLERY and not _IS_CHECKOUT:
            continue
        app.router.routes.append(Route(address, partial(document, screen=screen), include_in_schema=False))
    app.router.routes.append(Route(page.address + "/{name:path}", file, include_in_schema=False))
    app.router.default = missing


def _is_visit(scope: Scope) -> bool:
    """Return whether a browser opens an address outside of the API."""
    if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"}:
        return False
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return "text/html" in Request(scope).headers.get("accept", "") and not path.startswith("/v1/")
