"""Layout of Qdrant collections: follows the settings, is complete, and never changes later."""

import asyncio

import pytest
from qdrant_client import models
from structlog.testing import capture_logs

from embedded.stack import Stack
from features.all import FEATURES
from shared.domain.errors import InvalidInput, Unavailable
from shared.services import build
from shared.settings import Settings
from shared.vectors.index import Index
from shared.vectors.schema.layout import Layout
from shared.vectors.schema.payload_indexes import REQUIRED
from shared.vectors.transport.errors import NoAnswer
from tests.support.qdrant import qdrant_client

_REQUESTS = 3 + len(REQUIRED)  # check existence, create, read the layout; then one request per index
EVERYTHING = Layout(
    shards=1,
    replicas=1,
    write_consistency=1,
    quantization="int8",
    on_disk=True,
    hnsw_m=8,
    hnsw_ef_construct=64,
)


@pytest.fixture
async def made(settings, services):
    """Yield a function that creates a collection with a layout and returns Qdrant's description."""
    opened = []

    async def make(name, layout=None):
        index = Index(settings.qdrant_url, api_key=settings.qdrant_api_key, layout=layout)
        opened.append(index)
        await index.ensure_collection(name, 3)
        return await index._info(name)

    yield make
    await opened[0].drop_collection("laid-out")
    for index in opened:
        await index.aclose()


async def test_new_collection_follows_layout_settings(made):
    info = await made("laid-out", EVERYTHING)

    config = info["config"]
    scalar, graphs = config["quantization_config"]["scalar"], config["hnsw_config"]
    assert (scalar["type"], scalar["always_ram"]) == ("int8", True)
    assert config["params"]["vectors"]["dense"]["on_disk"] is True
    assert config["params"]["on_disk_payload"] is True
    assert (graphs["m"], graphs["payload_m"], graphs["ef_construct"]) == (0, 8, 64)
    assert EVERYTHING.differences(info) == {}


async def test_client_of_qdrant_creates_same_collection(made, services):
    ours = await made("laid-out", EVERYTHING)
    client, given = qdrant_client(services), EVERYTHING.creation(3)
    typed = models.CreateCollection.model_validate(given)

    await client.create_collection(
        "by-client",
        vectors_config=typed.vectors,
        sparse_vectors_config=typed.sparse_vectors,
        **{name: getattr(typed, name) for name in given if not name.endswith("vectors")},
    )
    for name, schema in REQUIRED.items():
        field = models.CreateFieldIndex.model_validate({"field_name": name, "field_schema": schema})
        await client.create_payload_index("by-client", name, field.field_schema)

    theirs = await services.parts.index._info("by-client")
    await client.delete_collection("by-client")
    assert theirs["config"] == ours["config"]
    assert theirs["payload_schema"] == ours["payload_schema"]


async def test_default_layout_uses_qdrant_defaults(made):
    info = await made("laid-out")

    config = info["config"]
    assert config.get("quantization_config") is None
    assert not config["params"]["vectors"]["dense"].get("on_disk")
    assert (config["hnsw_config"]["m"], config["hnsw_config"]["payload_m"]) == (0, 16)
    assert Layout().differences(info) == {}


async def test_differing_layout_is_reported_once_and_kept(made):
    before = await made("laid-out")
    with capture_logs() as logs:
        after = await made("laid-out", Layout(shards=3, replicas=2, quantization="int8", on_disk=True, hnsw_m=32))

    (warning,) = [entry for entry in logs if entry["event"] == "collection.differs"]
    assert warning["collection"] == "laid-out"
    assert warning["differences"] == {
        "FOREASK_QDRANT_SHARDS": "set 3, is 1",
        "FOREASK_QDRANT_REPLICAS": "set 2, is 1",
        "FOREASK_QDRANT_QUANTIZATION": "set int8, is none",
        "FOREASK_QDRANT_ON_DISK": "set True, is False",
        "FOREASK_QDRANT_HNSW_M": "set 32, is 16",
    }
    assert after["config"] == before["config"]


# Before the creation, after it, before the first index, after it, and before the last index.
@pytest.mark.parametrize("done", [1, 2, 3, 4, _REQUESTS - 1])
async def test_interrupted_creation_is_completed_later(made, settings, done):
    dying, sent = Index(settings.qdrant_url, api_key=settings.qdrant_api_key), []

    send = dying._requests.send

    async def die(*request):
        sent.append(request)
        if len(sent) > done:
            raise NoAnswer("the connection is lost")
        return await send(*request)

    dying._requests.send = die
    with pytest.raises(Unavailable):
        await dying.ensure_collection("laid-out", 3)
    await dying.aclose()

    info = await made("laid-out")

    assert info["payload_schema"].keys() == REQUIRED.keys()


async def test_concurrent_batches_create_collection_once(made, settings):
    index, sent = Index(settings.qdrant_url, api_key=settings.qdrant_api_key), []

    send = index._requests.send

    async def note(*request):
        sent.append(request)
        return await send(*request)

    index._requests.send = note
    await asyncio.gather(*(index.ensure_collection("laid-out", 3) for _ in range(4)))
    await index.aclose()

    assert len(sent) == _REQUESTS
    assert (await made("laid-out"))["payload_schema"].keys() == REQUIRED.keys()


async def test_process_layout_follows_settings(settings):
    change = {
        "qdrant_shards": 1,
        "qdrant_replicas": 1,
        "qdrant_write_consistency": 1,
        "qdrant_quantization": "int8",
        "qdrant_on_disk": True,
        "qdrant_hnsw_m": 8,
        "qdrant_hnsw_ef_construct": 64,
    }
    async with build("all", settings.model_copy(update=change), FEATURES) as services:
        assert services.index._layout == EVERYTHING


@pytest.mark.parametrize("name", ["shards", "replicas", "write_consistency"])
def test_cluster_settings_are_refused_for_embedded_qdrant(tmp_path, name):
    settings = Settings(_env_file=None, data_dir=tmp_path, **{f"qdrant_{name}": 2})

    with pytest.raises(InvalidInput, match=f"FOREASK_QDRANT_{name.upper()}: the embedded Qdrant is one node"):
        Stack(settings, engines=("qdrant",)).start()
