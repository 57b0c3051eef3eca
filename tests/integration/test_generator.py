"""Question generation over HTTP: the requests, and the handling of unusable replies."""

import pickle
from datetime import timedelta

import orjson
import pytest
from aiohttp import web

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.errors import RateLimited, Refused, Unavailable
from shared.domain.spending.usage import Usage
from shared.ingest.generate.generator import generate_questions
from shared.ingest.generate.types import BadQuestions, GenerationOptions
from shared.providers.chat import OpenAIChat
from shared.providers.provider import Provider
from tests.support.planted import guards
from tests.support.provider import Script, ScriptedEndpoints

SUBJECT = ChunkContent.whole(
    "A lease ends after sixty seconds unless its worker renews it. " * 10, "Leases", ("Workers",)
)
GOOD = orjson.dumps({"questions": ["When does a lease end?", "Who renews a lease?"]}).decode()


class Wire:
    """An endpoint that returns the given replies in order, repeats the last one, and records requests."""

    def __init__(self):
        self.replies, self.requests = [], []

    async def chat(self, request):
        self.requests.append(orjson.loads(await request.read()))
        text, finish = self.replies[min(len(self.requests), len(self.replies)) - 1]
        message = {"role": "assistant", "content": text}
        if finish == "refusal":
            message, finish = {"role": "assistant", "content": None, "refusal": "no"}, "stop"
        if finish == "tool_calls":
            message["tool_calls"] = [{"type": "function", "function": {"name": "search", "arguments": ""}}]
        choice = {"index": 0, "message": message, "finish_reason": finish}
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        return web.json_response({"choices": [choice], "usage": usage})

    def app(self):
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.chat)
        return app


async def serving(app):
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    client = Provider(component="llm", base_url=url, api_key=None, timeout=timedelta(seconds=10))
    return runner, client


@pytest.fixture
async def wire():
    wire = Wire()
    runner, client = await serving(wire.app())
    wire.model = OpenAIChat(client, "scripted")
    yield wire
    await client.aclose()
    await runner.cleanup()


@pytest.fixture
async def provider():
    provider = ScriptedEndpoints(Script())
    runner, client = await serving(provider.app())
    provider.model = OpenAIChat(client, "scripted")
    yield provider
    await client.aclose()
    await runner.cleanup()


async def test_single_call_returns_questions_and_costs(provider):
    generated = await generate_questions(provider.model, SUBJECT, GenerationOptions())
    assert len(generated.questions) == 5
    assert generated.calls == provider.stats.chats.total() == 1
    assert generated.usage.prompt_tokens > 0


async def test_reply_schema_uses_common_strict_subset(wire):
    wire.replies = [(GOOD, "stop")]
    await generate_questions(wire.model, SUBJECT, GenerationOptions())
    (body,) = wire.requests
    schema = body["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert schema["schema"]["required"] == ["questions"]
    assert schema["schema"]["additionalProperties"] is False
    assert "temperature" not in body
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


async def test_malformed_reply_is_retried_with_explicit_shape(wire):
    wire.replies = [("Sure! " + GOOD[:30], "stop"), (GOOD, "stop")]
    generated = await generate_questions(wire.model, SUBJECT, GenerationOptions())
    assert generated.questions == ("When does a lease end?", "Who renews a lease?")
    assert (generated.calls, generated.usage) == (2, Usage(200, 20))
    first, second = wire.requests
    assert second["messages"][0]["content"].startswith(first["messages"][0]["content"])
    assert second["messages"][0] != first["messages"][0]
    assert second["messages"][1] == first["messages"][1]


async def test_truncated_reply_is_retried_with_fewer_questions(wire):
    wire.replies = [(GOOD, "length"), (GOOD, "stop")]
    generated = await generate_questions(wire.model, SUBJECT, GenerationOptions(questions_per_chunk=6))
    assert generated.calls == 2
    first, second = wire.requests
    assert "Number of questions: 6" in first["messages"][1]["content"]
    assert "Number of questions: 3" in second["messages"][1]["content"]
    assert second["max_completion_tokens"] == 2 * first["max_completion_tokens"]


@guards(
    "shared/ingest/generate/repairs.py",
    "most = 1 if isinstance(faults[-1], EmptyReply) else _MOST",
    "most = _MOST",
    means="each chunk of a model that only thinks costs three calls",
    case="thought",
)
@pytest.mark.parametrize(
    ("text", "finish", "said", "limits"),
    [
        pytest.param("", "length", "thought until it reached the token limit", [1, 2], id="thought to the limit"),
        pytest.param('{"questions": ["Who', "length", "cut at the token limit", [1, 2, 4], id="cut"),
        pytest.param("<think>Well.</think>", "length", "thought until", [1, 2], id="thought in the text"),
        pytest.param("", "stop", "only the model's thinking", [1, 1], id="thought"),
        pytest.param("", "tool_calls", "called a tool", [1, 1], id="tool"),
    ],
)
async def test_reply_without_answer_is_repaired_once(wire, text, finish, said, limits):
    wire.replies = [(text, finish)]

    with pytest.raises(BadQuestions, match=said) as caught:
        await generate_questions(wire.model, SUBJECT, GenerationOptions(questions_per_chunk=1))

    sent = [body["max_completion_tokens"] for body in wire.requests]
    assert [limit / sent[0] for limit in sent] == limits
    assert len(caught.value.faults) == caught.value.calls == len(limits)
    assert ("FOREASK_LLM_MODEL" in caught.value.message) is (len(limits) == 2)


@pytest.mark.parametrize("reply", ['{"questions": []}', '{"questions": ["no", "."]}', '{"questions": [1]}'])
async def test_malformed_reply_is_repaired_at_most_twice(wire, reply):
    wire.replies = [(reply, "stop")]
    with pytest.raises(BadQuestions) as caught:
        await generate_questions(wire.model, SUBJECT, GenerationOptions())
    assert len(wire.requests) == caught.value.calls == 3
    assert caught.value.usage == Usage(300, 30)
    assert pickle.loads(pickle.dumps(caught.value)).usage == Usage(300, 30)


async def test_excess_questions_are_cut_at_twice_requested_number(wire):
    wire.replies = [(orjson.dumps([f"What is number {i}?" for i in range(100)]).decode(), "stop")]
    generated = await generate_questions(wire.model, SUBJECT, GenerationOptions(questions_per_chunk=4))
    assert len(generated.questions) == 8


@pytest.mark.parametrize("strategy", ["list", "per-question"])
async def test_refused_request_is_not_repeated(wire, strategy):
    wire.replies = [("", "refusal")]
    with pytest.raises(Refused) as caught:
        await generate_questions(wire.model, SUBJECT, GenerationOptions(strategy))
    assert len(wire.requests) == 1
    assert caught.value.usage == Usage(100, 10)


@pytest.mark.parametrize(("status", "error"), [(429, RateLimited), (503, Unavailable), (401, Unavailable)])
@pytest.mark.parametrize("strategy", ["list", "per-question"])
async def test_provider_error_is_raised_without_repair(provider, status, error, strategy):
    provider.script.status = status
    with pytest.raises(error):
        await generate_questions(provider.model, SUBJECT, GenerationOptions(strategy))
    assert provider.stats.chats.total() == 1


async def test_per_question_mode_makes_one_call_per_question(wire):
    wire.replies = [('{"question": "What is a lease?"}', "stop")]
    generated = await generate_questions(wire.model, SUBJECT, GenerationOptions("per-question"))
    assert generated.calls == len(wire.requests) == len(generated.questions)
    assert generated.usage == Usage(100 * generated.calls, 10 * generated.calls)
    assert all(body["temperature"] < 1 for body in wire.requests)


async def test_per_question_mode_bad_reply_loses_one_question(wire):
    wire.replies = [('{"question": "What i', "length"), ('{"question": "Who renews a lease?"}', "stop")]
    generated = await generate_questions(wire.model, SUBJECT, GenerationOptions("per-question", questions_per_chunk=3))
    assert generated.questions == ("Who renews a lease?",) * 2
    assert generated.calls == 3


async def test_per_question_mode_without_questions_raises_bad_questions(wire):
    wire.replies = [("{}", "stop")]
    with pytest.raises(BadQuestions) as caught:
        await generate_questions(wire.model, SUBJECT, GenerationOptions("per-question", questions_per_chunk=3))
    assert caught.value.calls == len(wire.requests) == 3
    assert caught.value.usage == Usage(300, 30)
