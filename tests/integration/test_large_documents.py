"""Large documents in JSON: a confined process separates the content from the fields, and queries are not delayed."""

import base64
from contextlib import aclosing

import orjson
import pytest

from shared.confined.reading import Readers
from tests.support.planted import guards

JSON = {"content-type": "application/json"}
SPACES = b" " * (5 << 20)  # make a body large, and mean nothing in JSON
TEXT = "Die Fähre legt um neun ab.\n" * 200_000


def sent(client, body):
    return client.post("/v1/documents", content=body, headers=JSON)


async def stored(client, reply):
    assert reply.status_code in (200, 202), reply.text[:500]
    return (await client.get(f"/v1/documents/{reply.json()['id']}/content")).content


@guards(
    "api/submission/submission.py",
    "if (separated := await _separated(reader, file, guard, max_bytes)) is not None:",
    "if False:",
    means="the API itself decodes large documents",
)
async def test_large_document_is_separated_by_process(client, services, wakes):
    fields = {"external_id": "ferry", "title": "Fähre", "metadata": {"year": 2026}, "filename": "ferry.md"}
    reply = await sent(client, orjson.dumps(fields | {"text": TEXT}))

    assert await stored(client, reply) == TEXT.encode()
    document = reply.json()
    assert {name: document[name] for name in fields} == fields
    assert len(services.parts.readers._idle) == 1


async def test_large_base64_is_stored_as_bytes(client, services, wakes):
    content = bytes(range(256)) * 20_000
    body = {"filename": "a.bin", "content_base64": base64.b64encode(content).decode()}

    assert await stored(client, await sent(client, orjson.dumps(body))) == content


@pytest.mark.parametrize(
    "body",
    [
        b'{"text": a}',
        b'{"text": "a\\u0000"}',
        b'{"text": "a", "metadata": {"a": [' + b"[]," * 100_001 + b"[]]}}",
        b'["text"]',
        b'{"text": 1}',
        b'{"text": " "}',
        b'{"text": "a", "content_base64": "YQ=="}',
        b'{"content_base64": "Y=Q="}',
        b'{"content_base64": ""}',
        b'{"text": "a", "colour": "red"}',
        b'{"text": "a", "title": 7}',
        b"{}",
    ],
)
async def test_large_body_has_errors_of_small_ones(client, wakes, body):
    small, large = await sent(client, body), await sent(client, body + SPACES)

    assert large.status_code == small.status_code
    assert 400 <= large.status_code < 500
    assert large.json() | {"instance": ""} == small.json() | {"instance": ""}


async def test_large_fields_are_decoded_by_api(client, wakes):
    questions = [{"text": f"Who is {number}?", "quote": "a" * 300} for number in range(20_000)]

    assert await stored(client, await sent(client, orjson.dumps({"text": "a", "questions": questions}))) == b"a"


@guards(
    "api/submission/submission.py",
    "except (Transient, Unreadable) as error:",
    "except KeyError as error:",
    means="without a process large documents are refused",
)
async def test_document_without_process_is_decoded_by_api(client, services, wakes, monkeypatch):
    async with aclosing(Readers()) as readers:
        pass
    monkeypatch.setitem(services.parts.__dict__, "readers", readers)  # closed, as if none could be started

    assert await stored(client, await sent(client, orjson.dumps({"text": TEXT + "."}))) == f"{TEXT}.".encode()
