"""Metrics that the processes of a deployment export after work."""

import asyncio
import json
import re
import socket
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

import httpx
import yaml
from prometheus_client import Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from shared.ledger.work.parsing import ParseWork
from shared.process.telemetry import metrics
from tests.support.api import WITHOUT_CERTIFICATES, calling, work
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS
from workers.scheduler import survey

ROOT = Path(__file__).resolve().parents[2]


def value(name, **labels):
    return metrics.REGISTRY.get_sample_value(name, {key: str(label) for key, label in labels.items()}) or 0


async def scrape(port, **headers):
    async with httpx.AsyncClient(trust_env=False, verify=WITHOUT_CERTIFICATES, timeout=TIMEOUT_SECONDS) as client:
        return await client.get(f"http://127.0.0.1:{port}/metrics", headers=headers)


async def scraped(port):
    text = (await scrape(port)).text
    return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}


async def test_document_and_query_increment_metrics(services, settings, provider, client):
    stages = ("parse", "generate", "index")
    before = {stage: value("foreask_attempts_total", stage=stage, outcome="done") for stage in stages}
    llm = {"component": "llm", "model": settings.llm_model}
    tokens = value("foreask_model_tokens_total", **llm, kind="prompt")
    calls = value("foreask_model_call_seconds_count", **llm, outcome="ok")
    parsed = value("foreask_parse_seconds_count", outcome="ok")
    written = value("foreask_qdrant_seconds_count", outcome="ok")
    requests = value("foreask_requests_total", method="POST", route="/v1/retrieve", status=200)

    (await client.post("/v1/documents", json={"text": "alpha beta"})).raise_for_status()
    await work(services)
    (await client.post("/v1/retrieve", json={"question": "alpha?"})).raise_for_status()

    for stage in stages:
        assert value("foreask_attempts_total", stage=stage, outcome="done") > before[stage], stage
    assert value("foreask_model_tokens_total", **llm, kind="prompt") > tokens
    assert value("foreask_model_call_seconds_count", **llm, outcome="ok") > calls
    assert value("foreask_parse_seconds_count", outcome="ok") == parsed + 1
    assert value("foreask_qdrant_seconds_count", outcome="ok") > written
    assert value("foreask_requests_total", method="POST", route="/v1/retrieve", status=200) == requests + 1
    assert value("foreask_breaker_state", component="llm", provider=services.limiters.llm.limits.provider) == 0


async def test_refused_methods_create_no_series_per_route(client):
    def series():
        return {
            (sample.labels["method"], sample.labels["route"])
            for metric in (metrics.REQUESTS, metrics.REQUEST_SECONDS)
            for family in metric.collect()
            for sample in family.samples
        }

    wrong = [
        (method, path) for method in ("PATCH", "TRACE") for path in ("/v1/retrieve", "/v1/dead-letters/retry", "/mcp")
    ]
    wrong += [("HEAD", f"/v1/documents/{uuid4()}"), ("DELETE", "/nowhere"), ("DELETE", "/work")]
    before = series()
    refused = value("foreask_requests_total", method="PATCH", route="none", status=405)

    statuses = [(await client.request(method, path)).status_code for method, path in wrong]

    assert statuses == [405] * 7 + [404, 405]
    assert {route for _, route in series() - before} <= {"none"}
    assert value("foreask_requests_total", method="PATCH", route="none", status=405) == refused + 3


async def test_search_before_first_points_is_not_a_failure(services, settings, provider, client):
    (await client.post("/v1/documents", json={"text": "alpha beta"})).raise_for_status()
    before = {outcome: value("foreask_qdrant_seconds_count", outcome=outcome) for outcome in ("ok", "refused")}

    (await client.post("/v1/retrieve", json={"question": "alpha?"})).raise_for_status()

    assert value("foreask_qdrant_seconds_count", outcome="refused") == before["refused"]
    assert value("foreask_qdrant_seconds_count", outcome="ok") > before["ok"]


async def test_dead_letters_are_counted_by_error_kind(services, settings, provider, client):
    before = value("foreask_dead_total", stage="parse", kind="Unreadable")
    await client.post("/v1/documents", files={"file": ("a.pdf", b"%PDF-1.7 broken")})
    await work(services)

    assert value("foreask_dead_total", stage="parse", kind="Unreadable") == before + 1
    assert value("foreask_attempts_total", stage="parse", outcome="dead") >= 1


async def test_scheduler_exports_waiting_work(services, library):
    await library.add("alpha beta")
    await library.add("gamma delta", lane=1)
    await asyncio.sleep(0.05)
    await survey(services)

    assert value("foreask_rows", kind="documents", state="queued") == 2
    assert value("foreask_backlog_oldest_seconds", stage="parse", lane=0) > 0.04
    assert value("foreask_backlog_oldest_seconds", stage="parse", lane=1) > 0.04
    assert value("foreask_backlog_oldest_seconds", stage="index", lane=0) == 0


async def test_lost_lease_is_counted(services, library):
    document = await library.add("alpha beta")
    before = value("foreask_leases_lost_total", stage="parse")
    await services.ledger[ParseWork].claim(1)
    assert value("foreask_leases_lost_total", stage="parse") == before
    async with services.database.begin() as connection:
        await connection.execute_sql(f"UPDATE documents SET due_at = now() WHERE id = '{document.id}'")
    await services.ledger[ParseWork].claim(1)

    assert value("foreask_leases_lost_total", stage="parse") == before + 1


async def test_second_process_uses_next_metrics_port(settings):
    host = settings.metrics_host
    async with metrics.serving("api", host, 0) as free:
        assert free is not None
    async with metrics.serving("parse", host, free) as first, metrics.serving("index", host, free) as second:
        assert first == free
        assert free < second <= free + 31
        names = await scraped(second)
        text = (await scrape(second)).text
    assert f'foreask_process_info{{role="parse",version="{version("foreask")}"}} 1.0' in text
    assert "foreask_loop_lag_seconds_count" in names


@guards(
    "shared/process/telemetry/metrics.py",
    "if only_local and host",
    "if not only_local and host",
    means="a page in this machine's browser reads the metrics",
)
async def test_metrics_on_loopback_refuse_other_names():
    async with metrics.serving("api", "127.0.0.1", 0) as port:
        foreign = [await scrape(port, host=name) for name in (f"rebound.example:{port}", "192.0.2.1", "[", "")]
        own = [await scrape(port, host=name) for name in (f"localhost:{port}", "127.0.0.1", f"[::1]:{port}")]
        with socket.create_connection(("127.0.0.1", port)) as check:  # as the health checks of containers
            check.sendall(b"GET /health/live HTTP/1.0\r\n\r\n")
            status = await asyncio.to_thread(check.recv, 100)
    assert b" 200 " in status
    async with metrics.serving("api", "0.0.0.0", 0) as port:  # as in a container
        of_service = await scrape(port, host="foreask-api.default.svc")

    assert {reply.status_code for reply in foreign} == {403}
    assert "foreask_" not in "".join(reply.text for reply in foreign)
    assert {reply.status_code for reply in [*own, of_service]} == {200}


def test_worker_exports_counters_before_first_event():
    metrics.SETTLED.clear()
    metrics.LEASES_LOST.clear()
    metrics.count_from_zero("index")
    shown = {tuple(s.labels.values()) for f in metrics.SETTLED.collect() for s in f.samples}
    lost = metrics.REGISTRY.get_sample_value("foreask_leases_lost_total", {"stage": "index"})

    assert {("index", outcome) for outcome in ("done", "retry", "dead")} <= shown
    assert lost == 0


async def test_unset_metrics_port_opens_no_port(settings):
    async with metrics.serving("api", settings.metrics_host, None) as port:
        assert port is None


async def test_unknown_address_creates_no_series(services, settings, provider):
    async with calling(settings, services) as client:
        for address in ("/nowhere/1", "/nowhere/2"):
            await client.get(address)
        document_id = "00000000-0000-0000-0000-000000000000"
        await client.get(f"/v1/documents/{document_id}")
    routes = {s.labels.get("route") for f in metrics.REGISTRY.collect() for s in f.samples if "route" in s.labels}
    assert not [route for route in routes if "nowhere" in route or document_id in route]
    assert "/v1/documents/{document_id}" in routes


def test_metrics_reference_lists_every_metric():
    reference = (ROOT / "docs/reference/metrics.md").read_text()
    listed = set(re.findall(r"^\| `(foreask_\w+)` \|", reference, re.MULTILINE))

    assert listed == metrics.names()


def rules():
    return yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())["groups"][0]["rules"]


def expressions():
    panels = json.loads((ROOT / "deploy/dashboard.json").read_text())["panels"]
    yield from ((rule["alert"], rule["expr"]) for rule in rules())
    yield from ((panel["title"], target["expr"]) for panel in panels for target in panel["targets"])


def test_every_alert_has_firing_and_silent_tests():
    alerts = [rule["alert"] for rule in rules()]
    tests = yaml.safe_load((ROOT / "deploy/alerts.test.yml").read_text())["tests"]
    polls = [poll for test in tests for poll in test["alert_rule_test"]]

    assert sorted({poll["alertname"] for poll in polls if poll.get("exp_alerts")}) == sorted(alerts)
    assert sorted({poll["alertname"] for poll in polls if not poll.get("exp_alerts")}) == sorted(alerts)


def series():
    """Yield the name and labels of each series; a bucket has the additional label `le`."""
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            name, labels = metric._name, set(metric._labelnames)
            if isinstance(metric, Histogram):
                yield from ((name + end, labels) for end in ("_sum", "_count"))
                yield name + "_bucket", labels | {"le"}
            else:
                yield name + "_total" * isinstance(metric, Counter), labels


def test_alerts_and_dashboard_use_existing_metrics():
    labels_of, used = dict(series()), set()
    for source, expression in expressions():
        found = set(re.findall(r"\bforeask_\w+", expression))
        assert found, source
        assert found <= labels_of.keys(), (source, found - labels_of.keys())
        labels = set().union(*(labels_of[name] for name in found)) | {"instance"}
        for group in re.findall(r"by \(([^)]*)\)", expression):
            assert {label.strip() for label in group.split(",")} <= labels, (source, group)
        for label in re.findall(r"[{,]\s*(\w+)\s*[=!]", expression):
            assert label in labels, (source, label)
        assert expression.count("(") == expression.count(")"), source
        used |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}
    assert used == metrics.names(), metrics.names() - used
