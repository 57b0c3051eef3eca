"""The groups of functions among which `bench budget` divides the processor time."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from pathlib import Path

from tests.support.deployment import ROOT

# The first pattern that the file of a frame matches names its group. Frames are read from the innermost outwards, so a
# library belongs to the group of the module that calls it, unless it has a group of its own.
_GROUPS = [
    (name, re.compile(pattern))
    for name, pattern in (
        ("language", r"shared/ingest/parse/chunks/languages|gcld3"),
        ("BM25", r"shared/domain/text/|Stemmer"),
        ("extract and divide", r"shared/ingest/parse/"),
        ("question filter", r"shared/ingest/generate/.*filter|shared/domain/vectors"),
        ("prompt and reply", r"shared/ingest/generate/"),
        ("limiter", r"shared/providers/limiter/|shared/process/.*permit"),
        ("ledger", r"shared/ledger/|features/.*/ledger/|sqlalchemy/|asyncpg/|greenlet"),
        ("broker", r"shared/broker/|celery/|kombu/|redis/|amqp/|billiard/"),
        ("logging", r"structlog/|logging/|shared/process/telemetry/|opentelemetry/|prometheus_client/"),
        ("server", r"uvicorn/|starlette/|fastapi/|pydantic|shared/http/|api/|embedded/asgi"),
        (
            "HTTP client",
            r"shared/process/network/|aiohttp/|httpx/|httpcore/|openai/|yarl/|multidict/|shared/providers/|shared/vectors/transport",
        ),
        ("points and vectors", r"shared/vectors/|shared/ingest/index/"),
        ("retrieval", r"shared/query/"),
        ("uploads", r"shared/storage/|shared/domain/corpus/|features/"),
        ("engine", r"embedded/|qdrant_edge|onnxruntime/|numpy/"),
        ("drain and scheduler", r"shared/ingest/|shared/maintenance/|workers/"),
        ("own, other", r"shared/"),
    )
]
_JSON = re.compile(r"\b(?:orjson|json)\.(?:loads|dumps)\b|\bOPT_SERIALIZE")
EVENT_LOOP, NATIVE = "event loop", "native threads"


def group_of(frames: Sequence[tuple[str, int]]) -> str:
    """Return the group of a stack.

    Args:
        frames: file and line of each frame, the outermost first.
    """
    if frames and _JSON.search(_source(*frames[-1])):
        return "JSON"
    for file, _ in reversed(frames):
        for name, pattern in _GROUPS:
            if pattern.match(file):
                return name
    return EVENT_LOOP


def _source(file: str, line: int) -> str:
    path = ROOT / file
    return linecache.getline(str(path if path.exists() else Path(file)), line)
