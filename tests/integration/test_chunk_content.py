"""A chunk's content passes unchanged from the parser to a query; a new field needs no change in a stage."""

import dataclasses

import pytest

from api.schemas.chunks import ChunkView
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.spending.usage import Usage
from shared.domain.stages.generation import GenerateOutcome
from shared.domain.stages.indexing import IndexOutcome
from shared.domain.stages.parsing import ParseOutcome
from shared.http.schemas.queries import RetrievedChunkView
from shared.ingest.generate.types import GenerationOptions
from shared.ingest.index.stage import index_batch
from shared.ingest.parse.document import ParsedDocument
from shared.ingest.parse.isolation.replies import ReplyLimits
from shared.ingest.parse.stage import new_chunks
from shared.ledger.documents.documents import Documents
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.parsing import ParseWork
from shared.query.retrieve import Query
from tests.support.parser_replies import document_reply, received

MODEL = "scripted"
TEXT = "The keeper lives alone."
VALUES = {
    "str": lambda name: f"a {name}",
    "str | None": lambda name: f"some {name}",
    "int": len,
    "int | None": len,
    "float | None": lambda name: len(name) / 8,
    "bool": lambda _: True,
    "tuple[int, int]": lambda name: (3, 10 + len(name)),
    "tuple[int, int] | None": lambda name: (2, 20 + len(name)),
    "tuple[str, ...]": lambda name: (name, "next"),
}


@pytest.fixture
def content():
    """Return chunk content with a non-default value in every field, including fields added in the future.

    It is not a picture, because the text of a picture is unknown to the parser.
    """
    values = {field.name: VALUES[field.type](field.name) for field in dataclasses.fields(ChunkContent)}
    return ChunkContent(**values | {"text": TEXT, "language": "de", "confidence": 90, "picture": None})


def parsed(content):
    """Return a document of one chunk, as the parsing process sends it."""
    document = ParsedDocument(content.title, 100, "text/markdown", (content,))
    return received(document_reply(document), ReplyLimits(chunks=1, text_chars=100, chunk_chars=100, questions=0))


def test_every_content_field_has_a_non_default_value(content):
    for field in dataclasses.fields(ChunkContent):
        assert getattr(content, field.name) != field.default or field.name == "picture", field.name


async def test_every_content_field_passes_from_parser_to_query(services, library, provider, content):
    document = await library.add("unused")
    (claimed,) = await services.ledger[ParseWork].claim(1)
    chunks = new_chunks(claimed, parsed(content), GenerationOptions(), MODEL)
    assert await services.ledger[ParseWork].settle([ParseOutcome(claimed, None, "text/markdown", chunks)])

    (text_only,) = await services.ledger[IndexWork].claim(1)
    assert text_only.content == content
    await services.ledger[IndexWork].settle([IndexOutcome(text_only, [], 0)])
    (to_generate,) = (await services.ledger[GenerateWork].claim(1)).chunks
    assert to_generate.content == content
    await services.ledger[GenerateWork].settle([GenerateOutcome(to_generate, MODEL, ("Who lives alone?",), Usage(), 1)])
    (to_index,) = await services.ledger[IndexWork].claim(1)
    assert to_index.content == content
    await index_batch(services.indexer, [to_index])

    (shown,) = await services.ledger[Documents].chunks("default", document.id)
    assert shown.content == content
    (found,) = (await services.retriever.retrieve(await library.collection(), Query("Who lives alone?"))).chunks
    assert found.content == content


@pytest.mark.parametrize(
    ("view", "not_shown"), [(RetrievedChunkView, {"confidence", "section", "picture"}), (ChunkView, {"picture"})]
)
def test_api_shows_every_content_field_except_listed_ones(view, not_shown):
    assert {field.name for field in dataclasses.fields(ChunkContent)} - view.model_fields.keys() == not_shown
