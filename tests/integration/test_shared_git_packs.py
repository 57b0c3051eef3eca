"""The processes of a machine share the packs that they fetch: a sync and parse workers need two sessions."""

import asyncio
import os
import tempfile
from uuid import UUID

import pytest

from features.sources.git import stored_packs
from features.sources.git.options import GitOptions
from features.sources.git.packs import ENTRY_BYTES, ID_BYTES
from features.sources.git.repositories import GitSource
from features.sources.git.stored_packs import Packs, SharedPacks
from features.sources.ledger.references import WaitingReferences
from features.sources.ledger.sources import Sources
from shared.domain.errors import Misconfigured
from shared.domain.states import DocumentState
from shared.ledger.documents.documents import Documents
from shared.process.temporary_folders import remove_leftovers
from tests.integration.test_api_sources import ParseWorker, add
from tests.support.api import calling
from tests.support.corpora import PRIVATE, listed
from tests.support.git_server import GitFolder, GitServer
from tests.support.planted import guards
from tests.support.waiting import eventually

SOURCE, OTHER = UUID(int=1), UUID(int=2)
FILES = 40


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def texts():
    return {f"{number:04}.md": f"# Rule {number}\n\n" + "The harbour opens at six. " * 90 for number in range(FILES)}


@pytest.fixture
def server(tmp_path, texts):
    folder = GitFolder(tmp_path / "served" / "handbook.git")
    for key, text in texts.items():
        folder.write(key, text.encode())
    folder.commit()
    with GitServer(folder.folder.parent).running() as server:
        server.corpus = folder
        yield server


@pytest.fixture
async def machine():
    """Return a function that returns the shared packs of another process of a machine."""
    made = []

    def process(**options):
        made.append(SharedPacks(**options))
        return made[-1]

    yield process
    for packs in made:
        await packs.aclose()


@pytest.fixture
async def opened(server, readers):
    """Return a function that opens the repository as a source of a process."""
    made = []

    def open_source(packs, source_id=SOURCE):
        uri = f"git+{server.url}/handbook.git"
        made.append(GitSource(uri, GitOptions(), {}, PRIVATE, readers.for_tenant("alice"), packs=packs.of(source_id)))
        return made[-1]

    yield open_source
    for source in made:
        await source.aclose()


async def contents(source, entries):
    return [(await source.content(entry, max_bytes=10_000)).decode() for entry in entries]


async def synced(source):
    """Read all files as a sync does; return their entries."""
    entries = await listed(source)
    source.expect(entries)
    for entry in entries:
        await source.fetch(entry, max_bytes=10_000)
    return entries


@guards(
    "features/sources/git/stored_packs.py",
    'index.rename(target.with_suffix(".index"))',
    "pass",
    means="each process fetches all files again",
)
async def test_other_process_reads_fetched_packs(machine, opened, server, texts):
    entries = await synced(opened(machine()))
    server.requests.clear()

    assert await contents(opened(machine()), reversed(entries)) == list(reversed(texts.values()))

    assert server.requests == []


@guards(
    "features/sources/git/remote.py",
    "async with packs.fetching():",
    "if True:",
    means="two processes fetch the same files at the same time",
)
async def test_concurrent_processes_fetch_once(machine, opened, server, texts):
    first = opened(machine())
    entries = await listed(first)
    await first.aclose()
    server.requests.clear()
    sources = [opened(machine()) for _ in range(3)]
    for source in sources:
        source.expect(entries)

    results = await asyncio.gather(*(contents(source, entries) for source in sources))

    assert results == [list(texts.values())] * 3
    assert server.sessions() == 1


@guards(
    "features/sources/git/stored_packs.py",
    "return Packs(self._folder, source_id.hex)",
    'return Packs(self._folder, "all")',
    means="a source reads files that another source, of another tenant, has fetched",
)
async def test_packs_of_other_source_are_not_read(machine, opened, server):
    process = machine()
    entries = await synced(opened(process))
    server.requests.clear()

    await contents(opened(process, OTHER), entries[:1])

    assert server.sessions() == 1


@guards(
    "features/sources/git/objects.py",
    "if _id_of(content) != object_id:",
    "if False:",
    means="a process that was taken over gives other processes wrong contents",
)
async def test_swapped_contents_in_shared_pack_are_refused(machine, opened, server, temporary):
    for name in ("x", "y"):
        server.corpus.write(name, os.urandom(3_000))  # not stored as differences of others
    server.corpus.commit()
    entries = await synced(opened(machine()))
    ids = [bytes.fromhex(entry.version) for entry in entries[-2:]]
    for path in temporary.glob("*/*.index"):
        index = bytearray(path.read_bytes())
        if ids[0] in index:
            one, other = (slice(index.find(each) + ID_BYTES, index.find(each) + ENTRY_BYTES) for each in ids)
            index[one], index[other] = index[other], index[one]
            path.write_bytes(index)

    with pytest.raises(Misconfigured, match=r"cannot be read: it crashed the parser \(invalid reply\)"):
        await contents(opened(machine()), entries[-2:])


def stored(folder, name, size, used_at):
    """Store a pack with an object of a size, last used at a time."""
    pack, index = folder / "pack", folder / "index"
    pack.write_bytes(bytes(size))
    index.write_bytes(name.encode() * ID_BYTES + bytes(ENTRY_BYTES - ID_BYTES))
    Packs(folder, name).add(pack, index)
    for path in folder.glob(f"{name}-*.index"):
        os.utime(path, (used_at, used_at))


def has(folder, name):
    return not Packs(folder, name).lacking([(name.encode() * ID_BYTES).hex()])


@guards(
    "features/sources/git/stored_packs.py",
    "_shrink(self._folder, MOST_BYTES - size)",
    "pass",
    means="packs fill the disk",
)
def test_full_folder_loses_oldest_packs(temporary, monkeypatch):
    monkeypatch.setattr(stored_packs, "MOST_BYTES", 2_500)
    for name, used_at in (("a", 200), ("b", 100), ("c", 300)):
        stored(temporary, name, 1_000, used_at)
    stored(temporary, "d", 3_000, 400)

    assert [has(temporary, name) for name in "abcd"] == [True, False, True, False]
    assert len(list(temporary.glob("*.pack"))) == 2


@guards(
    "features/sources/git/stored_packs.py",
    "os.utime(path)",
    "pass",
    means="a pack is deleted while workers read it",
)
def test_read_pack_is_kept_longer(temporary, monkeypatch):
    monkeypatch.setattr(stored_packs, "MOST_BYTES", 2_500)
    for name, used_at in (("a", 100), ("b", 200)):
        stored(temporary, name, 1_000, used_at)
    Packs(temporary, "a").find((b"a" * ID_BYTES).hex()).close()

    stored(temporary, "c", 1_000, 300)

    assert [has(temporary, name) for name in "abc"] == [True, False, True]


@guards(
    "features/sources/git/stored_packs.py",
    "if used_at < oldest:",
    "if False:",
    means="files of a repository remain on the disk for ever",
)
async def test_pack_without_readers_is_deleted(machine, opened, temporary):
    entries = await synced(opened(machine(age_seconds=0.05)))

    await eventually(lambda: list(temporary.glob("*packs*/*.pack")) == [])
    assert len(await contents(opened(machine()), entries[:1])) == 1


async def test_last_process_deletes_packs(machine, opened, temporary):
    one, other = machine(), machine()
    for process in (one, other):
        source = opened(process)
        await synced(source)
        await source.aclose()

    remove_leftovers("foreask-git-")
    await one.aclose()
    assert list(temporary.glob("*/*.pack"))

    await other.aclose()
    assert list(temporary.iterdir()) == []


@guards(
    "features/sources/git/stored_packs.py",
    "or status.st_mode & 0o077",
    "",
    means="other users of the machine read or replace fetched files",
)
@pytest.mark.parametrize("made", ["open folder", "link", "file"])
async def test_folder_of_other_user_is_not_shared(machine, opened, temporary, tmp_path, made):
    path = temporary / f"foreask-git-packs-{os.geteuid()}"
    if made == "open folder":
        path.mkdir(mode=0o755)
    elif made == "link":
        (tmp_path / "target").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "target")
    else:
        path.touch()
    packs = machine()

    assert packs.of(SOURCE) is None
    source = opened(packs)
    assert len(await synced(source)) == FILES
    assert not path.is_dir() or list(path.iterdir()) == []


@pytest.fixture
def allowed(settings, server):
    roots = {"*": (f"git+{server.url}",)}
    return settings.model_copy(update={"source_roots": roots, "sources_private_networks": True})


@pytest.fixture
async def client(services, allowed, provider):
    async with calling(allowed, services) as client:
        yield client


async def states(services):
    return {document.state for document in await services.ledger[Documents].page("default", limit=FILES)}


async def test_sync_and_parse_need_two_sessions(client, services, server, allowed, machine):
    syncing, parsing = (ParseWorker(services, allowed, packs=machine().of) for _ in range(2))
    await add(client, None, uri=f"git+{server.url}/handbook.git")

    await syncing.sync(client)
    assert server.sessions() == 2
    await parsing.work("parse")

    assert await states(services) == {DocumentState.INDEXING}
    assert server.sessions() == 2


@guards(
    "features/sources/syncing/originals.py",
    "*map(_entry, await self._waiting.of(definition))",
    "",
    means="a machine without the sync fetches each file alone",
)
async def test_other_machine_needs_one_session(client, services, server, allowed):
    syncing, parsing = (ParseWorker(services, allowed) for _ in range(2))
    await add(client, None, uri=f"git+{server.url}/handbook.git")
    await syncing.sync(client)
    server.requests.clear()

    await parsing.work("parse")

    assert await states(services) == {DocumentState.INDEXING}
    assert server.sessions() == 1


async def test_waiting_references_are_of_one_source(client, services, server, allowed):
    worker = ParseWorker(services, allowed)
    for name in ("wiki", "other"):
        await add(client, None, name=name, uri=f"git+{server.url}/handbook.git")
        await worker.sync(client, name)
    source = (await services.ledger[Sources].get("default", "other")).definition

    waiting = await services.ledger[WaitingReferences].of(source)

    assert len(waiting) == FILES
    assert {reference.source_id for reference in waiting} == {source.id}
