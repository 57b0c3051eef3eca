"""The worker of a job and the API are killed during the job: another worker finishes it, and its result exists once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import httpx

from shared.domain.corpus.index_location import index_location_of
from tests.support.fleet import Fleet
from tests.support.qdrant import headers_of
from tests.support.waiting import TIMEOUT_SECONDS

LOCATION = """
    SELECT index_name, tenant, id AS collection_id FROM collections WHERE name = $1 AND build_state = 'live'
"""
HOLDER = "SELECT leased_by, lost_leases FROM job_claims WHERE id = $1"


def holder_of(fleet: Fleet, run: str) -> str:
    """Return the name of the process that works on a run."""
    (row,) = fleet.query(HOLDER, UUID(run))
    pid = int(row["leased_by"].rpartition(":")[2])
    return next(name for name, process in fleet.processes.items() if process.pid == pid)


def is_open(fleet: Fleet, run: str) -> bool:
    return bool(fleet.query(HOLDER, UUID(run)))


def test_evaluation_survives_kills_of_worker_and_api(fleet, provider, start_scenario):
    scenario = start_scenario("22a", "kill -9 during an evaluation")
    scenario.submit(scenario.corpus(2, sections=2))
    scenario.settle()
    provider.script(embedding_latency_seconds=0.2)
    names = sorted(scenario.documents)
    questions = [{"question": f"What is {scenario.mark} {n}?", "external_ids": names[:1]} for n in range(40)]
    path = f"/v1/collections/{scenario.collection}/evaluations"
    started = fleet.client.post(path, json={"questions": questions, "strategies": ["text"]}).raise_for_status().json()

    def shown() -> dict[str, Any]:
        return fleet.client.get(f"{path}/{started['id']}").raise_for_status().json()

    fleet.wait_until(lambda: shown()["done"] > 0, "the evaluation did not start")
    fleet.kill(holder_of(fleet, started["id"]))
    fleet.kill("api")
    fleet.wait_until(lambda: shown()["state"] == "done", "the evaluation was not finished")

    assert len(shown()["results"]["per_query"]["text"]) == len(questions)
    assert not is_open(fleet, started["id"])
    assert len(fleet.client.get(path).json()["items"]) == 1
    assert scenario.deaths() == 2


def test_repair_survives_kills_of_worker_and_api(fleet, provider, start_scenario):
    scenario = start_scenario("22b", "kill -9 during a repair")
    scenario.submit(scenario.corpus(4))
    scenario.settle()
    (row,) = fleet.query(LOCATION, scenario.collection)
    location, path = index_location_of(**row), f"/v1/collections/{scenario.collection}/verify"
    stored = fleet.stored_points(location)
    lost = sorted(stored)[::3]
    address = f"{fleet.stack.settings.qdrant_url}/collections/{location.index_name}/points/delete"
    httpx.post(
        address,
        params={"wait": "true"},
        json={"points": lost},
        headers=headers_of(fleet.stack.settings),
        trust_env=False,
        timeout=TIMEOUT_SECONDS,
    ).raise_for_status()

    fleet.signal_at("index-1", "after a repair")
    with fleet.paused("index-2"):
        accept = {"accept": "text/event-stream"}
        with fleet.client.stream("POST", path, json={"repair": True}, headers=accept) as response:
            response.raise_for_status()
        fleet.wait_until(lambda: scenario.deaths() == 1, "no worker died after a repair")
        fleet.kill("api")
    fleet.wait_until(lambda: fleet.client.get(path).json()["state"] == "done", "the repair was not finished")

    done = fleet.client.get(path).json()
    assert {finding["point_id"] for finding in done["findings"]} == set(lost)
    assert (done["missing"], done["repaired"], len(done["findings"])) == (len(lost), len(lost), len(lost))
    scenario.settle()
    assert fleet.stored_points(location).keys() == stored.keys()
    assert scenario.check().calls == scenario.chunks
