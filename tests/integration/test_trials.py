"""POST /v1/trials shows how a text is processed, and stores nothing."""

import asyncio

import pytest

from shared.domain.spending.budgets import BudgetUnit, NewBudget, Period, SetBy
from shared.ledger.budgets.budgets import Budgets
from shared.ledger.model.collections import Collections
from shared.providers.limiter.usage import usage_of
from tests.conftest import Library
from tests.support.api import calling, events_of, serving, work
from tests.support.provider import Script
from tests.support.tables import columns
from tests.support.waiting import TIMEOUT_SECONDS

MISSING_ID = "00000000-0000-0000-0000-000000000000"
TEXT = "# Leave\n\nEverybody has thirty days of leave a year.\n\n# Pay\n\nSalaries are paid on the last working day."


async def try_text(client, **body):
    reply = await client.post("/v1/trials", json={"text": TEXT} | body)
    assert reply.status_code == 200, reply.text
    return [event async for event in events_of(reply)]


async def rows(services):
    """Return the number of rows of each table, and of points in Qdrant."""
    async with services.database.begin() as connection:
        counts = {
            name: (await connection.execute_sql(f"SELECT count(*) FROM {name}")).scalar_one()
            for name in await columns(connection)
        }
    collection = await services.ledger[Collections].get("default", "default")
    return counts, await services.index.count_points(collection.location)


async def test_trial_streams_results_and_stores_nothing(client, services, provider):
    await Library(services).add("A text about a lighthouse and its keeper.")
    await work(services)
    before = await rows(services)
    provider.reset()

    events = await try_text(
        client, chunk_max_chars=200, questions_per_chunk=3, prompt="Ask about {text}, {count} times."
    )

    assert await rows(services) == before
    chunks = [data for name, data in events if name == "chunk"]
    assert [(name, data["chunk"]) for name, data in events[: len(chunks)]] == [
        ("chunk", index) for index in range(chunks[0]["total"])
    ]
    assert all(chunk["text"] in TEXT for chunk in chunks)
    written = [data["text"] for name, data in events if name == "question"]
    screened = [data for name, data in events if name == "screened"]
    assert sorted(s["chunk"] for s in screened) == list(range(len(chunks)))
    results = [question for s in screened for question in s["questions"]]
    assert sorted(q["text"] for q in results) == sorted(written)
    assert any(q["passed"] for q in results)
    assert all(q["similarity"] is not None and q["passed"] == (q["reason"] is None) for q in results)
    name, done = events[-1]
    assert (name, done["chunks"], done["questions"]) == ("done", len(chunks), len(written))
    assert (done["calls"], done["truncated"], done["characters"]) == (provider.stats()["calls"], False, len(TEXT))
    assert done["usage"] == {
        key: sum(s["usage"][key] for s in screened) for key in ("prompt_tokens", "completion_tokens")
    }


async def test_long_trial_text_is_cut_and_explained(client, provider):
    provider.script(malformed_containing="lighthouse")
    text = "The lighthouse has a keeper.\n\n" + "word " * 5_000

    events = await try_text(client, text=text, chunk_max_chars=10_000)

    assert events[-1][1]["truncated"]
    assert events[-1][1]["characters"] == 20_000
    assert 19_990 < max(data["span"][1] for name, data in events if name == "chunk") <= 20_000
    first = next(data for name, data in events if name == "screened" and data["chunk"] == 0)
    assert first["error"]
    assert first["calls"] > 1


async def test_disconnect_cancels_trial_calls(services, settings, provider):
    async def in_flight():
        return max(use.in_flight for use in await usage_of(services.limiters.llm, "default"))

    provider.script(latency_seconds=60)
    async with serving(settings, services) as client:
        async with client.stream("POST", "/v1/trials", json={"text": TEXT}) as reply, asyncio.timeout(TIMEOUT_SECONDS):
            lines = reply.aiter_lines()
            await anext(lines)
            while not await in_flight():
                await asyncio.sleep(0.02)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while await in_flight():
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("own", [{"collection": "nowhere"}, {"prompt": "No placeholder."}, {"text": " "}])
async def test_invalid_trial_is_rejected(client, own):
    assert (await client.post("/v1/trials", json={"text": TEXT} | own)).status_code in (404, 422)


async def test_exhausted_budget_rejects_trial(services, settings, provider):
    for collection, limit in ((None, 10**6), ("default", 1)):
        kinds = (Period.TOTAL, BudgetUnit.TOKENS, SetBy.TENANT)
        await services.ledger[Budgets].set(NewBudget("default", collection, None, *kinds, limit))
    await Library(services).add("A text about a lighthouse and its keeper.")
    await work(services)
    async with calling(settings, services) as client:
        refused = await client.post("/v1/trials", json={"text": TEXT, "collection": "default"})
        accepted = await client.post("/v1/trials", json={"text": TEXT})
    assert (refused.status_code, accepted.status_code) == (429, 200)
    assert refused.json()["detail"] == "The total budget of 1 tokens for the collection 'default' is used up."


async def test_similarity_compares_questions_with_texts_and_their_questions(client, provider):
    leave, pay = "Everybody has thirty days of leave a year.", "Salaries are paid on the last working day."
    questions = ["How many days of leave has everybody?", "When are salaries paid?"]
    body = {
        "questions": questions,
        "texts": [{"text": leave, "questions": [questions[0], questions[1]]}, {"text": pay}],
    }

    reply = await client.post("/v1/similarity", json=body)

    of_leave, of_pay = reply.json()["items"]
    assert of_leave["text"][0] > of_leave["text"][1]
    assert of_pay["text"][1] > of_pay["text"][0]
    assert [of_leave["questions"][0][0], of_leave["questions"][1][1]] == [pytest.approx(1, abs=1e-3)] * 2
    assert of_leave["questions"][0][1] == pytest.approx(of_leave["questions"][1][0], abs=1e-3)
    assert of_pay["questions"] == [[], []]
    assert of_leave["words"][0] > of_leave["words"][1] == 0 < of_pay["words"][1] <= 1
    assert (reply.json()["chunks"], reply.json()["absent"]) == ([], [])
    ids = {"chunk_ids": [MISSING_ID]}
    for wrong in (
        {"questions": questions * 7},
        {"texts": []},
        {"texts": [{"text": "a" * 20_000}] * 11},
        ids,
        ids | {"collection": "default", "texts": [{"text": pay}] * 50},
    ):
        assert (await client.post("/v1/similarity", json=body | wrong)).status_code == 422
    assert (await client.post("/v1/similarity", json=body | {"collection": "nowhere"})).status_code == 404


async def test_similarity_reuses_vectors_of_stored_chunks(client, services, provider):
    library = Library(services)
    await library.add("The harbour opens at six.", questions=["When does the harbour open?", "Who opens the harbour?"])
    await library.add("Ships pay by their length.", questions=["What do ships pay by?"], external_id="pay")
    await work(services)
    questions = ["When does the harbour open?", "How much does a ship pay?"]
    found = (await client.post("/v1/retrieve", json={"question": questions[0], "explain": "candidates"})).json()
    accept = {"question": "Is it open at dawn?", "chunk_id": found["chunks"][0]["chunk_id"]}
    assert (await client.post("/v1/collections/default/accepted-questions", json=accept)).status_code < 300
    await work(services)
    ids = [chunk["chunk_id"] for chunk in found["chunks"]]
    provider.reset()

    body = {"questions": questions, "collection": "default", "chunk_ids": [*ids, MISSING_ID, ids[0]]}
    reply = (await client.post("/v1/similarity", json=body)).json()

    assert provider.stats()["embedded_inputs"] == len(questions)
    assert ([chunk["chunk_id"] for chunk in reply["chunks"]], reply["absent"]) == (ids, [MISSING_ID])
    opening = reply["chunks"][0]
    assert [(q["text"], q["source"]) for q in opening["questions"]] == [
        ("When does the harbour open?", "given"),
        ("Who opens the harbour?", "given"),
        ("Is it open at dawn?", "user"),
    ]
    assert opening["questions"][0]["cosines"][0] == pytest.approx(1, abs=1e-3)
    texts = {"The harbour opens at six.": opening, "Ships pay by their length.": reply["chunks"][1]}
    for text, chunk in texts.items():
        given = {
            "questions": questions,
            "texts": [{"text": text, "questions": [q["text"] for q in chunk["questions"]]}],
        }
        (again,) = (await client.post("/v1/similarity", json=given)).json()["items"]
        assert chunk["text"] == pytest.approx(again["text"], abs=1e-3)
        stored = [list(column) for column in zip(*(q["cosines"] for q in chunk["questions"]), strict=True)]
        assert stored == [pytest.approx(row, abs=1e-3) for row in again["questions"]]
        assert chunk["words"] == pytest.approx(again["words"])


async def test_trial_shows_context_of_each_chunk(client, provider):
    events = await try_text(client, context=True)
    shown = [data["context"] for name, data in events if name == "screened"]
    written = Script().context
    assert shown == [{"line": written["context"], "terms": written["terms"]}] * len(shown)
    assert shown

    plain = await try_text(client)
    assert {data["context"] for name, data in plain if name == "screened"} == {None}
