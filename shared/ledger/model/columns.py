"""The columns of rows, for statements that return complete rows.

A statement does not return `*`: its result would change when the next release adds a column, and PostgreSQL then
rejects the plans that the connections of running processes have cached.
"""

from __future__ import annotations

from collections.abc import Mapping

_COLLECTION = (
    "id, tenant, name, build, build_state, filled_until, live_until, gate, options, embedding_model, index_name,"
    " calibration, calibrating_until, languages, created_at, damage, damaged_at"
)
_DOCUMENT = (
    "d.id, d.public_id, d.tenant, d.collection_id, d.external_id, d.version, d.live_version, d.state, d.error,"
    " d.created_at, d.updated_at, d.reader"
)
_ERASURE = "id, tenant, collection, document_id, collection_ids, document_ids, deleted, started_at, finished_at"

FRAGMENTS: Mapping[str, str] = {
    "collection_columns": _COLLECTION,
    "document_columns": _DOCUMENT,  # of a document `d`
    "erasure_columns": _ERASURE,
    # The content of a picture, chunk_contents t, with its description, of completions p.
    "described": "jsonb_set(t.content, ARRAY['text'], to_jsonb(p.text))",
}
