"""Scans over HTTP: progress by pages, unread pages as dead letters, and the language of a collection."""

import pytest

from features.erasure.ledger.erasures import Erasures
from tests.integration.test_erasure import finished
from tests.integration.test_read_stage import run
from tests.support.api import as_tenant, calling, events_of, serving, with_keys, work
from tests.support.scans import PICTURE, SMEARED, scan, with_reader

HARBOUR = "The harbour opens at six."


@pytest.fixture
def scanned(services, provider):
    return with_reader(services)[0]


@pytest.fixture
async def caller(settings, scanned):
    async with calling(settings, scanned) as client:
        yield client


async def submitted(client, *pages):
    files = {"file": ("scan.pdf", scan(*pages).encode())}
    reply = await client.post("/v1/documents", files=files)
    assert reply.status_code == 202, reply.text
    return reply.json()["id"]


async def shown(client, document_id):
    document = (await client.get(f"/v1/documents/{document_id}")).json()
    return document["state"], document["pages"], document["pages_read"], document["pages_unread"]


async def test_document_counts_pages_while_read(caller, scanned):
    document_id = await submitted(caller, HARBOUR, SMEARED)
    assert await shown(caller, document_id) == ("queued", 0, 0, 0)

    await work(scanned, "parse")
    assert await shown(caller, document_id) == ("reading", 2, 0, 0)
    status = (await caller.get("/v1/status")).json()
    assert status["stages"]["read"]["due"] == 2
    assert "no read worker is alive, and 2 pages wait" in status["pace"]["message"].lower()

    await work(scanned, "read", "parse", "index", "generate", "index")
    assert await shown(caller, document_id) == ("degraded", 2, 1, 1)


async def test_unread_page_is_listed_counted_and_retried(caller, scanned):
    document_id = await submitted(caller, HARBOUR, SMEARED)
    await work(scanned, "parse", "read", "parse", "index", "generate", "index")

    [letter] = (await caller.get("/v1/dead-letters", params={"document_id": document_id})).json()["items"]
    assert (letter["kind"], letter["ordinal"], letter["document_id"]) == ("page", 2, document_id)
    [reason] = (await caller.get("/v1/dead-letters/reasons")).json()["items"]
    assert reason == {"reason": letter["reason"], "documents": 0, "pages": 1, "chunks": 0}
    assert (await caller.get(f"/v1/dead-letters/{letter['id']}")).json()["history"][0]["error"] == letter["reason"]

    scanned.reader.engine.clear = True
    reply = await caller.post("/v1/dead-letters/retry", json={"letter_id": letter["id"]})
    assert reply.json() == {"documents": 0, "pages": 1, "chunks": 0, "in_progress": 0}
    await work(scanned, "parse", "read", "parse", "index", "generate", "index")

    assert await shown(caller, document_id) == ("ready", 2, 2, 0)
    assert (await caller.get("/v1/dead-letters")).json()["items"] == []


async def image(client, document_id, number, **headers):
    return await client.get(f"/v1/documents/{document_id}/pages/{number}/image", headers=headers)


async def test_read_page_has_image_that_cannot_run(caller, scanned):
    document_id = await submitted(caller, HARBOUR)
    await work(scanned, "parse", "read", "parse", "index", "generate", "index")

    reply = await image(caller, document_id, 1)
    assert (reply.status_code, reply.content) == (200, PICTURE)
    headers = ("content-type", "x-content-type-options", "content-security-policy", "cache-control")
    assert [reply.headers[name] for name in headers] == [
        "image/webp",
        "nosniff",
        "sandbox; default-src 'none'",
        "private, no-cache",
    ]
    again = await image(caller, document_id, 1, **{"if-none-match": reply.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_missing_image_is_explained(caller, scanned):
    document_id = await submitted(caller, HARBOUR, SMEARED)
    await work(scanned, "parse")
    waiting = await image(caller, document_id, 1)
    await work(scanned, "read", "parse", "index", "generate", "index")
    unread, unknown = await image(caller, document_id, 2), await image(caller, document_id, 3)
    await run(scanned, "DELETE FROM page_pictures")
    lost = await image(caller, document_id, 1)

    assert [reply.status_code for reply in (waiting, unread, unknown, lost)] == [404] * 4
    assert "has not been read yet" in waiting.json()["detail"]
    assert unread.json()["detail"].endswith("Page 2 has ink, but no words.")
    assert "was not read by OCR" in unknown.json()["detail"]
    assert "it has too many details" in lost.json()["detail"]


async def test_image_is_hidden_from_other_tenants_and_erased(settings, scanned):
    async with calling(with_keys(settings), scanned) as client:
        client.headers.update(as_tenant("alice"))
        document_id = await submitted(client, HARBOUR)
        await work(scanned, "parse", "read", "parse", "index", "generate", "index")

        assert (await image(client, document_id, 1)).status_code == 200
        assert (await image(client, document_id, 1, **as_tenant("bob"))).status_code == 404
        await finished(scanned, await scanned.ledger[Erasures].start("alice", None))
        assert (await image(client, document_id, 1)).status_code == 404
    assert await run(scanned, "SELECT 1 FROM page_pictures") == []


async def test_discarded_page_makes_document_ready(caller, scanned):
    document_id = await submitted(caller, HARBOUR, SMEARED)
    await work(scanned, "parse", "read", "parse", "index", "generate", "index")

    reply = await caller.post("/v1/dead-letters/discard", json={"document_id": document_id})

    assert reply.json() == {"documents": 0, "pages": 1, "chunks": 0, "in_progress": 0}
    assert await shown(caller, document_id) == ("ready", 2, 1, 1)


async def test_new_listener_receives_documents_being_read(settings, scanned):
    async with serving(settings, scanned) as client:
        document_id = await submitted(client, HARBOUR)
        await work(scanned, "parse")
        await run(scanned, "UPDATE documents SET updated_at = now() - interval '1 hour'")
        async with client.stream("GET", "/v1/events") as stream:
            events = events_of(stream)
            received = [await anext(events), await anext(events)]

    assert [(name, data.get("id"), data.get("state")) for name, data in received] == [
        ("progress", None, None),
        ("document", document_id, "reading"),
    ]


async def test_documents_being_read_are_listed_by_state(caller, scanned):
    document_id = await submitted(caller, HARBOUR)
    await work(scanned, "parse")

    listed = (await caller.get("/v1/documents", params={"state": "reading"})).json()["items"]

    assert [document["id"] for document in listed] == [document_id]


async def test_rebuild_with_other_languages_reads_pages_again(caller, scanned):
    await submitted(caller, HARBOUR, HARBOUR + " And on Sundays at seven.")
    await work(scanned, "parse", "read", "parse", "index", "generate", "index")

    async def pages(**change):
        reply = await caller.post("/v1/estimates", json={"migrate": change})
        return reply.json()["pages"]

    assert await pages(ocr_languages="deu") == 2
    assert await pages(chunk_max_chars=1_000) == 0


async def test_missing_language_of_collection_is_named(caller, scanned):
    reply = await caller.put("/v1/collections/default", json={"ocr_languages": "eng+tlh"})
    assert reply.json()["options"]["ocr_languages"] == "eng+tlh"
    document_id = await submitted(caller, HARBOUR)

    await work(scanned, "parse")

    document = (await caller.get(f"/v1/documents/{document_id}")).json()
    assert (document["state"], "tesseract-ocr-tlh" in document["error"]) == ("failed", True)


async def test_invalid_language_is_rejected(caller):
    reply = await caller.put("/v1/collections/default", json={"ocr_languages": "English, German"})
    assert (reply.status_code, reply.json()["field"]) == (422, "ocr_languages")
