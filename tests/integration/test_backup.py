"""Follow the page on backups: a document deleted after the backup is restored without model calls."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from embedded.postgres import binary
from shared.services import build
from tests.support.api import serving, work

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "back-up-and-restore.md"
LAMP = "# Lamp\n\nThe lamp burns all night."


def commands(heading, nth=0):
    """Return the nth block of commands under a heading of the page."""
    section = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    block = re.findall(r"(?:^    .+\n)+", section, re.MULTILINE)[nth]
    return re.sub(r"^    ", "", block, flags=re.MULTILINE)


async def run(script, settings, **more):
    """Run commands of the page with the settings of a deployment; return their output."""
    path = os.pathsep.join([str(binary("pg_dump").parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {
        "PATH": path,
        "FOREASK_DATABASE_URL": settings.database_url.get_secret_value(),
        "FOREASK_DATA_DIR": str(settings.data_dir),
    }
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", script),
        cwd=settings.data_dir.parent,
        env=environment | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


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
    async with services.database.engine.connect() as connection:
        autocommit = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await autocommit.exec_driver_sql(f"CREATE DATABASE {name}")
    url = settings.database_url.get_secret_value().rpartition("/")[0] + f"/{name}"
    folder = settings.data_dir.parent / "restored"
    more = {"database_url": type(settings.database_url)(url), "data_dir": folder}
    elsewhere = settings.model_copy(update=more)
    await run(commands("How do I restore?"), elsewhere)

    calls = provider.stats()["calls"]
    async with build("all", elsewhere) as restored, serving(elsewhere, restored) as restored_client:
        assert (await restored_client.get("/v1/documents")).json()["items"][0]["state"] == "ready"
        assert await found(restored_client) == []
        repair = commands("How do I restore?", 1)
        repairing = asyncio.create_task(run(repair + "true", elsewhere, FOREASK_URL=str(restored_client.base_url)))
        while not repairing.done():
            await work(restored, "index")
            await asyncio.sleep(0.05)
        assert "missing" in await repairing
        await work(restored, "index")
        assert await found(restored_client) == ["lamp"]
    assert provider.stats()["calls"] == calls
