"""Documents over HTTP: uploaded, tracked, retried and deleted; a rejected upload leaves nothing."""

import asyncio
import base64
import errno
import hashlib
from itertools import pairwise
from uuid import UUID, uuid4

import orjson
import pytest

from api.schemas.chunks import ChunkInContextView, ChunkPage
from api.schemas.documents import DocumentPage, DocumentView
from shared.domain.errors import Unavailable
from shared.http.schemas.problems import ProblemDetails
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from tests.support.api import as_tenant, calling, left_behind, with_keys, work
from tests.support.planted import guards

FORM = {"file": ("a.md", b"# Leave\n\n30 days.", "text/markdown")}
JSON = {"text": "# Leave\n\n30 days.", "filename": "a.md"}


async def submit(client, **change):
    reply = await client.post("/v1/documents", json=JSON | change)
    assert reply.status_code in {200, 202}, reply.text
    return DocumentView.model_validate_json(reply.content)


@pytest.mark.parametrize("form", [True, False])
async def test_accepted_upload_is_queued_and_its_bytes_stored(client, services, settings, wakes, form):
    reply = await client.post("/v1/documents", **({"files": FORM} if form else {"json": JSON}))

    accepted = DocumentView.model_validate_json(reply.content)
    assert reply.status_code == 202
    assert reply.headers["location"] == f"/v1/documents/{accepted.id}"
    assert (accepted.state, accepted.version, accepted.collection) == ("queued", 1, "default")
    assert accepted.external_id == "a.md"
    assert wakes == ["parse"]
    _, (path,) = await left_behind(services, settings)
    assert path.read_bytes() == JSON["text"].encode()


async def test_row_is_committed_before_workers_are_woken(client, monkeypatch):
    order = []
    original = Documents.submit_many

    async def record(self, new):
        submission = await original(self, new)
        order.append("row")
        return submission

    monkeypatch.setattr(Documents, "submit_many", record)
    monkeypatch.setattr("shared.broker.wakeups.Wakeups.wake", lambda *_: order.append("wake"))

    await submit(client)

    assert order == ["row", "wake"]


async def test_prefer_wait_answers_when_document_is_searchable(client, services):
    async def worked():
        while not (await client.get("/v1/documents")).json()["items"]:
            await asyncio.sleep(0.01)
        await work(services, "parse", "index")

    working = asyncio.create_task(worked())
    reply = await client.post("/v1/documents", json=JSON, headers={"prefer": "respond-async, wait=20"})
    await working

    assert (reply.status_code, reply.json()["state"]) == (201, "searchable")
    assert reply.headers["preference-applied"] == "wait=20"
    assert reply.json()["chunks"]["searchable"] == 1
    again = await client.post("/v1/documents", json=JSON, headers={"prefer": "wait=20"})
    assert (again.status_code, again.json()["state"]) == (200, "searchable")


async def test_zero_or_invalid_wait_preference_answers_at_once(client):
    for prefer, applied in (("wait=0", "wait=0"), ("wait", None), ("wait=-1", None), ("return=minimal", None)):
        sent = JSON | {"external_id": prefer}
        reply = await client.post("/v1/documents", json=sent, headers={"prefer": prefer})

        assert (reply.status_code, reply.json()["state"]) == (202, "queued"), prefer
        assert reply.headers.get("preference-applied") == applied, prefer


async def test_form_fields_are_stored_with_document(client):
    fields = {
        "collection": "handbook",
        "external_id": "leave",
        "title": "Leave / Urlaub",
        "metadata": orjson.dumps({"year": 2026, "tags": ["a"]}).decode(),
        "questions": '["How long?", {"text": "How many?", "quote": "30 days"}]',
        "lane": "bulk",
    }
    accepted = DocumentView.model_validate_json((await client.post("/v1/documents", files=FORM, data=fields)).content)

    shown = DocumentView.model_validate_json((await client.get(f"/v1/documents/{accepted.id}")).content)
    assert (shown.collection, shown.external_id, shown.title) == ("handbook", "leave", "Leave / Urlaub")
    assert shown.metadata == {"year": 2026, "tags": ["a"]}
    assert (shown.filename, shown.media_type, shown.size_bytes) == ("a.md", "text/markdown", 17)


async def test_unchanged_upload_returns_existing_document(client, services, settings, wakes):
    first = await submit(client, metadata={"a": 1, "b": 2})
    again = await client.post("/v1/documents", json=JSON | {"metadata": {"b": 2, "a": 1}})

    assert again.status_code == 200
    assert again.json() == orjson.loads(first.model_dump_json())
    rows, files = await left_behind(services, settings)
    assert (rows, len(files)) == (1, 1)
    assert wakes == ["parse"]


@guards(
    "api/submission/submission.py",
    '                "title": description.title,\n',
    "",
    means="a document with another title is unchanged",
)
async def test_any_changed_field_starts_next_version(client, services, settings):
    changes = (
        {"text": "other"},
        {"title": "Leave"},
        {"metadata": {"year": 2026}},
        {"questions": []},
        {"questions": ["How long?"]},
        {"filename": "b.html"},
        {"media_type": "text/html"},
    )
    for number, change in enumerate(changes):
        name = {"external_id": str(number)}
        first = await submit(client, **name)
        reply = await client.post("/v1/documents", json=JSON | name | change)

        changed = DocumentView.model_validate_json(reply.content)
        assert reply.status_code == 202, change
        assert (changed.id, changed.version) == (first.id, 2), change
    await services.cleaner.clean()
    rows, files = await left_behind(services, settings)
    assert (rows, len(files)) == (len(changes), len(changes))  # the obsolete uploads were deleted


async def test_document_without_name_is_named_by_content_hash(client):
    accepted = await submit(client, filename=None)

    assert accepted.external_id == f"sha256-{hashlib.sha256(JSON['text'].encode()).hexdigest()[:32]}"


async def test_base64_content_is_stored_decoded(client, services, settings):
    content = bytes(range(256))
    reply = await client.post("/v1/documents", json={"content_base64": base64.b64encode(content).decode()})

    assert reply.status_code == 202
    _, (path,) = await left_behind(services, settings)
    assert path.read_bytes() == content


NUL = '{"text": "a", "external_id": "a\\u0000b"}'
BAD_JSON = [
    ({"json": {}}, 422, None),
    ({"json": {"text": ""}}, 422, "text"),
    ({"json": {"text": " \n\t"}}, 422, "text"),
    ({"json": {"content_base64": ""}}, 422, "content_base64"),
    ({"json": {"content_base64": "?"}}, 422, "content_base64"),
    ({"json": JSON | {"filename": "a\nb.md"}}, 422, "filename"),
    ({"json": JSON | {"filename": ".."}}, 422, "filename"),
    ({"json": JSON | {"media_type": "markdown"}}, 422, "media_type"),
    ({"json": JSON | {"collection": "No Such Name"}}, 422, "collection"),
    ({"json": JSON | {"colour": "red"}}, 422, "colour"),
    ({"json": JSON | {"metadata": "{}"}}, 422, "metadata"),
    ({"json": JSON | {"metadata": {"a": "x" * 50_000}}}, 422, "metadata"),
    ({"json": JSON | {"text": "x" * 6_000}}, 413, None),  # over the upload limit
    ({"json": JSON | {"title": "x" * 90_000}}, 413, None),  # over the JSON limit
    ({"content": NUL}, 422, None),
    ({"content": '{"text": "a\\u0000b"}'}, 422, None),
    ({"content": '{"text": "a", "metadata": {"\\u0000": 1}}'}, 422, None),
    ({"content": '{"text": "\\ud800"}'}, 400, None),
    ({"content": b'{"text": "\xff"}'}, 400, None),
    ({"content": '{"text": "a", "metadata": {"a": NaN}}'}, 400, None),
    ({"content": '{"text": "a", "metadata": ' + '{"a":' * 3000 + "1" + "}" * 3000 + "}"}, 400, None),
    ({"content": "{"}, 400, None),
    ({"content": ""}, 400, None),
    ({"content": "[]"}, 422, None),
]


async def test_rejected_json_stores_no_row_and_no_file(services, settings, wakes):
    limits = {"max_upload_bytes": 5_000, "max_json_bytes": 80_000}
    headers = {"content-type": "application/json"}
    async with calling(settings.model_copy(update=limits), services) as client:
        for request_, status, field in BAD_JSON:
            reply = await client.post("/v1/documents", headers=headers, **request_)

            problem, named = ProblemDetails.model_validate_json(reply.content), str(request_)[:100]
            assert (reply.status_code, problem.status) == (status, status), (named, reply.text)
            assert problem.field == field, named
            assert reply.headers["content-type"] == "application/problem+json", named
            assert (*await left_behind(services, settings), *wakes) == (0, []), named


def form(**fields):
    content = fields.pop("content", b"text")
    name = fields.pop("name", "a.md")
    return {"files": {"file": (name, content)}, "data": fields}


BAD_FORMS = [
    (form(content=b""), 422, "file"),
    (form(content=b"x" * 6_000), 413, None),
    (form(title="x" * 90_000), 413, None),
    (form(metadata="{"), 400, "metadata"),
    (form(metadata="[]"), 422, "metadata"),
    (form(metadata='{"a": NaN}'), 400, "metadata"),
    (form(metadata='{"a": "\\u0000"}'), 422, "metadata"),
    (form(questions='{"a": 1}'), 422, "questions"),
    (form(questions="Why?"), 400, "questions"),
    (form(lane="fast"), 422, "lane"),
    (form(colour="red"), 422, "colour"),
    (form(collection="A"), 422, "collection"),
    (form(external_id="a\0b"), 422, "external_id"),
    (form(title=b"\xff"), 422, "title"),
    (form(name=".."), 422, "filename"),
    ({"files": {"title": (None, b"a")}}, 422, "file"),
    ({"files": [("file", ("a", b"a")), ("file", ("b", b"b"))]}, 422, "file"),
    ({"content": b"--x", "headers": {"content-type": "multipart/form-data; boundary=y"}}, 400, None),
    ({"content": b"--x", "headers": {"content-type": "multipart/form-data"}}, 400, None),
    ({"content": b"text", "headers": {"content-type": "text/plain"}}, 415, None),
    ({"content": b"text"}, 415, None),
    ({"content": b"{}", "headers": {"content-type": "application/json", "content-encoding": "gzip"}}, 415, None),
]


async def test_rejected_form_stores_no_row_and_no_file(services, settings, wakes):
    limits = {"max_upload_bytes": 5_000, "max_json_bytes": 80_000}
    async with calling(settings.model_copy(update=limits), services) as client:
        for request_, status, field in BAD_FORMS:
            reply = await client.post("/v1/documents", **request_)

            problem, named = ProblemDetails.model_validate_json(reply.content), str(request_)[:100]
            assert (reply.status_code, problem.field) == (status, field), (named, reply.text)
            assert (*await left_behind(services, settings), *wakes) == (0, []), named


async def test_upload_without_ledger_fails_and_stores_no_file(client, services, settings, monkeypatch):
    async def unavailable(*_, **__):
        raise Unavailable("the ledger is unavailable", component="ledger")

    monkeypatch.setattr(Documents, "submit_many", unavailable)
    for request_ in ({"json": JSON}, {"files": FORM}):
        reply = await client.post("/v1/documents", **request_)

        assert reply.status_code == 503, request_
        assert reply.headers["retry-after"]
        assert ProblemDetails.model_validate_json(reply.content).component == "ledger"
        assert await left_behind(services, settings) == (0, []), request_


async def test_upload_to_full_disk_fails_and_stores_nothing(client, services, settings, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shared.storage.folder.os.fsync", full)
    for content in ("a", "x" * 3_000_000):
        for request_ in ({"files": {"file": ("a", content.encode())}}, {"json": {"text": content}}):
            reply = await client.post("/v1/documents", **request_)

            named = (*request_, len(content))
            assert reply.status_code == 503, named
            assert "No space left" in reply.json()["detail"], named
            assert await left_behind(services, settings) == (0, []), named


async def test_uncertain_commit_keeps_uploaded_file(client, services, settings, monkeypatch):
    commit = Documents.submit_many

    async def lost(self, new):
        await commit(self, new)
        raise Unavailable("the ledger became unavailable during the commit", component="ledger")

    monkeypatch.setattr(Documents, "submit_many", lost)
    reply = await client.post("/v1/documents", json=JSON)

    assert reply.status_code == 503
    rows, files = await left_behind(services, settings)
    assert (rows, len(files)) == (1, 1)


async def test_internal_error_reveals_no_details_and_stores_nothing(client, services, settings, monkeypatch):
    async def broken(*_, **__):
        raise RuntimeError("30 days of secrets")

    monkeypatch.setattr("shared.http.access.collection_cache.CollectionCache.ensure", broken)
    for request_ in ({"json": JSON}, {"files": FORM}):
        reply = await client.post("/v1/documents", **request_)

        assert reply.status_code == 500
        assert "secrets" not in reply.text
        assert ProblemDetails.model_validate_json(reply.content)
    assert await left_behind(services, settings) == (0, [])


async def test_other_embedding_model_is_rejected_with_remedy(client, services, settings, provider, wakes):
    await services.ledger[Collections].ensure("default", "old", embedding_model="older")

    for reply in (
        await client.post("/v1/documents", json=JSON | {"collection": "old"}),
        await client.post("/v1/documents", files=FORM, data={"collection": "old"}),
        await client.post("/v1/retrieve", json={"question": "a", "collection": "old"}),
        await client.put("/v1/collections/old", json={}),
    ):
        assert reply.status_code == 409
        assert "FOREASK_EMBEDDING_MODEL" in reply.json()["detail"]
    assert await left_behind(services, settings) == (0, [])


async def test_finished_document_lists_chunks_and_questions(client, services, settings):
    accepted = await submit(client, text="# A\n\n" + "alpha beta. " * 30 + "\n\n# B\n\n" + "gamma delta. " * 30)
    await work(services)

    shown = DocumentView.model_validate_json((await client.get(f"/v1/documents/{accepted.id}")).content)
    assert (shown.state, shown.live_version) == ("ready", 1)
    assert shown.chunks.total == shown.chunks.indexed == 2
    assert shown.usage.calls == 2
    assert shown.usage.prompt_tokens > 0
    first = ChunkPage.model_validate_json(
        (await client.get(f"/v1/documents/{shown.id}/chunks", params={"limit": 1})).content
    )
    second = ChunkPage.model_validate_json(
        (await client.get(f"/v1/documents/{shown.id}/chunks", params={"cursor": first.next_cursor})).content
    )
    assert [chunk.heading_path for chunk in (*first.items, *second.items)] == [["A"], ["B"]]
    assert second.next_cursor is None
    passed = [q for chunk in (*first.items, *second.items) for q in chunk.questions if q.passed]
    assert len(passed) == shown.questions > 0


SECTIONS = "\n\n".join(f"# Part {n}\n\n" + f"The harbour of part {n} opens at {n}. " * 9 for n in range(6))


async def chunks_of(client, document_id, **parameters):
    reply = await client.get(f"/v1/documents/{document_id}/chunks", params=parameters)
    assert reply.status_code == 200, reply.text
    return ChunkPage.model_validate_json(reply.content)


async def test_chunks_are_paged_in_both_directions(client, services):
    document = await submit(client, text=SECTIONS)
    await work(services, "parse", "index")
    every = (await chunks_of(client, document.id)).items
    assert [chunk.ordinal for chunk in every] == list(range(6))

    def ordinals(page):
        return [chunk.ordinal for chunk in page.items]

    first = await chunks_of(client, document.id, limit=2)
    assert (ordinals(first), first.previous_cursor) == ([0, 1], None)
    middle = await chunks_of(client, document.id, limit=3, around=every[3].id)
    assert ordinals(middle) == [2, 3, 4]
    assert ordinals(await chunks_of(client, document.id, limit=3, cursor=middle.next_cursor)) == [5]
    before = await chunks_of(client, document.id, limit=1, cursor=middle.previous_cursor)
    assert ordinals(before) == [1]
    assert ordinals(await chunks_of(client, document.id, limit=9, cursor=before.previous_cursor)) == [0]
    assert ordinals(await chunks_of(client, document.id, limit=9, cursor=before.next_cursor)) == [2, 3, 4, 5]
    last = await chunks_of(client, document.id, **{"from": 4, "limit": 2})
    assert (ordinals(last), last.next_cursor) == ([4, 5], None)
    assert ordinals(await chunks_of(client, document.id, around=every[5].id, limit=4)) == [3, 4, 5]
    assert ordinals(await chunks_of(client, document.id, state="dead,indexed")) == []
    assert ordinals(await chunks_of(client, document.id, state="generating", limit=9)) == list(range(6))
    for refused, status in (({"around": str(uuid4())}, 404), ({"around": str(every[1].id), "from": 2}, 422)):
        reply = await client.get(f"/v1/documents/{document.id}/chunks", params=refused)
        assert (reply.status_code, reply.json()["field"]) == (status, "around")


async def test_citation_refers_to_chunk_of_live_version(client, services):
    document = await submit(client, text=SECTIONS)
    address = f"/v1/documents/{document.id}/chunks"
    assert (await client.get(address, params={"version": "live"})).status_code == 404
    await work(services)
    cited = (await chunks_of(client, document.id, version="live")).items[2]
    await submit(client, text=SECTIONS.replace("part 2", "section 2"))
    await work(services, "parse")

    assert cited.id not in [chunk.id for chunk in (await chunks_of(client, document.id)).items]
    assert cited == (await chunks_of(client, document.id, version="live", around=cited.id)).items[2]
    shown = ChunkInContextView.model_validate_json(
        (await client.get(f"/v1/chunks/{cited.id}?before=2&after=0")).content
    )
    assert (shown.document.id, shown.document.version, shown.chunk) == (document.id, 2, cited)
    assert [chunk.ordinal for chunk in (*shown.before, *shown.after)] == [0, 1]
    assert (await client.get(f"/v1/chunks/{uuid4()}")).status_code == 404


async def test_chunk_shows_question_results_and_costs(client, services, library, provider):
    document = await submit(client, text="# Harbour\n\nThe harbour opens at six and closes at nine.")
    given = await submit(client, text="The lamp burns until dawn.", external_id="b", questions=["Until when?", "Who?"])
    await work(services)
    query = (await client.post("/v1/retrieve", json={"question": "When does the harbour open?"})).json()
    chunk_id = query["chunks"][0]["chunk_id"]
    body = {"query_id": query["metadata"]["query_id"], "chunk_id": chunk_id, "helpful": True}
    assert (await client.post("/v1/feedback", json=body)).status_code == 200

    (chunk,) = (await chunks_of(client, document.id)).items
    *own, user_question = chunk.questions
    assert (chunk.usage.calls, chunk.attempts, chunk.version) == (1, [], 1)
    assert {question.source for question in own} == {"generated"}
    assert all(-1 <= question.similarity <= 1 for question in own if question.passed)
    assert (user_question.text, user_question.source, user_question.passed) == (
        "When does the harbour open?",
        "user",
        None,
    )
    assert (user_question.accepted.state, str(user_question.accepted.query_id)) == ("waiting", body["query_id"])
    (chunk,) = (await chunks_of(client, given.id)).items
    assert [question.source for question in chunk.questions] == ["given"] * 2
    assert chunk.usage.cost == 0


async def test_original_and_text_are_served_without_execution(client, services):
    page = b"<html><body><h1>Leave</h1><script>alert(1)</script><p>Thirty days.</p></body></html>"
    sent = {"file": ("a 1;\u00e4.html", page, "text/html")}
    document = DocumentView.model_validate_json((await client.post("/v1/documents", files=sent)).content)
    address = f"/v1/documents/{document.id}"
    assert (await client.get(f"{address}/text")).status_code == 404
    await work(services, "parse", "index")

    original = await client.get(f"{address}/content")
    assert (original.content, original.headers["content-length"]) == (page, str(len(page)))
    assert original.headers["content-type"] == "text/html"
    assert original.headers["content-disposition"] == "attachment; filename*=UTF-8''a%201%3B%C3%A4.html"
    for reply in (original, await client.get(f"{address}/text", params={"version": "live"})):
        assert reply.headers["content-security-policy"].startswith("sandbox")
        assert reply.headers["x-content-type-options"] == "nosniff"
    read = await client.get(f"{address}/text")
    assert read.headers["content-type"] == "text/plain; charset=utf-8"
    for chunk in (await chunks_of(client, document.id)).items:
        assert read.text[slice(*chunk.span)] == chunk.text
    assert "Thirty days." in read.text
    assert "alert" not in read.text


BYTES = bytes(range(256)) * 9_000  # more than two pieces
FULL = len(BYTES)


async def stored_bytes(client):
    """Return the address of a document's bytes."""
    sent = {"file": ("ships.pdf", BYTES, "application/pdf")}
    document = DocumentView.model_validate_json((await client.post("/v1/documents", files=sent)).content)
    return f"/v1/documents/{document.id}/content"


@guards(
    "shared/storage/uploads.py",
    "        offset, end = first + start, first + stop",
    "        offset, end = first, first + stop - start",
    means="a range of an original has other bytes",
)
@guards(
    "api/routes/contents.py",
    "pieces), 206, _SAFE | headers)",
    "pieces), 206, headers)",
    means="a range of an original runs as a page of this server",
)
@guards(
    "api/routes/contents.py",
    '"cache-control": "private, no-store"',
    '"cache-control": "private"',
    means="a browser stores an original that is erased later",
)
async def test_range_of_original_is_sent_alone(client):
    address = await stored_bytes(client)
    for sent, start, end in (
        ("bytes=0-99", 0, 100),
        ("bytes=1048570-2097160", 1_048_570, 2_097_161),
        (f"bytes={FULL - 5}-", FULL - 5, FULL),
        ("bytes=-7", FULL - 7, FULL),
        (f"bytes=0-{FULL * 2}", 0, FULL),
        (f"bytes=-{FULL * 2}", 0, FULL),
    ):
        reply = await client.get(address, headers={"range": sent})

        assert (reply.status_code, reply.content == BYTES[start:end]) == (206, True), sent
        assert reply.headers["content-range"] == f"bytes {start}-{end - 1}/{FULL}", sent
        assert reply.headers["content-length"] == str(end - start), sent
        assert reply.headers["content-disposition"].startswith("attachment"), sent
        assert reply.headers["content-security-policy"].startswith("sandbox"), sent
        assert reply.headers["x-content-type-options"] == "nosniff", sent
        assert reply.headers["cache-control"] == "private, no-store", sent


async def test_unsupported_range_of_original_is_ignored(client):
    address = await stored_bytes(client)
    for sent in ("bytes=0-1,4-5", "bytes=9-3", "bytes=-", "lines=0-4", "bytes=a-b"):
        reply = await client.get(address, headers={"range": sent})
        assert (reply.status_code, reply.content == BYTES, reply.headers["accept-ranges"]) == (200, True, "bytes"), sent


async def test_range_after_end_of_original_is_rejected(client):
    address = await stored_bytes(client)
    for sent in (f"bytes={FULL}-", "bytes=-0"):
        reply = await client.get(address, headers={"range": sent})
        assert (reply.status_code, reply.headers["content-range"]) == (416, f"bytes */{FULL}"), sent
        assert reply.json()["type"].endswith("no-such-range"), sent


@guards(
    "api/http/ranges.py", ' or headers.get("if-range", tag) != tag', "", means="a client joins ranges of two versions"
)
async def test_range_of_replaced_original_is_sent_whole(client):
    address = await stored_bytes(client)
    tag = (await client.get(address)).headers["etag"]
    same = await client.get(address, headers={"range": "bytes=0-9", "if-range": tag})
    assert (same.status_code, same.headers["etag"]) == (206, tag)
    sent = {"file": ("ships.pdf", BYTES[:2_000], "application/pdf")}
    assert (await client.post("/v1/documents", files=sent)).json()["version"] == 2

    reply = await client.get(address, headers={"range": "bytes=0-9", "if-range": tag})

    assert (reply.status_code, reply.content == BYTES[:2_000]) == (200, True)
    assert reply.headers["etag"] != tag


async def test_range_of_deleted_or_foreign_original_returns_404(services, settings):
    async with calling(with_keys(settings), services) as client:
        own, theirs = as_tenant("alice"), as_tenant("bob")
        sent = {"file": ("ships.pdf", BYTES, "application/pdf")}
        document = (await client.post("/v1/documents", files=sent, headers=own)).json()
        address, part = f"/v1/documents/{document['id']}/content", {"range": "bytes=0-9"}
        assert (await client.get(address, headers=own | part)).status_code == 206
        assert (await client.get(address, headers=theirs | part)).status_code == 404
        await client.delete(f"/v1/documents/{document['id']}", headers=own)
        for wanted in ({"version": "latest"}, {"version": "live"}):
            assert (await client.get(address, params=wanted, headers=own | part)).status_code == 404


async def test_document_text_is_complete_despite_overlaps_and_pages(client, services, monkeypatch):
    monkeypatch.setattr("api.routes.contents._PAGE", 2)
    text_ = "One sentence of the harbour stands here, and the next follows it. " * 120
    document = await submit(client, text=text_)
    await work(services, "parse")

    every = (await chunks_of(client, document.id)).items
    assert any(second.span[0] < first.span[1] for first, second in pairwise(every))
    assert (await client.get(f"/v1/documents/{document.id}/text")).text == text_.rstrip()


async def test_document_text_of_impossible_spans_is_bounded(client, services, monkeypatch):
    monkeypatch.setattr("shared.domain.corpus.chunks.MOST_CHARS", 1_000)
    document = await submit(client, text="The ferry is late.")
    await work(services, "parse")
    async with services.database.begin() as connection:
        await connection.execute(
            Statement("UPDATE chunk_contents SET content = jsonb_set(content, '{span}', '[10000000000, 10000000018]')")
        )

    assert (await client.get(f"/v1/documents/{document.id}/text")).text == "\n" * 1_000 + "The ferry is late."


async def test_missing_stored_file_asks_for_new_upload(client, services, settings):
    document = await submit(client)
    _, (path,) = await left_behind(services, settings)
    path.unlink()

    reply = await client.get(f"/v1/documents/{document.id}/content")

    assert (reply.status_code, reply.json()["detail"]) == (
        404,
        "The stored file is missing: upload it again.",
    )


async def test_document_cost_follows_token_prices(services, settings, provider):
    prices = {"llm_input_price": 2.0, "llm_output_price": 8.0}
    async with calling(settings.model_copy(update=prices), services) as client:
        accepted = await submit(client)
        await work(services)
        usage = (await client.get(f"/v1/documents/{accepted.id}")).json()["usage"]

    assert usage["cost"] == pytest.approx((usage["prompt_tokens"] * 2 + usage["completion_tokens"] * 8) / 1e6)
    assert usage["cost"] > 0


async def test_document_list_is_paged_and_filtered(client, services):
    for number in range(5):
        await submit(client, external_id=f"d{number}", collection="a" if number < 3 else "b")

    seen, cursor = [], None
    while True:
        parameters = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = DocumentPage.model_validate_json((await client.get("/v1/documents", params=parameters)).content)
        seen += [document.external_id for document in page.items]
        assert len(page.items) <= 2
        if (cursor := page.next_cursor) is None:
            break
    assert seen == ["d4", "d3", "d2", "d1", "d0"]

    async def listed(**parameters):
        return {d["external_id"] for d in (await client.get("/v1/documents", params=parameters)).json()["items"]}

    assert await listed(collection="b") == {"d3", "d4"}
    assert await listed(external_id="d1") == {"d1"}
    assert await listed(state="queued") == set(seen)
    assert await listed(state="ready") == set()
    assert await listed(state="ready,queued,failed", collection="a") == {"d0", "d1", "d2"}
    ids = [d["id"] for d in (await client.get("/v1/documents")).json()["items"]]
    assert await listed(id=[ids[0], ids[4], str(uuid4())]) == {"d4", "d0"}
    assert await listed(id=ids, collection="b") == {"d3", "d4"}


async def varied(services):
    """Upload five documents, then change one and fail another."""
    titles = {"b.md": "Leave policy", "trip 2019.md": None, "c.md": "Ärzte", "d.pdf": "\u5e74\u5047"}
    async with calling(services.settings, services) as client:
        for name, title in titles.items():
            await submit(client, filename=name, title=title, collection="one")
        await submit(client, filename="a.txt", external_id="z_9", title="Trips", collection="two", metadata={"a": 1})
    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE documents SET updated_at = now() WHERE external_id = 'c.md'")
        for state in ("parsing", "failed"):
            await connection.execute_sql(f"UPDATE documents SET state = '{state}' WHERE external_id = 'd.pdf'")


@pytest.fixture
async def varied_documents(once):
    await once(varied)


async def names_of(client, **parameters):
    """Return the external ids of a list, read in pages."""
    names, cursor = [], None
    while True:
        page = await client.get("/v1/documents", params=parameters | ({"cursor": cursor} if cursor else {}))
        assert page.status_code == 200, page.text
        names += [document["external_id"] for document in page.json()["items"]]
        if (cursor := page.json()["next_cursor"]) is None:
            return names


async def test_every_sort_order_pages_without_gaps_or_repeats(client, varied_documents, monkeypatch):
    monkeypatch.setattr(
        "shared.ledger.documents.listing._CHECKED", 2
    )  # only two of five documents are checked; the others are found by the word index
    for sort, order in {
        "newest": ["z_9", "d.pdf", "c.md", "trip 2019.md", "b.md"],
        "updated": ["c.md", "z_9", "d.pdf", "trip 2019.md", "b.md"],
        "name": ["b.md", "c.md", "d.pdf", "trip 2019.md", "z_9"],
        "state": ["d.pdf", "z_9", "c.md", "trip 2019.md", "b.md"],
    }.items():
        for limit in (1, 2, 9):
            assert await names_of(client, sort=sort, limit=limit) == order, (sort, limit)
            for q, names in (("md", {"b.md", "c.md", "trip 2019.md"}), ("t", {"z_9", "trip 2019.md"})):
                found = await names_of(client, sort=sort, limit=limit, q=q)
                assert found == [name for name in order if name in names], (sort, limit, q)


async def test_document_list_is_searchable_by_title_and_name(client, varied_documents):
    for q, names in {
        "leave": {"b.md"},
        "POL lea": {"b.md"},
        "trip": {"trip 2019.md", "z_9"},
        "2019": {"trip 2019.md"},
        "\u00e4r": {"c.md"},
        "\u5047": {"d.pdf"},
        "9": {"z_9"},
        "olicy": set(),
        "...": set(),
        "'/default' | a": set(),
        "default": set(),
    }.items():
        assert set(await names_of(client, q=q)) == names, q


async def test_search_counts_hits_beyond_its_page(client, varied_documents):
    async def hits(**params):
        return (await client.get("/v1/documents", params={"limit": 1, "count": "true"} | params)).json()["hits"]

    assert await hits(q="md") == 3
    assert await hits(q="md", state="queued") == 3
    assert await hits(q="md", state="failed") == 0
    assert await hits(q="...") == 0
    assert await hits() is None
    assert await hits(q="md", count="false") is None


async def test_list_omits_metadata_and_binds_cursor_to_order(client, varied_documents):
    first = (await client.get("/v1/documents", params={"limit": 1, "metadata": "false"})).json()
    assert [document["metadata"] for document in first["items"]] == [None]
    assert (await client.get("/v1/documents", params={"limit": 1})).json()["items"][0]["metadata"] == {"a": 1}

    other = await client.get("/v1/documents", params={"sort": "state", "cursor": first["next_cursor"]})
    assert (other.status_code, other.json()["field"]) == (400, "cursor")


INVALID_PARAMETERS = [
    ({"limit": 0}, 422),
    ({"state": "ready,"}, 422),
    ({"state": "deleting"}, 422),
    ({"sort": "size"}, 422),
    ({"q": ""}, 422),
    ({"q": "a\0"}, 422),
    ({"limit": 201}, 422),
    ({"limit": "many"}, 422),
    ({"state": "lost"}, 422),
    ({"collection": "No"}, 422),
    ({"id": "no"}, 422),
    ({"id": [str(UUID(int=n)) for n in range(101)]}, 422),
    ({"external_id": "\0"}, 422),
    ({"cursor": "x"}, 400),
    ({"cursor": "ü"}, 400),
    ({"cursor": base64.urlsafe_b64encode(b'["2026-01-01"]').decode()}, 400),
    ({"cursor": base64.urlsafe_b64encode(b'["2026-01-01", "00000000-0000-0000-0000-000000000000"]').decode()}, 400),
    (
        {"cursor": base64.urlsafe_b64encode(b'["0001-01-01T00:00+14:00", "' + b"0" * 32 + b'"]').decode()},
        400,
    ),
    ({"cursor": base64.urlsafe_b64encode(b"[" * 600).decode()}, 400),
    ({"cursor": "A" * 2_000}, 422),
]


async def test_invalid_list_parameters_are_rejected_by_name(client):
    for parameters, status in INVALID_PARAMETERS:
        reply = await client.get("/v1/documents", params=parameters)

        assert reply.status_code == status, (parameters, reply.text)
        assert reply.json()["field"].partition(".")[0] == next(iter(parameters)), parameters


async def test_forged_chunk_cursor_is_rejected(client):
    accepted = await submit(client)
    for key in (b"[1.5]", b"[-1]", b"[99999999999999]", b'["1"]', b"[true]", b"{}", b"1", b"[]"):
        cursor = base64.urlsafe_b64encode(key).decode()

        reply = await client.get(f"/v1/documents/{accepted.id}/chunks", params={"cursor": cursor})

        assert reply.status_code == 400, (key, reply.text)


async def test_deleted_document_is_invisible_at_once(client):
    accepted = await submit(client)
    address = f"/v1/documents/{accepted.id}"

    assert (await client.delete(address)).status_code == 204
    assert (await client.get(address)).status_code == 404
    assert (await client.get(f"{address}/chunks")).status_code == 404
    assert (await client.get(f"{address}/content")).status_code == 404
    assert (await client.get(f"{address}/text")).status_code == 404
    assert (await client.delete(address)).status_code == 404
    assert (await client.post(f"{address}/retry")).status_code == 404
    assert (await client.get("/v1/documents")).json()["items"] == []
    assert (await submit(client)).id != accepted.id


async def test_deletion_of_several_ignores_unknown_ids(client, services):
    kept, first, second = [await submit(client, external_id=name) for name in ("kept", "first", "second")]
    await work(services)
    unknown = "0192f0c1-7d4e-7a54-9c1b-3f0f6a2b8e11"

    reply = await client.delete("/v1/documents", params={"id": [str(first.id), unknown, str(second.id), str(first.id)]})

    assert (reply.status_code, reply.json()) == (200, {"deleted": 2})
    assert [each["id"] for each in (await client.get("/v1/documents")).json()["items"]] == [str(kept.id)]
    found = await client.post("/v1/retrieve", json={"question": "How many days of leave do I get?", "top_k": 50})
    assert {chunk["document_id"] for chunk in found.json()["chunks"]} == {str(kept.id)}


@pytest.mark.parametrize("query", ["", "?id=", f"?{'&'.join(['id=0192f0c1-7d4e-7a54-9c1b-3f0f6a2b8e11'] * 101)}"])
async def test_deletion_without_valid_ids_deletes_nothing(client, query):
    accepted = await submit(client)

    assert (await client.delete(f"/v1/documents{query}")).status_code == 422
    assert (await client.get(f"/v1/documents/{accepted.id}")).status_code == 200


async def test_only_failed_document_can_be_retried(client, services, wakes):
    accepted = await submit(client, text="%PDF-1.7 this is not a PDF", filename="a.pdf")
    address = f"/v1/documents/{accepted.id}"
    assert (await client.post(f"{address}/retry")).status_code == 409
    await work(services)
    failed = (await client.get(address)).json()
    assert failed["state"] == "failed"
    assert failed["error"]
    wakes.clear()

    reply = await client.post(f"{address}/retry")

    assert reply.status_code == 202
    assert DocumentView.model_validate_json(reply.content).state == "queued"
    assert wakes == ["parse"]


async def test_retry_resumes_dead_chunks_without_parsing_again(client, services, provider, wakes):
    provider.script(malformed_containing="Leave")
    accepted = await submit(client)
    address = f"/v1/documents/{accepted.id}"
    await work(services)
    shown = (await client.get(address)).json()
    assert (shown["state"], shown["chunks"]["dead"]) == ("degraded", 1)
    provider.restore()
    wakes.clear()

    assert (await client.post(f"{address}/retry")).status_code == 202
    assert set(wakes) == {"generate", "index"}
    await work(services)
    assert (await client.get(address)).json()["state"] == "ready"


async def test_tenants_cannot_see_each_others_documents(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        own, theirs = as_tenant("alice"), as_tenant("bob")
        mine = (await client.post("/v1/documents", json=JSON, headers=own)).json()
        address = f"/v1/documents/{mine['id']}"
        await work(services, "parse")
        (chunk,) = (await client.get(f"{address}/chunks", headers=own)).json()["items"]
        assert (await client.get(f"/v1/chunks/{chunk['id']}", headers=own)).status_code == 200

        assert (await client.get(address, headers=as_tenant("alice"))).status_code == 200
        for reply in (
            await client.get(address, headers=theirs),
            await client.get(f"{address}/chunks", headers=theirs),
            await client.get(f"{address}/content", headers=theirs),
            await client.get(f"{address}/text", headers=theirs),
            await client.get(f"/v1/chunks/{chunk['id']}", headers=theirs),
            await client.patch(address, json={"title": "Mine"}, headers=theirs),
            await client.delete(address, headers=theirs),
            await client.post(f"{address}/retry", headers=theirs),
            await client.get("/v1/collections/default", headers=theirs),
        ):
            assert reply.status_code == 404
        several = await client.delete(f"/v1/documents?id={mine['id']}", headers=theirs)
        assert several.json() == {"deleted": 0}
        assert (await client.get(address, headers=own)).status_code == 200
        for listed in ({}, {"q": "a"}, {"sort": "updated"}, {"sort": "name"}, {"sort": "state"}):
            assert (await client.get("/v1/documents", params=listed, headers=theirs)).json()["items"] == []
        assert (await client.get("/v1/collections", headers=theirs)).json()["items"] == []
        same = await client.post("/v1/documents", json=JSON, headers=theirs)
        assert same.status_code == 202
        assert same.json()["id"] != mine["id"]


PROTECTED = [
    ("GET", "/v1/documents"),
    ("POST", "/v1/documents"),
    ("GET", "/v1/documents/0b4f7c1e-8d0a-4f0e-9d55-3c7a1f6f2b11"),
    ("GET", "/v1/collections"),
    ("PUT", "/v1/collections/a"),
    ("POST", "/v1/query"),
    ("POST", "/v1/retrieve"),
    ("GET", "/v1/events"),
]


async def test_only_health_routes_need_no_key(services, settings):
    async with calling(with_keys(settings), services) as client:
        for method, address in PROTECTED:
            reply = await client.request(method, address)
            assert reply.status_code == 401, address
            assert reply.headers["www-authenticate"].startswith("Bearer")
        assert (await client.get("/health/live")).status_code == 200
        assert (await client.get("/health/ready")).status_code == 200
