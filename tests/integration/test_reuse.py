"""Vectors stored in Qdrant are reused from another build and from the previous version."""

import numpy as np
import pytest
from qdrant_client import models
from structlog.testing import capture_logs

from features.estimates.routes import estimator_of
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.corpus.index_location import index_location_of
from shared.ingest.generate.quality import is_of_similarity
from shared.ingest.index import reuse
from shared.ledger.builds.builds import Builds
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from tests.conftest import Library
from tests.support.api import ready, work
from tests.support.provider import Script, ScriptedEndpoints
from tests.support.qdrant import qdrant_client
from tests.support.sent import sent_statements

NAME = ("default", "default")
PROMPT = "Ask what a child would ask about {title}.\nNumber of questions: {count}\n\n{text}"
SECTIONS = [
    f"# {name}\n\n" + " ".join(f"{name}{n} is about {name} number {n}." for n in range(20))
    for name in ("alpha", "beta", "gamma")
]
TEXT = "\n\n".join(SECTIONS[:2])


async def run(services, statement, **parameters):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement), parameters)
        return list(result)


async def migrated(services, **options):
    """Start a build, fill it, process its work, and return it."""
    builds = services.ledger[Builds]
    model = services.settings.embedding_model
    build = await builds.start(*NAME, options=CollectionOptions(**options), embedding_model=model)
    while await builds.fill():
        pass
    await work(services)
    return await builds.get(*NAME, build.number)


async def expected(services, build, *, version=1):
    """Return the numbers of texts and questions to embed for a build without reuse."""
    texts = "SELECT count(*) FROM chunks c JOIN documents d ON d.id = c.document_id WHERE d.collection_id = :id"
    reasons = """
        SELECT unnest(q.reasons) FROM chunk_questions q JOIN chunks c ON c.id = q.chunk_id AND c.version = q.version
        JOIN documents d ON d.id = c.document_id WHERE d.collection_id = :id AND c.version = :version"""
    ((count,),) = await run(services, f"{texts} AND c.version = :version", id=build.id, version=version)
    stored_reasons = [row[0] for row in await run(services, reasons, id=build.id, version=version)]
    return count, sum(reason is None or is_of_similarity(reason) for reason in stored_reasons)


async def dropped(services, build):
    """Return the number of questions that were embedded and have no point."""
    return (await expected(services, build))[1] - len([p for p in await vectors(services, build) if p[0]])


async def vectors(services, collection):
    """Return the question or None, the text, and the vector of each point of a build."""
    records, _ = await qdrant_client(services).scroll(
        collection.index_name,
        scroll_filter=models.Filter(
            must=[
                models.FieldCondition(
                    key="group", match=models.MatchAny(any=[f"{collection.id.hex}/q", f"{collection.id.hex}/t"])
                )
            ]
        ),
        limit=1_000,
        with_payload=True,
        with_vectors=["dense"],
    )
    return [(r.payload.get("question"), r.payload.get("text"), r.vector["dense"]) for r in records]


async def common(services, build, live):
    """Return the number of questions that a build shares with the live build."""
    before = {question for question, *_ in await vectors(services, live)}
    return sum(question in before for question, *_ in await vectors(services, build) if question)


async def are_right(services, build):
    """Return whether each point has the vector of the embedding model."""
    model = ScriptedEndpoints(Script())
    found = await vectors(services, build)
    return found and all(np.allclose(vector, model.vector(q or t), atol=1e-5) for q, t, vector in found)


@pytest.fixture
async def live(once, services, library, provider):
    """Index two documents, measure the vector size, reset the provider's counters, and return the collection."""
    await once(ready, (TEXT, "a.md"), (SECTIONS[2], "b.md"))
    await services.indexer.embedder.dimensions()
    provider.reset()
    return await library.collection()


def embedded(provider):
    return provider.stats()["embedded_inputs"]


async def test_new_prompt_embeds_only_new_questions(services, live, provider):
    options = CollectionOptions(prompt=PROMPT)
    estimate = await estimator_of(services).estimate_rebuild(live, options, live.embedding_model)
    elsewhere = await estimator_of(services).estimate_rebuild(live, options, "another")
    build = await migrated(services, prompt=PROMPT)

    texts, questions = await expected(services, build)
    assert texts == 3
    assert embedded(provider) == questions - await common(services, build, live) > 0
    assert estimate.embeddings == elsewhere.embeddings - texts
    assert await are_right(services, build)
    assert (await services.ledger[Builds].differences(build)).none


async def test_equal_build_embeds_only_dropped_questions(services, live, provider):
    estimate = await estimator_of(services).estimate_rebuild(live, live.options, live.embedding_model)
    build = await migrated(services)

    assert embedded(provider) == estimate.embeddings == await dropped(services, live)
    assert await are_right(services, build)
    assert sorted(map(str, await vectors(services, build))) == sorted(map(str, await vectors(services, live)))


async def test_second_attempt_embeds_only_missing_texts(services, live, provider):
    build = await migrated(services, prompt=PROMPT)
    await services.ledger[Builds].drop(*NAME, build.number)
    await services.index.delete_build(index_location_of(build.index_name, build.tenant, build.id))
    calls = provider.stats()["calls"]
    before = embedded(provider)

    again = await migrated(services, prompt=PROMPT)

    assert provider.stats()["calls"] == calls
    questions = (await expected(services, again))[1]
    assert embedded(provider) - before == questions - await common(services, again, live)
    assert await are_right(services, again)


@pytest.mark.parametrize("column", ["embedding_model", "index_name", "tenant"])
async def test_other_embeddings_and_tenants_vectors_are_not_reused(services, live, provider, column):
    build = await services.ledger[Builds].start(
        *NAME, options=live.options, embedding_model=services.settings.embedding_model
    )
    while await services.ledger[Builds].fill():
        pass
    await run(services, f"UPDATE collections SET {column} = 'another' WHERE id = :id", id=live.id)
    await work(services)

    assert embedded(provider) == sum(await expected(services, build))


async def test_equal_document_of_another_tenant_is_embedded(services, live, provider):
    other = Library(services, "other")
    await other.add(TEXT, "a.md")
    await work(services)
    assert embedded(provider) == sum(await expected(services, await other.collection()))


async def test_edit_embeds_only_new_texts(services, library, live, provider):
    edited = f"{SECTIONS[0]}\n\n{SECTIONS[1].replace('about', 'before')}"
    await library.add(edited, "a.md")
    await work(services)

    texts, questions = await expected(services, live, version=2)
    ((reused,),) = await run(
        services,
        "SELECT sum(questions_passed) FROM chunks WHERE version = 2 AND id IN (SELECT id FROM chunks WHERE version = 2"
        " AND ordinal = 0)",
    )
    assert texts == 2
    assert embedded(provider) == texts + questions - 1 - reused
    assert await are_right(services, live)


async def test_missing_points_are_embedded_again(services, live, provider):
    await services.index.delete_build(live.location)
    build = await migrated(services)

    assert embedded(provider) == sum(await expected(services, build))
    assert await are_right(services, build)


async def test_slow_qdrant_causes_embedding_instead_of_reuse(services, live, provider, monkeypatch):
    monkeypatch.setattr(reuse, "_READ_SECONDS", 0.0)
    with capture_logs() as logs:
        build = await migrated(services)

    assert {"Qdrant did not answer in time"} == {log["reason"] for log in logs if log["event"] == "vectors.unread"}
    assert embedded(provider) == sum(await expected(services, build))
    assert await are_right(services, build)


async def test_text_with_prepended_questions_is_not_reused(services, library, provider):
    model = services.settings.embedding_model
    ensure = services.ledger[Collections].ensure
    await ensure(*NAME, embedding_model=model, options=CollectionOptions(prepend_questions=True))
    await library.add(TEXT, "a.md")
    await work(services)
    live = await library.collection()
    assert not await are_right(services, live)
    before = embedded(provider)

    estimate = await estimator_of(services).estimate_rebuild(live, CollectionOptions(), model)
    build = await migrated(services)

    assert embedded(provider) - before == estimate.embeddings == 2 + await dropped(services, build)
    assert await are_right(services, build)


async def test_uploads_without_second_build_search_no_vectors(services, library, provider):
    with sent_statements("o.public_id = d.public_id AND") as searches:
        await library.add(TEXT, "a.md")
        await work(services)

    assert searches == []
    assert embedded(provider) > 0
