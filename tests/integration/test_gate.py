"""The gate opens for an equal build and stays closed for an incomplete or worse build."""

from dataclasses import replace
from uuid import uuid4

import pytest

from features.builds import gate as gates
from features.builds.gate import Gate, GateReport
from shared.domain.corpus.collections import CollectionOptions, Weights
from shared.domain.corpus.ids import chunk_point_id
from shared.domain.errors import Refused
from shared.ledger.builds.builds import Builds
from shared.ledger.builds.calibrations import Calibrations
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.query.retrieve import Query
from tests.support.api import work

DOCUMENTS = gates.MIN_QUESTIONS
LABELLED = [(f"Was beta{n} recorded?", [f"{n}.md"]) for n in range(DOCUMENTS)]


def text_of(number):
    return f"The keeper of the register wrote of alpha{number} in the harbour."


def question_of(number):
    return f"Which beta{number} was recorded?"


NAME = ("default", "default")


class Shuffled:
    """An embedder that returns vectors of reversed texts."""

    def __init__(self, embedder):
        self.embedder = embedder
        self.name = embedder.name
        self.prefixes = embedder.prefixes

    async def dimensions(self):
        return await self.embedder.dimensions()

    async def embed(self, texts, billed=None):
        return await self.embedder.embed([each[::-1] for each in texts], billed)


class Refusing(Shuffled):
    """An embedder that refuses one text."""

    async def embed(self, texts, billed=None):
        if any("alpha3 " in each for each in texts):
            raise Refused("this text is refused")
        return await self.embedder.embed(texts, billed)


@pytest.fixture
def fill(services, library):
    """Return a function that indexes documents, starts a build, and fills it with an indexer."""

    async def fill(indexer=None, *, documents=4):
        for number in range(documents):
            await library.add(text_of(number), f"{number}.md", questions=[question_of(number)])
        await work(services)
        builds, model = services.ledger[Builds], services.settings.embedding_model
        build = await builds.start(*NAME, options=CollectionOptions(), embedding_model=model)
        if indexer is not None:  # in another Qdrant collection, without the vectors of the live build
            elsewhere = f"test-{uuid4().hex}-{services.indexer.space}"
            await run(services, "UPDATE collections SET index_name = :name WHERE id = :id", name=elsewhere, id=build.id)
        while await builds.fill():
            pass
        await work(replace(services, indexers={model: indexer or services.indexer}))
        return await builds.get(*NAME, build.number)

    return fill


@pytest.fixture
def gate(services):
    return Gate(
        ledger=services.ledger, index=services.index, retriever=services.retriever, calibrator=services.calibrator
    )


async def report_of(gate, build, labelled=None):
    *_, report = [item async for item in gate.run(build, labelled)]
    assert isinstance(report, GateReport)
    return report


async def run(services, statement, **parameters):
    async with services.database.begin() as connection:
        return (await connection.execute(Statement(statement), parameters)).rowcount


async def test_equal_build_passes_gate(fill, gate):
    report = await report_of(gate, await fill(documents=DOCUMENTS), LABELLED)

    assert (report.is_open, report.reasons) == (True, ())
    assert report.points.points == 2 * DOCUMENTS
    assert (report.quality.questions, report.quality.live.mean) == (DOCUMENTS, 1.0)
    assert (report.quality.difference.low, report.quality.difference.high) == (0.0, 0.0)
    assert report.latency.questions == DOCUMENTS


async def test_build_with_worse_results_fails_gate(services, fill, gate):
    shuffled = replace(services.indexer, embedder=Shuffled(services.indexer.embedder))
    report = await report_of(gate, await fill(shuffled, documents=DOCUMENTS), LABELLED)

    assert report.quality.build.mean < 0.5
    assert [reason.partition(":")[0] for reason in report.reasons] == ["The build finds less, by more than chance"]


async def test_calibrated_weights_survive_gate_and_switch(services, fill, gate):
    build = await fill(documents=DOCUMENTS)
    live = await services.ledger[Collections].get(*NAME)
    chosen = {"questions": 3.0, "text": 1.0, "bm25": 0.0}
    calibration = {
        "weights": chosen,
        "source": "labelled",
        "baseline_similarity": 0.9,
        "baseline_spread": 0.9,
        "chunks": 1,
    }
    await services.ledger[Calibrations].save(live, calibration, replace_labelled=True)

    await report_of(gate, build, LABELLED)
    await services.ledger[Builds].switch(*NAME, build.number)

    now = await services.ledger[Collections].get(*NAME)
    assert (now.id, now.weights, now.is_labelled) == (build.id, Weights(**chosen), True)
    assert max(now.baseline.similarity, now.baseline.spread) < 0.9
    assert now.calibration["chunks"] == DOCUMENTS


@pytest.mark.parametrize("slice_", [2, 1_000])
async def test_incomplete_or_outdated_build_fails_gate(services, fill, gate, monkeypatch, slice_):
    monkeypatch.setattr("shared.ledger.builds.comparison._SLICE", slice_)
    build = await fill()
    live = await services.ledger[Collections].get(*NAME)
    delete = "DELETE FROM documents WHERE collection_id = :c AND external_id = :e"
    assert await run(services, delete, c=build.id, e="0.md") == 1
    assert await run(services, delete, c=live.id, e="1.md") == 1
    change = """UPDATE document_versions v SET content_hash = 'another' FROM documents d
                WHERE d.id = v.document_id AND d.collection_id = :c AND d.external_id = '2.md'"""
    assert await run(services, change, c=build.id) == 1
    report = await report_of(gate, build)

    counts = report.documents
    assert (counts.documents, counts.missing, counts.stale, counts.orphaned) == (4, 1, 1, 1)
    assert [reason.partition(":")[0] for reason in report.reasons] == [
        "Documents that the build lacks",
        "Documents that the build has with older content",
        "Documents that the live build lacks",
        "Points that differ from the ledger",
    ]
    assert "labelled questions" in report.notes[0]
    assert report.quality is None


async def test_single_missing_point_fails_gate(services, fill, gate):
    build = await fill()
    async with services.database.begin() as connection:
        of_build = Statement(
            "SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id WHERE collection_id = :c"
        )
        chunk = (await connection.execute(of_build, {"c": build.id})).scalars()[0]
    await services.index.delete_by_id(build.location, [chunk_point_id(chunk, 1)])
    report = await report_of(gate, build)

    assert report.reasons == ("Points that differ from the ledger: 1 missing, 0 stale, 0 orphaned.",)


async def test_build_only_failures_close_gate_unless_accepted(services, fill, gate):
    refusing = replace(services.indexer, embedder=Refusing(services.indexer.embedder))
    build = await fill(refusing)
    assert (await report_of(gate, build)).reasons == ("Documents that failed, or lack a chunk, only in the build: 1.",)
    assert (await report_of(replace(gate, accepted_failures=1), build)).is_open


async def test_unindexed_document_fails_gate(services, library, fill, gate):
    build = await fill()
    await library.add("One more.", "more.md", questions=[])
    await work(replace(services, indexers={}), "parse")
    assert (await report_of(gate, build)).is_open  # queries find it in neither build

    live = await services.ledger[Collections].get(*NAME)
    await run(
        services,
        "UPDATE documents SET live_version = 1 WHERE collection_id = :c AND external_id = 'more.md'",
        c=live.id,
    )
    assert (await report_of(gate, build)).reasons == ("Documents that are not indexed yet: 1.",)


@pytest.fixture
def asked(monkeypatch):
    """Return labelled questions, too few to compare the quality of builds, and enough to compare their latency."""
    monkeypatch.setattr(gates, "_MIN_TIMED_QUESTIONS", 2)
    return LABELLED[:2]


async def test_slower_build_fails_gate(services, fill, gate, asked, monkeypatch):
    build = await fill()
    retrieve, clock = services.retriever.retrieve, [0.0]

    async def timed(searched, query: Query):
        clock[0] += 0.2 if searched.id == build.id else 0.1
        return await retrieve(searched, query)

    monkeypatch.setattr(services.retriever, "retrieve", timed)
    monkeypatch.setattr(gates.time, "perf_counter", lambda: clock[0])
    report = await report_of(gate, build, asked)

    assert report.reasons == ("Queries take longer: 95 % within 200 ms instead of 100.",)


async def test_short_slowdown_does_not_fail_gate(services, fill, gate, asked, monkeypatch):
    build = await fill()
    retrieve, clock, queries = services.retriever.retrieve, [0.0], [0]

    async def timed(searched, query: Query):
        queries[0] += 1
        clock[0] += 0.2 if searched.id == build.id and queries[0] < 2 * len(asked) else 0.1
        return await retrieve(searched, query)

    monkeypatch.setattr(services.retriever, "retrieve", timed)
    monkeypatch.setattr(gates.time, "perf_counter", lambda: clock[0])
    report = await report_of(gate, build, asked)

    assert report.reasons == ()
    assert report.latency.build_milliseconds == pytest.approx(100)
