"""Log lines contain the ids of the request, the document and the tenant."""

import structlog
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.testing import capture_logs

from embedded.ports import free_port
from shared.services import build
from tests.support.api import as_tenant, calling, with_keys, work


def lines_of(logs, event):
    return [line for line in logs if line["event"] == event]


async def test_request_logs_one_line(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        with capture_logs([merge_contextvars]) as logs:
            await client.get("/v1/documents?limit=1", headers=as_tenant("alice") | {"x-request-id": "mine-1"})
            await client.get("/v1/documents/secret-id")
            await client.get("/nowhere")
            await client.get("/health/live")

    listed, refused, nowhere = lines_of(logs, "request.served")
    assert listed.pop("ms") > 0
    assert listed.pop("key").startswith("settings:")  # the key's name
    assert listed == {
        "event": "request.served",
        "log_level": "info",
        "request_id": "mine-1",
        "tenant": "alice",
        "method": "GET",
        "route": "/v1/documents",
        "status": 200,
    }
    assert (refused["route"], refused["status"], refused["tenant"]) == ("/v1/documents/{document_id}", 401, None)
    assert (nowhere["route"], nowhere["status"]) == ("none", 404)
    assert "secret" not in str([listed, refused, nowhere])


async def test_worker_log_lines_have_document_collection_and_tenant(services, library, provider, monkeypatch):
    from shared.ingest.parse.isolation.sandbox import ParsingSandbox

    parse = ParsingSandbox.parse

    async def log_and_parse(*arguments, **options):
        structlog.get_logger().info("somewhere.deep")
        return await parse(*arguments, **options)

    monkeypatch.setattr(ParsingSandbox, "parse", log_and_parse)
    first, second = [await library.add(text, questions=["What is it?"]) for text in ("alpha beta", "gamma delta")]
    with capture_logs([merge_contextvars]) as logs:
        await work(services)

    deep = {line["document_id"]: line for line in lines_of(logs, "somewhere.deep")}
    finished = {line["document_id"]: line for line in lines_of(logs, "document.ended")}
    for document in (first, second):
        ids = {"collection_id": str((await library.collection()).id), "tenant": "default"}
        assert deep[str(document.id)].items() >= (ids | {"stage": "parse"}).items()
        assert finished[str(document.id)].items() >= (ids | {"state": "ready"}).items()


async def test_failed_document_is_logged(services, client, provider):
    await client.post("/v1/documents", files={"file": ("a.pdf", b"%PDF-1.7 broken")})
    with capture_logs() as logs:
        await work(services, "parse")

    assert [line["state"] for line in lines_of(logs, "document.ended")] == ["failed"]


async def test_shared_tasks_do_not_inherit_request_ids(services, settings, provider):
    nowhere = type(settings.redis_url)(f"redis://127.0.0.1:{free_port()}/0")
    async with build("generate", settings.model_copy(update={"redis_url": nowhere})) as worker:
        with capture_logs([merge_contextvars]) as logs, bound_contextvars(tenant="alice"):
            assert await worker.limiters[0].paused()
    (lost,) = lines_of(logs, "limiter.lost")
    assert "tenant" not in lost


async def test_failures_are_logged_by_route_not_address(services, settings, provider):
    url = type(settings.database_url)(f"postgresql://a:b@127.0.0.1:{free_port()}/c")
    async with calling(settings.model_copy(update={"database_url": url})) as client:
        with capture_logs() as logs:
            reply = await client.get("/v1/collections/contract-with-acme")
            await client.get("/v1/collections/contract-with-acme/builds/1?x=contract-with-acme")

    failed = [*lines_of(logs, "request.failed"), *lines_of(logs, "request.crashed")]
    assert (reply.status_code, reply.json()["instance"]) == (503, "/v1/collections/contract-with-acme")
    assert [line["route"] for line in failed] == ["/v1/collections/{name}", "/v1/collections/{name}/builds/{number}"]
    assert "contract" not in str(logs)


async def test_upload_log_line_has_request_and_document_ids(services, settings, provider):
    text = {"text": "Tides turn twice a day.", "questions": ["When do tides turn?"]}
    async with calling(with_keys(settings), services) as client:
        with capture_logs([merge_contextvars]) as logs:
            for _ in range(2):  # the second upload changes nothing
                await client.post("/v1/documents", json=text, headers=as_tenant("alice") | {"x-request-id": "mine-2"})
            await work(services)

    (accepted,), (finished,) = lines_of(logs, "document.accepted"), lines_of(logs, "document.ended")
    assert (accepted["request_id"], accepted["tenant"], accepted["version"]) == ("mine-2", "alice", 1)
    for name in ("document_id", "collection_id"):
        assert accepted[name] == finished[name]


async def test_provider_calls_carry_request_id_without_tenant(services, settings, provider):
    request_headers = as_tenant("alice") | {"x-request-id": "mine-7"}
    async with calling(with_keys(settings), services) as client:
        text = "Boats are mended in the old yard behind the harbour."
        await client.post("/v1/documents", json={"text": text}, headers=request_headers)
        await work(services)
        ingest_headers = provider.stats()["headers"]
        for stream in (False, True):
            provider.reset()
            reply = await client.post(
                "/v1/query", json={"question": f"Where {stream}?", "stream": stream}, headers=request_headers
            )
            assert reply.status_code == 200, reply.text
            query_headers = provider.stats()["headers"]
            assert set(query_headers) == {"chat", "embeddings"}
            for headers in query_headers.values():
                named = {name.lower(): value for name, value in headers.items()}
                assert named["x-client-request-id"] == "mine-7"
                assert "alice" not in str(named)

    assert "request-id" not in str(ingest_headers).lower()
