"""The rendered chart's pods run as processes, and each is replaced while documents are ingested and questions asked."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from tests.acceptance.test_compose import Composed
from tests.support.backups import commands, run
from tests.support.cluster import Cluster, cluster_settings
from tests.support.fleet import KEYS
from tests.support.waiting import wait_until

LOAD_SECONDS = 75
SCALING = {
    "autoscaling": {"mode": "keda"},
    "apiVersions": ["keda.sh/v1alpha1"],
    **{name: {"maxReplicas": 3} for name in ("api", "parse", "read", "generate", "index")},
}
LEAVE = {f"leave-{n}.md": f"# Leave {n}\n\nDepartment {n} has {n + 20} days of leave a year." for n in range(6)}


@pytest.fixture(scope="module")
def fleet(provider_process, tmp_path_factory):
    with Cluster(cluster_settings(provider_process), tmp_path_factory.mktemp("chart"), SCALING) as cluster:
        yield cluster


@contextmanager
def asking(cluster, collection, replies):
    """Ask questions one after another within the block; count the statuses of the replies."""
    ended = threading.Event()

    def ask():
        while not ended.wait(0.2):
            try:
                body = {"collection": collection, "question": "What is item7?", "top_k": 3}
                replies[cluster.client.post("/v1/retrieve", json=body).status_code] += 1
            except httpx.TransportError as error:
                replies[type(error).__name__] += 1

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        try:
            yield
        finally:
            ended.set()
        asked.result()


def test_replaced_pods_lose_and_repeat_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("30", "every pod of the chart replaced")
    provider.script(latency_seconds=0.3, questions=2)
    replies, before, number = Counter(), list(fleet.pods), scale.replaced_documents

    with scenario.load(scenario.corpus(number, sections=1), every=LOAD_SECONDS / number):
        wait_until(lambda: scenario.calls() > 0, "no call was made")
        with asking(fleet, scenario.collection, replies):
            for name in before:
                fleet.replace_pod(name)
    scenario.settle()

    row = scenario.check(note=f"{len(before)} pods replaced, {replies.total()} questions")
    assert len(scenario.documents) == number
    assert row.paid_twice == 0
    assert not set(fleet.pods) & set(before)
    assert (fleet.service.failures, fleet.killed, fleet.crashes) == ([], [], [])
    assert set(replies) == {200}
    assert fleet.lost_leases() == 0


def test_pods_start_after_schema_job(fleet):
    kinds = [event.partition(" ")[0] for event in fleet.events]
    first = kinds.index("migrates")
    assert "runs" not in kinds[:first]
    assert kinds[:first].count("waits") == kinds[first:].count("runs") - kinds[first:].count("waits")


def test_workers_scale_by_wanted_number(fleet, provider, start_scenario):
    scenario = start_scenario("31", "workers of the chart scaled")
    provider.script(latency_seconds=1.5, questions=2)
    scenario.submit(scenario.corpus(120, sections=1))

    wait_until(lambda: fleet.scale("generate") == 3, "no more workers were wanted")
    scenario.settle()
    wait_until(lambda: fleet.scale("generate") == 1, "the workers were wanted for ever")

    row = scenario.check()
    assert row.paid_twice == 0
    assert (fleet.killed, fleet.crashes) == ([], [])
    assert fleet.lost_leases() == 0


def is_found(cluster, number):
    """Return whether a question about a document finds it."""
    body = {"question": f"How many days of leave has department {number}?", "top_k": len(LEAVE)}
    chunks = cluster.client.post("/v1/retrieve", json=body).json()["chunks"]
    return any(f"Department {number} has" in chunk["text"] for chunk in chunks)


def test_backup_of_compose_is_restored_under_chart(provider_process, provider, tmp_path):
    composed_settings = provider_process.settings()
    with Composed(composed_settings, tmp_path / "composed", durable=False) as composed:
        composed.ingest(LEAVE)
        composed.wait_until_settled(len(LEAVE))
        settings = composed.stack.settings.model_copy(update={"data_dir": tmp_path / "composed" / "image" / "data"})
        backup = settings.data_dir.parent / "backup"
        asyncio.run(run(commands("How do I back up?"), settings))
    paid = provider.stats(containing="Department")["calls"]

    def restore(cluster):
        """Restore the ledger and the uploads before any pod exists, by the commands of the page."""
        target = cluster.stack.settings.model_copy(update={"data_dir": cluster.volume.parent})
        shutil.copytree(backup, target.data_dir.parent / "backup")
        lines = commands("How do I restore?").splitlines()
        asyncio.run(run("\n".join(line for line in lines if line != "foreask schema"), target))

    with Cluster(cluster_settings(provider_process), tmp_path / "chart", {}, restore) as cluster:
        api = next(pod for pod in cluster.pods.values() if pod.component == "api")
        location = {"FOREASK_URL": f"http://127.0.0.1:{api.ports[8350]}", "FOREASK_API_KEY": KEYS["default"]}
        target = cluster.stack.settings.model_copy(update={"data_dir": cluster.volume.parent})
        asyncio.run(run(commands("How do I restore?", 1), target, **location))
        documents = cluster.wait_until_settled(len(LEAVE))
        assert {document["state"] for document in documents} == {"ready"}
        for number in range(len(LEAVE)):
            wait_until(lambda n=number: is_found(cluster, n), f"document {number} is not found")
        uploads = {path.name for path in cluster.volume.rglob("*") if path.is_file()}
        assert ".foreask-deployment" in uploads

    assert provider.stats(containing="Department")["calls"] == paid
