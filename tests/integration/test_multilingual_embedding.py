"""The embedded embedding model for many languages."""

import httpx
import numpy as np
import pytest

from embedded import embeddings
from embedded.stack import Stack
from shared.domain.errors import InvalidInput
from shared.settings import Settings
from tests.support.api import WITHOUT_CERTIFICATES
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS

PASSAGES = [
    "Die Elbe entspringt im Riesengebirge und mündet bei Cuxhaven in die Nordsee.",
    "Alle Beschäftigten haben dreißig Tage Urlaub im Jahr.",
    "这座桥建于1932年",
]
QUESTIONS = [
    "Into which sea does the Elbe flow?",
    "How many days of leave do employees get?",
    "Wann wurde die Brücke gebaut?",
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    settings = Settings(_env_file=None, embedding_model=embeddings.MULTILINGUAL)
    with Stack(settings, tmp_path_factory.mktemp("multilingual"), engines=("embedding",)) as started:
        yield started


def embed(settings, model, texts):
    reply = httpx.post(
        f"{settings.embedding_base_url}/embeddings",
        json={"model": model, "input": texts},
        headers={"authorization": f"Bearer {settings.embedding_api_key.get_secret_value()}"},
        verify=WITHOUT_CERTIFICATES,
        timeout=TIMEOUT_SECONDS,
    )
    return np.array([item["embedding"] for item in reply.json()["data"]], dtype=np.float32)


@guards(
    "embedded/e5.py",
    "halves.astype(np.float32) - 8",
    "halves.astype(np.float32) - 7",
    means="Weights of 4 bits are read with a wrong offset.",
)
def test_questions_find_passages_in_other_languages(stack):
    settings = stack.settings
    query, passage = settings.embedding_query_prefix, settings.embedding_passage_prefix
    passages = embed(settings, embeddings.MULTILINGUAL, [passage + text for text in PASSAGES])
    questions = embed(settings, embeddings.MULTILINGUAL, [query + text for text in QUESTIONS])

    assert (query, passage) == ("query: ", "passage: ")
    assert (questions @ passages.T).argmax(axis=1).tolist() == [0, 1, 2]


@guards(
    "embedded/stack.py",
    "self._other_embeddings(filled) | self",
    "self",
    means="With another embedded model, collections of the usual one are refused.",
)
def test_other_embedded_models_serve_existing_collections(stack):
    served = stack.settings.served_embeddings()

    assert list(served) == [embeddings.MULTILINGUAL, embeddings.MODEL, embeddings.OLDER]
    assert (
        served[embeddings.MODEL].space
        == Settings(_env_file=None, embedding_model=embeddings.MODEL).served_embeddings()[embeddings.MODEL].space
    )
    assert embed(stack.settings, embeddings.MODEL, ["Where does the Elbe flow?"]).shape == (1, 384)


def test_missing_model_is_refused_with_its_command(tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "find_spec", lambda _: None)

    with pytest.raises(InvalidInput, match="make multilingual"):
        Stack(
            Settings(_env_file=None, embedding_model=embeddings.MULTILINGUAL), tmp_path, engines=("embedding",)
        ).start()
