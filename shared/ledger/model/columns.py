"""The columns of rows, for statements that return complete rows.

A statement does not return `*`: its result would change when the next release adds a column, and PostgreSQL then
rejects the plans that the connections of running processes have cached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

_COLLECTION = (
    "id, tenant, name, build, build_state, filled_until, live_until, gate, description, options, embedding_model,"
    " index_name, calibration, calibrating_until, languages, metadata_fields, created_at, damage, damaged_at"
)
_DOCUMENT = (
    "d.id, d.public_id, d.tenant, d.collection_id, d.external_id, d.version, d.live_version, d.state, d.error,"
    " d.created_at, d.updated_at, d.reader"
)
_ERASURE = (
    "id, tenant, scope, collection, public_ids, texts, collection_ids, document_ids, deleted, started_at, finished_at"
)


def is_given(row: str) -> str:
    """Return the SQL condition that the statement has a row's id among its parameters.

    Statements that join their rows to a table say so, too: PostgreSQL expects a hundred rows in a JSON array, and would
    rather read the whole index of a table that was small when it made the plan.
    """
    return f"{row}.id = ANY(CAST(:ids AS uuid[]))"


FRAGMENTS: Mapping[str, str | Callable[..., str]] = {
    "is_given": is_given,
    "collection_columns": _COLLECTION,
    "document_columns": _DOCUMENT,  # of a document `d`
    "erasure_columns": _ERASURE,
    # The content of a picture, chunk_contents t, with its description, of completions p.
    "described": "jsonb_set(t.content, ARRAY['text'], to_jsonb(p.text))",
}
