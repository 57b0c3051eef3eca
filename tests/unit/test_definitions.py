"""Definitions of Qdrant's collections and indexes: Qdrant's client knows each option, and names a wrong one."""

import pytest
from pydantic import ValidationError

from shared.vectors.schema.definitions import check_collection, check_index
from shared.vectors.schema.layout import Layout
from shared.vectors.schema.payload_indexes import ON_DEMAND, REQUIRED

CHOSEN = Layout(
    shards=3, replicas=2, write_consistency=2, quantization="int8", on_disk=True, hnsw_m=8, hnsw_ef_construct=64
)


@pytest.mark.parametrize("layout", [Layout(), CHOSEN])
def test_options_of_layout_exist(layout):
    check_collection(layout.creation(384))


@pytest.mark.parametrize("schema", [*REQUIRED.values(), *ON_DEMAND.values()])
def test_options_of_indexes_exist(schema):
    check_index(schema)


def test_unknown_option_is_named():
    with pytest.raises(ValidationError, match="replicas"):
        check_collection(Layout().creation(3) | {"replicas": 2})
    with pytest.raises(ValidationError, match="enable_graph"):
        check_index({"type": "keyword", "enable_graph": False})
