"""Traces received by a collector: a document from upload to points, and a query up to its answer."""

import asyncio
import os
import socket
import time
from copy import copy
from dataclasses import replace
from datetime import timedelta
from importlib.metadata import version
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from shared.domain.states import DocumentState
from shared.ledger.documents.documents import Documents
from shared.process.network.certificates import trust
from shared.process.telemetry import traces
from shared.providers.provider import Provider
from shared.providers.reranking import Reranker
from tests.support.api import calling, work
from tests.support.authority import Authority, Front
from tests.support.collector import collecting
from tests.support.planted import guards

TEXT = "# Heliotrope\n\nThe sesquipedalian harbour opens at seven."
QUESTION = "When does the sesquipedalian harbour open?"
WORDS = (b"heliotrope", b"sesquipedalian", b"harbour", b"a-file-of-mine")
CALLERS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STAGES = ("parse", "index", "generate", "index")


@pytest.fixture
def collector(monkeypatch):
    """Yield a collector that receives the spans of the test's processes."""
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield collector


async def upload_document(settings, services, headers=None, **body):
    async with calling(settings, services) as client:
        reply = await client.post("/v1/documents", json={"text": TEXT} | body, headers=headers)
    assert reply.status_code == 202, reply.text
    return reply.json()["id"]


async def work_traced(settings, services, *stages):
    """Process due work, each stage like a separate process."""
    for stage in stages or STAGES:
        async with traces.exporting(stage, settings.shutdown_timeout):
            await work(services, stage)


@pytest.fixture
async def reranking(services, provider):
    """Yield the services with a reranker."""
    connection = Provider(component="rerank", base_url=provider.url, api_key=None, timeout=timedelta(seconds=5))
    retriever = copy(services.retriever)
    retriever._reranker = Reranker(connection, "scripted-reranker")
    yield replace(services, retriever=retriever)
    await connection.aclose()


async def test_document_and_query_produce_one_trace_each(settings, reranking, collector):
    document_id = await upload_document(settings, reranking, {"x-request-id": "upload-1"}, filename="a-file-of-mine.md")
    await work_traced(settings, reranking)
    async with calling(settings, reranking) as client:
        await client.get("/health/live")  # health requests are too frequent to be traced
        reply = await client.post("/v1/query", json={"question": QUESTION}, headers={"traceparent": CALLERS})
    assert reply.status_code == 200, reply.text

    (upload,), (query,) = collector.named("POST /v1/documents"), collector.named("POST /v1/query")
    print(f"\n{collector.tree(upload.trace_id)}\n\n{collector.tree(query.trace_id)}")
    chat, embeddings = f"chat {settings.llm_model}", f"embeddings {settings.embedding_model}"
    paths = collector.paths(upload.trace_id)
    assert {
        "POST /v1/documents",
        "POST /v1/documents > parse",
        f"POST /v1/documents > index > {embeddings}",
        "POST /v1/documents > index > PUT points",
        f"POST /v1/documents > generate > {chat}",
    } <= set(paths)
    assert (paths.count("POST /v1/documents > index"), upload.parent_id) == (2, "")
    found = collector.paths(query.trace_id)
    assert {
        f"POST /v1/query > embed > {embeddings}",
        "POST /v1/query > search > POST points/query/batch",
        "POST /v1/query > fetch > POST points",
        "POST /v1/query > rerank > rerank scripted-reranker",
        f"POST /v1/query > answer > {chat}",
    } <= set(found)
    assert f"00-{query.trace_id}-{query.parent_id}-01" == CALLERS
    assert all(path.startswith("POST /v1/") for path in [*paths, *found])  # each span belongs to a request
    assert {span.trace_id for span in collector.spans} == {upload.trace_id, query.trace_id}
    services_of = {span.name: span.service for span in collector.spans}
    assert {name: services_of[name] for name in ("parse", "generate", "index")} == {
        stage: f"foreask-{stage}" for stage in ("parse", "generate", "index")
    }
    instance = f"{socket.gethostname()}:{os.getpid()}"
    shown = [(span.resource["service.version"], span.resource["service.instance.id"]) for span in collector.spans]
    assert set(shown) == {(version("foreask"), instance)}
    assert not [span.name for span in collector.spans if span.failed]
    assert {name: upload.attributes[name] for name in upload.attributes if name != "url.scheme"} == {
        "http.request.method": "POST",
        "http.route": "/v1/documents",
        "http.response.status_code": 202,
        "foreask.request_id": "upload-1",
        "foreask.tenant": "default",
    }
    assert collector.named("parse")[0].attributes["foreask.document_id"] == document_id
    call = collector.named(chat)[0].attributes
    assert call["gen_ai.operation.name"] == "chat"
    assert call["gen_ai.usage.input_tokens"] > 0
    assert collector.named("PUT points")[0].attributes["db.system.name"] == "qdrant"
    sent = b"".join(collector.bodies).lower()
    assert [word for word in WORDS if word in sent] == []


async def test_batch_span_is_linked_to_its_documents_traces(services, settings, provider, collector):
    for number in range(2):
        await upload_document(settings, services, text=f"{TEXT} {number}", external_id=str(number))
    await work_traced(settings, services, "parse", "index")

    uploads = collector.named("POST /v1/documents")
    leading, following = collector.named("index")
    assert {leading.trace_id, following.trace_id} == {upload.trace_id for upload in uploads}
    assert (leading.links, following.links) == ([], [leading.span_id])
    assert leading.attributes["foreask.document_id"] != following.attributes["foreask.document_id"]
    assert {span.trace_id for span in collector.named("PUT points")} == {leading.trace_id}


async def test_reused_content_joins_trace_of_next_version(services, settings, library, provider, collector):
    await upload_document(settings, services)
    await work(services)
    await services.ledger[Documents].reindex(await library.collection())
    await work_traced(settings, services, "parse")

    (upload,) = collector.named("POST /v1/documents")
    assert [span.trace_id for span in collector.named("parse")] == [upload.trace_id]


async def test_spans_record_error_type_without_message(services, settings, collector):
    await upload_document(settings, services, text="%PDF-1.4 cut short")
    await work_traced(settings, services, "parse")

    (parsed,) = collector.named("parse")
    assert (parsed.failed, parsed.attributes["error.type"], parsed.events) == (True, "Unreadable", 0)
    assert b"damaged" not in b"".join(collector.bodies)


async def test_unsampled_requests_are_not_exported(services, settings, provider, collector):
    await upload_document(settings, services, {"traceparent": CALLERS[:-2] + "00"})
    await upload_document(settings, services, text=f"{TEXT} It is sampled.")
    await work_traced(settings, services, "parse", "index")

    (upload,) = collector.named("POST /v1/documents")
    assert {span.trace_id for span in collector.spans} == {upload.trace_id}
    assert "POST /v1/documents > index > PUT points" in collector.paths(upload.trace_id)


async def test_log_lines_contain_only_their_own_span(settings, collector):
    request_finished = asyncio.Event()

    async def outlive():
        await request_finished.wait()
        with traces.span("late") as late:
            return late.is_recording, traces.add_ids(None, "", {})

    async with traces.exporting("api", settings.shutdown_timeout):
        with traces.request("GET", [(b"traceparent", CALLERS.encode())], {}):
            line = traces.add_ids(None, "", {"event": "request.served"})
            task = asyncio.create_task(outlive())
        request_finished.set()
        assert await task == (False, {})

    (span,) = collector.spans
    assert line == {"event": "request.served", "trace_id": span.trace_id, "span_id": span.span_id}
    assert span.trace_id in CALLERS


@guards(
    "shared/process/telemetry/trace_export.py",
    "OTLPSpanExporter(session=_session())",
    "OTLPSpanExporter()",
    means="spans ignore FOREASK_CA_FILE, and are sent to a proxy although the collector is on this machine",
)
async def test_collector_of_private_authority_receives_spans(settings, collector, monkeypatch, tmp_path):
    authority, proxied = Authority(tmp_path), []

    async def proxy(_, writer):
        proxied.append(writer)
        writer.close()

    target = urlsplit(collector.url)
    async with (
        Front((target.hostname, target.port), authority.server()).listening() as front,
        await asyncio.start_server(proxy, "127.0.0.1", 0) as server,
    ):
        monkeypatch.delenv("no_proxy")
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"https://127.0.0.1:{front.port}")
        trust(authority.file)
        try:
            async with traces.exporting("api", settings.shutdown_timeout):
                with traces.request("GET", [], {}):
                    pass
        finally:
            trust(None)

    assert collector.spans
    assert proxied == []


async def test_silent_collector_loses_only_spans(services, settings, provider, monkeypatch):
    settings = settings.model_copy(update={"shutdown_timeout": timedelta(seconds=0.1)})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")  # a span is sent as soon as it finishes
        document_id = await upload_document(settings, services)
        async with traces.exporting("worker", settings.shutdown_timeout):
            await work(services)
            started = time.monotonic()
        finished = time.monotonic()

    assert (await services.ledger[Documents].get("default", document_id)).state == DocumentState.READY
    assert finished - started < 1.5


async def test_unavailable_collector_is_logged_once(settings, monkeypatch, caplog):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    with capture_logs() as logs:
        async with traces.exporting("api", settings.shutdown_timeout):
            for _ in range(3):
                with traces.request("GET", [], {}):
                    pass
                await asyncio.sleep(0.02)

    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == ["traces.lost"]
    assert address not in str(logs)
    assert caplog.text == ""  # the SDK's own lines would contain the address
