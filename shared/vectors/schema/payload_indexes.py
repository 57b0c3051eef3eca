"""The payload indexes of a collection: some from the start, others once a point or a filter needs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.vectors.schema import fields

Schema = Mapping[str, Any]

# By default Qdrant builds graphs for the values of a field, which took five times the CPU.
_KEYWORD: Schema = {"type": "keyword", "enable_hnsw": False}
_INTEGER: Schema = {"type": "integer", "enable_hnsw": False}
_OF_FIELDS: Mapping[str, Schema] = {
    "keyword": _KEYWORD,
    "float": {"type": "float", "enable_hnsw": False},
    "datetime": {"type": "datetime", "enable_hnsw": False},
}
REQUIRED: Mapping[str, Schema] = {
    "group": {"type": "keyword", "is_tenant": True},
    "tenant": _KEYWORD,
    "document_id": _KEYWORD,
    "chunk_id": _KEYWORD,
    fields.READERS: {**_INTEGER, "lookup": True, "range": False},
    "version": _INTEGER,
    "token": _INTEGER,
    "hidden": {"type": "bool", "enable_hnsw": False},
}
"""The indexes of every collection."""
ON_DEMAND: Mapping[str, Schema] = {
    **{key: _OF_FIELDS[kind] for key, kind in fields.KEYS.items()},
    "section.start": _INTEGER,
    "section.end": _INTEGER,
    "source": _KEYWORD,
}
"""The indexes that a collection gets when a point has the key, or when Qdrant does not filter without the index."""
