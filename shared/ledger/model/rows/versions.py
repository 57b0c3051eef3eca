"""Rows of versions of documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from shared.ledger.model.rows.encoding import encoded


def version_rows(versions: Iterable[tuple[UUID, int]]) -> dict[str, Any]:
    """Return documents by their ids, each with a version."""
    return encoded({"id": document_id, "version": version} for document_id, version in versions)
