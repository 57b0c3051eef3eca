"""Collections calibrate themselves when they have grown, and what people have labelled stays."""

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import numpy as np
import pytest
from redis.asyncio import Redis
from sqlalchemy import text

from shared.broker.wakeups import Wakeups, celery_app
from shared.domain.collections import Baseline, CollectionOptions, Weights
from shared.domain.errors import InvalidInput
from shared.domain.ids import accepted_id, accepted_point_id
from shared.query.calibrate import calibrator
from shared.query.retrieve import Query
from shared.query.retrieve.scale import scale_of
from shared.vectors.filters import visible_points
from shared.vectors.groups import group
from shared.vectors.points import Point
from tests.support.api import work
from tests.support.provider import Script, ScriptedEndpoints
from workers.loop import WorkerLoop
from workers.scheduler import wake
from workers.tasks import register

FEW = 40  # chunks from which a collection calibrates itself, here: each costs the provider, Qdrant and PostgreSQL
COMMON = "the annual inspection of the vessel in the harbour was recorded by the keeper of the register as usual"


def text_of(number):
    return f"{COMMON}: ship{number} lay at berth{number} under captain{number}."


def question_of(number):
    return f"Where did ship{number} of the register lay in the harbour?"


@pytest.fixture
def grow(services, library, provider, monkeypatch):
    """Index a document with so many chunks, each with one question, from a number on."""

    monkeypatch.setattr(calibrator, "_MIN_CHUNKS", FEW)

    async def grow(start, stop):
        await services.ledger.collections.ensure(
            "default",
            "default",
            embedding_model="scripted-embedding",
            options=CollectionOptions(chunk_max_chars=200, chunk_overlap_chars=0),
        )
        sections = [f"# Berth {number}\n\n{text_of(number)}" for number in range(start, stop)]
        await library.add("\n\n".join(sections), questions=[question_of(number) for number in range(start, stop)])
        await work(services)
        await due(services)

    return grow


async def due(services):
    async with services.database.begin() as connection:
        await connection.exec_driver_sql("UPDATE collections SET calibration_due_at = now()")


async def grown(services):
    """Look at every collection that is due."""
    while await services.calibrator.calibrate_grown():
        pass


async def indexed_texts(services, library):
    """The text of each chunk, in order."""
    place = (await library.collection()).location
    stored, _ = await services.index.scroll_points(place)
    versions = {str(point.chunk_id): 1 for point in stored}
    payloads = (await services.index.chunk_payloads(visible_points(place), versions)).chunks
    return [chunk["text"] for chunk in sorted(payloads.values(), key=lambda chunk: chunk["ordinal"])]


async def calibration(library):
    return (await library.collection()).calibration


async def test_a_collection_that_has_grown_is_calibrated_once(services, library, provider, grow):
    await grow(0, FEW)
    await grown(services)
    first = await calibration(library)
    assert (first["source"], first["chunks"], first["questions"]) == ("generated", FEW, FEW)

    await grow(FEW, FEW * 3 // 2 - 1)
    asked = provider.stats()["embedded_inputs"]
    await grown(services)
    assert await calibration(library) == first
    assert provider.stats()["embedded_inputs"] == asked

    await grow(FEW * 3 // 2 - 1, FEW * 3 // 2)
    await grown(services)
    assert (await calibration(library))["chunks"] == FEW * 3 // 2
    await due(services)
    asked = provider.stats()["embedded_inputs"]
    await grown(services)
    assert provider.stats()["embedded_inputs"] == asked


async def test_calibration_is_not_rechecked_early(services, library, grow):
    await grow(0, FEW)
    assert await services.calibrator.calibrate_grown()
    await grow(FEW, 2 * FEW)
    async with services.database.begin() as connection:
        await connection.exec_driver_sql("UPDATE collections SET calibration_due_at = now() + interval '1 minute'")

    assert not await services.calibrator.calibrate_grown()
    assert (await calibration(library))["chunks"] == FEW


async def test_only_first_calibration_ignores_running_documents(services, library, grow):
    await grow(0, FEW)
    await library.add("Not parsed yet.", "next.md")
    await grown(services)
    assert (await calibration(library))["chunks"] == FEW

    await grow(FEW, 2 * FEW)
    await library.add("And not this.", "last.md")
    await grown(services)
    assert (await calibration(library))["chunks"] == FEW
    assert not await services.ledger.calibrations.due()

    async with services.database.begin() as connection:
        await connection.exec_driver_sql("UPDATE collections SET calibration_due_at = now() - interval '10 minutes'")
    await grown(services)
    assert (await calibration(library))["chunks"] == 2 * FEW + 1


async def test_a_small_collection_is_left_alone(services, library, grow):
    await grow(0, 29)
    await grown(services)

    assert await calibration(library) is None


async def test_missing_questions_calibrate_texts_only(services, library, grow, monkeypatch):
    monkeypatch.setattr(calibrator, "_GROWTH", 10)
    await grow(0, 1)
    for number in range(1, FEW):
        await library.add(text_of(number), f"{number}.md", questions=[])
    await work(services)
    await due(services)
    await grown(services)

    found = await calibration(library)
    assert (found["source"], found["chunks"], set(found["weights"].values())) == ("texts", FEW, {1.0})
    vectors = np.array([ScriptedEndpoints(Script()).vector(text) for text in await indexed_texts(services, library)])
    cosines = (vectors @ vectors.T)[~np.eye(FEW, dtype=bool)]
    assert found["baseline_similarity"] == pytest.approx(cosines.mean(), abs=1e-4)
    assert found["baseline_spread"] == pytest.approx(cosines.std(), abs=1e-4)
    assert "equal" not in found
    await due(services)
    await grown(services)
    assert await calibration(library) == found
    await grow(FEW, FEW + 29)
    await grown(services)
    assert (await calibration(library))["source"] == "generated"


async def test_a_new_collection_is_looked_at_sooner(services, library):
    await library.collection()
    for age, seconds in ((0, 10), (60, 60), (3600, 600)):
        async with services.database.begin() as connection:
            await connection.exec_driver_sql(
                f"UPDATE collections SET calibration_due_at = now(), created_at = now() - interval '{age} seconds'"
            )
        every = timedelta(minutes=10)
        assert await services.ledger.calibrations.claim(["scripted-embedding"], every=every, lease=timedelta())
        async with services.database.begin() as connection:
            wait = await connection.exec_driver_sql("SELECT calibration_due_at - now() FROM collections")
            assert wait.scalar_one().total_seconds() == pytest.approx(seconds, abs=3)


async def test_baseline_is_measured_without_choosing_weights(services, library, grow):
    await grow(0, FEW)
    await grown(services)

    found = await calibration(library)
    texts = await indexed_texts(services, library)
    vector = ScriptedEndpoints(Script()).vector
    cosines = np.array([[vector(question_of(q)) @ vector(texts[t]) for t in range(FEW)] for q in range(FEW)])
    others = cosines[~np.eye(FEW, dtype=bool)]
    assert others.mean() > 0.2
    assert found["baseline_similarity"] == pytest.approx(others.mean(), abs=1e-4)
    assert found["baseline_spread"] == pytest.approx(others.std(), abs=1e-4)
    assert Weights(**found["weights"]) == Weights()
    assert found["equal"] == found["chosen"]
    assert found["channels"]["text"]["mean"] > 0.5


async def test_a_question_does_not_find_itself(services, library, grow):
    await grow(0, FEW)
    await grown(services)

    # Each chunk has one question: without it there is nothing by which the channel could find the chunk.
    assert (await calibration(library))["channels"]["questions"]["mean"] == 0.0


async def test_scores_are_on_one_scale_from_then_on(services, library, grow):
    await grow(0, FEW)
    query = Query(question_of(7), channels=["text"], fusion="max", top_k=3)
    before = (await services.retriever.retrieve(await library.collection(), query)).chunks
    await grown(services)
    after = (await services.retriever.retrieve(await library.collection(), query)).chunks

    scale = scale_of((await library.collection()).baseline)
    assert scale is not None
    assert [chunk.chunk_id for chunk in after] == [chunk.chunk_id for chunk in before]
    expected = [scale(chunk.score) for chunk in before]
    assert [chunk.score for chunk in after] == pytest.approx(expected, abs=1e-4)


async def test_labelled_weights_are_retained(services, library, grow):
    await grow(0, FEW)
    stored = await services.index.scroll_points((await library.collection()).location)
    labelled = [(question_of(number), {str(stored[0][0].chunk_id)}) for number in range(10)]
    await services.calibrator.calibrate_labelled(await library.collection(), labelled)
    first = await calibration(library)
    assert (first["source"], first["chunks"]) == ("labelled", FEW)

    await grow(FEW, 3 * FEW)
    assert not await services.ledger.calibrations.due()
    await grown(services)
    await services.calibrator.calibrate_unlabelled(await library.collection())
    assert await calibration(library) == first


async def test_calibrations_are_serial_dead_worker_costs_time_only(services, library, grow):
    await grow(0, FEW)
    await services.ledger.collections.ensure("default", "other", embedding_model="scripted-embedding")
    day = timedelta(days=1)
    claimed = await services.ledger.calibrations.claim(["scripted-embedding"], every=timedelta(), lease=day)
    assert claimed.collection.name == "default"
    await grown(services)
    assert await calibration(library) is None

    async with services.database.begin() as connection:
        await connection.exec_driver_sql("UPDATE collections SET calibrating_until = now()")
    await grown(services)
    assert (await calibration(library))["chunks"] == FEW


async def test_expired_claim_does_not_end_next_claim(services, library):
    await library.collection()
    await due(services)
    late = await services.ledger.calibrations.claim(["scripted-embedding"], every=timedelta(), lease=timedelta())
    now = await services.ledger.calibrations.claim(
        ["scripted-embedding"], every=timedelta(), lease=timedelta(minutes=5)
    )

    await services.ledger.calibrations.release(late)
    assert await claims(services) == 1
    await services.ledger.calibrations.release(now)
    assert await claims(services) == 0


async def test_unavailable_provider_is_retried_later(services, library, provider, grow):
    await grow(0, FEW)
    provider.script(down=True)
    await grown(services)
    assert await calibration(library) is None
    assert not await services.ledger.calibrations.due()

    provider.script(down=False)
    await due(services)
    await grown(services)
    assert (await calibration(library))["chunks"] == FEW


async def test_too_few_texts_are_refused(services, library, grow):
    await grow(0, 29)

    with pytest.raises(InvalidInput, match="Fewer than 30 chunks can be measured"):
        await services.calibrator.calibrate_unlabelled(await library.collection())
    assert await calibration(library) is None


@pytest.mark.parametrize(("calibrate", "wakes"), [(True, 1), (False, 0)])
async def test_scheduler_wakes_calibration_unless_disabled(services, library, settings, calibrate, wakes):
    await library.collection()
    wakeups = Wakeups(settings.redis_url.get_secret_value())
    chosen = settings.model_copy(update={"calibrate": calibrate})

    await wake(replace(services, settings=chosen, wakeups=wakeups))
    await wakeups.aclose()

    async with Redis.from_url(settings.redis_url.get_secret_value()) as redis:
        assert await redis.llen("calibrate") == wakes


async def test_a_worker_answers_the_ring(services, settings, library, grow):
    await grow(0, FEW)
    loop = await asyncio.to_thread(WorkerLoop, "index", settings)
    app = celery_app(settings.redis_url.get_secret_value())
    register(app, loop)
    try:
        await asyncio.to_thread(app.tasks["foreask.calibrate"], "of another release", batch=[])
        async with asyncio.timeout(60):
            while not (found := await calibration(library)):
                await asyncio.sleep(0.05)
    finally:
        await asyncio.to_thread(loop.close)
        app.close()

    assert found["chunks"] == FEW


async def test_a_worker_that_ends_gives_its_claim_back(services, settings, library, grow, provider):
    await grow(0, FEW)
    provider.script(embedding_latency_seconds=30)
    loop = await asyncio.to_thread(WorkerLoop, "index", settings)
    app = celery_app(settings.redis_url.get_secret_value())
    register(app, loop)
    ringing = threading.Thread(target=app.tasks["foreask.calibrate"], daemon=True)
    ringing.start()
    try:
        async with asyncio.timeout(20):
            while not await claims(services):
                await asyncio.sleep(0.05)
        await asyncio.to_thread(ringing.join, 10)
        assert not ringing.is_alive()  # the woken thread is free for the drains meanwhile
    finally:
        await asyncio.to_thread(loop.close)
        app.close()

    assert await claims(services) == 0
    assert not await calibration(library)


async def claims(services):
    async with services.database.begin() as connection:
        held = await connection.exec_driver_sql("SELECT count(*) FROM collections WHERE calibrating_until > now()")
        return held.scalar_one()


async def accept(services, library, count):
    """Users' questions, in words of their own, each for the chunk of one ship; as many as there are of them then."""
    collection = await library.collection()
    async with services.database.begin() as connection:
        chunks = (await connection.exec_driver_sql("SELECT id, document_id FROM chunks ORDER BY ordinal")).all()
        for number, chunk in enumerate(chunks[:count]):
            await connection.execute(
                text(
                    "INSERT INTO accepted_questions"
                    " (id, tenant, collection_id, document_id, chunk_id, question, state) VALUES"
                    " (:id, 'default', :collection, :document, :chunk, :question, 'waiting') ON CONFLICT DO NOTHING"
                ),
                {
                    "id": accepted_id(chunk.id, "accepted"),
                    "collection": collection.id,
                    "document": chunk.document_id,
                    "chunk": chunk.id,
                    "question": f"Who sailed on ship{number}?",
                },
            )
        await connection.exec_driver_sql("UPDATE accepted_questions SET state = 'indexed'")


async def test_enough_accepted_questions_choose_weights(services, library, provider, grow):
    await grow(0, 50)
    await accept(services, library, 29)
    await grown(services)
    assert (await calibration(library))["source"] == "generated"

    await accept(services, library, 30)
    await due(services)
    await grown(services)
    first = await calibration(library)
    assert (first["source"], first["questions"], first["chunks"]) == ("accepted", 30, 50)
    assert first["chosen"]["mean"] >= first["equal"]["mean"] > 0

    await accept(services, library, 44)
    await due(services)
    await grown(services)
    assert await calibration(library) == first
    await accept(services, library, 45)
    await due(services)
    await grown(services)
    assert (await calibration(library))["questions"] == 45


async def test_accepted_questions_are_not_found_by_themselves(services, library, grow):
    await grow(0, 30)
    collection = await library.collection()
    question, chunk = "Who sailed the seven seas?", UUID(int=7 << 48)
    payload = {
        "tenant": "default",
        "group": group(collection.location, "q"),
        "chunk_id": str(chunk),
        "version": 1,
        "token": 1,
        "question": question,
        "source": "user",
    }
    vector = ScriptedEndpoints(Script()).vector(question)
    point = Point(accepted_point_id(accepted_id(chunk, question), 1), {"dense": vector}, payload)
    await services.index.upsert(collection.index_name, [point])

    (found,) = await services.retriever.search_channels(collection, [question], Baseline())

    assert str(chunk) not in found["questions"].scores
    assert len(found["questions"].scores) == 30
