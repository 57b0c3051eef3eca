"""The commands of sources against a server and its workers: their output and their exit codes."""

import asyncio
import json
import re

import pytest
from typer.testing import CliRunner

from cli import main
from features.sources.ledger.sources import Sources
from shared.domain.errors import InvalidInput, NotFound
from shared.ledger.jobs.jobs import Jobs
from tests.integration.test_api_sources import ParseWorker, many, write
from tests.support.api import serving
from tests.support.sources import make_older


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "wiki"
    write(folder, "leave.md", "Employees get thirty days of leave.")
    return folder


@pytest.fixture
async def foreask(services, settings, tmp_path, provider):
    """Return a function that runs a command while workers work, and returns its exit code and output."""
    allowed = settings.model_copy(update={"source_roots": {"*": (f"file://{tmp_path}",)}})
    worker = ParseWorker(services, allowed)

    async def serve():
        while True:
            await worker.run()
            await worker.work()
            await services.ledger[Jobs].settle()
            await asyncio.sleep(0.05)

    async with serving(allowed, services) as client:
        serving_work = asyncio.create_task(serve())

        async def foreask(*arguments):
            environment = {"FOREASK_URL": str(client.base_url), "COLUMNS": "200"}
            command = [each for each in arguments if each]
            ended = await asyncio.to_thread(CliRunner().invoke, main.app, command, env=environment)
            if ended.exception is not None and not isinstance(ended.exception, SystemExit):
                raise ended.exception
            return ended.exit_code, ended.output

        yield foreask
        serving_work.cancel()
        await asyncio.gather(serving_work, return_exceptions=True)


async def test_source_of_program_needs_no_address(foreask):
    code, out = await foreask("sources", "add", "crm", "--kind", "push")
    assert (code, "push://crm" in out, "sent by a program" in out) == (0, True, True), out
    code, out = await foreask("sources", "add", "wiki")
    assert (code, "Name the address of the source" in out) == (2, True), out
    with pytest.raises(InvalidInput, match="start the program instead"):
        await foreask("sync", "crm")


async def test_source_is_added_synced_and_shown(foreask, folder):
    code, out = await foreask("sources", "add", "wiki", f"file://{folder}", "--option", "include=*.md,*.txt")
    assert (code, "'include': '*.md,*.txt'" in out, "on request" in out) == (0, True, True), out

    code, out = await foreask("sync", "wiki", "--wait")
    assert (code, "done: 1 seen, 1 created" in out) == (0, True), out

    assert "done: 1 seen, 1 created" in (await foreask("sources", "show", "wiki"))[1]
    assert re.search(r"wiki\tdefault\tfile://.*\tdone: 1 seen, 1 created", (await foreask("sources", "list"))[1])
    out = (await foreask("sources", "list", "--json"))[1]  # lines of the server's log surround it
    [listed], _ = json.JSONDecoder().raw_decode(out, out.index("[\n"))
    assert (listed["name"], listed["newest_sync"]["created"]) == ("wiki", 1)
    assert "sync" in (await foreask("jobs", "list", "--kind", "sync"))[1]


async def test_withheld_deletions_end_with_exit_code_4(foreask, services, folder):
    many(folder, 12)
    await foreask("sources", "add", "wiki", f"file://{folder}")
    assert (await foreask("sync", "wiki", "--wait"))[0] == 0
    for path in folder.glob("old/*"):
        path.unlink()
    assert (await foreask("sync", "wiki", "--wait"))[0] == 0
    await make_older(services)

    code, out = await foreask("sync", "wiki", "--wait")
    assert (code, "12 of 13 documents would be deleted" in out, "old/000.md" in out) == (4, True, True), out
    approve = "foreask sources approve wiki --deletions 12"
    assert approve in out
    assert approve in (await foreask("sources", "show", "wiki"))[1]

    code, out = await foreask(*approve.split()[1:], "--wait")
    assert (code, "12 deleted" in out) == (0, True), out


async def test_failed_sync_ends_with_exit_code_3(foreask, folder):
    await foreask("sources", "add", "wiki", f"file://{folder}")
    folder.rename(folder.with_name("moved"))

    code, out = await foreask("sources", "sync", "wiki", "--wait")

    assert (code, "cannot be read" in out) == (3, True), out


async def test_sync_without_wait_names_its_job(foreask, folder):
    await foreask("sources", "add", "wiki", f"file://{folder}")

    code, out = await foreask("sync", "wiki")

    [watch] = re.findall(r"^started: foreask (jobs watch [0-9a-f-]{36})$", out, re.MULTILINE)
    assert (code, (await foreask(*watch.split()))[0]) == (0, 0)


async def test_schedule_is_changed_and_removed(foreask, folder):
    await foreask("sources", "add", "wiki", f"file://{folder}", "--schedule", "0 3 * * *", "--time-zone", "Asia/Tokyo")

    assert "0 4 * * *" in (await foreask("sources", "change", "wiki", "--schedule", "0 4 * * *"))[1]
    assert "on request" in (await foreask("sources", "change", "wiki", "--schedule="))[1]


async def test_bytes_are_copied_on_request(foreask, services, folder):
    async def options():
        return dict((await services.ledger[Sources].get("default", "wiki")).definition.options)

    await foreask("sources", "add", "wiki", f"file://{folder}", "--option", "include=*.md", "--copy-files")
    assert await options() == {"include": "*.md", "copy_files": True}
    assert (await foreask("sync", "wiki", "--wait"))[0] == 0
    assert [name async for names in services.uploads.pages() for name in names] != []

    await foreask("sources", "change", "wiki", "--no-copy-files")

    assert await options() == {"include": "*.md", "copy_files": False}


async def test_removed_source_is_unknown_afterwards(foreask, services, folder):
    await foreask("sources", "add", "wiki", f"file://{folder}")

    assert (await foreask("sources", "remove", "wiki"))[0] == 2  # keep or delete?
    assert (await foreask("sources", "remove", "wiki", "--documents", "delete"))[0] == 0
    assert "being removed" in (await foreask("sources", "show", "wiki"))[1]
    while await services.ledger[Sources].continue_removal():
        pass
    with pytest.raises(NotFound, match="There is no source 'wiki'"):
        await foreask("sources", "show", "wiki")


async def test_errors_are_sentences(foreask, folder):
    with pytest.raises(InvalidInput, match="FOREASK_SOURCE_ROOTS"):
        await foreask("sources", "add", "wiki", "file:///etc")
    with pytest.raises(InvalidInput, match="write --option NAME=VALUE"):
        await foreask("sources", "add", "wiki", f"file://{folder}", "--option", "include")
    with pytest.raises(InvalidInput, match="cron"):
        await foreask("sources", "add", "wiki", f"file://{folder}", "--schedule", "daily")


async def test_command_sets_rules_of_readers(foreask, services, folder):
    async def options():
        return dict((await services.ledger[Sources].get("default", "wiki")).definition.options)

    rules = ("--readers", "legal/** = group:legal", "--readers", "** = everyone")
    await foreask("sources", "add", "wiki", f"file://{folder}", "--option", "include=*.md", *rules)
    assert await options() == {"include": "*.md", "readers": "legal/** = group:legal\n** = everyone"}
    assert (await foreask("sync", "wiki", "--wait"))[0] == 0

    await foreask("sources", "change", "wiki", "--readers", "** = group:hr")

    assert await options() == {"include": "*.md", "readers": "** = group:hr"}
    with pytest.raises(InvalidInput, match="a reader is `everyone`"):
        await foreask("sources", "change", "wiki", "--readers", "** = hr")
