"""Contents of sources are read in confined processes: every fault ends one reading with a sentence, and no other."""

import asyncio
import os
from contextlib import aclosing
from datetime import timedelta

import pytest

from features.sources.git import objects
from features.sources.git.options import GitOptions
from features.sources.web.reading import contents
from shared.confined.reading import MOST_MESSAGE_BYTES, Readers, ReadLimits, as_file
from shared.domain.errors import Transient, Unavailable, Unreadable
from tests.support import forged_readers
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS

MODULE = "tests.support.readers"
FAST = ReadLimits(timedelta(seconds=1), 256 * 2**20)


@pytest.fixture(scope="module")
async def readers():
    async with aclosing(Readers(FAST)) as readers:
        yield readers


async def messages(readers, name, *contents, tenant="alice", **options):
    files = [os.memfd_create("content") for _ in contents]
    for file, content in zip(files, contents, strict=True):
        os.write(file, content)
    try:
        read = readers.for_tenant(tenant).read(MODULE, name, options, files, subject="the list")
        async with aclosing(read) as received:
            return [message async for message in received]
    finally:
        for file in files:
            os.close(file)


async def process_of(readers, tenant):
    (pid,) = await messages(readers, "process", tenant=tenant)
    return int(pid)


async def test_options_and_files_arrive_whole(readers):
    large = bytes(range(256)) * 4_000

    assert await messages(readers, "echo", b"one", large, text="é") == [b"one", large, "é".encode()]


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("spin", {}, "the list took longer than 1 s to read"),
        ("sleep", {}, "the list took longer than 1 s to read"),
        ("fill", {}, "the list needed more than 0.2 GB of memory to read"),
        ("deep", {}, "it is nested too deeply to be read"),
        ("refuse", {}, "line 7 is not an address"),
        ("fail", {}, "the list could not be read; the log of the parse worker says why"),
        ("crash", {}, "the list crashed the parser (signal 11)"),
        ("large", {"bytes": MOST_MESSAGE_BYTES + 1}, "the list crashed the parser (invalid reply)"),
        ("forge", {"text": "\0" * 7 + "\x03e{}"}, "the list crashed the parser (invalid reply)"),
        ("open_file", {"path": "/etc/passwd"}, "the list could not be read; the log of the parse worker says why"),
    ],
)
async def test_failed_reading_names_reason_and_others_continue(readers, name, options, sentence):
    async with asyncio.timeout(TIMEOUT_SECONDS):
        failing = asyncio.create_task(messages(readers, name, **options))
        assert await messages(readers, "echo", b"one", tenant="bob") == [b"one", b""]
        with pytest.raises(Unreadable) as failed:
            await failing

    assert failed.value.message == sentence
    assert await messages(readers, "echo", b"two") == [b"two", b""]


@guards(
    "shared/confined/reading.py",
    "if (each.tenant, each.module) == (tenant, module)",
    "if each.module == module",
    means="one process reads contents of several tenants",
)
async def test_process_is_reused_by_its_tenant_only():
    async with aclosing(Readers(FAST)) as readers:
        first = await process_of(readers, "alice")
        assert await process_of(readers, "alice") == first
        assert await process_of(readers, "bob") != first
        assert await process_of(readers, "alice") == first


async def test_abandoned_reading_ends_its_process():
    async with aclosing(Readers(FAST)) as readers:
        async with aclosing(readers.for_tenant("alice").read(MODULE, "count", {}, [], subject="the list")) as received:
            pid, *numbers = [await anext(received) for _ in range(1_000)]

        assert numbers == [str(number).encode() for number in range(999)]
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


async def test_process_killed_while_idle_is_replaced():
    async with aclosing(Readers(FAST)) as readers:
        first = await process_of(readers, "alice")
        os.kill(first, 9)

        assert await process_of(readers, "alice") != first


async def test_closed_readers_refuse_contents():
    readers = Readers(FAST)
    await readers.aclose()

    with pytest.raises(Transient, match="closed"):
        await messages(readers, "process")


async def test_slow_contents_leave_slot_for_other_tenant():
    async with aclosing(Readers(FAST, slots=2)) as readers:
        slow = [asyncio.create_task(messages(readers, "spin")) for _ in range(4)]
        await asyncio.sleep(0)

        assert await messages(readers, "echo", b"one", tenant="bob") == [b"one", b""]
        assert not any(task.done() for task in slow[2:])
        await asyncio.gather(*slow, return_exceptions=True)


def test_content_of_any_size_becomes_a_file():
    for size in (0, 1, 5_000_000):
        with as_file(bytes(size)) as file:
            assert os.fstat(file).st_size == size


FORGED = "tests.support.forged_readers"


async def read_forged(reader, kind, case):
    """Read a forged reply as the worker reads every reply."""
    git = objects.GitReader(reader, "https://example.org/a.git")
    match kind:
        case "robots":
            return await contents.read_robots(reader, b"User-agent: *", case)
        case "addresses":
            return [batch async for batch in contents.read_addresses(reader, "list", b"x", case, 5)]
        case "entries":
            return await git.rows([], objects.ListedFolder(forged_readers.ID, case, GitOptions()), after="a", most=10)
    return await git.contents([], [forged_readers.ID], max_bytes=case)


@guards(
    "features/sources/web/reading/contents.py",
    "if left < 0:",
    "if False:",
    means="a sitemap that has taken over its process sends addresses without an end",
    case="addresses-many in parts",
)
@pytest.mark.parametrize(
    ("kind", "case"),
    [
        *(("robots", case) for case in forged_readers.ROBOTS),
        *(("addresses", case) for case in forged_readers.ADDRESSES),
        *(("entries", case) for case in forged_readers.ROWS),
        *(("contents", case) for case in forged_readers.CONTENTS),
    ],
)
async def test_forged_message_fails_only_its_reading(readers, monkeypatch, kind, case):
    monkeypatch.setattr(contents, "_MODULE", FORGED)
    monkeypatch.setattr(objects, "_MODULE", FORGED)

    with pytest.raises((Unreadable, Unavailable), match="invalid reply"):
        await read_forged(readers.for_tenant("alice"), kind, case)

    assert await messages(readers, "echo", b"one") == [b"one", b""]
