"""Questions are logged for feedback: replies have an id, retention is limited, and failures do not affect queries."""

import asyncio
import contextlib
import time
from datetime import timedelta
from itertools import pairwise
from statistics import median
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from features.feedback.schemas import AskedQuestionPage
from shared.ledger.feedback.query_log import QueryLog
from tests.conftest import Library
from tests.support.api import calling, events_of, work
from tests.support.proxy import Fault, Link
from tests.support.waiting import TIMEOUT_SECONDS
from workers.scheduler import forget_queries

QUESTION = {"question": "How many days of leave has everybody?"}


async def fill(services):
    await Library(services).add("# Leave\n\nEverybody has thirty days of leave a year.", "leave.md")
    await work(services)


@pytest.fixture(autouse=True)
async def filled(once):
    """Give each test a document, without logged queries and feedback."""
    await once(fill)


async def logged(services):
    async with services.database.begin() as connection:
        found = await connection.execute_sql("SELECT id, tenant, question, chunk_ids FROM queries")
        return {str(row.id): (row.tenant, row.question, [str(chunk) for chunk in row.chunk_ids]) for row in found}


async def test_query_is_logged_with_returned_id_and_chunks(client, services):
    for route in ("retrieve", "query"):
        reply = (await client.post(f"/v1/{route}", json=QUESTION)).json()

        shown = [chunk["chunk_id"] for chunk in reply["chunks"]]
        assert shown
        assert (await logged(services))[reply["metadata"]["query_id"]] == ("default", QUESTION["question"], shown)
    assert len(await logged(services)) == 2


async def test_unlogged_query_has_no_id(client, services):
    reply = (await client.post("/v1/retrieve", json=QUESTION | {"record": False})).json()

    assert reply["chunks"]
    assert reply["metadata"]["query_id"] is None
    assert await logged(services) == {}


async def test_stream_events_contain_query_id(client, services):
    streamed = await client.post("/v1/query", json=QUESTION | {"stream": True})

    data_of = {name: data for name, data in [event async for event in events_of(streamed)] if name != "token"}
    (name,) = await logged(services)
    assert [data_of[event]["metadata"]["query_id"] for event in ("retrieved", "done")] == [name, name]


async def test_concurrent_queries_are_logged_separately(client, services):
    bodies = [{"question": f"How many days of leave has person {n}?"} for n in range(10)]
    replies = await asyncio.gather(*(client.post("/v1/retrieve", json=body) for body in bodies))

    rows = await logged(services)
    assert [rows[r.json()["metadata"]["query_id"]][1] for r in replies] == [body["question"] for body in bodies]


async def test_query_of_missing_collection_is_not_logged(client, services):
    reply = await client.post("/v1/retrieve", json=QUESTION | {"collection": "nowhere"})

    assert reply.status_code == 404
    assert await logged(services) == {}


async def test_zero_retention_days_disable_query_log(services, settings):
    async with calling(settings.model_copy(update={"query_retention_days": 0}), services) as client:
        reply = (await client.post("/v1/retrieve", json=QUESTION)).json()

    assert reply["chunks"]
    assert reply["metadata"]["query_id"] is None
    assert await logged(services) == {}


async def proxied(settings):
    """Return a link to the ledger that can be interrupted, and settings that use it."""
    address = urlsplit(settings.database_url.get_secret_value())
    link = Link(f"{address.hostname}:{address.port}")
    url = address._replace(netloc=f"{address.username}:{address.password}@127.0.0.1:{await link.listen()}").geturl()
    return link, settings.model_copy(update={"database_url": SecretStr(url)})


@pytest.mark.parametrize("mode", ["cut", "hole"])
async def test_query_during_ledger_outage_only_lacks_its_id(services, settings, monkeypatch, mode):
    monkeypatch.setattr(
        "shared.http.access.collection_cache._SECONDS", 600.0
    )  # so that the query needs the ledger only for the log
    tuning = settings.tuning.model_copy(update={"query_log_budget": timedelta(seconds=0.5)})
    link, proxied_settings = await proxied(settings.model_copy(update={"tuning": tuning}))
    async with contextlib.aclosing(link), calling(proxied_settings) as client:
        assert (await client.post("/v1/retrieve", json=QUESTION)).json()["metadata"]["query_id"]

        link.change(Fault(mode=mode))
        replies, ends = [], [time.monotonic()]
        for _ in range(20):
            replies.append(await client.post("/v1/retrieve", json=QUESTION))
            ends.append(time.monotonic())
        assert median(end - start for start, end in pairwise(ends)) < 0.5  # instead of a timeout for each query
        assert [(r.status_code, r.json()["metadata"]["query_id"]) for r in replies] == [(200, None)] * 20
        assert all(reply.json()["chunks"] for reply in replies)

        link.change(Fault())
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not (await client.post("/v1/retrieve", json=QUESTION)).json()["metadata"]["query_id"]:
                await asyncio.sleep(0.05)


async def test_expired_queries_are_deleted(client, services, monkeypatch):
    monkeypatch.setattr("shared.ledger.feedback.query_log._BATCH_SIZE", 2)
    for _ in range(6):
        await client.post("/v1/retrieve", json=QUESTION)
    async with services.database.begin() as connection:
        await connection.execute_sql(
            "UPDATE queries SET created_at = now() - interval '31 days' WHERE id IN (SELECT id FROM queries LIMIT 5)"
        )

    while await forget_queries(services):
        pass

    assert len(await logged(services)) == 1
    assert not await services.ledger[QueryLog].purge(timedelta())  # with 0 days, existing rows are also deleted
    assert await logged(services) == {}


async def list_queries(client, **parameters):
    reply = await client.get("/v1/collections/default/queries", params=parameters)
    assert reply.status_code == 200, reply.text
    return AskedQuestionPage.model_validate_json(reply.content)


async def test_repeated_questions_are_listed_once_with_outcome(client, settings):
    await client.post("/v1/retrieve", json=QUESTION)
    again = (await client.post("/v1/retrieve", json={"question": QUESTION["question"].upper()[:-1]})).json()
    await client.post("/v1/retrieve", json={"question": "Who pays for lunch?", "min_score": 1.0})
    async with calling(settings.model_copy(update={"answering": "extractive"})) as quoting:
        unanswered = (await quoting.post("/v1/query", json={"question": "zebra quark xylophone"})).json()
        await quoting.post("/v1/query", json={"question": "yttrium plinth wombat", "stream": True})
    assert (unanswered["found"], len(unanswered["chunks"])) == (False, 1)

    streamed, unanswerable, lunch, leave = (await list_queries(client)).items
    assert (streamed.found, len(streamed.chunk_ids)) == (False, 1)
    assert (unanswerable.question, unanswerable.found, unanswerable.times) == ("zebra quark xylophone", False, 1)
    assert (lunch.found, lunch.best_score, lunch.chunk_ids) == (False, None, [])
    assert (leave.times, leave.found, leave.helpful) == (2, True, None)
    assert str(leave.query_id) == again["metadata"]["query_id"]
    assert leave.best_score == pytest.approx(again["chunks"][0]["score"], abs=1e-4)
    assert leave.first_at < leave.last_at
    assert (await list_queries(client, answered=False)).items == [streamed, unanswerable, lunch]

    no = {"query_id": str(leave.query_id), "chunk_id": str(leave.chunk_ids[0]), "helpful": False}
    await client.post("/v1/feedback", json=no)
    assert [(q.question, q.helpful) for q in (await list_queries(client, answered=False)).items][3:] == [
        (leave.question, False)
    ]
    assert (await list_queries(client, answered=True)).items == []
    await client.post("/v1/feedback", json=no | {"helpful": True})
    assert [q.helpful for q in (await list_queries(client, answered=True)).items] == [True]

    first = await list_queries(client, limit=2)
    rest = await list_queries(client, limit=2, cursor=first.next_cursor)
    assert [len(first.items), len(rest.items), rest.next_cursor] == [2, 2, None]
    assert (await list_queries(client, since=unanswerable.last_at.isoformat())).items == [streamed, unanswerable]
    for overflow in ("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"):
        reply = await client.get("/v1/collections/default/queries", params={"since": overflow})
        assert reply.status_code == 422


async def test_question_list_reports_disabled_query_log(client, services, settings):
    await client.post("/v1/retrieve", json=QUESTION)
    async with calling(settings.model_copy(update={"query_retention_days": 0}), services) as without:
        assert await list_queries(without) == AskedQuestionPage(retention_days=0, total=0, items=[], next_cursor=None)
