"""Rows of pages without a text layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.domain.stages.pages import PageOutcome, PagesOutcome, PageText, PageToRead
from shared.ledger.model.rows.attempts import lease_columns, lease_of
from shared.ledger.model.rows.encoding import bytea, encoded
from shared.ledger.postgres.connections import Row


def page_rows(outcome: PagesOutcome) -> dict[str, Any]:
    """Return the pages of a document."""
    languages = "+".join(outcome.languages)
    return encoded(
        {
            "document_id": outcome.document.lease.id,
            "number": page.number,
            "key": bytea(page.key),
            "languages": languages,
        }
        for page in outcome.pages
    )


def page_to_read(row: Row) -> PageToRead:
    return PageToRead(
        lease=lease_of(row),
        document_id=row["document_id"],
        tenant=row["tenant"],
        collection_id=row["collection_id"],
        upload=row["upload"],
        number=row["number"],
        key=row["key"],
        languages=tuple(row["languages"].split("+")),
        attempts=row["attempts"],
        lost_leases=row["lost_leases"],
        has_text=row["has_text"],
        traceparent=row["traceparent"],
    )


def read_rows(outcomes: Sequence[PageOutcome]) -> dict[str, Any]:
    return encoded(
        lease_columns(outcome.page.lease)
        | {"key": bytea(outcome.page.key), "tenant": outcome.page.tenant}
        | _text(outcome.text)
        for outcome in outcomes
    )


def _text(text: PageText | None) -> dict[str, Any]:
    if text is None:
        return {"text": None, "words": None, "confidence": None}
    return {"text": text.text, "words": text.words, "confidence": text.confidence}
