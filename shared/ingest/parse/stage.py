"""Parse: a document's bytes become chunks."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import structlog

from shared.broker.wakeups import Wakeups
from shared.domain import poison
from shared.domain.errors import ForeaskError, Unreadable
from shared.domain.filterable import require_fit
from shared.domain.ids import chunk_id
from shared.domain.outcomes import FailedAttempt, ParseOutcome
from shared.domain.retry import RetryPolicy, decide
from shared.domain.work import DocumentToParse, NewChunk
from shared.ingest.drain import Stage
from shared.ingest.generate import GenerationOptions, content_key
from shared.ingest.options import IngestDefaults
from shared.ingest.parse.document import ParsedDocument
from shared.ingest.parse.sandbox import ParsingSandbox
from shared.ledger.work.work import Work
from shared.process.metrics import PARSE_SECONDS, timed
from shared.storage.uploads import Uploads

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Parser:
    """The dependencies of the stage.

    Args:
        slots: maximum documents in progress.
        max_chunks: maximum chunks of a document.
        defaults: default options of collections.
        model: the language model, which is part of the keys of paid questions.
    """

    slots: int
    max_chunks: int
    defaults: IngestDefaults
    work: Work
    sandbox: ParsingSandbox
    uploads: Uploads
    wakeups: Wakeups
    model: str
    policy: RetryPolicy


def parse_stage(parser: Parser) -> Stage[DocumentToParse, ParseOutcome | FailedAttempt]:
    work = parser.work
    return Stage(
        name="parse",
        slots=parser.slots,
        linger=timedelta(milliseconds=50),
        claim=partial(_claim, parser),
        claim_suspect=partial(_claim, parser, 1, suspects=True),
        work=lambda document, _: parse(parser, document),
        settle=partial(_settle, parser),
        leases_of=lambda document: [document.lease],
        describe=_describe,
        traced=lambda document: {document.traceparent: _describe(document)} if document.traceparent else {},
        extend=partial(work.extend, "documents"),
        release=lambda leases, _=(): work.release("documents", leases),
        expire=partial(work.release, "documents", lost=True),
        full=lambda: parser.wakeups.wake("parse"),
    )


def _describe(document: DocumentToParse) -> dict[str, str]:
    ids = {"document_id": str(document.lease.id), "collection_id": str(document.collection_id)}
    return ids | {"tenant": document.tenant}


async def _claim(parser: Parser, limit: int, *, suspects: bool = False) -> list[DocumentToParse]:
    await parser.uploads.require()
    return await parser.work.claim_documents(limit, suspects=suspects)


async def parse(parser: Parser, document: DocumentToParse) -> ParseOutcome | FailedAttempt:
    """Divide a document into chunks, each with the key of its paid questions."""
    try:
        poison.check(document.lost_leases)
        require_fit(document.options.filterable, document.metadata)  # the API may not have seen the declaration yet
        parsed = await _read(parser, document)
        if not parsed.chunks:
            raise Unreadable("The document has no text.")
    except ForeaskError as error:
        if isinstance(error, Unreadable) and error.detail:
            _log_refusal(document, error)
        return FailedAttempt(document.lease, decide(error, document.attempts, parser.policy, random.random))
    options = parser.defaults.generation_of(document.options)
    # In a thread: the event loop must not block while the keys of many chunks are computed.
    chunks = await asyncio.to_thread(new_chunks, document, parsed, options, parser.model)
    return ParseOutcome(document, parsed.title, parsed.media_type, chunks)


async def _read(parser: Parser, document: DocumentToParse) -> ParsedDocument:
    async with parser.uploads.fetched(document.upload) as path:
        with timed(PARSE_SECONDS):
            return await parser.sandbox.parse(
                path,
                filename=document.filename,
                media_type=document.media_type,
                options=parser.defaults.chunking_of(document.options),
                max_chunks=parser.max_chunks,
                questions=document.ready_questions or (),
                tenant=document.tenant,
            )


def _log_refusal(document: DocumentToParse, error: Unreadable) -> None:
    log.warning(
        "document.refused",
        document_id=str(document.lease.id),
        tenant=document.tenant,
        reason=error.message,
        parser_error=error.detail,
    )


async def _settle(parser: Parser, outcomes: Sequence[ParseOutcome | FailedAttempt]) -> None:
    failed = [o for o in outcomes if isinstance(o, FailedAttempt)]
    if failed:
        await parser.work.settle_failed_documents(failed)
    parsed = [o for o in outcomes if isinstance(o, ParseOutcome)]
    if parsed:
        await parser.work.settle_parsed(parsed)
        parser.wakeups.wake("index")


def new_chunks(
    document: DocumentToParse, parsed: ParsedDocument, options: GenerationOptions, model: str
) -> list[NewChunk]:
    """Return the rows of a document's chunks, each with the key of its paid questions."""
    ready_questions = _ready_questions(document, parsed)
    occurrences: Counter[str] = Counter()
    chunks = []
    for ordinal, parsed_content in enumerate(parsed.chunks):
        content = replace(parsed_content, title=document.title or parsed.title)
        chunks.append(
            NewChunk(
                id=chunk_id(document.collection_id, document.lease.id, content.text, occurrences[content.text]),
                ordinal=ordinal,
                content=content,
                content_key=content_key(document.tenant, model, content, options),
                ready_questions=None if ready_questions is None else ready_questions[ordinal],
            )
        )
        occurrences[content.text] += 1
    return chunks


def _ready_questions(document: DocumentToParse, parsed: ParsedDocument) -> list[tuple[str, ...]] | None:
    """Return the questions submitted with the document, by chunk; None if a model generates them."""
    if document.ready_questions is None:
        return None
    questions: list[list[str]] = [[] for _ in parsed.chunks]
    for question, index in zip(document.ready_questions, parsed.question_indexes, strict=True):
        questions[index].append(question.text)
    return [tuple(of_chunk) for of_chunk in questions]
