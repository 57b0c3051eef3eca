"""Uploads in the lane `batch`: accepted if the lane can be used, refused with a sentence otherwise."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from shared.ledger.postgres.statements import Statement
from tests.support.api import calling, serving, work
from tests.support.pages import commands_of, foreask_with_background
from tests.support.waiting import eventually

DOCUMENT = {"text": "The lighthouse stands on the cliff.", "external_id": "a.md", "lane": "batch"}


def configured(settings, **tuning):
    return settings.model_copy(update={"llm_batches": True, "tuning": settings.tuning.model_copy(update=tuning)})


async def lanes(services):
    async with services.database.begin() as connection:
        return sorted((await connection.execute(Statement("SELECT lane FROM documents"))).scalars())


async def test_batch_lane_accepts_every_kind_of_upload(services, settings, provider):
    async with calling(configured(settings), services) as client:
        as_json = await client.post("/v1/documents", json=DOCUMENT)
        as_form = await client.post(
            "/v1/documents", data={"lane": "batch"}, files={"file": ("b.md", b"# Title\n\nText")}
        )
        as_line = await client.post(
            "/v1/documents:batch?lane=batch",
            content=b'{"external_id": "c.md", "text": "Text."}',
            headers={"content-type": "application/x-ndjson"},
        )

    assert [reply.status_code for reply in (as_json, as_form, as_line)] == [202, 202, 200]
    assert await lanes(services) == [2, 2, 2]


@pytest.mark.parametrize("path", ["/v1/documents", "/v1/documents:batch?lane=batch"])
async def test_unconfigured_batch_lane_is_refused(client, services, path):
    kind = "application/x-ndjson" if "lane" in path else "application/json"
    body = b'{"text": "Text."}' if "lane" in path else b'{"text": "Text.", "lane": "batch"}'
    reply = await client.post(path, content=body, headers={"content-type": kind})

    assert reply.status_code == 422
    assert "set FOREASK_LLM_BATCHES=on" in reply.json()["detail"]
    assert await lanes(services) == []


async def test_batch_lane_is_refused_for_question_per_call(services, settings):
    async with calling(configured(settings, question_strategy="per-question"), services) as client:
        reply = await client.post("/v1/documents", json=DOCUMENT)

    assert reply.status_code == 422
    assert "one call for each question" in reply.json()["detail"]


async def test_provider_without_usable_batches_is_refused_by_name(services, settings):
    lane = services.batch_lane
    values = "gen_random_uuid(), :provider, :model, 'planned', 'it forgets'"
    insert = f"INSERT INTO batches (id, provider, model, state, error) VALUES ({values})"
    async with services.database.begin() as connection:
        await connection.execute(Statement(insert), {"provider": lane.provider, "model": lane.lines.model})
        for state in ("creating", "running", "collecting", "failed"):
            await connection.execute(Statement("UPDATE batches SET state = :state"), {"state": state})
    async with calling(configured(settings), services) as client:
        reply = await client.post("/v1/documents", json=DOCUMENT)

    assert reply.status_code == 409
    assert f"The provider {lane.provider} cannot be used for batches: it forgets." in reply.json()["detail"]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """The corpus of the page on half prices, in the current folder."""
    monkeypatch.chdir(tmp_path)
    rows = ({"_id": str(n), "title": "T", "text": f"Article {n} of the wiki."} for n in range(30))
    Path("corpus.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


@pytest.mark.usefixtures("corpus")
async def test_documented_command_loads_corpus_at_half_price(services, settings, provider, monkeypatch, capsys):
    (command, *_) = commands_of("half-price.md")
    async with serving(configured(settings), services) as http:
        monkeypatch.setenv("FOREASK_URL", str(http.base_url))
        foreask = foreask_with_background(lambda: work(services, "parse", "index"), capsys, monkeypatch)
        code, output = await foreask(command)
        assert code == 0, output
        assert (await http.get("/v1/collections/wiki")).json()["documents"] == {"searchable": 30}

        soon = dict.fromkeys(("wait", "poll", "list_lag"), timedelta(milliseconds=20))
        terms = replace(services.batch_lane.terms, enabled=True, min_lines=1, **soon)
        lane = replace(services.batch_lane, terms=terms)

        async def ready():
            await lane.work(asyncio.Event())
            await work(services, "index")
            return (await http.get("/v1/collections/wiki")).json()["documents"] == {"ready": 30}

        await eventually(ready)
    assert provider.stats()["calls"] == 0
    assert provider.batch_stats("of the wiki")["lines"] == 30
