"""Replies of a parser's child, as it packs them and as the worker reads them."""

from collections.abc import Sequence
from typing import Any

import orjson

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.completeness import Completeness, Loss
from shared.ingest.parse.document import ParsedDocument
from shared.ingest.parse.isolation.protocol import ParseReply, flatten, pack_reply
from shared.ingest.parse.isolation.replies import ReplyChunks, ReplyLimits, read_head

MISSING = object()
TEXT = "The ferry is late."
SOUND = ParsedDocument(
    "Port",
    1_000,
    "text/html",
    (ChunkContent(TEXT, (0, len(TEXT)), ("Ferry",), "Port", 3, (0, 40), "en", 87),),
    completeness=Completeness(0.75, (Loss("page 2", 3, ("quay", "tide")),), ("The attachment is encrypted.",)),
)
"""A document with a value in each field."""


def document_reply(document: ParsedDocument = SOUND) -> dict[str, Any]:
    """Return a child's reply as plain values, which a test may change."""
    reply = ParseReply(
        outcome="document",
        reason="",
        detail="",
        document=flatten(document),
        pages=None,
        text=None,
        parts=0,
        resident_bytes=0,
        cpu_seconds=0,
        native_files=0,
    )
    copy: dict[str, Any] = orjson.loads(orjson.dumps(reply))
    return copy


def pages_reply(**fields: Any) -> dict[str, Any]:
    """Return a reply without a document; `fields` are its outcome and other fields."""
    return document_reply() | {"document": None} | fields


def changed(path: Sequence[str | int], value: object) -> dict[str, Any]:
    """Return a sound reply with another value at a path, or without the value at the path."""
    reply = inner = document_reply()
    for step in path[:-1]:
        inner = inner[step]
    if value is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return reply


def messages_of(reply: dict[str, Any]) -> list[bytes]:
    """Return the messages of a reply."""
    return list(pack_reply(reply))


def received(reply: dict[str, Any], limits: ReplyLimits) -> ParsedDocument:
    """Return the document that the worker reads from a reply."""
    head, *parts = messages_of(reply)
    chunks = ReplyChunks(read_head(head, limits), limits)
    for part in parts:
        chunks.add(part)
    return chunks.document()
