"""The folder of uploads: ownership, readiness, and deletion of orphans."""

import asyncio
import threading
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from cli.commands import uploads as command
from shared.domain.errors import Unavailable
from shared.ledger.documents.documents import Documents
from shared.ledger.postgres.statements import Statement
from shared.ledger.tenants.deployment import DeploymentIdentity
from shared.maintenance import orphans
from shared.storage import uploads as storage
from shared.storage.folder import UploadFolder
from shared.storage.uploads import Uploads
from tests.support.api import calling
from workers.scheduler import Step, repeat, tidy_uploads


class Another:
    """Another deployment whose ledger contains these uploads."""

    def __init__(self, *uploads):
        self._id = uuid4()
        self._uploads = uploads

    async def id(self):
        return self._id

    async def newest_uploads(self, limit):
        return self._uploads[:limit]


async def stored(services, count=1):
    """Store files to which no document refers, and return their names."""
    return {(await services.uploads.store_bytes(b"x", max_bytes=9)).name for _ in range(count)}


def files(services):
    return {path.name for path in services.uploads.folder.glob("??/*")}


def skip_waiting_day(monkeypatch):
    monkeypatch.setattr(orphans, "APART", timedelta())


async def test_folder_belongs_to_first_deployment_until_adopted(services):
    await stored(services)
    others = UploadFolder(services.uploads.folder, Another())

    with pytest.raises(
        Unavailable, match=r"belongs to another deployment.*FOREASK_DATABASE_URL.*foreask uploads adopt"
    ):
        await others.store_bytes(b"x", max_bytes=9)
    with pytest.raises(Unavailable, match="belongs to another deployment"):
        await others.ready()
    await services.uploads.require_own()

    await others.adopt()
    await others.require_own()
    with pytest.raises(Unavailable, match="belongs to another deployment"):
        await services.uploads.require_own()


async def test_empty_ledger_deletes_nothing_from_another_deployments_folder(services, monkeypatch):
    stored_files = await stored(services, 3)
    skip_waiting_day(monkeypatch)
    empty = orphans.Orphans(
        UploadFolder(services.uploads.folder, Another()),
        services.ledger[Documents],
        services.ledger[DeploymentIdentity],
    )

    for _ in range(3):
        with pytest.raises(Unavailable, match="belongs to another deployment"):
            await empty.tidy()

    assert files(services) == stored_files


@pytest.mark.parametrize(("named", "adopted"), [(True, True), (False, False)])
async def test_folder_without_marker_is_adopted_if_uploads_match(services, named, adopted):
    (name,) = await stored(services)
    (services.uploads.folder / ".foreask-deployment").unlink()
    restored = UploadFolder(services.uploads.folder, Another(uuid4().hex, name if named else uuid4().hex))

    if adopted:
        await restored.require_own()
    else:
        with pytest.raises(Unavailable, match="is it mounted"):
            await restored.require_own()


async def test_unmounted_folder_refuses_uploads(services, library, tmp_path):
    await library.add("text")
    unmounted = UploadFolder(tmp_path, services.ledger[DeploymentIdentity])

    with pytest.raises(Unavailable, match="is it mounted"):
        await unmounted.store_bytes(b"x", max_bytes=9)

    assert list(tmp_path.iterdir()) == []


async def test_orphan_is_deleted_after_a_day(services, library, monkeypatch):
    await library.add("text")
    needed = files(services)
    lost = await stored(services, 2)

    first = await services.orphans.tidy()
    assert (first.files, set(first.orphans), first.due) == (3, lost, ())
    assert await services.orphans.count() == first
    assert files(services) == needed | lost

    new = await stored(services)
    monkeypatch.setattr(orphans, "APART", timedelta(microseconds=1))
    second = await services.orphans.tidy()
    assert (set(second.due), second.deleted) == (lost, 2)
    assert files(services) == needed | new


async def test_orphan_claimed_within_a_day_is_kept(services, monkeypatch):
    (name,) = await stored(services)
    await services.orphans.tidy()
    await claim_upload(services, name)
    skip_waiting_day(monkeypatch)

    assert (await services.orphans.tidy()).deleted == 0
    assert files(services) == {name}


async def claim_upload(services, name):
    """Make a document need an upload."""
    from tests.conftest import Library

    document = await Library(services).add("text")
    async with services.database.begin() as connection:
        (own,) = (await connection.execute(Statement("SELECT upload FROM document_versions"))).scalars()
        await connection.execute(
            Statement("UPDATE document_versions SET upload = :name WHERE document_id = :id"),
            {"name": name, "id": document.id},
        )
    await services.uploads.remove([own])


async def test_deletion_of_most_files_needs_confirmation(services, monkeypatch):
    monkeypatch.setattr(orphans, "_ALWAYS", 2)
    lost = await stored(services, 3)
    await services.orphans.tidy()
    skip_waiting_day(monkeypatch)

    inventory = await services.orphans.tidy()
    assert (inventory.too_many, inventory.deleted) == (True, 0)
    assert files(services) == lost

    assert (await services.orphans.tidy(confirmed=True)).deleted == 3
    assert files(services) == set()


async def test_failing_folder_does_not_stop_scheduler_step(services, monkeypatch):
    await stored(services)
    calls = []

    def stale(_):
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr("shared.storage.folder.os.listdir", stale)
    stopping = asyncio.Event()

    async def work():
        calls.append(1)
        if len(calls) == 3:
            stopping.set()
        await tidy_uploads(services)

    await repeat(Step("tidy_uploads", timedelta(milliseconds=1), work), stopping)

    assert len(calls) == 3


async def test_readiness_requires_storable_uploads(services, settings, provider, tmp_path):
    async with calling(settings) as client:
        ready = await client.get("/health/ready")
        assert (ready.status_code, ready.json()["components"]["uploads"]) == (200, "up")
    assert files(services) == set()

    (tmp_path / "uploads").write_text("a file instead of the folder: not even root can store there")
    async with calling(settings.model_copy(update={"data_dir": tmp_path})) as client:
        ready = await client.get("/health/ready")
        upload = await client.post("/v1/documents", json={"text": "a"})

    assert (ready.status_code, ready.json()["status"], ready.json()["down"]) == (503, "unavailable", ["uploads"])
    assert (upload.status_code, upload.json()["component"]) == (503, "uploads")


async def test_concurrent_readiness_checks_share_one_probe(services, monkeypatch):
    probes = []
    store = Uploads.store_bytes

    async def counted(self, content, *, max_bytes):
        probes.append(1)
        return await store(self, content, max_bytes=max_bytes)

    monkeypatch.setattr(Uploads, "store_bytes", counted)
    uploads = UploadFolder(services.uploads.folder, services.ledger[DeploymentIdentity])

    await asyncio.gather(*(uploads.ready() for _ in range(20)))
    await uploads.ready()

    assert len(probes) == 1


async def test_undeletable_file_does_not_stop_other_deletions(tmp_path):
    uploads = UploadFolder(tmp_path, Another())
    Path(tmp_path, "ab").mkdir()
    (tmp_path / "ab" / "abc").mkdir()
    (tmp_path / "ab" / "abd").touch()

    await uploads.remove(["abc", "abd"])

    assert (tmp_path / "ab" / "abc").is_dir()
    assert not (tmp_path / "ab" / "abd").exists()


async def test_files_are_deleted_outside_event_loop(services, client, wakes, monkeypatch):
    """Each deletion may be slow on a network file system."""
    unlink, threads = Path.unlink, []

    def record_thread(path, **arguments):
        threads.append(threading.current_thread())
        unlink(path, **arguments)

    monkeypatch.setattr(Path, "unlink", record_thread)
    document = {"external_id": "same.txt", "text": "The same text."}
    for status in (202, 200):
        assert (await client.post("/v1/documents", json=document)).status_code == status
    await services.uploads.remove(sorted(await stored(services, 2)))

    assert len(threads) >= 3
    assert threading.main_thread() not in threads


async def test_command_previews_and_deletes_orphans(services, settings, monkeypatch, capsys):
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(orphans, "_ALWAYS", 1)
    lost = await stored(services, 2)
    await services.orphans.tidy()

    await asyncio.to_thread(command.check, delete=True)
    out = capsys.readouterr().out
    assert all(f"{name}  due from " in out for name in lost)
    assert "2 files; 2 that no document needs, 0 of them due; 0 deleted" in out

    skip_waiting_day(monkeypatch)
    await asyncio.to_thread(command.check, delete=False)
    assert "does FOREASK_DATABASE_URL belong to this store?" in capsys.readouterr().out
    assert files(services) == lost

    await asyncio.to_thread(command.check, delete=True)
    assert "2 of them due; 2 deleted" in capsys.readouterr().out
    assert files(services) == set()


async def test_command_adopts_folder_on_request(services, settings, monkeypatch):
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    await UploadFolder(services.uploads.folder, Another()).adopt()

    await asyncio.to_thread(command.adopt)

    await services.uploads.require_own()


async def test_empty_folder_is_shared_by_concurrent_processes(services, tmp_path):
    class ConcurrentUpload(Another):
        """While one process reads the ledger, another one stores the first file before inserting its row."""

        async def newest_uploads(self, limit):
            self.newest_uploads = super().newest_uploads
            await UploadFolder(tmp_path, self).store_bytes(b"x", max_bytes=9)
            return []

    await UploadFolder(tmp_path, ConcurrentUpload()).require_own()


async def test_hanging_folder_becomes_unready_after_grace(services, monkeypatch):
    uploads, new = (UploadFolder(services.uploads.folder, services.ledger[DeploymentIdentity]) for _ in range(2))
    await uploads.ready()
    monkeypatch.setattr(storage, "_PROBE_SECONDS", 0.01)
    monkeypatch.setattr(storage, "_READY_SECONDS", 0)
    released = asyncio.Event()

    async def hangs(self, content, *, max_bytes):
        await released.wait()
        raise Unavailable("stale", component="uploads")

    monkeypatch.setattr(Uploads, "store_bytes", hangs)
    await uploads.ready()
    with pytest.raises(Unavailable, match="does not answer"):
        await new.ready()

    released.set()
    for each in (uploads, new):
        with pytest.raises(Unavailable, match="stale"):
            await each._probe
