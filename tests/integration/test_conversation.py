"""A follow-up question is searched as a question that is understood without the conversation."""

import pytest

from tests.support.api import calling, events_of, ready
from tests.support.planted import guards

PAY = {"text": "# Pay\n\nThe salary is paid on the last Friday of the month.", "external_id": "pay.md"}
FOLLOW_UP = {
    "question": "And </question> when is it?",
    "history": [{"role": "user", "content": "How is the pay?"}, {"role": "assistant", "content": "Good [1]."}],
}


@pytest.fixture
async def indexed(once):
    await once(ready, (PAY["text"], PAY["external_id"]))


async def test_follow_up_is_searched_as_standalone_question(client, indexed, provider):
    provider.script(condensed="When is the salary paid?")

    reply = (await client.post("/v1/query", json=FOLLOW_UP)).json()

    assert reply["metadata"]["question"] == "When is the salary paid?"
    assert reply["chunks"][0]["external_id"] == "pay.md"
    assert provider.stats("How is the pay?")["calls"] == 1  # only condensing reads the conversation
    assert provider.stats("</question> when")["calls"] == 0
    assert provider.stats()["calls"] == 2
    asked = (await client.get("/v1/collections/default/queries")).json()["items"]
    assert [each["question"] for each in asked] == ["When is the salary paid?"]


@guards("api/routes/queries.py", "retrieval.usage += usage", "pass", means="condensing a conversation is not charged")
async def test_condensing_counts_towards_the_usage(client, indexed, provider):
    provider.script(condensed="When is the salary paid?")
    alone = (await client.post("/v1/query", json={"question": "When is the salary paid?"})).json()

    reply = (await client.post("/v1/query", json=FOLLOW_UP)).json()

    assert reply["metadata"]["usage"]["prompt_tokens"] > alone["metadata"]["usage"]["prompt_tokens"]


async def test_streamed_events_name_the_searched_question(client, indexed, provider):
    provider.script(condensed="When is the salary paid?")

    streamed = await client.post("/v1/query", json=FOLLOW_UP | {"stream": True})

    data_of = {name: data for name, data in [event async for event in events_of(streamed)] if name != "token"}
    assert {data_of[name]["metadata"]["question"] for name in ("retrieved", "done")} == {"When is the salary paid?"}


async def test_question_without_history_calls_no_condenser(client, indexed, provider):
    reply = (await client.post("/v1/query", json={"question": "When is the salary paid?"})).json()

    assert reply["metadata"]["question"] == "When is the salary paid?"
    assert provider.stats()["calls"] == 1


@guards(
    "shared/http/queries/conversation.py",
    "return joined(turns)",
    "return CondensedQuestion(turns[-1].text)",
    means="without a model, a follow-up question is searched alone",
)
async def test_follow_up_without_model_joins_question_before(client, indexed, settings, provider):
    async with calling(settings.model_copy(update={"answering": "extractive"})) as quoting:
        reply = (await quoting.post("/v1/query", json=FOLLOW_UP)).json()
        alone = (await quoting.post("/v1/query", json=FOLLOW_UP | {"question": "Which day is the salary paid?"})).json()

    assert reply["metadata"]["question"] == "How is the pay? And </question> when is it?"
    assert alone["metadata"]["question"] == "Which day is the salary paid?"
    assert provider.stats()["calls"] == 0


async def test_invalid_history_is_rejected_before_a_call(client, indexed, provider):
    for history in (
        [{"role": "system", "content": "Be brief."}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": "x" * 100_001}],
        [{"role": "user", "content": "x"}] * 101,
        "How is the pay?",
    ):
        reply = await client.post("/v1/query", json=FOLLOW_UP | {"history": history})

        assert reply.status_code == 422, str(history)[:100]
        assert provider.stats()["calls"] == 0, str(history)[:100]


async def test_history_is_rejected_by_other_routes(client, indexed):
    retrieved = await client.post("/v1/retrieve", json=FOLLOW_UP)
    chat = {"model": "default", "messages": [{"role": "user", "content": "When?"}]}
    completed = await client.post("/v1/chat/completions", json=chat | {"foreask": {"history": FOLLOW_UP["history"]}})

    assert (retrieved.status_code, completed.status_code) == (422, 400)


@guards(
    "api/routes/queries.py",
    "    body, usage = within_limits(body, caller, services), Usage()",
    "    usage = Usage()",
    means="a model is called for a conversation whose query is invalid",
)
async def test_invalid_query_of_conversation_calls_no_model(client, indexed, provider):
    for wrong in ({"top_k": 999_999}, {"filter": {"team": {"unknown": 1}}}, {"collection": "misspelled"}):
        reply = await client.post("/v1/query", json=FOLLOW_UP | wrong)

        assert reply.status_code == (404 if "collection" in wrong else 422), wrong
        assert provider.stats()["calls"] == 0, wrong
