"""What the sandbox and its child say to each other: JSON, each message after its length in eight bytes."""

from __future__ import annotations

import struct
from typing import Any, Literal, TypedDict

import orjson

from shared.domain.chunks import CONTENT_FIELDS, ChunkContent
from shared.ingest.parse.document import ParsedDocument

READY = b"ready\n"
"""What a child says first: that it has started and is confined."""

LENGTH = struct.Struct(">Q")


ParseReplyOutcome = Literal["document", "unreadable", "memory", "broken"]


class ParseRequest(TypedDict):
    """One file to parse."""

    path: str
    filename: str | None
    media_type: str | None
    max_chars: int
    overlap_chars: int
    section_max_chars: int | None
    max_text_chars: int
    cpu_seconds: int


class ParseReply(TypedDict):
    """What came of it; `resident_bytes` and `native_files` are the child's own state, for its recycling."""

    outcome: ParseReplyOutcome
    reason: str
    document: list[Any] | None
    resident_bytes: int
    native_files: int


def pack(message: ParseRequest | ParseReply) -> bytes:
    """A message as it goes over the wire."""
    body = orjson.dumps(message)
    return LENGTH.pack(len(body)) + body


def flatten(document: ParsedDocument) -> list[Any]:
    """A document as nested lists: names repeated for each chunk would be half of the reply."""
    chunks = [list(content.as_json().values()) for content in document.chunks]
    return [document.title, document.text_chars, document.media_type, chunks]


def restore(flat: list[Any]) -> ParsedDocument:
    """The document that `flatten` took apart."""
    title, text_chars, media_type, chunks = flat
    contents = (ChunkContent.from_json(dict(zip(CONTENT_FIELDS, values, strict=True))) for values in chunks)
    return ParsedDocument(title, text_chars, media_type, tuple(contents))
