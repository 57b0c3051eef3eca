"""One page: requested and read by itself, before it is compared with others."""

from __future__ import annotations

from functools import partial
from posixpath import basename
from urllib.parse import unquote

from features.sources.web.crawl.addresses import digest_of
from features.sources.web.crawl.crawl_state import Visit
from features.sources.web.crawl.memory import Note, VisitOutcome
from features.sources.web.crawl.soft_errors import SoftErrors
from features.sources.web.crawl.texts import Texts
from features.sources.web.extraction import SandboxExtractor
from features.sources.web.visitor import NOT_PERMITTED, PageError, Visitor, WebReply
from shared.domain.errors import Unreadable
from shared.ingest.parse.web.addresses import path_of
from shared.ingest.parse.web.reading import WebPageReading

HTML = ("text/html", "application/xhtml+xml")
MARKDOWN = "text/markdown"
_OK, _NOT_MODIFIED, _REDIRECTS = 200, 304, range(300, 400)
_GONE = (404, 410)
_SERVER_ERRORS = (429, *range(500, 600))
_DOCUMENTS = (
    *HTML,
    "application/pdf",
    "application/rtf",
    "application/epub+zip",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "text/plain",
    "text/markdown",
    "text/x-markdown",
    "text/csv",
    "text/x-rst",
    "text/rtf",
)
_STILL_UNREADABLE = "The page could not be read, and has not changed since."
_NAMED = (".pdf", ".docx", ".xlsx", ".pptx", ".odt", ".ods", ".epub", ".rtf", ".doc", ".xls", ".ppt", ".md", ".txt")
_FAMILIES = ("application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument.")


class Examiner:
    """Examines pages.

    Args:
        visitor: sends requests.
        extractor: reads texts.
        texts: folder of files for the extractor.
    """

    def __init__(self, visitor: Visitor, extractor: SandboxExtractor, texts: Texts) -> None:
        self._visitor = visitor
        self._extractor = extractor
        self._texts = texts
        self._soft_errors = SoftErrors(self._text_at)

    async def examine(self, address: str, note: Note | None) -> Visit:
        """Visit a page, and return the result.

        Args:
            address: address of the page.
            note: note of its last visit; None: it is downloaded in any case.

        Raises:
            Unavailable: robots.txt cannot be read.
            Transient: its text cannot be read now.
        """
        if not self._visitor.permits(address):
            return refusal(NOT_PERMITTED, note)
        if not await self._visitor.allows(address):
            return Visit(VisitOutcome.FORBIDDEN)
        try:
            reply = await self._visitor.get(
                address, note.conditions if note else {}, wants=partial(_is_wanted, address)
            )
        except PageError as error:
            return refusal(str(error), note, fault=error.fault == "server")
        if reply.status == _NOT_MODIFIED and note:
            reason = _STILL_UNREADABLE if note.outcome is VisitOutcome.REFUSED else None
            return Visit(note.outcome, reason, text_hash=note.text_hash, note=note, unchanged=True)
        return await self._visit_of(address, reply, note)

    async def _visit_of(self, address: str, reply: WebReply, note: Note | None) -> Visit:
        if reply.status in _REDIRECTS:
            return _redirected(address, reply, note)
        if reply.status in _GONE:
            return Visit(VisitOutcome.MISSING, note=Note(VisitOutcome.MISSING))
        if reply.status != _OK:
            fault = reply.status in _SERVER_ERRORS
            return refusal(f"The server answers with status {reply.status}.", note, fault=fault)
        if not reply.wanted:
            return Visit(VisitOutcome.UNSUPPORTED, _unsupported(reply), note=Note(VisitOutcome.UNSUPPORTED))
        return await self._read(address, reply, note)

    async def _read(self, address: str, reply: WebReply, note: Note | None) -> Visit:
        try:
            page = await self._extract(address, reply)
        except Unreadable as error:
            kept = _note(VisitOutcome.REFUSED, reply, note.text_hash if note else None)
            return refusal(f"The page cannot be read: {error.message}.", kept)
        facts, text = page.facts, page.text
        other = facts.canonical if facts.canonical != address else None
        found = Visit(VisitOutcome.HIDDEN, note=_note(VisitOutcome.HIDDEN, reply), links=facts.links)
        if not facts.rules.index:
            return found
        if text is None:
            kept = _note(VisitOutcome.REFUSED, reply, note.text_hash if note else None)
            return refusal(f"The page cannot be read: {page.problem}.", kept, links=facts.links)
        if await self._soft_errors.contains(address, text.text):
            return Visit(VisitOutcome.MISSING, note=_note(VisitOutcome.MISSING, reply))
        is_html = text.media_type in HTML
        return Visit(
            VisitOutcome.LISTED,
            note=_note(VisitOutcome.LISTED, reply, text.text_hash, other),
            text_hash=text.text_hash,
            content=text.text.encode() if is_html else reply.body,
            media_type=MARKDOWN if is_html else reply.headers.get("content-type") or text.media_type,
            title=text.title,
            links=facts.links,
            target=other,
        )

    async def _extract(self, address: str, reply: WebReply) -> WebPageReading:
        with self._texts.scratch(reply.body) as path:
            return await self._extractor(
                path,
                address=address,
                filename=filename_of(address),
                media_type=reply.headers.get("content-type"),
                robots=reply.headers.get("x-robots-tag", ""),
                is_html=_media_type(reply) in HTML,
            )

    async def _text_at(self, address: str) -> str | None:
        """Return the text that a server sends for an address, if it sends one."""
        if not self._visitor.permits(address) or not await self._visitor.allows(address):
            return None
        try:
            reply = await self._visitor.get(address, wants=partial(_is_wanted, address))
            page = await self._extract(address, reply) if reply.wanted else None
        except (PageError, Unreadable):
            return None
        return page.text.text if page and page.text else None


def refusal(reason: str, note: Note | None, *, links: tuple[str, ...] = (), fault: bool = False) -> Visit:
    """Return the visit of a page that cannot be read now. It keeps its text and, unless they were read, its links."""
    text_hash = note.text_hash if note else None
    return Visit(VisitOutcome.REFUSED, reason, note, text_hash, links=links, unchanged=not links, fault=fault)


def filename_of(address: str) -> str | None:
    """Return the last segment of an address's path, which may show the format."""
    return unquote(basename(path_of(address).partition("?")[0])) or None


def _redirected(address: str, reply: WebReply, note: Note | None) -> Visit:
    target = reply.redirect_from(address)
    if target is None:
        return refusal(f"The server answers with status {reply.status}, without a usable address.", note)
    return Visit(VisitOutcome.MOVED, note=Note(VisitOutcome.MOVED), target=target)


def _note(outcome: VisitOutcome, reply: WebReply, text_hash: str | None = None, canonical: str | None = None) -> Note:
    return Note(
        outcome,
        text_hash,
        etag=reply.headers.get("etag"),
        modified=reply.headers.get("last-modified"),
        canonical=digest_of(canonical) if canonical else None,
    )


def _media_type(reply: WebReply) -> str:
    return reply.headers.get("content-type", "").partition(";")[0].strip().lower()


def _is_wanted(address: str, reply: WebReply) -> bool:
    """Return whether a reply is a document; if its type says nothing, the name decides."""
    media_type = _media_type(reply)
    if media_type in ("", "application/octet-stream", "binary/octet-stream"):
        return address.partition("?")[0].lower().endswith(_NAMED)
    return media_type in _DOCUMENTS or media_type.startswith(_FAMILIES)


def _unsupported(reply: WebReply) -> str:
    return f"Pages of the type {_media_type(reply)[:100] or 'unknown'} are not read."
