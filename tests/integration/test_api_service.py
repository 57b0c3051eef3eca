"""The API as a service: events, health, its OpenAPI description, and its process."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
import threading
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

import httpx
import orjson
import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from api.routes.health import PROBES
from api.schemas.documents import DocumentView
from api.schemas.health import ReadyReply
from embedded.ports import free_port
from shared.http import openapi
from shared.http.schemas.common import BodyModel, ReplyModel
from shared.http.schemas.problems import ProblemDetails
from shared.ledger.jobs.repairs import Repairs
from tests.support.api import WITHOUT_CERTIFICATES, application, calling, events_of, left_behind, serving, work
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, wait_until

PLAIN = {"verify": WITHOUT_CERTIFICATES, "trust_env": False, "timeout": TIMEOUT_SECONDS}
# Routes that take no body.
WITHOUT_BODY = ("/retry", "/reindex", "/pause", "/resume", "/close", "/cancel", "/sync")


async def test_every_reply_has_security_headers_and_request_id(client):
    for address in ("/health/live", "/nowhere", "/v1/documents?limit=0"):
        reply = await client.get(address, headers={"x-request-id": "mine-1"})
        assert reply.headers["x-request-id"] == "mine-1"
        assert reply.headers["x-content-type-options"] == "nosniff"
    odd = await client.get("/health/live", headers={"x-request-id": b"a b\xe9" + b"x" * 100})
    assert len(odd.headers["x-request-id"]) == 32


async def test_api_reference_page_loads_own_files_only(client):
    page = await client.get("/docs")
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text)

    assert len(files) == 3
    for file in files:
        assert (await client.get(file)).status_code == 200
    policy = page.headers["content-security-policy"]
    assert "connect-src 'self'" in policy
    assert "script-src 'self' 'sha256-" in policy


async def test_router_errors_are_problem_details(client):
    for method, address, status in (
        ("GET", "/nowhere", 404),
        ("GET", "/v1/documents/", 404),
        ("PATCH", "/v1/documents", 405),
        ("DELETE", "/v1/query", 405),
        ("GET", "/v1/documents/not-an-id", 422),
        ("GET", "/v1/documents/%00", 422),
        ("GET", "/v1/collections/%00", 422),
        ("GET", "/v1/collections/%ff", 422),
    ):
        reply = await client.request(method, address)

        assert reply.status_code == status, address
        assert reply.headers["content-type"] == "application/problem+json", address
        assert ProblemDetails.model_validate_json(reply.content).status == status, address
        if status == 405:
            assert reply.headers["allow"], address


async def test_refused_method_lists_methods_of_route(services, settings):
    app = application(settings, services)
    methods = defaultdict(set)
    for route in iter_route_contexts(app.routes):
        if isinstance(route.original_route, APIRoute):
            methods[route.path] |= route.methods | ({"HEAD"} if route.path in PROBES else set())
    shadowed = ("/v1/dead-letters/retry", "/v1/dead-letters/discard", "/v1/documents/estimate")
    assert [methods[path] for path in shadowed] == [{"POST"}] * 3

    async with calling(settings, services) as client:
        for path, own in methods.items():
            for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - own:
                reply = await client.request(method, path)
                assert (reply.status_code, reply.headers.get("allow")) == (405, ", ".join(sorted(own))), (method, path)


async def test_health_names_unavailable_components(services, settings, provider, monkeypatch):
    async with calling(settings) as client:
        assert (await client.get("/health/live")).json() == {"status": "live"}
        healthy = await client.get("/health/ready")
        assert (healthy.status_code, healthy.json()["status"]) == (200, "ready")

    nowhere = f"127.0.0.1:{free_port()}"
    urls = {
        "broker": {"redis_url": type(settings.redis_url)(f"redis://{nowhere}/0")},
        "qdrant": {"qdrant_url": f"http://{nowhere}"},
        "ledger": {"database_url": type(settings.database_url)(f"postgresql://a:b@{nowhere}/c")},
    }
    for name, change in urls.items():
        async with calling(settings.model_copy(update=change)) as client:
            reply = await client.get("/health/ready")
        health = ReadyReply.model_validate_json(reply.content)
        assert health.down == [name]
        assert reply.status_code == (503 if name == "ledger" else 200)
        assert health.status == ("unavailable" if name == "ledger" else "degraded")


async def test_concurrent_health_requests_share_one_probe(services, settings, provider, monkeypatch):
    polls = []
    count = Repairs.count

    async def counted(self):
        polls.append(1)
        return await count(self)

    monkeypatch.setattr(Repairs, "count", counted)
    async with calling(settings, services) as client:
        replies = await asyncio.gather(*(client.get("/health/ready") for _ in range(50)))
        replies.append(await client.get("/health/ready"))
        assert {reply.json()["status"] for reply in replies} == {"ready"}
        assert len(polls) == 1

        monkeypatch.setattr("api.progress.readiness._CACHE_SECONDS", 0.0)
        await client.get("/health/ready")
        assert len(polls) == 2


async def test_uploads_are_accepted_without_broker(services, settings, provider):
    change = {"redis_url": type(settings.redis_url)(f"redis://127.0.0.1:{free_port()}/0")}
    async with calling(settings.model_copy(update=change)) as client:
        assert (await client.post("/v1/documents", json={"text": "a"})).status_code == 202


async def test_uploads_without_ledger_are_rejected_and_not_stored(services, settings, provider):
    url = type(settings.database_url)(f"postgresql://a:b@127.0.0.1:{free_port()}/c")
    async with calling(settings.model_copy(update={"database_url": url})) as client:
        for request_ in ({"json": {"text": "a"}}, {"files": {"file": ("a", b"a")}}):
            reply = await client.post("/v1/documents", **request_)
            assert reply.status_code == 503
            assert reply.json()["component"] == "ledger"
    assert (await left_behind(services, settings))[1] == []


async def test_request_is_answered_while_description_is_generated(services, settings, monkeypatch):
    generate = openapi.get_openapi
    started, answered = threading.Event(), threading.Event()

    def generate_later(**arguments):
        started.set()
        assert answered.wait(TIMEOUT_SECONDS)
        return generate(**arguments)

    monkeypatch.setattr(openapi, "get_openapi", generate_later)
    async with calling(settings, services) as client:
        described = asyncio.create_task(client.get("/openapi.json"))
        await asyncio.to_thread(started.wait, TIMEOUT_SECONDS)
        assert (await client.get("/health/live")).is_success
        answered.set()
        assert (await described).is_success


async def test_description_names_root_path_as_server(services, settings):
    behind_proxy = httpx.ASGITransport(application(settings, services), root_path="/foreask")
    async with httpx.AsyncClient(transport=behind_proxy, base_url="http://127.0.0.1") as client:
        assert (await client.get("/openapi.json")).json()["servers"] == [{"url": "/foreask"}]


@guards(
    "shared/http/openapi.py",
    'headers["content-encoding"] = "gzip"',
    "pass",
    means="a client reads compressed bytes as JSON",
)
async def test_description_is_compressed_for_clients_that_accept(services, settings):
    async with serving(settings, services) as client:
        compressed = await client.get("/openapi.json", headers={"accept-encoding": "gzip"})
        plain = await client.get("/openapi.json", headers={"accept-encoding": "identity"})

    sizes = [int(reply.headers["content-length"]) for reply in (compressed, plain)]
    assert (compressed.headers["content-encoding"], plain.headers.get("content-encoding")) == ("gzip", None)
    assert compressed.json() == plain.json()
    assert sizes[0] * 5 < sizes[1]


@guards(
    "api/app.py",
    "*heads(health.PROBES), ",
    "",
    means="a monitor that sends HEAD reports a healthy server as failed",
)
@pytest.mark.parametrize("path", ["/openapi.json", "/health/live", "/health/ready"])
async def test_head_is_answered_as_get_without_body(services, settings, path):
    async with serving(settings, services) as client:
        head, get = await client.head(path), await client.get(path)

    assert (head.status_code, head.headers["content-type"]) == (get.status_code, get.headers["content-type"])
    assert head.headers["content-length"] == get.headers["content-length"]
    assert (head.content, get.is_success) == (b"", True)


async def test_openapi_operations_have_descriptions_and_examples(client):
    document = (await client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]

    def resolved(schema):
        return schemas[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema

    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["tags"], path
            assert len(operation["summary"].split()) > 1, path  # FastAPI's would be the name of the function
            assert not operation["summary"].endswith("."), path
            bodies = [reply.get("content", {}) for reply in operation["responses"].values()]
            bodies.append(operation.get("requestBody", {}).get("content", {}))
            if method in {"post", "put"} and not path.endswith(
                ("/retry", "/reindex", "/pause", "/resume", "/close", "/cancel", "/sync")
            ):
                assert bodies[-1], path
            for content in bodies:
                for kind, media in content.items():
                    if kind in {"application/json", "application/problem+json"}:
                        schema = resolved(media["schema"])
                        page = "next_cursor" in schema.get("properties", {})
                        assert page or "example" in schema, (path, method, schema)
    text = orjson.dumps(document).decode()
    for reference in set(_references(document)):
        assert reference.rsplit("/", 1)[1] in schemas, reference
    assert "HTTPValidationError" not in text.split('"schemas"')[0]


def test_reply_examples_match_their_models():
    for model in ReplyModel.__subclasses__() + BodyModel.__subclasses__():
        example = (model.model_config.get("json_schema_extra") or {}).get("example")
        if example is not None:
            model.model_validate_json(orjson.dumps(example))


async def test_ingest_progress_is_streamed_live(services, settings, provider):
    async with serving(settings, services) as client, client.stream("GET", "/v1/events") as stream:
        events = events_of(stream)
        assert await anext(events) == ("progress", {"documents": {}})

        document_id = (await client.post("/v1/documents", json={"text": "alpha beta"})).json()["id"]
        received = [await anext(events), await anext(events)]
        assert received[0] == ("progress", {"documents": {"queued": 1}})
        assert received[1][0] == "document"
        assert DocumentView.model_validate(received[1][1]).state == "queued"
        await work(services)

        async with asyncio.timeout(TIMEOUT_SECONDS):
            async for name, data in events:
                if name == "document" and data["state"] == "ready":
                    assert data["id"] == document_id
                    break


async def test_ledger_outage_is_reported_to_listeners(services, settings, provider, monkeypatch):
    from shared.domain.errors import Unavailable
    from shared.ledger.documents.documents import Documents

    async def unavailable(*_, **__):
        raise Unavailable("unavailable", component="ledger")

    async with serving(settings, services) as client, client.stream("GET", "/v1/events") as stream:
        events = events_of(stream)
        await anext(events)
        monkeypatch.setattr(Documents, "changes", unavailable)
        name, problem = await anext(events)

    assert (name, problem["status"], problem["component"]) == ("error", 503, "ledger")


# The process


def launched(forks, settings, stack, log, **environment):
    """Start `python -m api`; it logs to a file."""
    variables = os.environ | stack.environment() | {"FOREASK_DATA_DIR": str(settings.data_dir)}
    return forks.launch([sys.executable, "-m", "api"], variables | environment, log)


@pytest.fixture
def launch(forks, settings, stack, tmp_path):
    return partial(launched, forks, settings, stack, tmp_path / "api.log")


@pytest.fixture(scope="module")
def process_client(forks, settings, stack, session_services, tmp_path_factory):
    """Yield a client of an API process for tests that leave it unchanged."""
    launch = partial(launched, forks, settings, stack, tmp_path_factory.mktemp("api") / "api.log")
    with process(launch, FOREASK_MAX_JSON_BYTES="1000000") as (_, client):
        yield client


@contextlib.contextmanager
def process(launch, **environment):
    """Start the API as a process; yield the process and a client."""
    port = free_port()
    child = launch(FOREASK_API_PORT=str(port), **environment)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", **PLAIN)
    try:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                client.get("/health/live")
                break
            except httpx.TransportError:
                assert child.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield child, client
    finally:
        client.close()
        if child.poll() is None:
            child.kill()
        child.wait()


async def test_large_upload_is_not_held_in_memory(services, settings, provider, launch):
    def body():
        yield b'--edge\r\nContent-Disposition: form-data; name="file"; filename="large.txt"\r\n\r\n'
        for _ in range(80):
            yield b"x" * 1_000_000
        yield b"\r\n--edge--\r\n"

    def peak(pid):
        status = Path(f"/proc/{pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))

    def upload():
        with process(launch) as (child, client):
            headers = {"content-type": "multipart/form-data; boundary=edge"}
            client.post("/v1/documents", json={"text": "warm up"}).raise_for_status()
            before = peak(child.pid)
            reply = client.post("/v1/documents", content=body(), headers=headers)
            assert reply.status_code == 202, reply.text
            return peak(child.pid) - before

    assert await asyncio.to_thread(upload) < 30_000_000


async def test_interrupted_upload_is_not_stored(services, settings, process_client):
    def is_stored():
        return any(path.is_file() for path in settings.data_dir.rglob("uploads/*/*"))

    def interrupt():
        with socket.create_connection(("127.0.0.1", process_client.base_url.port)) as connection:
            connection.sendall(
                b"POST /v1/documents HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5000000\r\n"
                b"content-type: multipart/form-data; boundary=edge\r\n\r\n"
                b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + b"x" * 3_000_000
            )
            wait_until(is_stored)
        wait_until(lambda: not is_stored())

    await asyncio.to_thread(interrupt)
    assert await left_behind(services, settings) == (0, [])


async def test_oversized_body_is_answered_while_being_sent(services, process_client):
    def body():
        for _ in range(300):
            yield b" " * 100_000

    def send():
        headers = {"content-type": "application/json"}
        return process_client.post("/v1/query", content=body(), headers=headers).status_code

    assert await asyncio.to_thread(send) == 413


async def test_process_refuses_too_many_headers(services, process_client):
    headers = {f"x-{number}": "" for number in range(101)}

    reply = await asyncio.to_thread(process_client.get, "/health/live", headers=headers)

    assert reply.status_code == 431


async def test_shutdown_with_listeners_is_quick_without_logged_texts(services, provider, launch, tmp_path):
    def run():
        with process(launch, FOREASK_SHUTDOWN_TIMEOUT="100", FOREASK_API_DRAIN="0.1") as (child, client):
            client.post("/v1/documents", json={"text": "a secret text", "title": "secret title"})
            client.post("/v1/documents", json={"text": "a secret text", "secret": "secret"})
            with client.stream("GET", "/v1/events") as stream:
                lines = stream.iter_lines()  # referenced, because a collected generator closes the stream
                next(lines)
                started = time.monotonic()
                child.send_signal(signal.SIGTERM)
                child.wait(timeout=TIMEOUT_SECONDS)
                return time.monotonic() - started

    assert await asyncio.to_thread(run) < 60  # it does not wait for the listeners
    log = (tmp_path / "api.log").read_text()
    assert "api.started" in log
    assert "secret" not in log
    assert "Traceback" not in log


async def test_shutdown_reports_unready_before_closing_connections(services, provider, launch):
    def run():
        with process(launch, FOREASK_API_DRAIN=str(TIMEOUT_SECONDS)) as (child, client):
            assert client.get("/health/ready").status_code == 200
            child.send_signal(signal.SIGTERM)
            while (ready := client.get("/health/ready")).status_code == 200:
                pass  # the signal is on its way
            # Another connection.
            listed = httpx.get(client.base_url.join("/v1/documents"), **PLAIN)
            child.send_signal(signal.SIGTERM)  # a second signal ends the pause
            child.wait(timeout=TIMEOUT_SECONDS)
            return ready, listed

    ready, listed = await asyncio.to_thread(run)
    assert (ready.status_code, ready.json()["status"]) == (503, "stopping")
    assert listed.status_code == 200


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"FOREASK_API_HOST": "0.0.0.0"}, "FOREASK_API_KEYS"),
        ({"FOREASK_API_KEYS": "alice:short"}, "too short"),
        ({"FOREASK_LLM_MODEL": ""}, "FOREASK_LLM_MODEL"),
    ],
)
def test_invalid_settings_stop_startup_with_reason(launch, tmp_path, environment, reason):
    assert launch(**environment).wait(timeout=TIMEOUT_SECONDS) == 1

    log = (tmp_path / "api.log").read_text()
    assert reason in log
    assert "Traceback" not in log


def _references(value):
    if isinstance(value, dict):
        for name, child in value.items():
            if name == "$ref":
                yield child
            else:
                yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)
