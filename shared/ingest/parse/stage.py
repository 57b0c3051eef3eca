"""Parse: a document's bytes become chunks.

A document with pages without a text layer is parsed twice: first its pages are found, and read by other workers, then
it is divided with their texts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path

import structlog

from shared.broker.wakeups import Wakeups
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.filterable import require_fit
from shared.domain.corpus.ids import chunk_id
from shared.domain.errors import ForeaskError, Permanent, Unreadable
from shared.domain.retry import RetryPolicy
from shared.domain.stages import poison
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.pages import PAGE_DPI, NewPage, OcrData, PagesOutcome, page_key
from shared.domain.stages.parsing import DocumentToParse, NewChunk, ParseOutcome
from shared.domain.stages.work import Lease, LeaseExtension
from shared.ingest.drain import Stage
from shared.ingest.generate.generator import content_key
from shared.ingest.generate.types import GenerationOptions
from shared.ingest.moved_uploads import decide_about_upload
from shared.ingest.options import IngestDefaults
from shared.ingest.parse.document import PagesToRead, ParsedDocument, Reading
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.ingest.parse.isolation.small_files import SMALL_BYTES
from shared.ledger.work.pages import Pages, ReadPages
from shared.ledger.work.parsing import ParseWork, is_large
from shared.process.clock import elapsed_seconds
from shared.process.telemetry.metrics import PARSE_SECONDS, timed
from shared.storage.fetching import fetched_or_read
from shared.storage.references import Originals, is_reference
from shared.storage.uploads import Uploads, size_of_part

_SLOW_SECONDS = 2.0  # after which other workers may parse the next documents sooner, even small ones
_FEW_CHUNKS = 20  # their keys take less time than a change of threads
log = structlog.get_logger()


def _no_pictures(_: bool | None) -> int:
    return 0


@dataclass(eq=False)
class ParseStage(Stage[DocumentToParse, ParseOutcome | PagesOutcome | FailedAttempt]):
    """The stage of a parse worker.

    Args:
        slots: maximum documents in progress, if all are small.
        slots_of_large: maximum documents in progress otherwise: another worker may have a process for them.
        reserved: number of these slots that one tenant alone cannot have: its slow files delay no other tenant.
        max_chunks: maximum chunks of a document.
        defaults: default options of collections.
        originals: reads uploads whose bytes remain in their source.
        model: the language model, which is part of the keys of paid questions.
        pages: the ledger's pages.
        ocr: returns the OCR engine with the languages of an option `ocr_languages`, or of the settings; None: OCR is
            off, and pages without a text layer are not looked for.
        pictures: returns the maximum number of pictures of a document that are described, for an option `captions`.
    """

    name = "parse"
    linger = timedelta(milliseconds=50)

    slots: int
    slots_of_large: int
    reserved: int
    max_chunks: int
    defaults: IngestDefaults
    work: ParseWork
    sandbox: ParsingSandbox
    uploads: Uploads
    originals: Originals
    wakeups: Wakeups
    model: str
    policy: RetryPolicy
    pages: Pages
    ocr: Callable[[str | None], OcrData] | None = None
    pictures: Callable[[bool | None], int] = _no_pictures

    def __post_init__(self) -> None:
        self._room = self.slots_of_large  # documents that may be in progress now

    async def claim(self, limit: int, held: Mapping[str, int]) -> list[DocumentToParse]:
        """Claim documents: few at first, and twice as many after each claim of small documents only.

        A tenant with many of them may hold more than there is room for after its first large document. The reserved
        slots are free for others even then.
        """
        of_others = sum(held.values()) - max(held.values(), default=0)
        limit = min(limit, max(self._room - sum(held.values()), self.reserved - of_others))
        if limit <= 0:
            return []
        await self.uploads.require()
        most = self._room - self.reserved
        claimed = await self.work.claim(limit, held=held, most=most)
        holding = Counter(held) + Counter(document.tenant for document in claimed)
        if claimed and (len(claimed) == limit or max(holding.values()) >= most):
            self.wakeups.wake("parse")  # another worker may have slots for these tenants
        large = [document for document in claimed if not _is_small(document)]
        self._room = self.slots_of_large if large else min(self.slots, 2 * self._room)
        if excess := large[self.slots_of_large :]:
            await self.work.release([document.lease for document in excess])
        return [document for document in claimed if document not in excess]

    async def claim_suspect(self) -> list[DocumentToParse]:
        await self.uploads.require()
        return await self.work.claim(1, suspects=True)

    async def process(
        self, document: DocumentToParse, require_lease: Callable[[], None]
    ) -> ParseOutcome | PagesOutcome | FailedAttempt:
        """Divide a document into chunks, each with the key of its paid questions, or find its pages to be read first.

        It pays nothing, so it does not check its lease.
        """
        del require_lease
        try:
            poison.check(document.lost_leases)
            require_fit(document.options.filterable, document.metadata)  # the API may not have seen the declaration yet
            known = await self._known_pages(document)
            parsed = await self._read(document, known)
            if isinstance(parsed, PagesOutcome):
                return parsed
            if not parsed.chunks:
                raise Unreadable(_no_text(known))
        except ForeaskError as error:
            if isinstance(error, Unreadable) and error.detail:
                _log_refusal(document, error)
            lease = document.lease
            has_moved = partial(self.pages.has_moved, lease.id, lease.version, document.upload)
            return FailedAttempt(lease, await decide_about_upload(error, document.attempts, self.policy, has_moved))
        options = self.defaults.generation_of(document.options)
        make = partial(new_chunks, document, parsed, options, self.model)
        # The event loop must not block while the keys of many chunks are computed.
        chunks = make() if len(parsed.chunks) <= _FEW_CHUNKS else await asyncio.to_thread(make)
        return ParseOutcome(document, parsed.title, parsed.media_type, chunks, parsed.completeness)

    async def _known_pages(self, document: DocumentToParse) -> ReadPages:
        return await self.pages.of_version(document.lease) if document.has_pages else ReadPages({}, {})

    async def _read(self, document: DocumentToParse, known: ReadPages) -> ParsedDocument | PagesOutcome:
        """Return the file's text, or its pages whose texts are missing."""
        async with fetched_or_read(document.upload, self.uploads, self.originals) as file:
            started = elapsed_seconds()
            with timed(PARSE_SECONDS):
                parsed = await self._parsed(document, known, file)
            if elapsed_seconds() - started > _SLOW_SECONDS:
                self._room = self.slots_of_large
            if isinstance(parsed, ParsedDocument):
                return parsed
            missing = [number for number in parsed.numbers if number not in known.texts]
            if not missing:
                raise Unreadable("the parser asks for pages that have been read")
            return await asyncio.to_thread(self._pages_of, document, missing, file)

    async def _parsed(
        self, document: DocumentToParse, known: ReadPages, file: Path | bytes
    ) -> ParsedDocument | PagesToRead:
        """Parse a file with its pictures, or without them if they need too much time or memory.

        Raises:
            Permanent: the collection's pictures should be described, but no library can read them.
        """
        parse = partial(
            self.sandbox.parse,
            file,
            filename=document.filename,
            media_type=document.media_type,
            options=self.defaults.chunking_of(document.options),
            max_chunks=self.max_chunks,
            questions=document.ready_questions or (),
            tenant=document.tenant,
            reading=Reading(known.texts) if self.ocr or document.has_pages else None,
        )
        pictures = 0 if document.ready_questions is not None else self.pictures(document.options.captions)
        if not pictures:
            return await parse()
        try:
            return await parse(pictures=pictures)
        except Unreadable as error:
            parsed = await parse()
            log.warning("pictures.unread", document_id=str(document.lease.id), reason=error.message)
            return parsed

    def _pages_of(self, document: DocumentToParse, numbers: Sequence[int], file: Path | bytes) -> PagesOutcome:
        """Return pages to be read, each with the key of its text; the file's hash is computed only for these files.

        Raises:
            Permanent: OCR was turned off after other pages of the document had been found, or data is missing.
        """
        if self.ocr is None:
            raise Permanent(f"Page {numbers[0]:,} cannot be read: OCR is off. Turn it on, and retry the document.")
        ocr = self.ocr(document.options.ocr_languages)
        key = partial(
            page_key,
            document.tenant,
            _hash_of(file),
            engine=ocr.engine,
            data=ocr.data,
            languages=ocr.languages,
            dpi=PAGE_DPI,
        )
        return PagesOutcome(document, [NewPage(number, key(number)) for number in numbers], ocr.languages)

    async def settle(self, outcomes: Sequence[ParseOutcome | PagesOutcome | FailedAttempt]) -> None:
        failed = [o for o in outcomes if isinstance(o, FailedAttempt)]
        if failed:
            await self.work.settle_failed(failed)
        parsed = [o for o in outcomes if isinstance(o, ParseOutcome)]
        if parsed:
            await self.work.settle(parsed)
            self.wakeups.wake("index")
        scanned = [o for o in outcomes if isinstance(o, PagesOutcome)]
        if scanned:
            complete = await self.pages.settle_parsed(scanned)
            self.wakeups.wake("read")
            if complete:
                self.wakeups.wake("parse")

    def leases_of(self, document: DocumentToParse) -> list[Lease]:
        return [document.lease]

    def describe(self, document: DocumentToParse) -> dict[str, str]:
        ids = {"document_id": str(document.lease.id), "collection_id": str(document.collection_id)}
        return ids | {"tenant": document.tenant}

    def traced(self, document: DocumentToParse) -> dict[str, dict[str, str]]:
        return {document.traceparent: self.describe(document)} if document.traceparent else {}

    async def extend(self, leases: Sequence[Lease]) -> LeaseExtension:
        return await self.work.extend(leases)

    async def release(self, leases: Sequence[Lease], called: Sequence[Lease] = ()) -> None:
        del called
        await self.work.release(leases)

    async def expire(self, leases: Sequence[Lease]) -> None:
        await self.work.release(leases, lost=True)

    def full(self) -> None:
        self.wakeups.wake("parse")

    def is_large(self, outcome: ParseOutcome | PagesOutcome | FailedAttempt) -> bool:
        return isinstance(outcome, ParseOutcome) and is_large(outcome)


def _is_small(document: DocumentToParse) -> bool:
    size = None if is_reference(document.upload) else size_of_part(document.upload)
    return size is not None and size <= SMALL_BYTES


def _hash_of(file: Path | bytes) -> bytes:
    if isinstance(file, bytes):
        return sha256(file).digest()
    with file.open("rb") as opened:
        return file_digest(opened, "sha256").digest()


def _no_text(known: ReadPages) -> str:
    """Return why a document has no text."""
    if not known.unread:
        return "The document has no text."
    first = next(iter(known.unread.values()))
    return f"The document has no text: {len(known.unread)} of its pages could not be read. The first one: {first}"


def _log_refusal(document: DocumentToParse, error: Unreadable) -> None:
    log.warning(
        "document.refused",
        document_id=str(document.lease.id),
        tenant=document.tenant,
        reason=error.message,
        parser_error=error.detail,
    )


def new_chunks(
    document: DocumentToParse, parsed: ParsedDocument, options: GenerationOptions, model: str
) -> list[NewChunk]:
    """Return the rows of a document's chunks, each with the key of its paid questions."""
    ready_questions = _ready_questions(document, parsed)
    occurrences: Counter[str] = Counter()
    chunks = []
    for ordinal, parsed_content in enumerate(parsed.chunks):
        content = replace(parsed_content, title=document.title or parsed.title)
        identity = content.text if content.picture is None else f"picture {content.picture}"
        chunks.append(
            NewChunk(
                id=chunk_id(document.collection_id, document.lease.id, identity, occurrences[identity]),
                ordinal=ordinal,
                content=content,
                content_key=content_key(document.tenant, model, content, options),
                ready_questions=_questions_of(content, None if ready_questions is None else ready_questions[ordinal]),
                picture=parsed.pictures.get(content.picture or ""),
            )
        )
        occurrences[identity] += 1
    return chunks


def _questions_of(content: ChunkContent, ready_made: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return a chunk's questions; none for an uncertain text, because questions about misread words mislead."""
    return () if ready_made is None and content.uncertain else ready_made


def _ready_questions(document: DocumentToParse, parsed: ParsedDocument) -> list[tuple[str, ...]] | None:
    """Return the questions submitted with the document, by chunk; None if a model generates them."""
    if document.ready_questions is None:
        return None
    questions: list[list[str]] = [[] for _ in parsed.chunks]
    for question, index in zip(document.ready_questions, parsed.question_indexes, strict=True):
        questions[index].append(question.text)
    return [tuple(of_chunk) for of_chunk in questions]
