"""Parse: a document's bytes become chunks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID

from shared.broker.wakeups import Doorbell
from shared.domain import poison
from shared.domain.errors import ForeaskError, Unreadable
from shared.domain.outcomes import Failed, Parsed
from shared.domain.records import ClaimedDocument, CollectionOptions, NewChunk
from shared.domain.retry import RetryPolicy, decide
from shared.ingest.drain import Stage
from shared.ingest.generate import AskingOptions, Subject, content_key
from shared.ingest.generate.options import asking_options
from shared.ingest.parse.document import ChunkingOptions, ParsedDocument
from shared.ingest.parse.questions import assign
from shared.ingest.parse.sandbox import ParsingSandbox
from shared.ledger.work import Work
from shared.settings import Settings
from shared.storage.uploads import Uploads
from shared.vectors.points import chunk_id


@dataclass(frozen=True, slots=True)
class Parser:
    """What the stage needs."""

    settings: Settings
    work: Work
    sandbox: ParsingSandbox
    uploads: Uploads
    doorbell: Doorbell
    model: str
    policy: RetryPolicy


def parsing_stage(parser: Parser) -> Stage[ClaimedDocument, Parsed | Failed]:
    work = parser.work
    return Stage(
        name="parse",
        slots=parser.settings.parse_workers * 4,  # some wait for a free child while others are committed
        linger=timedelta(milliseconds=50),
        claim=work.claim_documents,
        claim_suspect=partial(work.claim_documents, 1, suspects=True),
        work=partial(parse, parser),
        settle=partial(_settle, parser),
        leases_of=lambda document: [document.lease],
        extend=partial(work.extend, "documents"),
        give_back=partial(work.give_back, "documents"),
        full=lambda: parser.doorbell.ring("parse"),
    )


async def parse(parser: Parser, document: ClaimedDocument) -> Parsed | Failed:
    """Divide a document into chunks, each with the key under which its questions are paid for."""
    try:
        poison.check(document.kills)
        parsed = await parser.sandbox.parse(
            parser.uploads.path(document.upload),
            filename=document.filename,
            media_type=document.media_type,
            options=_chunking(parser.settings, document.options),
        )
        if not parsed.chunks:
            raise Unreadable("The document has no text.")
    except ForeaskError as error:
        return Failed(document.lease, decide(error, document.attempts, parser.policy, random.random))
    options = asking_options(parser.settings, document.options, parser.model)
    return Parsed(document, parsed.title, parsed.media_type, _new_chunks(document, parsed, options, parser.model))


async def _settle(parser: Parser, outcomes: Sequence[Parsed | Failed]) -> None:
    failed = [o for o in outcomes if isinstance(o, Failed)]
    if failed:
        await parser.work.settle_failed_documents(failed)
    parsed = [o for o in outcomes if isinstance(o, Parsed)]
    if parsed:
        await parser.work.settle_parsed(parsed)
        parser.doorbell.ring("ask")
    if any(o.document.given_questions is not None for o in parsed):
        parser.doorbell.ring("index")


def _chunking(settings: Settings, options: CollectionOptions) -> ChunkingOptions:
    most = options.chunk_max_chars or settings.chunk_max_chars
    overlap, sections = options.chunk_overlap_chars, options.section_max_chars
    return ChunkingOptions(
        max_chars=most,
        overlap_chars=settings.chunk_overlap_chars if overlap is None else overlap,
        # The settings may have changed since the collection's options were checked against them.
        section_max_chars=None if sections is None else max(sections, most),
    )


def _new_chunks(
    document: ClaimedDocument, parsed: ParsedDocument, options: AskingOptions, model: str
) -> list[NewChunk]:
    title = document.title or parsed.title
    given = _given(document, parsed)
    occurrences: Counter[str] = Counter()
    chunks = []
    for number, chunk in enumerate(parsed.chunks):
        subject = Subject(chunk.text, title, chunk.heading_path)
        chunks.append(
            NewChunk(
                id=_chunk_id(document, chunk.text, occurrences[chunk.text]),
                ordinal=chunk.ordinal,
                text=chunk.text,
                heading_path=chunk.heading_path,
                span=chunk.span,
                page=chunk.page,
                section=chunk.section,
                content_key=content_key(document.tenant, model, subject, options),
                given_questions=given[number] if given is not None else None,
            )
        )
        occurrences[chunk.text] += 1
    return chunks


def _chunk_id(document: ClaimedDocument, text: str, occurrence: int) -> UUID:
    return chunk_id(document.collection_id, document.lease.id, text, occurrence)


def _given(document: ClaimedDocument, parsed: ParsedDocument) -> list[tuple[str, ...]] | None:
    if document.given_questions is None:
        return None
    return [tuple(question.text for question in own) for own in assign(document.given_questions, parsed.chunks)]
