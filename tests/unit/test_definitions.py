"""Definitions of Qdrant's collections and indexes are sent unchanged, or refused with the name of the wrong option."""

import pytest
from pydantic import ValidationError

from shared.vectors import definitions
from shared.vectors.layout import Layout
from shared.vectors.lifecycle import _FIELD_INDEXES, _INDEXED


@pytest.mark.parametrize(
    "layout",
    [
        Layout(),
        Layout(
            shards=3,
            replicas=2,
            write_consistency=2,
            quantization="int8",
            on_disk=True,
            hnsw_m=8,
            hnsw_ef_construct=64,
        ),
    ],
)
def test_definition_of_collection_is_sent_unchanged(layout):
    assert definitions.collection(layout.creation(384)) == layout.creation(384)


@pytest.mark.parametrize("schema", [*_INDEXED.values(), *_FIELD_INDEXES.values()])
def test_definition_of_index_is_sent_unchanged(schema):
    assert definitions.payload_index("key", schema) == {"field_name": "key", "field_schema": schema}


def test_unknown_option_is_named():
    with pytest.raises(ValidationError, match="replicas"):
        definitions.collection(Layout().creation(3) | {"replicas": 2})
    with pytest.raises(ValidationError, match="enable_graph"):
        definitions.payload_index("key", {"type": "keyword", "enable_graph": False})
