"""Readers change while processes are killed before they update Qdrant: no query finds documents by old readers."""

import threading
from contextlib import suppress

import httpx

ADA, BOB = "ada@example.org", "bob@example.org"
_PENDING = "SELECT count(*) FROM documents WHERE description_due_at IS NOT NULL AND state <> 'deleting'"
_END_CLAIMS = "UPDATE documents SET description_due_at = now() WHERE description_due_at > now() RETURNING id"
_CHANGED = """
    SELECT count(*) FROM documents d JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    WHERE d.public_id::text = $1 AND v.readable_by = ARRAY['user:' || $2::text]
"""


def found_by(fleet, scenario, user):
    body = {"question": "What does the section say?", "collection": scenario.collection, "top_k": 50}
    reply = fleet.client.post("/v1/retrieve", json=body, headers={"x-foreask-user": user})
    return {chunk["document_id"] for chunk in reply.raise_for_status().json()["chunks"]}


def change(fleet, document, reader):
    body = {"readable_by": [f"user:{reader}"]}
    with suppress(httpx.HTTPError):  # the API may be killed before it answers
        fleet.client.patch(f"/v1/documents/{document}", json=body)


def test_killed_processes_leave_no_old_readers(fleet, start_scenario):
    scenario = start_scenario("30", "kill -9 of the API and the scheduler between ledger and Qdrant")
    scenario.submit(scenario.corpus(4, 2), readable_by=[f"user:{ADA}"])
    scenario.settle()
    documents = {document["id"] for document in fleet.documents(scenario.collection)}
    assert found_by(fleet, scenario, ADA) == documents
    lost = set()

    for document, fault in zip(sorted(documents), ("swallow", "refuse") * 2, strict=True):
        more = {"times": 1_000} if fault == "swallow" else {"status": 500}
        fleet.fault("qdrant", **{fault: "/points/batch?wait=true"}, **more)
        changing = threading.Thread(target=change, args=(fleet, document, BOB))
        changing.start()
        lost.add(document)
        fleet.wait_until(
            lambda one=document: fleet.query(_CHANGED, one, BOB)[0]["count"] == 1, "the ledger has no new readers"
        )
        assert found_by(fleet, scenario, ADA) == documents - lost

        fleet.kill("api")
        fleet.kill("scheduler-1")
        fleet.wait_until(fleet.accepts, "the API did not start")
        changing.join()
        assert found_by(fleet, scenario, ADA) == documents - lost

        fleet.fault("qdrant")
        fleet.query(_END_CLAIMS)  # the claim of a killed process would last 90 seconds
        fleet.wait_until(lambda: fleet.query(_PENDING)[0]["count"] == 0, "Qdrant was not updated", 60)
        assert found_by(fleet, scenario, ADA) == documents - lost
        assert found_by(fleet, scenario, BOB) == lost
    scenario.check(note=f"{scenario.deaths()} processes")
