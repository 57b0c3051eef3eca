"""SQL that adds the metadata fields of a document to its collection; see `shared.domain.corpus.metadata_fields`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.domain.corpus.metadata_fields import MOST_KNOWN_FIELDS

FRAGMENTS: Mapping[str, str] = {
    # The fields of a collection `l` with added ones.
    "more_fields": (
        "ARRAY(SELECT DISTINCT f FROM unnest(l.metadata_fields || CAST(:fields AS text[])) f ORDER BY f LIMIT :most)"
    ),
    # Whether there is anything to add: nearly always, no row is written.
    "lacks_fields": (
        "(NOT l.metadata_fields @> CAST(:fields AS text[]) AND cardinality(l.metadata_fields) < CAST(:most AS int))"
    ),
}


def added(fields: Iterable[str]) -> dict[str, Any]:
    """Return the parameters of these fragments."""
    return {"fields": sorted(fields), "most": MOST_KNOWN_FIELDS}
