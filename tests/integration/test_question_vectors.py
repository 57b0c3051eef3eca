"""Remembered vectors of questions: one call for each question of a collection, as long as there is room."""

from dataclasses import replace
from uuid import uuid4

import numpy as np
import pytest

from shared.providers.embedding import Embedders, OpenAIEmbedder
from shared.query.retrieve.question_vectors import QuestionVectors
from tests.support.planted import guards


@pytest.fixture
def embedder(services):
    return services.indexer.embedder


@pytest.fixture
async def collection(library):
    await library.add("The keeper lives alone.")
    return await library.collection()


@guards(
    "shared/query/retrieve/question_vectors.py",
    "if key not in self._remembered]",
    "if key]",
    means="a repeated question is paid for again",
)
async def test_each_question_is_embedded_once(embedder, collection, provider):
    vectors = QuestionVectors(Embedders([embedder]), most=10)

    first = await vectors.embed(["Who?", "When?", "Who?"], collection)
    again = await vectors.embed(["When?", "Where?", "Who?"], collection)

    assert provider.stats()["embedded_inputs"] == 3
    expected = await embedder.embed(embedder.prefixes.queries(["Who?", "When?", "Where?"]))
    assert np.array_equal(first, expected[[0, 1, 0]])
    assert np.array_equal(again, expected[[1, 2, 0]])


@guards(
    "shared/query/retrieve/question_vectors.py",
    "keys = [(collection.id, ",
    "keys = [(UUID(int=0), ",
    means="a tenant learns from the time of an answer that another has asked the same",
)
async def test_collections_remember_separately(embedder, collection, provider):
    vectors = QuestionVectors(Embedders([embedder]), most=10)

    await vectors.embed(["Who?"], collection)
    await vectors.embed(["Who?"], replace(collection, id=uuid4()))

    assert provider.stats()["embedded_inputs"] == 2


async def test_embeddings_of_builds_remember_separately(services, embedder, collection, provider):
    other = OpenAIEmbedder(embedder.embedder._provider, "scripted-embedding", 8, name="other")
    vectors = QuestionVectors(Embedders([embedder, other]), most=10)

    await vectors.embed(["Who?"], collection)
    shorter = await vectors.embed(["Who?"], replace(collection, embedding_model="other"))

    assert shorter.shape == (1, 8)


async def test_longest_unused_question_is_forgotten(embedder, collection, provider):
    vectors = QuestionVectors(Embedders([embedder]), most=2)
    for question in ("Who?", "When?", "Who?", "Where?"):
        await vectors.embed([question], collection)
    provider.reset()

    await vectors.embed(["Who?", "Where?"], collection)
    assert provider.stats()["embedded_inputs"] == 0
    await vectors.embed(["When?"], collection)
    assert provider.stats()["embedded_inputs"] == 1
