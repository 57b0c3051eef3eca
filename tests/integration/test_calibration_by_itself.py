"""Grown collections are calibrated automatically; calibrations from labelled questions are kept."""

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import numpy as np
import pytest
from redis.asyncio import Redis

from shared.broker.wakeups import Wakeups, celery_app
from shared.domain.corpus.collections import Baseline, CollectionOptions, Weights
from shared.domain.corpus.ids import accepted_id, accepted_point_id
from shared.domain.errors import InvalidInput
from shared.ledger.builds.calibrations import Calibrations
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.query.calibrate import calibrator
from shared.query.retrieve import Query
from shared.query.retrieve.scores.scale import scale_of
from shared.vectors.schema.groups import group
from shared.vectors.schema.points import Point
from tests.conftest import Library
from tests.support.api import work
from tests.support.planted import guards
from tests.support.provider import Script, ScriptedEndpoints
from tests.support.waiting import TIMEOUT_SECONDS
from workers import loop as loop_module
from workers.loop import WorkerLoop
from workers.scheduler import wake_calibrations
from workers.tasks import register

FEW = 40  # chunks that make a collection due for calibration in this file; a low number keeps the tests fast
COMMON = "the annual inspection of the vessel in the harbour was recorded by the keeper of the register as usual"


def text_of(number):
    return f"{COMMON}: ship{number} lay at berth{number} under captain{number}."


def question_of(number):
    return f"Where did ship{number} of the register lay in the harbour?"


async def grown(services, start, stop):
    """Index a document with chunks of the given numbers, each with one question."""
    await services.ledger[Collections].ensure(
        "default",
        "default",
        embedding_model="scripted-embedding",
        options=CollectionOptions(chunk_max_chars=200, chunk_overlap_chars=0),
    )
    sections = [f"# Berth {number}\n\n{text_of(number)}" for number in range(start, stop)]
    questions = [question_of(number) for number in range(start, stop)]
    await Library(services).add("\n\n".join(sections), questions=questions)
    await work(services)


@pytest.fixture
def grow(services, once, monkeypatch):
    """Return a function that indexes chunks of the given numbers; the chunks from 0 are the first change of a test."""
    monkeypatch.setattr(calibrator, "_MIN_CHUNKS", FEW)

    async def grow(start, stop):
        await (grown(services, start, stop) if start else once(grown, start, stop))
        await make_due(services)

    return grow


async def make_due(services):
    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE collections SET calibration_due_at = now()")


async def calibrate_due(services):
    """Calibrate every collection that is due."""
    while await services.calibrator.calibrate_grown():
        pass


async def indexed_texts(services, library):
    """Return the text of each chunk, in order."""
    location = (await library.collection()).location
    stored, _ = await services.index.scroll_points(location)
    versions = {str(point.chunk_id): 1 for point in stored}
    payloads = (await services.index.chunk_payloads(location, versions)).chunks
    return [chunk["text"] for chunk in sorted(payloads.values(), key=lambda chunk: chunk["ordinal"])]


async def calibration(library):
    return (await library.collection()).calibration


async def test_grown_collection_is_calibrated_once(services, library, provider, grow):
    await grow(0, FEW)
    await calibrate_due(services)
    first = await calibration(library)
    assert (first["source"], first["chunks"], first["questions"]) == ("generated", FEW, FEW)

    await grow(FEW, FEW * 3 // 2 - 1)
    embedded = provider.stats()["embedded_inputs"]
    await calibrate_due(services)
    assert await calibration(library) == first
    assert provider.stats()["embedded_inputs"] == embedded

    await grow(FEW * 3 // 2 - 1, FEW * 3 // 2)
    await calibrate_due(services)
    assert (await calibration(library))["chunks"] == FEW * 3 // 2
    await make_due(services)
    embedded = provider.stats()["embedded_inputs"]
    await calibrate_due(services)
    assert provider.stats()["embedded_inputs"] == embedded


async def test_failing_calibration_does_not_stop_other_calibrations(services, library, grow):
    await grow(0, FEW)
    await services.ledger[Collections].ensure("default", "odd", embedding_model="scripted-embedding")
    async with services.database.begin() as connection:  # a value that no release writes
        await connection.execute_sql(
            "UPDATE collections SET calibration = '[1]', calibration_due_at = now() WHERE name = 'odd'"
        )

    await calibrate_due(services)

    assert (await calibration(library))["source"] == "generated"


async def test_calibration_is_not_checked_again_before_interval(services, library, grow):
    await grow(0, FEW)
    assert await services.calibrator.calibrate_grown()
    await grow(FEW, 2 * FEW)
    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE collections SET calibration_due_at = now() + interval '1 minute'")

    assert not await services.calibrator.calibrate_grown()
    assert (await calibration(library))["chunks"] == FEW


@guards(
    "shared/query/calibrate/calibrator.py",
    "if is_first and claim.is_loading:",
    "if False:",
    means="the first calibration of a collection searches during a load",
)
async def test_first_calibration_during_load_searches_nothing(services, library, provider, grow):
    await grow(0, FEW)
    await library.add("Not parsed yet.", "next.md")
    embedded = provider.stats()["embedded_inputs"]
    await calibrate_due(services)
    first = await calibration(library)
    assert (first["source"], first["chunks"], "channels" in first) == ("texts", FEW, False)
    assert provider.stats()["embedded_inputs"] == embedded
    await make_due(services)
    assert not await services.ledger[Calibrations].due()

    await work(services)
    await make_due(services)
    await calibrate_due(services)
    assert (await calibration(library))["source"] == "generated"


async def test_only_first_calibration_ignores_unfinished_documents(services, library, grow):
    await grow(0, FEW)
    await calibrate_due(services)
    assert (await calibration(library))["chunks"] == FEW

    await grow(FEW, 2 * FEW)
    await library.add("And not this.", "last.md")
    await calibrate_due(services)
    assert (await calibration(library))["chunks"] == FEW
    assert not await services.ledger[Calibrations].due()

    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE collections SET calibration_due_at = now() - interval '10 minutes'")
    await calibrate_due(services)
    assert (await calibration(library))["chunks"] == 2 * FEW


async def test_small_collection_is_not_calibrated(services, library, grow):
    await grow(0, 29)
    await calibrate_due(services)

    assert await calibration(library) is None


async def test_collection_without_questions_is_calibrated_by_texts(services, library, grow, monkeypatch):
    monkeypatch.setattr(calibrator, "_GROWTH", 10)
    await grow(0, 1)
    for number in range(1, FEW):
        await library.add(text_of(number), f"{number}.md", questions=[])
    await work(services)
    await make_due(services)
    await calibrate_due(services)

    found = await calibration(library)
    assert (found["source"], found["chunks"], set(found["weights"].values())) == ("texts", FEW, {1.0})
    vectors = np.array([ScriptedEndpoints(Script()).vector(text) for text in await indexed_texts(services, library)])
    cosines = (vectors @ vectors.T)[~np.eye(FEW, dtype=bool)]
    assert found["baseline_similarity"] == pytest.approx(cosines.mean(), abs=1e-4)
    assert found["baseline_spread"] == pytest.approx(cosines.std(), abs=1e-4)
    assert "equal" not in found
    await make_due(services)
    await calibrate_due(services)
    assert await calibration(library) == found
    await grow(FEW, FEW + 29)
    await calibrate_due(services)
    assert (await calibration(library))["source"] == "generated"


async def test_new_collection_is_checked_more_often(services, library):
    await library.collection()
    for age, seconds in ((0, 10), (60, 60), (3600, 600)):
        async with services.database.begin() as connection:
            await connection.execute_sql(
                f"UPDATE collections SET calibration_due_at = now(), created_at = now() - interval '{age} seconds'"
            )
        every = timedelta(minutes=10)
        assert await services.ledger[Calibrations].claim(["scripted-embedding"], every=every, lease=timedelta())
        async with services.database.begin() as connection:
            wait = await connection.execute_sql("SELECT calibration_due_at - now() FROM collections")
            assert wait.scalar_one().total_seconds() == pytest.approx(seconds, abs=3)


async def test_baseline_is_measured_without_choosing_weights(services, library, grow):
    await grow(0, FEW)
    await calibrate_due(services)

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


async def test_calibration_question_does_not_match_itself(services, library, grow):
    await grow(0, FEW)
    await calibrate_due(services)

    # Each chunk has one question. Without that question, the channel cannot find the chunk.
    assert (await calibration(library))["channels"]["questions"]["mean"] == 0.0


async def test_calibration_rescales_scores_and_keeps_their_order(services, library, grow):
    await grow(0, FEW)
    query = Query(question_of(7), channels=["text"], fusion="max", top_k=3)
    before = (await services.retriever.retrieve(await library.collection(), query)).chunks
    await calibrate_due(services)
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
    assert not await services.ledger[Calibrations].due()
    await calibrate_due(services)
    await services.calibrator.calibrate_unlabelled(await library.collection())
    assert await calibration(library) == first


async def test_calibration_of_dead_worker_is_repeated_after_lease(services, library, grow):
    await grow(0, FEW)
    await services.ledger[Collections].ensure("default", "other", embedding_model="scripted-embedding")
    day = timedelta(days=1)
    claimed = await services.ledger[Calibrations].claim(["scripted-embedding"], every=timedelta(), lease=day)
    assert claimed.collection.name == "default"
    await calibrate_due(services)
    assert await calibration(library) is None

    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE collections SET calibrating_until = now()")
    await calibrate_due(services)
    assert (await calibration(library))["chunks"] == FEW


async def test_expired_claim_does_not_end_next_claim(services, library):
    await library.collection()
    await make_due(services)
    late = await services.ledger[Calibrations].claim(["scripted-embedding"], every=timedelta(), lease=timedelta())
    now = await services.ledger[Calibrations].claim(
        ["scripted-embedding"], every=timedelta(), lease=timedelta(minutes=5)
    )

    await services.ledger[Calibrations].release(late)
    assert await claims(services) == 1
    await services.ledger[Calibrations].release(now)
    assert await claims(services) == 0


async def test_unavailable_provider_is_retried_later(services, library, provider, grow):
    await grow(0, FEW)
    provider.script(down=True)
    await calibrate_due(services)
    assert await calibration(library) is None
    assert not await services.ledger[Calibrations].due()

    provider.script(down=False)
    await make_due(services)
    await calibrate_due(services)
    assert (await calibration(library))["chunks"] == FEW


async def test_calibration_with_too_few_chunks_is_refused(services, library, grow):
    await grow(0, 29)

    with pytest.raises(InvalidInput, match="Fewer than 30 chunks can be measured"):
        await services.calibrator.calibrate_unlabelled(await library.collection())
    assert await calibration(library) is None


@pytest.mark.parametrize(("calibrate", "wakes"), [(True, 1), (False, 0)])
async def test_scheduler_wakes_calibration_unless_disabled(services, library, settings, calibrate, wakes):
    await library.collection()
    wakeups = Wakeups(settings.redis_url.get_secret_value())
    chosen = settings.model_copy(update={"calibrate": calibrate})

    await wake_calibrations(replace(services, settings=chosen, wakeups=wakeups))
    await wakeups.aclose()

    async with Redis.from_url(settings.redis_url.get_secret_value()) as redis:
        assert await redis.llen("foreask.calibrate") == wakes


async def test_woken_worker_calibrates_due_collection(services, settings, library, grow):
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


async def test_stopping_worker_releases_its_calibration_claim(
    *, services, settings, library, grow, provider, monkeypatch
):
    monkeypatch.setattr(loop_module, "_CLOSE_SECONDS", TIMEOUT_SECONDS)  # a busy machine takes longer
    await grow(0, FEW)
    provider.script(embedding_latency_seconds=30)
    loop = await asyncio.to_thread(WorkerLoop, "index", settings)
    app = celery_app(settings.redis_url.get_secret_value())
    register(app, loop)
    waking = threading.Thread(target=app.tasks["foreask.calibrate"], daemon=True)
    waking.start()
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not await claims(services):
                await asyncio.sleep(0.05)
        await asyncio.to_thread(waking.join, 10)
        assert not waking.is_alive()  # the woken thread remains free for other work
    finally:
        await asyncio.to_thread(loop.close)
        app.close()

    assert await claims(services) == 0
    assert not await calibration(library)


async def claims(services):
    async with services.database.begin() as connection:
        result = await connection.execute_sql("SELECT count(*) FROM collections WHERE calibrating_until > now()")
        return result.scalar_one()


async def accept(services, library, count):
    """Insert accepted questions in the users' wording, one for each of the first `count` chunks."""
    collection = await library.collection()
    async with services.database.begin() as connection:
        chunks = (await connection.execute_sql("SELECT id, document_id FROM chunks ORDER BY ordinal")).all()
        for number, chunk in enumerate(chunks[:count]):
            await connection.execute(
                Statement(
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
        await connection.execute_sql("UPDATE accepted_questions SET state = 'indexed'")


async def test_thirty_accepted_questions_choose_weights(services, library, provider, grow):
    await grow(0, 50)
    await accept(services, library, 29)
    await calibrate_due(services)
    assert (await calibration(library))["source"] == "generated"

    await accept(services, library, 30)
    await make_due(services)
    await calibrate_due(services)
    first = await calibration(library)
    assert (first["source"], first["questions"], first["chunks"]) == ("accepted", 30, 50)
    assert first["chosen"]["mean"] >= first["equal"]["mean"] > 0

    await accept(services, library, 44)
    await make_due(services)
    await calibrate_due(services)
    assert await calibration(library) == first
    await accept(services, library, 45)
    await make_due(services)
    await calibrate_due(services)
    assert (await calibration(library))["questions"] == 45


async def test_calibration_search_excludes_accepted_questions(services, library, grow):
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
