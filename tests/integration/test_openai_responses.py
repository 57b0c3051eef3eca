"""The Responses API answers from a collection: OpenAI's own client, and its events as they are sent."""

import asyncio

import openai
import orjson
import pytest

from tests.integration.test_openai_clients import ANSWER, QUESTION, fill
from tests.support.api import serving
from tests.support.planted import guards


@pytest.fixture(autouse=True)
async def filled(once):
    """Give each test a collection with two documents."""
    await once(fill)


async def respond(client, **more):
    return await client.post("/v1/responses", json={"model": "handbook", "input": QUESTION["content"]} | more)


async def events_of(client, **more):
    """Return the data of the events of a streamed reply; each names its type twice."""
    reply = await respond(client, stream=True, **more)
    assert reply.headers["content-type"].startswith("text/event-stream")
    *blocks, end = reply.text.split("\n\n")
    assert end == ""
    events = []
    for block in blocks:
        name, data = block.split("\n")
        events.append(orjson.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def require_cited(message):
    """Check the text and the annotations of an answer."""
    (content,) = message.content
    (annotation,) = content.annotations
    assert (content.type, content.text, annotation.type) == ("output_text", ANSWER, "url_citation")
    assert content.text[annotation.start_index : annotation.end_index] == "[1]"
    assert annotation.title == "Leave"
    assert annotation.foreask["external_id"] == "leave.md"
    assert f"/documents/{annotation.foreask['document_id']}?chunk={annotation.foreask['chunk_id']}" in annotation.url


async def test_openai_client_creates_and_streams_responses(services, settings):
    async with serving(settings, services) as served:
        url = f"{served.base_url}/v1"

        def ask():
            with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as answering:
                whole = answering.responses.create(
                    model="handbook",
                    input=QUESTION["content"],
                    instructions="Be brief.",
                    temperature=0.2,
                    max_output_tokens=50,
                    store=True,
                    metadata={"a": "b"},
                    reasoning={"effort": "low"},
                )
                with answering.responses.stream(model="handbook", input=[QUESTION]) as stream:
                    kinds = [event.type for event in stream]
                    streamed = stream.get_final_response()
                with pytest.raises(openai.NotFoundError) as refused:
                    answering.responses.create(model="gpt-5", input="a")
                assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
                with pytest.raises(openai.BadRequestError, match="Responses are not stored") as refused:
                    answering.responses.create(model="handbook", input="a", previous_response_id="resp_1")
                assert refused.value.param == "previous_response_id"
                return whole, kinds, streamed

        whole, kinds, streamed = await asyncio.to_thread(ask)

    for response in (whole, streamed):
        assert (response.status, response.output_text, response.store) == ("completed", ANSWER, False)
        require_cited(response.output[0])
        assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 0
        assert response.foreask["found"]
    assert (whole.metadata, whole.error, whole.incomplete_details) == ({"a": "b"}, None, None)
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


@guards(
    "features/openai/routes/responses.py",
    "number, self._number = self._number, self._number + 1",
    "number, self._number = self._number, self._number + (kind != 'response.output_text.done')",
    means="two events of a response have the same number",
)
async def test_stream_has_openai_events_in_order(client):
    events = await events_of(client)

    kinds = [event["type"].removeprefix("response.") for event in events]
    deltas = kinds.count("output_text.delta")
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        *["output_text.delta"] * deltas,
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    by_kind = dict(zip(kinds, events, strict=True))
    created, completed = by_kind["created"]["response"], by_kind["completed"]["response"]
    (message,) = completed["output"]
    (part,) = message["content"]
    assert (created["id"], created["status"], created["output"]) == (completed["id"], "in_progress", [])
    assert "".join(event["delta"] for event in events if "delta" in event) == part["text"] == ANSWER
    assert by_kind["output_item.added"]["item"] == message | {"status": "in_progress", "content": []}
    assert by_kind["output_item.done"]["item"] == message
    assert by_kind["content_part.added"]["part"] == part | {"text": "", "annotations": []}
    assert by_kind["content_part.done"]["part"] == part
    assert by_kind["output_text.done"]["text"] == ANSWER
    annotation = by_kind["output_text.annotation.added"]
    assert (annotation["annotation"], annotation["annotation_index"]) == (part["annotations"][0], 0)
    for event in events[3:-2]:
        assert (event["item_id"], event["output_index"], event["content_index"]) == (message["id"], 0, 0)


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", "max_output_tokens"), ("content_filter", "content_filter"), ("", "max_output_tokens")],
)
async def test_incomplete_answer_ends_as_incomplete_response(client, provider, finish, reason):
    provider.script(answer_finish=finish)

    *_, item, last = await events_of(client)

    assert (item["type"], item["item"]["status"]) == ("response.output_item.done", "incomplete")
    assert (last["type"], last["response"]["status"]) == ("response.incomplete", "incomplete")
    assert last["response"]["incomplete_details"] == {"reason": reason}
    assert last["response"]["completed_at"] is None


async def test_error_during_stream_is_failed_response(client, provider):
    provider.script(status=400)

    first, *_, last = await events_of(client)

    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["id"] == first["response"]["id"]
    assert last["response"]["error"]["code"] == "server_error"
    assert last["response"]["error"]["message"]


async def test_items_of_conversation_are_condensed(client, provider):
    provider.script(condensed="When is the salary paid?")
    answered = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Good [1].", "annotations": []}],
    }
    conversation = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "How is pay?"}, {"type": "input_image"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "42"},
        answered,
        {"role": "user", "content": [{"type": "input_text", "text": "And when is it?"}]},
    ]

    reply = (await respond(client, input=conversation, foreask={"top_k": 1, "sources": True})).json()

    assert reply["foreask"]["question"] == "When is the salary paid?"
    assert provider.stats("How is pay?")["calls"] == 1
    assert provider.stats("Good [1].")["calls"] == 1
    assert provider.stats("Be brief.")["calls"] == 0
    (part,) = reply["output"][0]["content"]
    assert part["text"].startswith(f"{ANSWER}\n\nSources:\n\n- [1] Pay")
    assert part["annotations"][0]["url"].startswith("https://intranet.example/pay#")
    streamed = await events_of(client, foreask={"sources": True})
    assert "".join(event["delta"] for event in streamed if "delta" in event) == streamed[-4]["text"]
    assert "Sources:" in streamed[-4]["text"]


REFUSED = [
    ({"input": [{"role": "assistant", "content": "a"}]}, "input"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input"),
    ({"input": [{"role": "user", "content": [{"type": "input_file"}, {"type": "input_text", "text": "a"}]}]}, "input"),
    ({"input": "x" * 10_001}, "input"),
    ({"input": []}, "input"),
    ({"input": None}, "input"),
    ({"input": [{"content": "a"}]}, "input.0"),
    ({"input": [{"role": "tool", "content": "a"}]}, "input.0.role"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input.0"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"conversation": {"id": "conv_1"}}, "conversation"),
    ({"prompt": {"id": "pmpt_1"}}, "prompt"),
    ({"background": True}, "background"),
    ({"tools": [{"type": "function", "name": "f"}, {"type": "file_search"}]}, "tools.1.type"),
    ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"text": {"format": {"type": "json_schema"}}}, "text.format.type"),
    ({"include": ["message.output_text.logprobs"]}, "include"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"foreask": {"top": 1}}, "foreask.top"),
    ({"foreask": {"history": []}}, "foreask.history"),
]


async def test_unsupported_parameters_are_rejected_by_name(client, provider):
    for change, param in REFUSED:
        reply = await respond(client, **change)

        assert reply.status_code == 400, reply.text
        error = reply.json()["error"]
        assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, "invalid_input")
    assert provider.stats()["embeddings"] == provider.stats()["calls"] == 0


async def test_harmless_parameters_are_ignored(client):
    ignored = {
        "instructions": "Answer in French.",
        "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "include": ["reasoning.encrypted_content"],
        "truncation": "auto",
        "top_p": 0.5,
        "user": "u",
        "previous_response_id": None,
        "unknown": 1,
    }
    reply = await respond(client, **ignored)

    assert reply.status_code == 200, reply.text
    assert (reply.json()["tools"], reply.json()["instructions"]) == ([], None)
