"""The gate opens for a build that is equal, and stays closed for one that lacks something or finds less."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from shared.ledger.evidence import Evidence
from shared.maintenance import gate as gates
from shared.maintenance.gate import Gate, GateReport
from shared.query.retrieve import Query
from shared.vectors.points import chunk_point_id
from tests.api import work

DOCUMENTS = 40
LABELLED = [(f"Tell me of beta{n}.", [f"{n}.md"]) for n in range(DOCUMENTS)]


def text_of(number):
    return f"The keeper of the register wrote of alpha{number} in the harbour."


def question_of(number):
    return f"Which beta{number} was recorded?"


class Shuffled:
    """An embedder that gives every text the vector of other words."""

    def __init__(self, embedder):
        self.embedder = embedder
        self.name = embedder.name

    async def dimensions(self):
        return await self.embedder.dimensions()

    async def embed(self, texts, billed=None):
        return await self.embedder.embed([each[::-1] for each in texts], billed)


@pytest.fixture
def fill(services, library):
    """Index documents into a collection of the tenant; it stands for a build."""

    async def fill(name, numbers=range(DOCUMENTS), indexer=services.indexer):
        collection = await library.collection(name)
        for number in numbers:
            new = await library.new(text_of(number), f"{number}.md", questions=[question_of(number)])
            await services.ledger.documents.submit(replace(new, collection=collection))
        await work(replace(services, indexer=indexer))
        return collection

    return fill


@pytest.fixture
def gate(services):
    return Gate(
        evidence=Evidence(services.database),
        audit=services.ledger.audit,
        documents=services.ledger.documents,
        index=services.index,
        retriever=services.retriever,
        calibrator=services.calibrator,
    )


async def report_of(gate, live, build, labelled=None):
    *_, report = [item async for item in gate.run(live, build, labelled)]
    assert isinstance(report, GateReport)
    return report


async def test_an_equal_build_passes(fill, gate):
    report = await report_of(gate, await fill("live"), await fill("build"), LABELLED)

    assert (report.is_open, report.reasons) == (True, ())
    assert report.points.points == 2 * DOCUMENTS
    assert (report.quality.questions, report.quality.live.mean) == (DOCUMENTS, 1.0)
    assert (report.quality.difference.low, report.quality.difference.high) == (0.0, 0.0)
    assert report.latency.questions == DOCUMENTS


async def test_a_shuffled_embedder_is_stopped(services, fill, gate):
    shuffled = replace(services.indexer, embedder=Shuffled(services.indexer.embedder))
    report = await report_of(gate, await fill("live"), await fill("build", indexer=shuffled), LABELLED)

    assert report.quality.build.mean < 0.5
    assert [reason.partition(":")[0] for reason in report.reasons] == ["The build finds less, by more than chance"]


async def test_a_build_that_lacks_documents_or_has_older_ones_is_stopped(services, library, fill, gate):
    live, build = await fill("live"), await fill("build", range(1, DOCUMENTS))
    for collection, number, said in ((live, 1, "another text"), (build, 99, "nobody else's")):
        new = await library.new(f"{text_of(number)} {said}", f"{number}.md", questions=[question_of(number)])
        await services.ledger.documents.submit(replace(new, collection=collection))
    await work(services)
    report = await report_of(gate, live, build)

    counts = report.documents
    assert (counts.documents, counts.missing, counts.stale, counts.orphaned) == (DOCUMENTS + 1, 1, 1, 1)
    assert len(report.reasons) == 3
    assert "labelled questions" in report.notes[0]
    assert report.quality is None


async def test_one_missing_point_is_enough(services, fill, gate):
    live, build = await fill("live"), await fill("build")
    async with services.database.begin() as connection:
        of_build = text("SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id WHERE collection_id = :c")
        chunk = (await connection.execute(of_build, {"c": build.id})).scalars().first()
    await services.index.delete_by_id(build.place, [chunk_point_id(chunk, 1)])
    report = await report_of(gate, live, build)

    assert report.reasons == ("Points that differ from the ledger: 1 missing, 0 stale, 0 orphaned.",)


async def test_failures_in_the_build_alone_count_and_may_be_accepted(fill, gate, provider):
    live = await fill("live")
    provider.script(refuse_containing="alpha3 ")
    build = await fill("build")
    assert (await report_of(gate, live, build)).reasons == (
        "Documents that failed, or lack a chunk, in the build alone: 1.",
    )
    assert (await report_of(replace(gate, accepted_failures=1), live, build)).is_open


async def test_a_build_whose_queries_take_longer_is_stopped(services, fill, gate, monkeypatch):
    live, build = await fill("live"), await fill("build")
    retrieve, clock = services.retriever.retrieve, [0.0]

    async def timed(searched, query: Query):
        clock[0] += 0.2 if searched.id == build.id else 0.1
        return await retrieve(searched, query)

    monkeypatch.setattr(services.retriever, "retrieve", timed)
    monkeypatch.setattr(gates.time, "perf_counter", lambda: clock[0])
    report = await report_of(gate, live, build, LABELLED)

    assert report.reasons == ("Queries take longer: 95 % within 200 ms where the live build takes 100.",)
