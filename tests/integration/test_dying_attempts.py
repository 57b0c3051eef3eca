"""A chunk that is found stays found, however a later attempt to index it dies."""

from itertools import product

import pytest
from qdrant_client import models

from features.verification.comparison import Verification
from features.verification.domain import DifferingPoint
from shared.domain.corpus.ids import question_point_id
from shared.domain.stages.poison import DEATHS_ALONE, SUSPECT_AFTER
from shared.ledger.documents.audit import Audit
from shared.ledger.postgres.statements import Statement
from shared.vectors.transport.errors import Refusal
from tests.integration.test_stages import points, texts_found
from tests.support.api import calling, work
from tests.support.emptying import forget
from tests.support.planted import guards
from tests.support.qdrant import is_upsert, qdrant_client

TEXT = "The harbour opens at seven in the morning for all ships."
ASKED = "When does the harbour open?"
OF_USER = "At which hour may the first ship enter the port?"
WAYS = ("embeddings fail", "workers die", "Qdrant refuses points")


async def execute(services, statement, **parameters):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement), parameters)
        return result.all()


async def delete(services, library, *ids):
    name = (await library.collection()).index_name
    await qdrant_client(services).delete(name, points_selector=models.PointIdsList(points=list(ids)))


async def differences(services, library, *, repair=False):
    verification = Verification(services.ledger[Audit], services.index, await library.collection(), repair=repair)
    return {finding.point_id async for finding in verification.run() if isinstance(finding, DifferingPoint)}


async def waits_for_first_questions(services, library):
    await library.add(TEXT, "a.md")
    await work(services, "parse", "index", "generate")


async def waits_for_users_question(services, library):
    await library.add(TEXT, "a.md")
    await work(services)
    async with calling(services.settings, services) as client:
        found = (await client.post("/v1/retrieve", json={"question": OF_USER})).json()
        body = {"query_id": found["metadata"]["query_id"], "chunk_id": found["chunks"][0]["chunk_id"], "helpful": True}
        assert (await client.post("/v1/feedback", json=body)).json()["outcome"] == "accepted"


async def waits_for_repair(services, library):
    await library.add(TEXT, "a.md")
    await work(services)
    ((chunk,),) = await execute(services, "SELECT id FROM chunks")
    await delete(services, library, question_point_id(chunk, 1, 0))
    assert len(await differences(services, library, repair=True)) == 1


CASES = tuple(product((waits_for_first_questions, waits_for_users_question, waits_for_repair), WAYS))


async def die(services, provider, monkeypatch, way):
    """Index the due chunk until it is dead."""
    if way == "workers die":
        await execute(services, "UPDATE chunks SET lost_leases = :most", most=SUSPECT_AFTER + DEATHS_ALONE)
    if way == "Qdrant refuses points":
        send = services.index._requests.send

        async def refuse(method, path, *request, **options):
            if is_upsert(method, path):
                raise Refusal(400, b"{}")
            return await send(method, path, *request, **options)

        monkeypatch.setattr(services.index._requests, "send", refuse)
    if way == "embeddings fail":
        await execute(services, "UPDATE chunks SET attempts = 100")
        provider.script(embedding_status=500)
    for _ in range(SUSPECT_AFTER + DEATHS_ALONE + 1):
        await work(services, "index")
        await execute(services, "UPDATE chunks SET due_at = now()")
    provider.script(embedding_status=0)
    monkeypatch.undo()


@guards(
    "shared/vectors/writes.py",
    "kept = [point for chunk in same for point in recorded(chunk)]",
    "kept = []",
    means="an attempt that dies deletes the points of earlier ones",
)
@guards(
    "shared/vectors/writes.py",
    "return [chunk_point_id(identity, version), *questions, *accepted]",
    "return [chunk_point_id(identity, version)]",
    means="an attempt that dies deletes the questions of earlier ones",
)
@pytest.mark.parametrize("waits_and_dies", CASES, ids=[f"{wait.__name__}, {way}" for wait, way in CASES])
async def test_dying_attempt_keeps_points_of_earlier_ones(services, library, provider, monkeypatch, waits_and_dies):
    wait, way = waits_and_dies
    await wait(services, library)
    before = await points(services, library)

    await die(services, provider, monkeypatch, way)

    ((state, reason),) = await execute(services, "SELECT state, error FROM chunks")
    assert (state, bool(reason)) == ("dead", True)
    assert (await points(services, library)).keys() == before.keys()
    assert await texts_found(services, library, ASKED) == [TEXT]


@guards(
    "shared/ingest/index/stage.py",
    "has_more = bool(chunk.questions or chunk.accepted)",
    "has_more = False",
    means="a text is lost with the questions of its next version",
)
async def test_text_outlives_questions_of_next_version(services, library, provider):
    await library.add(TEXT, "a.md", questions=[ASKED])
    await work(services)
    await library.add(TEXT + "\n", "a.md", questions=["Does the harbour close?", "Who opens it?"])
    await work(services, "parse")
    await execute(services, "UPDATE chunks SET attempts = 100 WHERE version = 2")
    provider.script(embedding_status=500)

    await work(services, "index")

    provider.script(embedding_status=0)
    assert await execute(services, "SELECT state FROM chunks WHERE version = 2") == [("dead",)]
    assert await execute(services, "SELECT live_version, state FROM documents") == [(2, "degraded")]
    assert await texts_found(services, library, ASKED) == [TEXT]


async def test_vectors_of_another_size_wait(services, library, provider):
    await waits_for_first_questions(services, library)
    services.indexer.embedder.seen = None  # a worker that has just started
    provider.script(embedding_dimensions=128)

    for _ in range(3):
        await work(services, "index")
        await execute(services, "UPDATE chunks SET due_at = now()")

    assert await execute(services, "SELECT state, attempts FROM chunks") == [("generated", 0)]
    provider.script(embedding_dimensions=0)
    services.indexer.embedder.seen = None
    await forget(services)
    await work(services)
    assert await execute(services, "SELECT state FROM documents") == [("ready",)]
    assert await texts_found(services, library, ASKED) == [TEXT]


async def test_points_of_dead_chunk_are_repaired(services, library, provider, monkeypatch):
    await waits_for_users_question(services, library)
    before = await points(services, library)
    await die(services, provider, monkeypatch, "embeddings fail")
    assert await differences(services, library) == set()
    await delete(services, library, *before)

    assert await differences(services, library, repair=True)
    await work(services, "index")

    assert before.keys() < (await points(services, library)).keys()  # and the user's question
    assert await execute(services, "SELECT state FROM documents") == [("ready",)]
