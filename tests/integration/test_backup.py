"""Run the commands of the page on backups: a document deleted after the backup is restored without model calls."""

import asyncio
from uuid import uuid4

from features.all import FEATURES
from shared.services import build
from tests.support.api import running, serving, work
from tests.support.backups import commands, run

LAMP = "# Lamp\n\nThe lamp burns all night."


async def found(client):
    reply = await client.post("/v1/retrieve", json={"question": "Does the lamp burn at night?"})
    return [chunk["external_id"] for chunk in reply.json()["chunks"]]


async def test_restored_documents_are_found_without_new_model_calls(client, services, settings, provider):
    uploaded = await client.post("/v1/documents", json={"external_id": "lamp", "text": LAMP})
    await work(services)
    await run(commands("How do I back up?"), settings)

    await client.delete(f"/v1/documents/{uploaded.json()['id']}")
    while await services.cleaner.clean():
        pass
    assert await found(client) == []

    name = f"restored_{uuid4().hex}"
    async with services.database.pool.lend() as connection:
        await connection.execute_sql(f"CREATE DATABASE {name}")
    url = settings.database_url.get_secret_value().rpartition("/")[0] + f"/{name}"
    folder = settings.data_dir.parent / "restored"
    more = {"database_url": type(settings.database_url)(url), "data_dir": folder}
    elsewhere = settings.model_copy(update=more)
    await run(commands("How do I restore?"), elsewhere)

    calls = provider.stats()["calls"]
    async with build("all", elsewhere, FEATURES) as restored, serving(elsewhere, restored) as restored_client:
        assert (await restored_client.get("/v1/documents")).json()["items"][0]["state"] == "ready"
        assert await found(restored_client) == []
        repair = commands("How do I restore?", 1)
        async with running(restored):
            repairing = asyncio.create_task(run(repair + "true", elsewhere, FOREASK_URL=str(restored_client.base_url)))
            while not repairing.done():
                await work(restored, "index")
                await asyncio.sleep(0.05)
        assert "missing" in await repairing
        await work(restored, "index")
        assert await found(restored_client) == ["lamp"]
    assert provider.stats()["calls"] == calls
