"""Batches: many small documents in one request; each line is answered like a separate request."""

import asyncio
import socket

import orjson
import pytest

from api.http.ndjson import read_lines
from api.schemas.documents import BatchResult, DocumentView
from api.submission import batch
from shared.domain.errors import Unavailable
from shared.ledger.documents.documents import Documents
from shared.storage.uploads import stored_in
from tests.support.api import as_tenant, calling, left_behind, serving, with_keys, work
from tests.support.waiting import TIMEOUT_SECONDS, eventually

NDJSON = {"content-type": "application/x-ndjson"}


def lines(*documents):
    return b"".join(
        document if isinstance(document, bytes) else orjson.dumps(document) + b"\n" for document in documents
    )


def results(reply):
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/x-ndjson"
    return [BatchResult.model_validate_json(line) for line in reply.content.splitlines()]


async def submit_batch(client, *documents, collection="default"):
    return results(
        await client.post(f"/v1/documents:batch?collection={collection}", content=lines(*documents), headers=NDJSON)
    )


def texts(count):
    return [{"external_id": f"faq-{n:03}", "text": f"Question {n} is answered by number {n}."} for n in range(count)]


async def test_batch_answers_each_line_and_stores_few_objects(client, services, settings, wakes):
    answers = await submit_batch(client, *texts(300), collection="faq")

    assert [(result.line, result.status, result.external_id) for result in answers] == [
        (n + 1, 202, f"faq-{n:03}") for n in range(300)
    ]
    assert {(result.document.state, result.document.version) for result in answers} == {("queued", 1)}
    rows, files = await left_behind(services, settings)
    assert (rows, len(files)) == (300, 2)  # two groups
    assert set(wakes) == {"parse"}

    shown = DocumentView.model_validate_json((await client.get(f"/v1/documents/{answers[7].document.id}")).content)
    assert (shown.external_id, shown.collection, shown.size_bytes) == ("faq-007", "faq", 35)
    async with services.database.begin() as connection:
        lanes = (await connection.execute_sql("SELECT DISTINCT lane FROM documents")).scalars()
    assert lanes == [1]


async def test_batch_documents_are_retrievable(client, services):
    await submit_batch(
        client,
        {"external_id": "lamp", "text": "# Lamp\n\nThe lamp burns until dawn.", "filename": "lamp.md"},
        {"text": "The bell rings at noon.", "title": "Bell", "metadata": {"kind": "bell"}, "questions": ["When?"]},
    )
    await work(services)

    found = (await client.post("/v1/retrieve", json={"question": "Until when does the lamp burn?"})).json()["chunks"]
    assert found[0]["external_id"] == "lamp"
    assert {chunk["text"] for chunk in found} == {"# Lamp\n\nThe lamp burns until dawn.", "The bell rings at noon."}
    assert [chunk["metadata"] for chunk in found if chunk["title"] == "Bell"] == [{"kind": "bell"}]


async def test_repeated_batch_changes_nothing_and_stores_no_object(client, services, settings):
    first = await submit_batch(client, *texts(5))
    again = await submit_batch(client, *texts(5))

    assert [result.status for result in again] == [200] * 5
    assert [result.document.id for result in again] == [result.document.id for result in first]
    rows, files = await left_behind(services, settings)
    assert (rows, len(files)) == (5, 1)


async def test_batch_line_equals_single_request(client):
    body = {"text": "One text.", "title": " A title ", "metadata": {"b": 1, "a": 2}, "questions": ["Why?"]}
    (line,) = await submit_batch(client, body)
    alone = await client.post("/v1/documents", json=body)

    assert (alone.status_code, alone.json()["id"]) == (200, str(line.document.id))
    assert alone.json()["external_id"] == line.external_id


async def test_changed_line_starts_version_and_keeps_shared_pack(client, services, settings):
    first = await submit_batch(client, *texts(3))
    changed = texts(3)
    changed[1]["text"] = "Another answer."

    again = await submit_batch(client, *changed)
    assert [(result.status, result.document.version) for result in again] == [(200, 1), (202, 2), (200, 1)]
    await services.cleaner.clean()
    assert len((await left_behind(services, settings))[1]) == 2

    for result in (first[0], first[2]):
        await client.delete(f"/v1/documents/{result.document.id}")
    await services.cleaner.clean()
    await services.cleaner.clean()
    _, (remaining,) = await left_behind(services, settings)
    async with services.database.begin() as connection:
        (needed,) = (await connection.execute_sql("SELECT upload FROM document_versions")).scalars()
    assert stored_in(needed) == remaining.name
    assert (await services.orphans.count()).orphans == {}


async def test_duplicate_external_ids_in_batch_last_wins(client):
    answers = await submit_batch(client, *({"external_id": "a", "text": text} for text in ("one", "two", "two")))

    assert [(result.status, result.document.version) for result in answers] == [(202, 1), (202, 2), (200, 2)]
    assert len({result.document.id for result in answers}) == 1


REJECTED_LINES = [
    (b"{\n", 400, None, None),
    (b"[]\n", 422, None, None),
    (b'{"text": "a", "text2": "b"}\n', 422, "text2", None),
    ({"external_id": "x"}, 422, None, "x"),
    ({"external_id": "x", "text": "a", "content_base64": "YQ=="}, 422, None, "x"),
    ({"external_id": "x", "text": " "}, 422, "text", "x"),
    ({"external_id": "x", "content_base64": "???"}, 422, "content_base64", "x"),
    ({"external_id": "x", "text": "a", "filename": "."}, 422, "filename", "x"),
    ({"external_id": "x", "text": "a", "collection": "other"}, 422, "collection", "x"),
    ({"external_id": "x", "text": "a\x00"}, 422, None, None),
    ({"external_id": "x", "text": "a" * 2_001}, 413, None, "x"),
    ({"external_id": "x", "text": "a" * 5_000}, 413, None, None),
    ({"external_id": "x", "text": "a", "metadata": {"year": "next"}}, 422, "metadata.year", "x"),
]


async def test_rejected_line_does_not_stop_batch(services, settings):
    small = settings.model_copy(update={"max_upload_bytes": 2_000, "max_json_bytes": 4_000})
    async with calling(small, services) as client:
        await client.put("/v1/collections/faq", json={"filterable": {"year": "integer"}})
        for number, (line, status, field, named) in enumerate(REJECTED_LINES):
            first, last = ({"external_id": f"{each} {number}", "text": each} for each in ("first", "last"))
            answers = await submit_batch(client, first, line, b"\n", b"  \n", last, collection="faq")

            case = str(line)[:100]
            assert [(result.line, result.status) for result in answers] == [(1, 202), (2, status), (5, 202)], case
            refused = answers[1].error
            assert (refused.status, refused.field) == (status, field), case
            assert refused.detail.endswith("."), case
            assert answers[1].external_id == named, case
            assert len((await left_behind(services, settings))[1]) == number + 1, case


async def test_invalid_batch_request_is_rejected(client, settings, services):
    address = "/v1/documents:batch"
    assert (await client.post(address, content=b"{}")).status_code == 415
    packed = await client.post(address, content=b"{}", headers=NDJSON | {"content-encoding": "gzip"})
    assert packed.status_code == 415
    huge = await client.post(address, content=b"{}", headers=NDJSON | {"content-length": str(1 << 40)})
    assert huge.status_code == 413
    assert (await client.post(f"{address}?collection=Ä", content=b"{}", headers=NDJSON)).status_code == 422
    assert results(await client.post(address, content=b" \n\n", headers=NDJSON)) == []
    async with calling(with_keys(settings), services) as other:
        assert (await other.post(address, content=b"{}", headers=NDJSON)).status_code == 401
        answers = await other.post(address, content=lines(*texts(1)), headers=NDJSON | as_tenant("alice"))
        assert [result.status for result in results(answers)] == [202]
        assert (await other.get("/v1/documents", headers=as_tenant("bob"))).json()["items"] == []


async def test_batch_over_line_limit_stops_with_413(client, monkeypatch):
    monkeypatch.setattr(batch, "MOST_LINES", 5)
    monkeypatch.setattr(batch, "_GROUP_LINES", 2)

    answers = await submit_batch(client, *texts(9))

    assert [result.status for result in answers] == [202] * 5 + [413]
    assert (answers[-1].line, "at most 5 documents" in answers[-1].error.detail) == (6, True)


async def test_unavailable_store_fails_all_lines_after_one_attempt(client, services, monkeypatch):
    monkeypatch.setattr(batch, "_GROUP_LINES", 2)
    attempts = []

    async def fail(self, contents):
        attempts.append(len(contents))
        raise Unavailable("the store is unavailable.", component="uploads")

    monkeypatch.setattr(type(services.uploads), "store_pack", fail)
    answers = await submit_batch(client, *texts(3), b"{\n", *texts(3))

    assert [result.status for result in answers] == [503, 503, 503, 400, 503, 503, 503]
    assert answers[0].error.component == "uploads"
    assert attempts == [2]


@pytest.mark.parametrize("committed", [True, False])
async def test_uncertain_commit_keeps_pack_only_if_committed(client, services, settings, monkeypatch, committed):
    commit = Documents.submit_many

    async def lost(self, new):
        if committed:
            await commit(self, new)
        raise Unavailable("the ledger became unavailable during the commit", component="ledger")

    monkeypatch.setattr(Documents, "submit_many", lost)
    answers = await submit_batch(client, *texts(3))

    assert [result.status for result in answers] == [503] * 3
    rows, files = await left_behind(services, settings)
    assert (rows, len(files)) == ((3, 1) if committed else (0, 0))


async def test_concurrent_batches_with_same_names_all_succeed(client, services):
    documents = texts(120)
    mixed = [documents, documents[::-1], documents[60:] + documents[:60]]
    for number in range(3):
        changed = [[d | {"text": f"{d['text']} {number} {n}"} for d in order] for n, order in enumerate(mixed)]
        answers = await asyncio.gather(*(submit_batch(client, *one) for one in changed))
        assert {result.status for one in answers for result in one} == {202}

    async with services.database.begin() as connection:
        versions = (await connection.execute_sql("SELECT DISTINCT version FROM documents")).scalars()
    assert versions == [9]


async def test_disconnect_during_batch_keeps_complete_groups(services, settings, provider, monkeypatch):
    monkeypatch.setattr(batch, "_GROUP_LINES", 2)

    async def are_stored(count):
        return (await left_behind(services, settings))[0] >= count

    async def body():
        yield lines(*texts(2))
        await eventually(lambda: are_stored(2))
        yield lines(*texts(5)[2:])[:-9]
        await eventually(lambda: are_stored(4))
        raise ConnectionAbortedError

    async with serving(settings, services) as client:
        with pytest.raises(ConnectionAbortedError):
            await client.post("/v1/documents:batch", content=body(), headers=NDJSON)

    rows, files = await left_behind(services, settings)
    assert (rows, len(files)) == (4, 2)


async def test_unread_replies_do_not_block_batch_upload(services, settings, provider, monkeypatch):
    """The client reads only after sending everything; its receive buffer is full of replies long before."""
    monkeypatch.setattr(batch, "_GROUP_LINES", 50)
    async with serving(settings, services) as client:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", client.base_url.port))
        reader, writer = await asyncio.open_connection(sock=connection)
        content = b"".join(
            b'{"external_id": "' + b"n" * 480 + b'", "x": "' + b"x" * 3_000 + b'"}\n' for _ in range(9_000)
        )
        writer.write(
            b"POST /v1/documents:batch HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            b"Content-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n" % len(content)
        )
        async with asyncio.timeout(TIMEOUT_SECONDS):
            writer.write(content)
            await writer.drain()
            reply = await reader.read(-1)
        writer.close()

    assert reply.count(b'"status":422') >= 9_000


async def test_lines_are_independent_of_network_chunks():
    body = b'{"a": 1}\r\n\n' + b"x" * 30 + b"\n" + b"\n" + b"y" * 11 + b"\nlast"

    async def pieces(size):
        for start in range(0, len(body), size):
            yield body[start : start + size]

    expected = [(1, b'{"a": 1}\r'), (3, None), (5, None), (6, b"last")]
    for size in (1, 2, 7, 31, 1_000):
        assert [(line.number, line.content) async for line in read_lines(pieces(size), 10)] == expected
