"""The kind of confined process that parses files: see `shared.confined.child`.

The profile `parse` parses files, `scans` also finds their pages without text, and `ocr` reads such pages; its further
arguments are the folder of its languages' data, and the languages.
"""

from __future__ import annotations

import os
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from io import FileIO
from itertools import accumulate, count
from pathlib import Path
from typing import Any

import orjson

from shared.confined import usage
from shared.confined.protocol import DETAIL_CHARS, REASON_CHARS, Load, ProcessMustExit, Work
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.documents import ReadyQuestion
from shared.domain.errors import Unreadable
from shared.domain.stages.pages import PageText
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.chunking import divide
from shared.ingest.parse.chunks.languages import load as load_detector
from shared.ingest.parse.chunks.languages import with_languages
from shared.ingest.parse.chunks.questions import assign
from shared.ingest.parse.document import PagesToRead, ParsedDocument
from shared.ingest.parse.extraction import PageFinder, ScanOptions, charset_of, extract
from shared.ingest.parse.extraction import load as load_extractor
from shared.ingest.parse.extraction import native_files as extracted_files
from shared.ingest.parse.illustrations import Shrink, illustrated
from shared.ingest.parse.isolation.protocol import (
    ParseReply,
    ParseReplyOutcome,
    ParseRequest,
    WebPage,
    flatten,
    pack_reply,
)
from shared.ingest.parse.text import decode
from shared.ingest.parse.web.facts import facts_of, rules_of_header
from shared.ingest.parse.web.reading import hash_of

_Facts = tuple[bool, bool, str | None, tuple[str, ...]]
"""Rules (index, follow), canonical address and links of a page of the web."""

FileWork = Callable[[Any, bytes], ParseReply]
"""Answers a request of the child's profile about a file with this content."""

LoadFileWork = Callable[[], FileWork]


def prepare(folder: Path, profile: str, *languages: str) -> Load:
    """Import the libraries of a profile, and return the function that loads their data."""
    load_work = _reader(folder, *languages) if profile == "ocr" else _parser(profile)

    def load() -> Work:
        work = load_work()

        def messages(body: bytes, files: Sequence[int]) -> Iterator[bytes]:
            received = orjson.loads(body)
            requests = received["requests"]
            with FileIO(files[0]) as file:
                for request, read in zip(requests, _readers(file, received["sizes"]), strict=True):
                    reply = answer(request, read, work) | {"resident_bytes": usage.resident_bytes()}
                    if request is requests[-1]:
                        file.close()  # after its last reply, a worker finds no file open
                    yield from pack_reply(reply)
                    if reply["outcome"] == "memory":
                        raise ProcessMustExit

        return messages

    return load


def _parser(profile: str) -> LoadFileWork:
    """Import the libraries of a child that parses files, and return the function that loads their data."""
    finder: PageFinder | None = None
    shrink: Shrink | None = None
    if profile == "scans":
        finder = import_module("shared.ingest.parse.scans.finding")
        shrink = import_module("shared.ingest.parse.scans.shrinking").shrunk

    def work(request: Any, content: bytes) -> ParseReply:
        if request["web_page"]:
            return read_web_page(request, request["web_page"], content)
        return _outcome(parse(request, content, finder, shrink))

    def load() -> FileWork:
        load_extractor()
        load_detector()
        return work

    return load


def _reader(folder: Path, data_folder: str, languages: str) -> LoadFileWork:
    """Import the libraries of a child that reads pages, and return the function that loads its languages.

    Their data is copied to the folder, because later this process can open no other.
    """
    engines = import_module("shared.ingest.parse.scans.engine")
    read_page = import_module("shared.ingest.parse.scans.reading").read_page
    codes = languages.split("+")
    for code in codes:
        shutil.copy(Path(data_folder, f"{code}.traineddata"), folder)

    def load() -> FileWork:
        engine = engines.Engine(folder, codes)
        pages = count(1)

        def work(request: Any, content: bytes) -> ParseReply:
            text = read_page(content, request["number"], request["dpi"], engine)
            return _reply("text", text=text, native_files=next(pages))

        return work

    return load


def _readers(file: FileIO, sizes: Sequence[int] | None) -> list[Callable[[], bytes]]:
    """Return functions that read an open file, or the files of these sizes that follow each other in it."""
    if sizes is None:
        return [file.readall]
    offsets = accumulate(sizes, initial=0)
    return [partial(os.pread, file.fileno(), size, offset) for size, offset in zip(sizes, offsets, strict=False)]


def answer(request: Any, read: Callable[[], bytes], work: FileWork) -> ParseReply:
    """Read a file and work on it; only errors that are not caused by files are raised."""
    usage.start_clock(request["cpu_seconds"])
    usage.empty_scratch()
    try:
        return work(request, read())
    except UnreadablePageError as error:
        return _reply("unreadable", error.message, error.detail) | {"facts": (None, *error.facts)}
    except Unreadable as error:
        return _reply("unreadable", error.message, error.detail)
    except MemoryError:
        return _reply("memory")
    except RecursionError:
        return _reply("unreadable", "the file is nested too deeply to be read; flatten it")
    except Exception as error:  # noqa: BLE001 - the process boundary: the parent classifies the error
        return _reply("broken", detail=f"{type(error).__name__}: {error}")


def parse(
    request: ParseRequest, content: bytes, finder: PageFinder | None = None, shrink: Shrink | None = None
) -> ParsedDocument | PagesToRead:
    """Return the document in a file: its text, divided, and its questions assigned to the chunks.

    If some of its pages must be read by OCR first, return these instead.
    """
    extracted = extract(
        content,
        filename=request["filename"],
        media_type=request["media_type"],
        max_text_chars=request["max_text_chars"],
        scans=_scans(request, finder),
    )
    if isinstance(extracted, PagesToRead):
        return extracted
    options = ChunkingOptions(request["max_chars"], request["overlap_chars"], request["section_max_chars"])
    chunks = divide(extracted, options)
    files: dict[str, bytes] = {}
    if (count := len(chunks)) > (most := request["max_chunks"]):
        raise Unreadable(
            f"The document has {count:,} chunks, more than the {most:,} allowed: divide it, or use longer chunks."
        )
    if extracted.markdown:  # source code is in no language
        chunks = with_languages(chunks)
    if request["pictures"] and shrink:
        room = min(request["pictures"], most - count)
        chunks, files = illustrated(content, extracted, chunks, shrink, room)
    indexes = assign([ReadyQuestion(text, quote) for text, quote in request["questions"]], chunks)
    return ParsedDocument(
        extracted.title,
        len(extracted.text),
        extracted.media_type,
        chunks,
        tuple(indexes),
        files,
        extracted.completeness.bounded(),
    )


def _scans(request: ParseRequest, finder: PageFinder | None) -> ScanOptions | None:
    read = request["read_pages"]
    if finder is None or read is None:
        return None
    return ScanOptions(finder, {number: PageText(text, words, confidence) for number, text, words, confidence in read})


class UnreadablePageError(Unreadable):
    """A page whose facts are known although its text cannot be read."""

    def __init__(self, error: Unreadable, facts: _Facts) -> None:
        super().__init__(error.message, detail=error.detail)
        self.facts = facts


def read_web_page(request: ParseRequest, page: WebPage, content: bytes) -> ParseReply:
    """Return the facts of a page of the web, and its text unless it is not to be indexed."""
    facts = _facts_of(request, page, content)
    if not facts[0]:
        return _reply("hidden") | {"facts": (None, *facts)}
    try:
        extracted = extract(
            content,
            filename=request["filename"],
            media_type=request["media_type"],
            max_text_chars=request["max_text_chars"],
            web_page=True,
        )
    except Unreadable as error:
        raise UnreadablePageError(error, facts) from error
    assert not isinstance(extracted, PagesToRead)
    pieces = _pieces(extracted.text, request["max_chars"])
    document = ParsedDocument(extracted.title, len(extracted.text), extracted.media_type, pieces)
    return _reply("document", document=document) | {"facts": (hash_of(extracted.text), *facts)}


def _facts_of(request: ParseRequest, page: WebPage, content: bytes) -> _Facts:
    if page["is_html"]:
        with suppress(Unreadable):
            text = decode(content, charset=charset_of(request["media_type"]))
            facts = facts_of(text, page["address"], page["robots"])
            return facts.rules.index, facts.rules.follow, facts.canonical, facts.links
    rules = rules_of_header(page["robots"])
    return rules.index, rules.follow, None, ()


def _outcome(parsed: ParsedDocument | PagesToRead) -> ParseReply:
    if isinstance(parsed, PagesToRead):
        return _reply("pages", pages=parsed)
    return _reply("document", document=parsed)


def _pieces(text: str, chars: int) -> tuple[ChunkContent, ...]:
    """Return a text as consecutive pieces, because one message has room for a part of a long text only."""
    starts = range(0, len(text), chars)
    return tuple(ChunkContent(text[at : at + chars], (at, min(at + chars, len(text)))) for at in starts)


def _reply(
    outcome: ParseReplyOutcome,
    reason: str = "",
    detail: str = "",
    *,
    document: ParsedDocument | None = None,
    pages: PagesToRead | None = None,
    text: PageText | None = None,
    native_files: int | None = None,
) -> ParseReply:
    return ParseReply(
        outcome=outcome,
        reason=reason[:REASON_CHARS],
        detail=detail[:DETAIL_CHARS],
        document=flatten(document) if document else None,
        pages=(pages.page_count, pages.numbers, pages.media_type) if pages else None,
        text=(text.text, text.words, text.confidence) if text else None,
        picture=b64encode(text.picture).decode() if text else "",
        parts=0,
        resident_bytes=0,
        cpu_seconds=usage.cpu_seconds(),
        native_files=extracted_files() if native_files is None else native_files,
    )
