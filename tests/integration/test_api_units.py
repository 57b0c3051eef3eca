"""Units returned for a retrieved chunk: the chunk, its section, or some sentences; and the token budget."""

from itertools import pairwise

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from shared.http.schemas.queries import RetrieveReply
from shared.ingest.index.stage import index_batch
from shared.ledger.work.indexing import IndexWork
from tests.support.api import calling, ready, work

SIZES = {"chunk_max_chars": 300, "chunk_overlap_chars": 0, "section_max_chars": 1200}
NAMES = ("harbour", "orchard")


def paragraph(name, number):
    return " ".join(f"Here {name}{number}x{n} stands in the {name} beside {name}{number}." for n in range(4))


def section(name, version=""):
    return f"## The {name}\n\n" + "\n\n".join(paragraph(name + version, number) for number in range(4))


def guide(version=""):
    return "# Guide\n\n" + "\n\n".join(section(name, version) for name in NAMES)


async def add(client, text, filename="guide.md", collection="default"):
    reply = await client.post("/v1/documents", json={"text": text, "filename": filename, "collection": collection})
    assert reply.status_code in (200, 202), reply.text
    return reply.json()["id"]


async def indexed_in_sections(services):
    """Index a document with sections of several chunks each."""
    async with calling(services.settings, services) as client:
        (await client.put("/v1/collections/default", json=SIZES)).raise_for_status()
        await add(client, guide())
    await work(services)


@pytest.fixture
async def sectioned(once):
    await once(indexed_in_sections)


@pytest.fixture
async def guided(once):
    """Index a document whose sections are smaller than a chunk."""
    await once(ready, (guide(), "guide.md"))


async def retrieve(client, question, **change):
    reply = await client.post("/v1/retrieve", json={"question": question} | change)
    assert reply.status_code == 200, reply.text
    return RetrieveReply.model_validate_json(reply.content)


async def test_section_unit_returns_complete_section_of_chunk(client, sectioned):
    question = "what stands beside orchard2?"
    small = await retrieve(client, question, top_k=1)
    whole = await retrieve(client, question, top_k=2, unit="section", explain=True)

    (chunk,) = small.chunks
    best, other = whole.chunks
    assert len(chunk.text) <= 300
    assert best.text == section("orchard")
    assert best.text == guide()[slice(*best.span)]
    assert other.text.endswith(section("harbour"))
    assert (best.chunk_id, best.chunk_span, best.matched_question) == (
        chunk.chunk_id,
        chunk.span,
        chunk.matched_question,
    )
    assert best.heading_path == ["Guide", "The orchard"]
    assert whole.metadata.explain.stages["return"].summary.startswith("2 by section, of the first 8 chunks")


async def test_incomplete_section_is_not_returned(client, services):
    """While the document is being indexed, the chunk is returned instead of an incomplete section."""
    (await client.put("/v1/collections/default", json=SIZES)).raise_for_status()
    await add(client, guide())
    await work(services, "parse")
    batch = await services.ledger[IndexWork].claim(100)
    orchard = sorted((c for c in batch if c.content.heading_path[-1] == "The orchard"), key=lambda c: c.ordinal)
    first_and_third = [orchard[0], orchard[2]]
    await index_batch(services.indexer, first_and_third)

    question = first_and_third[0].content.text
    (found,) = (await retrieve(client, question, top_k=1, unit="section")).chunks
    assert found.text == first_and_third[0].content.text
    await services.ledger[IndexWork].release([chunk.lease for chunk in batch])
    await work(services)
    (found,) = (await retrieve(client, question, top_k=1, unit="section")).chunks
    assert len(found.text) > len(first_and_third[0].content.text)


async def test_chunk_without_section_is_returned_unchanged(client, guided):
    chunks = (await retrieve(client, "orchard2")).chunks
    assert chunks
    assert (await retrieve(client, "orchard2", unit="section")).chunks == chunks


async def test_section_smaller_than_chunk_is_rejected(client):
    reply = await client.put("/v1/collections/default", json={"section_max_chars": 500})

    assert reply.status_code == 422
    assert reply.json()["field"] == "section_max_chars"
    assert "chunk_max_chars" in reply.json()["detail"]


async def test_sentence_unit_returns_window_around_nearest_sentence(client, guided):
    question = "Here orchard1x2 stands in the orchard beside orchard1."

    one = (await retrieve(client, question, top_k=1, unit="sentences", window=0)).chunks[0]
    three = (await retrieve(client, question, top_k=1, unit="sentences", window=1)).chunks[0]

    assert one.text == question
    assert three.text == " ".join(f"Here orchard1x{n} stands in the orchard beside orchard1." for n in (1, 2, 3))
    for found in (one, three):
        assert found.text == guide()[slice(*found.span)]
        assert found.chunk_span[0] <= found.span[0] < found.span[1] <= found.chunk_span[1]


async def test_duplicate_text_is_returned_once_naming_other_document(client, services):
    for filename in ("a.md", "b.md"):
        await add(client, section("harbour"), filename)
    await add(client, section("orchard"), "c.md")
    await work(services)

    found = await retrieve(client, "harbour1", top_k=2, explain=True)

    first, second = found.chunks
    assert {first.external_id, *first.also_in} == {"a.md", "b.md"}
    assert (second.external_id, second.also_in) == ("c.md", [])
    assert "1 with the text of another" in found.metadata.explain.stages["return"].summary


async def test_overlapping_chunks_are_returned_without_shared_sentences(client, services):
    sizes = {"chunk_max_chars": 400, "chunk_overlap_chars": 150}
    (await client.put("/v1/collections/default", json=sizes)).raise_for_status()
    text = " ".join(f"Sentence number{n} says a little of item{n}." for n in range(60))
    await add(client, text)
    await work(services)

    chunks = (await retrieve(client, "item7 item8 item9 item10", top_k=50)).chunks

    spans = sorted(chunk.span for chunk in chunks)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert " ".join(text[slice(*span)] for span in spans).split() == text.split()
    assert all(chunk.text == text[slice(*chunk.span)] for chunk in chunks)
    assert any(chunk.span != chunk.chunk_span for chunk in chunks)


async def test_section_order_groups_chunks_by_heading(client, sectioned):
    by_score = (await retrieve(client, "orchard2 harbour1", top_k=20)).chunks
    by_section = (await retrieve(client, "orchard2 harbour1", top_k=20, order="section")).chunks

    assert {c.chunk_id for c in by_score} == {c.chunk_id for c in by_section}
    sections = [tuple(c.heading_path) for c in by_section]
    assert len(set(sections)) == sum(a != b for a, b in zip(sections, [None, *sections], strict=False))
    assert sections[0] == tuple(by_score[0].heading_path)
    for path in set(sections):
        spans = [c.span for c in by_section if tuple(c.heading_path) == path]
        assert spans == sorted(spans)


async def test_token_budget_uses_configured_tokenizer(settings, services, provider, tmp_path):
    await ready(services, (section("harbour"), "guide.md"))
    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.enable_truncation(3)  # tokenizer files contain the truncation of their training
    path = tmp_path / "tokenizer.json"
    words.save(str(path))
    async with calling(settings.model_copy(update={"llm_tokenizer": path})) as client:
        (chunk,) = (await retrieve(client, "harbour1")).chunks
        exact = len(chunk.text.split())
        assert chunk.tokens == exact
        assert (await retrieve(client, "harbour1", max_tokens=exact)).chunks == [chunk]
        assert (await retrieve(client, "harbour1", max_tokens=exact - 1)).chunks == []


async def test_explain_lists_every_query_stage(client, sectioned):
    found = await retrieve(client, "orchard2", explain=True, unit="sentences", diversity=0.3, top_k=3)

    stages = found.metadata.explain.stages
    assert list(stages) == [
        "embed",
        "search",
        "fuse",
        "fetch",
        "diversity",
        "sentences",
        "return",
        "assemble",
        "record",
    ]
    assert stages["search"].summary.startswith("chunks by channel: questions ")
    assert stages["fuse"].summary.endswith(f"{found.metadata.unique_chunks} chunks by scores, 0 below min_score")
    assert stages["assemble"].summary.endswith(f"{sum(c.tokens for c in found.chunks)} tokens, estimated")
    assert all(stage.skipped is None for stage in stages.values())
