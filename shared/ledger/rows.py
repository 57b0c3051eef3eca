"""Rows of the ledger as records, and outcomes as the arrays that statements take."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import RowMapping

from shared.domain.errors import Permanent
from shared.domain.outcomes import FailedAttempt, GenerateOutcome, IndexOutcome, ParseOutcome
from shared.domain.records import (
    AcceptedQuestion,
    ChunkToGenerate,
    ChunkToIndex,
    DocumentToParse,
    Lease,
    NewChunk,
    ReadyQuestion,
)
from shared.domain.retry import Dead, Retry
from shared.ledger.collections import options_of


def as_json(value: object) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:
        raise Permanent("a text is not valid Unicode") from error


def lease(row: RowMapping) -> Lease:
    return Lease(id=row["id"], version=row["version"], token=row["lease_token"])


def claimed_document(row: RowMapping) -> DocumentToParse:
    given = row["ready_questions"]
    return DocumentToParse(
        lease=lease(row),
        tenant=row["tenant"],
        collection_id=row["collection_id"],
        options=options_of(row["options"]),
        upload=row["upload"],
        filename=row["filename"],
        title=row["title"],
        media_type=row["media_type"],
        ready_questions=None if given is None else tuple(ReadyQuestion(**q) for q in given),
        attempts=row["attempts"],
        lost_leases=row["lost_leases"],
        live_version=row["live_version"],
    )


def chunk_to_generate(row: RowMapping) -> ChunkToGenerate:
    return ChunkToGenerate(
        lease=lease(row),
        document_id=row["document_id"],
        tenant=row["tenant"],
        options=options_of(row["options"]),
        text=row["text"],
        title=row["title"],
        heading_path=tuple(row["heading_path"]),
        content_key=row["content_key"],
        attempts=row["attempts"],
        lost_leases=row["lost_leases"],
    )


def chunk_to_index(row: RowMapping) -> ChunkToIndex:
    values = dict(row)
    lease = Lease(values.pop("id"), values.pop("version"), values.pop("lease_token"))
    span = (values.pop("span_start"), values.pop("span_end"))
    values["options"] = options_of(values["options"])
    section = (values.pop("section_start"), values.pop("section_end"))
    values["heading_path"] = tuple(values["heading_path"])
    values["questions"] = tuple(values["questions"])
    users = zip(values.pop("accepted_ids"), values.pop("accepted_questions"), strict=True)
    values["accepted"] = tuple(AcceptedQuestion(*own) for own in users)
    return ChunkToIndex(lease=lease, span=span, section=None if section[0] is None else section, **values)


def parsed_arrays(parsed: Sequence[ParseOutcome]) -> dict[str, Any]:
    return {
        "ids": [p.document.lease.id for p in parsed],
        "tokens": [p.document.lease.token for p in parsed],
        "states": ["generating" if p.document.ready_questions is None else "indexing" for p in parsed],
        "titles": [p.title for p in parsed],
        "media_types": [p.media_type for p in parsed],
    }


def chunk_arrays(chunks: Sequence[tuple[UUID, NewChunk]]) -> dict[str, Any]:
    return {
        "documents": [document_id for document_id, _ in chunks],
        "ids": [c.id for _, c in chunks],
        "ordinals": [c.ordinal for _, c in chunks],
        "texts": [c.text for _, c in chunks],
        "headings": [as_json(c.heading_path) for _, c in chunks],
        "starts": [c.span[0] for _, c in chunks],
        "ends": [c.span[1] for _, c in chunks],
        "pages": [c.page for _, c in chunks],
        "section_starts": [c.section and c.section[0] for _, c in chunks],
        "section_ends": [c.section and c.section[1] for _, c in chunks],
        "keys": [c.content_key for _, c in chunks],
        "ready_questions": [None if c.ready_questions is None else as_json(c.ready_questions) for _, c in chunks],
    }


def completion_arrays(paid: Sequence[GenerateOutcome]) -> dict[str, Any]:
    return {
        "keys": [p.chunk.content_key for p in paid],
        "tenants": [p.chunk.tenant for p in paid],
        "models": [p.model for p in paid],
        "questions": [as_json(p.questions) for p in paid],
        "prompts": [p.usage.prompt_tokens for p in paid],
        "completions": [p.usage.completion_tokens for p in paid],
        "calls": [p.calls for p in paid],
    }


def lease_arrays(leases: Sequence[Lease]) -> dict[str, Any]:
    return {
        "ids": [lease.id for lease in leases],
        "versions": [lease.version for lease in leases],
        "tokens": [lease.token for lease in leases],
    }


def paid_arrays(paid: Sequence[GenerateOutcome]) -> dict[str, Any]:
    return lease_arrays([p.chunk.lease for p in paid]) | {
        "prompts": [p.usage.prompt_tokens for p in paid],
        "completions": [p.usage.completion_tokens for p in paid],
        "calls": [p.calls for p in paid],
    }


def indexed_arrays(outcomes: Sequence[IndexOutcome]) -> dict[str, Any]:
    return lease_arrays([o.chunk.lease for o in outcomes]) | {
        "errors": [o.error for o in outcomes],
        "questions": [as_json(o.questions) for o in outcomes],
        "passed": [o.passed for o in outcomes],
    }


def failure_arrays(failures: Sequence[FailedAttempt]) -> dict[str, Any]:
    return lease_arrays([f.lease for f in failures]) | {
        "errors": [f.decision.reason for f in failures],
        "dead": [isinstance(f.decision, Dead) for f in failures],
        "after": [f.decision.after if isinstance(f.decision, Retry) else timedelta() for f in failures],
        "burned": [int(f.decision.burns_attempt) if isinstance(f.decision, Retry) else 1 for f in failures],
        "prompts": [f.usage.prompt_tokens for f in failures],
        "completions": [f.usage.completion_tokens for f in failures],
        "calls": [f.calls for f in failures],
    }
