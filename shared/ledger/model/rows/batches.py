"""Rows of lines of batches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from shared.domain.stages.batches import PlannedLine
from shared.domain.stages.work import Lease
from shared.ledger.model.rows.attempts import lease_columns
from shared.ledger.model.rows.encoding import bytea, encoded


def planned_rows(lines: Sequence[PlannedLine]) -> dict[str, Any]:
    return encoded(
        lease_columns(line.lease)
        | {
            "document_id": line.document_id,
            "collection_id": line.collection_id,
            "content_key": bytea(line.content_key),
            "questions": line.questions,
            "context": line.context,
        }
        for line in lines
    )


def failed_line_rows(leases: Sequence[Lease], live: Collection[int]) -> dict[str, Any]:
    """Return failed lines; `live` marks a line with a token in `live`."""
    return encoded(lease_columns(lease) | {"live": lease.token in live} for lease in leases)
