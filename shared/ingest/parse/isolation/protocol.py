"""The messages between the sandbox and a child that parses files: JSON.

A message has `requests`. If there are several, it also has the `sizes` of their files, which follow each other in the
file that it brings. Each request has a reply, in the same order.

A reply is followed by its document's chunks in parts, so that the worker that validates them needs little time and
memory for each.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NotRequired, TypedDict

import orjson

from shared.ingest.parse.document import ParsedDocument

_PART_BYTES = 1_000_000


ParseReplyOutcome = Literal["document", "pages", "text", "hidden", "unreadable", "memory", "broken"]
"""`pages` has the pages to be read by OCR before a document can be divided, `text` the text of one such page.
`hidden` is a page of the web whose rules forbid to index it."""

ReadPageText = tuple[int, str, int, float]
"""The number of a page, and the fields of its `PageText`."""


class WebPage(TypedDict):
    """A page of the web.

    `robots` is its header `X-Robots-Tag`. `is_html`: it may have links and rules; another file has no facts but rules.
    """

    address: str
    robots: str
    is_html: bool


class ParseRequest(TypedDict):
    """One file to parse, and the ready-made questions that came with it, each with its quote.

    `web_page`: the file is a page, whose facts are returned, too. Its text is returned whole, in pieces of `max_chars`,
    and of HTML only the main part.
    `read_pages`: texts of pages that were read by OCR; None: pages without text are not read.
    `pictures`: maximum number of pictures in it that are returned as chunks.
    """

    filename: str | None
    media_type: str | None
    max_chars: int
    overlap_chars: int
    section_max_chars: int | None
    max_text_chars: int
    max_chunks: int
    cpu_seconds: int
    web_page: WebPage | None
    questions: list[tuple[str, str | None]]
    read_pages: list[ReadPageText] | None
    pictures: int


class PageRequest(TypedDict):
    """One page to read by OCR; the child has the languages. `number` counts from 1."""

    number: int
    dpi: int
    cpu_seconds: int


class ParseReply(TypedDict):
    """The outcome of a request; `parts` messages with the document's chunks follow it.

    `pages` are the number of all pages, the numbers of those to be read, and the media type; `text` is a page's text,
    its number of words and their mean confidence, and `picture` the page as a WebP in Base64.

    `facts` belong to a page of the web: hash of its text, its rules (index, follow), canonical address, and links.
    They are sent as a message of their own after the first one, in which `facts` says whether it follows.

    `detail` is the parser's own error, for the log. `resident_bytes`, `cpu_seconds` and `native_files` are the
    child's state, for its recycling.
    """

    outcome: ParseReplyOutcome
    reason: str
    detail: str
    document: list[Any] | None
    pages: tuple[int, tuple[int, ...], str] | None
    text: tuple[str, int, float] | None
    picture: NotRequired[str]
    facts: NotRequired[tuple[str | None, bool, bool, str | None, tuple[str, ...]]]
    parts: int
    resident_bytes: int
    cpu_seconds: float
    native_files: int


def pack_reply(reply: ParseReply) -> Iterator[bytes]:
    """Encode a reply, the facts and the parts that follow it."""
    facts = reply.pop("facts", None)
    head = {**reply, "facts": facts is not None}
    parts: list[bytes] = []
    if reply["document"] is not None:
        *rest, chunks = reply["document"]
        parts = list(_parts(chunks)) if chunks else []
        head |= {"document": [*rest, []], "parts": len(parts)}
    yield orjson.dumps(head)
    if facts is not None:
        yield orjson.dumps(facts)
    yield from parts


def _parts(chunks: Sequence[list[Any]]) -> Iterator[bytes]:
    part, size = list[bytes](), 0
    for encoded in map(orjson.dumps, chunks):
        if size + len(encoded) > _PART_BYTES and part:
            yield b"[" + b",".join(part) + b"]"
            part, size = [], 0
        part.append(encoded)
        size += len(encoded)
    yield b"[" + b",".join(part) + b"]"


def flatten(document: ParsedDocument) -> list[Any]:
    """Return a document as nested lists for `replies`; repeated field names would take half of the reply."""
    chunks = []
    for content in document.chunks:
        values = content.as_json()
        picture = values.pop("picture", None)
        chunks.append([*values.values(), picture and b64encode(document.pictures[picture]).decode()])
    read = document.completeness
    losses = [[loss.location, loss.missing, loss.sample] for loss in read.losses]
    fields = [document.title, document.text_chars, document.media_type, document.question_indexes]
    return [*fields, [read.coverage, losses, read.unread], chunks]
