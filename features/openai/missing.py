"""Addresses of OpenAI's API that this server lacks: the error has OpenAI's format, and names a replacement."""

from __future__ import annotations

import re

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from shared.http.replies import JsonReply

_CLIENTS = re.compile(r"(Async)?(Azure)?OpenAI/|Agents/(Python|JavaScript)", re.IGNORECASE)
_ANSWERS = "Answers are written by POST /v1/responses and POST /v1/chat/completions."
_STORES = (
    "A vector store is a collection: upload documents with POST /v1/documents, and search them with"
    " POST /v1/vector_stores/COLLECTION/search."
)
_NOT_STORED = "It is not stored. Send the earlier messages with the next request."
_TEXTS = "This server answers questions from documents in text only."
# By the first part of the path after /v1/, without parts that have routes of their own.
_INSTEAD = {
    "assistants": _ANSWERS,
    "audio": _TEXTS,
    "chat": f"This address has no stored completion. {_ANSWERS}",
    "completions": _ANSWERS,
    "containers": _TEXTS,
    "edits": _ANSWERS,
    "engines": "Collections are the models: GET /v1/models lists them.",
    "evals": "Collections are evaluated with POST /v1/collections/COLLECTION/evaluations.",
    "files": "Upload documents with POST /v1/documents, and list them with GET /v1/documents.",
    "fine_tuning": "No model is trained. Upload documents with POST /v1/documents.",
    "images": _TEXTS,
    "models": "Collections are the models: DELETE /v1/collections/COLLECTION erases one.",
    "moderations": "Texts are not moderated here: call the provider of a moderation model.",
    "organization": "Keys and limits are administered with /v1/keys and /v1/limits.",
    "realtime": _TEXTS,
    "responses": f"A response is written by POST /v1/responses. {_NOT_STORED}",
    "threads": f"{_ANSWERS} A conversation is not stored: send its messages with each request.",
    "vector_stores": _STORES,
    "videos": _TEXTS,
}
_NO_PREFIX = "The base URL of the client must end with /v1."
_OTHER = "/openapi.json lists all routes."


class MissingAddresses:
    """Replaces the replies to addresses and methods without a route, for OpenAI's clients and their addresses."""

    def install(self, app: FastAPI) -> None:
        for_others = app.exception_handlers[HTTPException]

        async def reply(request: Request, error: Exception) -> Response:
            found: Response = await for_others(request, error)  # type: ignore[misc]  # it is asynchronous
            assert isinstance(error, HTTPException)
            sentence = _sentence(request)
            if sentence is None or error.status_code not in {404, 405}:
                return found
            called = f"{request.method} {_path(request)}"[:200]
            detail = {
                "message": f"This server does not have {called}. {sentence}",
                "type": "invalid_request_error",
                "param": None,
                "code": "unknown_url" if error.status_code == 404 else "method_not_supported",  # noqa: PLR2004
            }
            allow = {name: value for name, value in found.headers.items() if name == "allow"}
            return JsonReply({"error": detail}, error.status_code, allow)

        app.add_exception_handler(HTTPException, reply)

    async def aclose(self) -> None:
        """Close nothing."""


def _sentence(request: Request) -> str | None:
    """Return the advice for a client of OpenAI; None for other clients and addresses."""
    path = _path(request)
    is_client = bool(_CLIENTS.match(request.headers.get("user-agent", "")))
    if not path.startswith("/v1/"):
        return _NO_PREFIX if is_client else None
    return _INSTEAD.get(path.split("/")[2]) or (_OTHER if is_client else None)


def _path(request: Request) -> str:
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", "").rstrip("/"))
