"""The Python client with a real server: a document's lifecycle, with and without asyncio."""

import asyncio
import re
from pathlib import Path
from uuid import uuid4

import pytest
from foreask_client import ApiError, AsyncClient, Client

from shared.ledger.work.backlog import Backlogs
from tests.support.api import KEYS, serving, with_keys, work

GUIDE = Path(__file__).parents[2] / "docs/how-to/use-the-python-client.md"


@pytest.fixture
async def server(services, settings, wakes):
    allowed = with_keys(settings).model_copy(update={"webhooks_private_networks": True})
    async with serving(allowed, services) as http:
        yield str(http.base_url)


async def test_async_client_covers_document_lifecycle(server, services, tmp_path):
    path = tmp_path / "leave.md"
    path.write_text("# Leave\n\nEverybody has 30 days of leave a year.")
    progress = []

    async with AsyncClient(server, KEYS["alice"]) as foreask:
        document = await foreask.upload(
            path, collection="handbook", metadata={"year": 2026}, progress=lambda *counts: progress.append(counts)
        )
        again = await foreask.upload_bytes(
            path.read_bytes(), "leave.md", collection="handbook", metadata={"year": 2026}
        )
        await foreask.upload_text("Tea is in the kitchen.", collection="handbook", external_id="tea", questions=[])
        assert (again.id, again.version, document.state) == (document.id, 1, "queued")
        assert progress == [(47, 47)]

        waiting = asyncio.create_task(foreask.wait(document.id, timeout_seconds=20))
        await work(services)
        ready = await waiting
        assert (ready.state, ready.chunks.total, ready.metadata) == ("ready", 1, {"year": 2026})

        (chunk,) = [chunk async for chunk in foreask.chunks(document.id)]
        assert (await foreask.chunk(chunk.id)).document.id == document.id
        assert await foreask.text(document.id) == "# Leave\n\nEverybody has 30 days of leave a year."
        assert await foreask.content(document.id) == path.read_bytes()

        found = await foreask.retrieve("How much leave do I get?", collection="handbook", filter={"year": 2026})
        assert found.chunks[0].chunk_id == chunk.id
        assert found.metadata.query_id
        given = await foreask.feedback(found.metadata.query_id, chunk.id, helpful=True)
        assert given.outcome in {"accepted", "already_asked"}

        await foreask.retrieve("Who keeps the lighthouse?", collection="handbook", min_score=1.0)
        (gap,) = [gap async for gap in foreask.gaps("handbook", state="open")]
        assert (gap.question, gap.times) == ("Who keeps the lighthouse?", 1)
        assert (await foreask.assign_gap("handbook", gap.id, "Ann")).assigned_to == "Ann"
        resolved = await foreask.resolve_gap("handbook", gap.id, document.id)
        assert (resolved.state, resolved.resolved_by.external_id) == ("resolved", "leave.md")

        events = [event async for event in foreask.query_events("How much leave do I get?", collection="handbook")]
        assert events[0].name == "retrieved"
        assert events[-1].name == "done"

        assert (await foreask.change_document(document.id, title="Days off")).title == "Days off"
        assert [d.external_id async for d in foreask.documents(collection="handbook", sort="name")] == [
            "leave.md",
            "tea",
        ]
        await foreask.delete_document(document.id)
        with pytest.raises(ApiError, match="document") as raised:
            await foreask.document(document.id)
        assert (raised.value.status, raised.value.type) == (404, "not-found")


@pytest.mark.usefixtures("runner")
async def test_sync_client_covers_batch_collections_keys_and_erasure(server):
    def use():
        with Client(server, KEYS["alice"]) as foreask:
            lines = foreask.upload_batch([{"external_id": f"d{n}", "text": f"Text {n}."} for n in range(3)] + [{}])
            assert [line.status for line in lines] == [202, 202, 202, 422]
            assert lines[0].document
            assert lines[0].document.external_id == "d0"
            assert len(list(foreask.documents())) == 3
            with pytest.raises(TimeoutError, match="queued"):
                foreask.wait(lines[0].document.id, timeout_seconds=0.05)

            collection = foreask.put_collection("faq", questions_per_chunk=4, filterable={"year": "integer"})
            assert (collection.options.questions_per_chunk, foreask.collection("faq").name) == (4, "faq")
            assert [build.state for build in foreask.builds("faq")] == ["live"]
            assert {c.name for c in foreask.collections()} == {"default", "faq"}
            assert list(foreask.dead_letters()) == foreask.dead_reasons() == []

            key = foreask.create_key("website", ["ask"], expires_in_seconds=60)
            assert key.key not in repr(key)
            limited = foreask.change_key(key.id, limits={"requests_per_second": 5.0})
            assert limited.limits["requests_per_second"] == 5.0
            assert limited.expires_at == key.expires_at
            foreask.revoke_key(key.id)
            changes = [(entry.action, list(entry.changes)) for entry in foreask.audit(object="key", name="website")]
            assert [action for action, _ in changes] == ["revoke", "change", "create"]
            assert changes[1] == ("change", ["limits.requests_per_second"])
            assert [(k.name, k.revoked_at is None) for k in list(foreask.keys())] == [("website", False)]

            hook = foreask.create_webhook("http://127.0.0.1:9/hook", ["document.ready"])
            assert hook.secret not in repr(hook)
            assert foreask.resume_webhook(hook.id).disabled_at is None
            assert list(foreask.deliveries(hook.id)) == []
            with pytest.raises(ApiError, match="deliver"):
                foreask.retry_delivery(hook.id, str(uuid4()))
            foreask.delete_webhook(hook.id)
            assert foreask.webhooks() == []

            progress = next(events := foreask.events())
            events.close()
            assert progress.name == "progress"
            assert [event.name for event in foreask.verify("default")][-1] == "done"
            assert foreask.verification("default")["state"] == "done"
            with pytest.raises(ApiError, match="no running verification"):
                foreask.cancel_verification("default")
            assert foreask.me().tenant == "alice"
            assert foreask.health()["status"] in {"ready", "degraded"}
            erasure = foreask.delete_collection("faq")
            assert foreask.erasure(erasure.id).collection == "faq"

        with Client(server) as unauthenticated, pytest.raises(ApiError) as raised:
            unauthenticated.me()
        assert (raised.value.status, raised.value.type) == (401, "unauthorized")
        assert raised.value.request_id

    await asyncio.to_thread(use)


async def test_sync_client_erases_person(server):
    def use():
        with Client(server, KEYS["alice"]) as foreask:
            foreask.upload_batch([{"external_id": "letters of ada lovelace", "text": "A text."}])
            (found,) = foreask.preview_erasure(["Ada Lovelace"]).documents
            erasure = foreask.erase_person(["Ada Lovelace"], document_ids=[found.id])
            assert (erasure.scope, erasure.document_ids) == ("documents", [found.id])
            assert [each.id for each in foreask.erasures()] == [erasure.id]
            assert foreask.check_erasure(erasure.id)["found"] > 0
            assert list(foreask.documents()) == []

    await asyncio.to_thread(use)


@pytest.mark.usefixtures("wakes")
async def test_python_client_guide_code_works(services, settings, tmp_path, monkeypatch, capsys):
    (tmp_path / "leave.md").write_text("# Leave\n\nEverybody has 30 days of leave a year.")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)

    async with serving(settings, services) as http:
        code = "\n".join(blocks).replace("http://127.0.0.1:8350", str(http.base_url).rstrip("/"))
        followed = asyncio.create_task(asyncio.to_thread(exec, compile(code, GUIDE.name, "exec"), names := {}))
        while not followed.done():
            if await services.ledger[Backlogs].due():
                await work(services)
            await asyncio.sleep(0.02)
        await followed
        names["foreask"].close()

    shown = capsys.readouterr().out
    assert "The documents say so [1]. ['leave.md']" in shown
    assert "no-collection There is no collection 'holidays': there is 'handbook'. ['handbook']" in shown
