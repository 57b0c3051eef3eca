"""Disabled questions: questions of chunks that searches must not find, although they stay stored.

A record names the document, the text of the chunk and the question in plain form. It therefore applies to every version
and build of the document that has a chunk with this text, and to a question that is generated again. In a build that
divides the same file differently, it applies to the chunks that contain most of the recorded text, or are mostly in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from shared.domain.corpus.chunks import ChunkContent


@dataclass(frozen=True, slots=True)
class ChunkText:
    """The text of a chunk and its location.

    Args:
        text_hash: SHA-256 of the text.
        upload: name of the bytes of its document's version.
        span: span of the chunk in the text that was extracted from them.
    """

    text_hash: bytes
    upload: str
    span: tuple[int, int]

    @classmethod
    def of(cls, content: ChunkContent, upload: str) -> Self:
        return cls(hashlib.sha256(content.text.encode()).digest(), upload, content.span)

    def is_in(self, chunk: ChunkText) -> bool:
        """Return whether a chunk has the same text, or shares most of it, or of its own, in the same file."""
        if self.text_hash == chunk.text_hash or self.upload != chunk.upload:
            return self.text_hash == chunk.text_hash
        (start, end), (other_start, other_end) = self.span, chunk.span
        common = min(end, other_end) - max(start, other_start)
        return 2 * common > min(end - start, other_end - other_start)


@dataclass(frozen=True, slots=True)
class DisabledQuestion:
    """A question that was disabled for a text.

    Args:
        question: its plain form.
        of: the text of its chunk.
        by: name of the key that disabled it; None without keys.
        token: fencing token that was drawn with the change: claims with smaller tokens do not know it.
    """

    question: str
    of: ChunkText
    by: str | None
    at: datetime
    token: int

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        span = values["span_start"], values["span_end"]
        return cls(
            question=values["question"],
            of=ChunkText(bytes.fromhex(values["text_hash"]), values["upload"], span),
            by=values["disabled_by"],
            at=datetime.fromisoformat(values["disabled_at"]),
            token=values["token"],
        )


def disabled_in(
    content: ChunkContent, upload: str, of_document: Iterable[DisabledQuestion]
) -> dict[str, DisabledQuestion]:
    """Return the disabled questions of a chunk by their plain form.

    Args:
        content: the chunk.
        upload: name of the bytes of its version.
        of_document: all disabled questions of its document.
    """
    if not (questions := list(of_document)):
        return {}
    chunk = ChunkText.of(content, upload)
    return {each.question: each for each in questions if each.of.is_in(chunk)}
