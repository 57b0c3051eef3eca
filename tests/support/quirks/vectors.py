"""Quirks of embeddings, by name; "" is a correct reply."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.support.quirks.chats import REFUSALS
from tests.support.quirks.wire import Call, Reply, error

Quirk = Callable[[Call], Reply]

DIMENSIONS = 64
_LONG = 400  # characters; a longer text is too long for `llamacpp-batch`


def vector_of(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Return the vector of a text: unrelated to all other texts' vectors."""
    seeded = random.Random(zlib.crc32(text.encode()))
    return [seeded.gauss() for _ in range(dimensions)]


def _rows(call: Call, dimensions: int = DIMENSIONS) -> list[dict[str, Any]]:
    vectors = [vector_of(text, int(call.body.get("dimensions", dimensions))) for text in call.texts]
    return [
        {"object": "embedding", "index": index, "embedding": _encoded(call, vector)}
        for index, vector in enumerate(vectors)
    ]


def _encoded(call: Call, vector: list[float]) -> object:
    if call.body.get("encoding_format") != "base64":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _listed(rows: object) -> Reply:
    usage = {"prompt_tokens": 20, "total_tokens": 20}
    return Reply(body={"object": "list", "model": "quirky", "data": rows, "usage": usage})


def _changed(change: Callable[[Call, dict[str, Any], int], object]) -> Quirk:
    """Return a quirk that changes each row: a function of the request, the row and its number."""

    def quirk(call: Call) -> Reply:
        return _listed([change(call, row, number) for number, row in enumerate(_rows(call))])

    return quirk


def _of_text(change: Callable[[str], object]) -> Quirk:
    """Return a quirk that replaces the vectors of the texts that choose it."""

    def replaced(call: Call, row: dict[str, Any], number: int) -> object:
        text = call.texts[number]
        return row | {"embedding": change(text)} if call.is_affected(text) else row

    return _changed(replaced)


def _refusing(field: str, reply: Reply) -> Quirk:
    return lambda call: reply if field in call.body else _listed(_rows(call))


def _at_most(inputs: int, reply: Callable[[int], Reply]) -> Quirk:
    return lambda call: reply(len(call.texts)) if len(call.texts) > inputs else _listed(_rows(call))


def _too_long(call: Call) -> Reply:
    longest = max(map(len, call.texts))
    if longest <= _LONG:
        return _listed(_rows(call))
    sentence = f"input ({longest // 4} tokens) is too large to process. increase the physical batch size"
    return Reply(500, {"error": {"code": 500, "message": sentence, "type": "server_error"}})


def _no_base64(call: Call) -> Reply:
    if call.body.get("encoding_format") == "base64":
        return error(400, "encoding_format: only 'float' is supported", param="encoding_format")
    return _listed(_rows(call))


def _without(row: dict[str, Any], field: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != field}


_NAN = '{"object":"list","data":[{"object":"embedding","index":0,"embedding":[NaN,0.1]}]}'

_NO_DIMENSIONS = error(400, "This model does not support specifying dimensions.", param="dimensions")

_OWN: dict[str, Quirk] = {
    "": lambda call: _listed(_rows(call)),
    # Refusals of one text
    "llamacpp-batch": _too_long,
    "ollama-nan": lambda _: error(500, "failed to encode response: json: unsupported value: NaN", type="api_error"),
    "ollama-too-long": lambda _: error(400, "the input length exceeds the context length", type="api_error"),
    "tei-too-long": lambda _: Reply(
        413, {"error": "`inputs` must have less than 512 tokens. Given: 800", "error_type": "Validation"}
    ),
    # Refusals of every text
    "llamacpp-no-embeddings": lambda _: Reply(
        501,
        {
            "error": {
                "code": 501,
                "message": "This server does not support embeddings. Start it with `--embeddings`",
                "type": "not_supported_error",
            }
        },
    ),
    "lmstudio-embeddings-200": lambda _: Reply(body={"error": "Unexpected endpoint or method. (POST /embeddings)"}),
    "tei-overloaded": lambda _: Reply(429, {"error": "Model is overloaded", "error_type": "Overloaded"}),
    # Refused fields and sizes
    "base64-refused": _no_base64,
    "dimensions-refused": _refusing("dimensions", _NO_DIMENSIONS),
    "dimensions-fixed": _refusing("dimensions", _NO_DIMENSIONS),
    "dashscope-10": _at_most(
        10,
        lambda _: error(
            400, "Value error, batch size is invalid, it should not be larger than 10.", code="InvalidParameter"
        ),
    ),
    "tei-batch": _at_most(
        4,
        lambda count: Reply(
            413, {"error": f"batch size {count} > maximum allowed batch size 4", "error_type": "Validation"}
        ),
    ),
    # Shapes
    "one-vector": lambda call: _listed(_rows(call)[:1]),
    "fewer-vectors": lambda call: _listed(
        [row for row, text in zip(_rows(call), call.texts, strict=True) if not call.is_affected(text)]
    ),
    "more-vectors": lambda call: _listed(_rows(call) * 2),
    "floats": _changed(lambda call, row, number: row | {"embedding": vector_of(call.texts[number])}),
    "nested": _changed(lambda call, row, number: row | {"embedding": [vector_of(call.texts[number])]}),
    "no-index": _changed(lambda _, row, __: _without(row, "index")),
    "index-null": _changed(lambda _, row, __: row | {"index": None}),
    "index-zero": _changed(lambda _, row, __: row | {"index": 0}),
    "index-text": _changed(lambda _, row, number: row | {"index": str(number)}),
    "index-from-one": _changed(lambda _, row, number: row | {"index": number + 1}),
    "shuffled": lambda call: _listed(_rows(call)[::-1]),
    "scaled": _changed(lambda call, row, number: row | {"embedding": [9 * x for x in vector_of(call.texts[number])]}),
    "vector-number": _of_text(lambda _: 7),
    "vector-null": _of_text(lambda _: None),
    "vector-empty": _of_text(lambda _: []),
    "zeros": _of_text(lambda _: [0.0] * DIMENSIONS),
    "nan-text": lambda _: Reply(body=_NAN),
    "other-dimension": lambda call: _listed(_rows(call, 2 * DIMENSIONS)),
    "data-null": lambda _: _listed(None),
    "vectors-bare": lambda call: Reply(body=[vector_of(text) for text in call.texts]),
}

# A refusal and the end of a connection are the same for both endpoints.
VECTORS: dict[str, Quirk] = REFUSALS | _OWN | {"half": lambda call: replace(_listed(_rows(call)), ends="half")}
