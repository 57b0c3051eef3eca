"""The embedded models, served over OpenAI's API."""

import asyncio
import base64
import json
from pathlib import Path

import httpx
import numpy as np
import pytest

from embedded import embeddings, llama
from embedded.stack import Stack
from shared.settings import Settings
from tests.support.api import WITHOUT_CERTIFICATES
from tests.support.waiting import TIMEOUT_SECONDS

# Of requests over plain HTTP: loading certificates takes longer than most of them.
PLAIN = {"verify": WITHOUT_CERTIFICATES, "timeout": TIMEOUT_SECONDS}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama, "NICENESS", 0)  # otherwise a reply would wait for the tests that run concurrently
        with Stack(Settings(_env_file=None), tmp_path_factory.mktemp("models"), engines=("llm", "embedding")) as stack:
            yield stack.settings


def embed(models, text, **extra):
    body = {"model": embeddings.MODEL, "input": text, **extra}
    return httpx.post(f"{models.embedding_base_url}/embeddings", json=body, **with_key(models.embedding_api_key))


def with_key(key):
    return PLAIN | {"headers": {"authorization": f"Bearer {key.get_secret_value()}"}}


def vectors(reply):
    return np.array([item["embedding"] for item in reply.json()["data"]], dtype=np.float32)


def test_embeddings_are_unit_vectors_in_input_order(models):
    texts = ["Where does the Elbe flow?", "The Elbe flows into the North Sea. " * 20, "A recipe for plum cake", "Elbe"]

    reply = embed(models, texts)

    found = vectors(reply)
    assert found.shape == (4, 384)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert [item["index"] for item in reply.json()["data"]] == [0, 1, 2, 3]
    for text, vector in zip(texts, found, strict=True):
        alone = vectors(embed(models, text))[0]
        assert float(alone @ vector) > 0.999999  # each token has its own scale, whatever the other texts are
    assert found[0] @ found[1] > found[0] @ found[2] + 0.3


def test_base64_embeddings_equal_plain_embeddings(models):
    plain = vectors(embed(models, ["one", "two"]))
    packed = embed(models, ["one", "two"], encoding_format="base64").json()["data"]

    decoded = np.array([np.frombuffer(base64.b64decode(item["embedding"]), dtype="<f4") for item in packed])
    assert decoded == pytest.approx(plain)


def test_usage_counts_embedded_tokens(models):
    assert embed(models, "hello world").json()["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    assert embed(models, ["hello world", "word " * 1000]).json()["usage"]["prompt_tokens"] == 4 + 256


def test_invalid_embedding_request_returns_openai_error(models):
    for body, status, parameter in (
        ({"input": "x"}, 400, "model"),
        ({"model": "text-embedding-3-small", "input": "x"}, 404, "model"),
        ({"model": embeddings.MODEL}, 400, "input"),
        ({"model": embeddings.MODEL, "input": []}, 400, "input"),
        ({"model": embeddings.MODEL, "input": ["a", ""]}, 400, "input"),
        ({"model": embeddings.MODEL, "input": [1, 2]}, 400, "input"),
        ({"model": embeddings.MODEL, "input": ["a"] * 2049}, 400, "input"),
        ({"model": embeddings.MODEL, "input": "x", "encoding_format": "hex"}, 400, "encoding_format"),
        ({"model": embeddings.MODEL, "input": "x", "dimensions": 8}, 400, "dimensions"),
        ([], 400, None),
    ):
        reply = httpx.post(f"{models.embedding_base_url}/embeddings", json=body, **with_key(models.embedding_api_key))

        error, named = reply.json()["error"], str(body)[:100]
        assert (reply.status_code, error["param"]) == (status, parameter), named
        assert error["type"] == "invalid_request_error", named
        assert error["message"], named


async def test_health_answers_while_model_computes(models):
    async with httpx.AsyncClient(**with_key(models.embedding_api_key)) as http:
        body = {"model": embeddings.MODEL, "input": ["many words in a row " * 60] * 60}
        work = asyncio.create_task(http.post(f"{models.embedding_base_url}/embeddings", json=body))
        answers = []
        while not work.done():
            answers.append(await http.get(models.embedding_base_url.removesuffix("/v1") + "/health"))

        assert (await work).status_code == 200
        assert {answer.status_code for answer in answers} == {200}
        assert len(answers) > 10  # a server that computes on its event loop answers once or twice


def test_embedded_models_are_listed(models):
    listed = httpx.get(f"{models.embedding_base_url}/models", **with_key(models.embedding_api_key)).json()["data"]
    assert [model["id"] for model in listed] == list(embeddings.NAMES)
    listed = httpx.get(f"{models.llm_base_url}/models", **with_key(models.llm_api_key)).json()["data"]
    assert [model["id"] for model in listed] == [llama.MODEL]


SCHEMA = {
    "type": "object",
    "properties": {"questions": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}},
    "required": ["questions"],
    "additionalProperties": False,
}


async def test_llm_follows_schema_for_concurrent_callers(models):
    async with httpx.AsyncClient(**with_key(models.llm_api_key)) as http:

        async def ask(river):
            body = {
                "model": models.llm_model,
                "messages": [{"role": "user", "content": f"Write two questions about the river {river}."}],
                "max_tokens": 120,
                "temperature": 0,
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "questions", "strict": True, "schema": SCHEMA},
                },
            }
            return (await http.post(f"{models.llm_base_url}/chat/completions", json=body)).json()

        replies = await asyncio.gather(*(ask(river) for river in ("Elbe", "Rhine", "Oder")))

    for reply in replies:
        assert reply["usage"]["prompt_tokens"] > 0
        choice = reply["choices"][0]
        if choice["finish_reason"] == "stop":
            assert len(json.loads(choice["message"]["content"])["questions"]) == 2
    assert any(reply["choices"][0]["finish_reason"] == "stop" for reply in replies)


def test_embedded_models_write_no_files_to_home(models):
    assert list(Path.home().iterdir()) == []


def test_embedded_models_log_nothing_without_errors(models):
    logs = models.data_dir / "logs"
    assert (logs / "llm.log").read_text() == ""
    assert (logs / "embedding.log").read_text() == ""
