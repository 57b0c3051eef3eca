"""Estimates match actual costs: calls exactly, tokens within a tenth."""

import dataclasses

import pytest

from features.estimates.estimator import PlannedLoad, SampleText
from features.estimates.ledger import Estimates
from features.estimates.routes import estimator_of
from shared.domain.corpus.collections import CollectionOptions
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.work.costs import Costs
from tests.conftest import Library
from tests.support.api import work

PARAGRAPHS = """\
The lighthouse keeper of {town} lives alone on the northern cliff and lights the lamp at dusk. He has done so for \
{number} years, in storms too, and writes every ship that passes into a book bound in green leather.

The harbour of {town} opens at nine and closes at noon, on Sundays too. A ferry takes {number} passengers to the \
islands and comes back in the evening, when the tide allows it; tickets are sold on the quay.

In {town} the council pays for the repair of {number} houses every year. Whoever owns one writes to the clerk in \
spring, encloses two photographs and waits for the surveyor, who comes before the first of May."""
TOWNS = ["Aldwick", "Brenholm", "Caldmouth", "Dunmore", "Eskby", "Farholt", "Grimsund", "Hale"]


def text_of(town: str, sections: int) -> str:
    """Return a text of sections that are longer than a chunk; all paragraphs differ."""
    parts = [f"# All about {town}"]
    for section in range(sections):
        parts.append(f"## Section {section}")
        parts += [PARAGRAPHS.format(town=town, number=10 * section + paragraph) for paragraph in range(4)]
    return "\n\n".join(parts)


async def spent(services, kind="generate"):
    sums = [s for s in await services.ledger[Costs].sums("default") if s.kind == kind]
    return (
        sum(s.calls for s in sums),
        sum(s.usage.prompt_tokens for s in sums),
        sum(s.usage.completion_tokens for s in sums),
    )


async def nine_documents(services):
    """Index nine documents of one to four sections, two of them with the same text."""
    library = Library(services)
    for n, town in enumerate(TOWNS):
        await library.add(text_of(town, 1 + n // 2), f"{town}.md")
    await library.add(text_of(TOWNS[3], 2), "copy.md")
    await work(services)


@pytest.fixture
async def collection(library, provider, once):
    provider.script(questions=0)
    await once(nine_documents)
    provider.script(questions=0)
    return await library.collection()


async def rebuilt(services, collection, options):
    """Estimate a rebuild, run it, and return the estimate and the actual costs."""
    estimate = await estimator_of(services).estimate_rebuild(collection, options, collection.embedding_model)
    before = await spent(services), await spent(services, "embed")
    changed = await services.ledger[Collections].ensure(
        "default", collection.name, embedding_model=collection.embedding_model, options=options
    )
    await services.ledger[Documents].reindex(changed)
    await work(services)
    after = await spent(services), await spent(services, "embed")
    return estimate, *[tuple(b - a for a, b in zip(*pair, strict=True)) for pair in zip(before, after, strict=True)]


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "Ask what a child would ask about {title}.\nNumber of questions: {count}\n\n{text}"},
        {"questions_per_chunk": 2},
        {"chunk_max_chars": 400, "chunk_overlap_chars": 60},
        {"chunk_max_chars": 5_000},
        {"section_max_chars": 4_000},
        {},
    ],
    ids=["prompt", "count", "smaller", "larger", "sections", "model"],
)
async def test_rebuild_costs_match_estimate(services, collection, change):
    options = dataclasses.replace(collection.options, **change)
    estimate, (calls, prompt, completion), (_, embedded, _) = await rebuilt(services, collection, options)

    assert estimate.exact == (not {"chunk_max_chars", "section_max_chars"} & set(change))
    assert estimate.calls == calls
    assert estimate.prompt_tokens == pytest.approx(prompt, rel=0.1)
    assert estimate.completion_tokens == pytest.approx(completion, rel=0.1)
    assert estimate.embedding_tokens == pytest.approx(embedded, rel=0.1)
    assert (calls == 0) == (change in ({}, {"section_max_chars": 4_000}))
    points = await services.index.count_points(collection.location)
    assert estimate.points == pytest.approx(points, rel=0.1)
    assert estimate.documents == 9


async def test_rebuild_with_contexts_costs_as_estimated(services, library, provider):
    written = {"context": "A guide to a town on the coast. " * 5, "terms": [f"search term {n}" for n in range(11)]}
    provider.script(questions=0, caches_prompts=True, context=written)  # bills the longer instructions, too
    await nine_documents(services)
    options = CollectionOptions(context=True)
    estimate, (calls, prompt, completion), (_, embedded, _) = await rebuilt(
        services, await library.collection(), options
    )

    assert estimate.calls == calls > 0
    assert estimate.prompt_tokens == pytest.approx(prompt, rel=0.1)
    assert estimate.completion_tokens == pytest.approx(completion, rel=0.1)
    assert estimate.embedding_tokens == pytest.approx(embedded, rel=0.1)


async def test_estimate_counts_duplicate_text_once(services, collection):
    estimate = await estimator_of(services).estimate_rebuild(
        collection, CollectionOptions(questions_per_chunk=2), collection.embedding_model
    )
    assert estimate.chunks == estimate.calls + 4


async def test_load_costs_match_estimate(services, library, collection):
    sample = [SampleText(text_of(f"New {town}", 2)) for town in TOWNS]
    estimate = await estimator_of(services).estimate_load("default", collection, PlannedLoad(len(sample), None, sample))
    before = await spent(services)
    for town, document in zip(TOWNS, sample, strict=True):
        await library.add(document.text, f"new/{town}.md")
    await work(services)

    calls, prompt, _ = (b - a for a, b in zip(before, await spent(services), strict=True))
    assert estimate.exact
    assert estimate.calls == calls
    assert estimate.prompt_tokens == pytest.approx(prompt, rel=0.1)


async def test_load_of_existing_texts_is_estimated_without_calls(services, collection):
    sample = [SampleText(text_of(town, 1 + n // 2)) for n, town in enumerate(TOWNS)]
    estimate = await estimator_of(services).estimate_load("default", collection, PlannedLoad(len(sample), None, sample))
    assert (estimate.calls, estimate.prompt_tokens, estimate.completion_tokens) == (0, 0, 0)
    assert estimate.embeddings > estimate.chunks == estimate.paid_chunks > 0


async def test_estimate_extrapolates_sample_to_entire_load(services, collection):
    sample = [SampleText(text_of(f"{town} II", 5)) for town in TOWNS[:4]]
    size = sum(len(document.text) for document in sample)
    part = await estimator_of(services).estimate_load("default", collection, PlannedLoad(4, None, sample))
    whole = await estimator_of(services).estimate_load("default", collection, PlannedLoad(400, size * 100, sample))
    assert not whole.exact
    assert part.margin is None
    assert 0 <= whole.margin < 0.1
    assert whole.calls == 100 * part.calls
    assert whole.prompt_tokens == pytest.approx(100 * part.prompt_tokens, rel=0.01)


async def test_given_questions_are_estimated_without_calls(services, library, provider):
    for town in TOWNS:
        await library.add(text_of(town, 2), f"{town}.md", questions=["Who?", "Where?"])
    await work(services)
    collection = await library.collection()
    for options in (collection.options, CollectionOptions(chunk_max_chars=300)):
        estimate = await estimator_of(services).estimate_rebuild(collection, options, collection.embedding_model)
        assert estimate.calls == 0
        assert estimate.points == estimate.chunks + 16
    load = PlannedLoad(2, None, [SampleText("Some text.", None, 3), SampleText("More text.", None, 0)])
    assert (await estimator_of(services).estimate_load("default", collection, load)).calls == 0


async def test_estimate_with_unparsed_documents_is_marked_inexact(services, library, collection):
    await library.add(text_of("Ibbs", 4), "late.md")
    estimate = await estimator_of(services).estimate_rebuild(
        collection, CollectionOptions(questions_per_chunk=2), collection.embedding_model
    )
    assert not estimate.exact
    assert estimate.documents == 10


async def test_estimate_samples_large_collection(services, collection, monkeypatch):
    monkeypatch.setattr("features.estimates.estimator.MOST_DOCUMENTS", 5)
    estimate = await estimator_of(services).estimate_rebuild(
        collection, CollectionOptions(questions_per_chunk=2), collection.embedding_model
    )
    assert not estimate.exact
    assert estimate.documents == 9


async def test_estimate_is_independent_of_page_boundaries(services, collection, monkeypatch):
    """A page of the ledger may end within a document."""
    options = CollectionOptions(chunk_max_chars=300)
    whole = await estimator_of(services).estimate_rebuild(collection, options, collection.embedding_model)
    chunks = services.ledger[Estimates].chunks

    async def few(*args, **more):
        return await chunks(*args, **more, limit=7)

    monkeypatch.setattr(type(services.ledger[Estimates]), "chunks", lambda _, *args, **more: few(*args, **more))
    estimate = await estimator_of(services).estimate_rebuild(collection, options, collection.embedding_model)
    assert estimate == dataclasses.replace(whole, seconds=estimate.seconds)
