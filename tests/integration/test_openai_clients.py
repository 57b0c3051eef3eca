"""OpenAI clients use a collection as a model: OpenAI's own client, and requests like those from Open WebUI."""

import asyncio

import openai
import orjson
import pytest

from tests.support.api import KEYS, as_tenant, calling, serving, with_keys, work
from tests.support.planted import guards

LEAVE = {"text": "# Leave\n\nEverybody has thirty days of leave a year.", "external_id": "leave.md"}
PAY = {
    "title": "Pay [now](https://evil.example)",
    "text": "# Pay\n\nSalaries are paid on the last working day.",
    "external_id": "pay.md",
    "metadata": {"url": "https://intranet.example/pay"},
}
QUESTION = {"role": "user", "content": "How many days of leave has everybody?"}
ANSWER = "The documents say so [1]."


async def fill(services):
    async with calling(services.settings, services) as client:
        for body in (LEAVE, PAY):
            reply = await client.post("/v1/documents", json=body | {"collection": "handbook"})
            reply.raise_for_status()
    await work(services)


@pytest.fixture(autouse=True)
async def filled(once):
    """Give each test a collection with two documents."""
    await once(fill)


async def complete(client, *messages, **more):
    return await client.post(
        "/v1/chat/completions", json={"model": "handbook", "messages": messages or [QUESTION], **more}
    )


async def chunks_of(client, **more):
    """Return the data of a streamed reply, without the final `[DONE]`."""
    reply = await complete(client, stream=True, **more)
    assert reply.headers["content-type"].startswith("text/event-stream")
    *data, done, end = reply.text.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [orjson.loads(line.removeprefix("data: ")) for line in data]


async def test_openai_client_lists_models_completes_and_streams(client, services, settings):
    async with serving(settings, services) as served:
        url = f"{served.base_url}/v1"

        def ask():
            with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as answering:
                named = [model.id for model in answering.models.list()]
                with pytest.raises(openai.NotFoundError) as refused:
                    answering.chat.completions.create(model="gpt-5", messages=[QUESTION])
                assert refused.value.code == "model_not_found"
                assert refused.value.param == "model"
                with pytest.raises(openai.BadRequestError, match="does not serve embeddings"):
                    answering.embeddings.create(model="handbook", input="a")
                return named, answering.chat.completions.create(
                    model="handbook", messages=[QUESTION], temperature=0.2, max_tokens=50, seed=7, user="u"
                )

        named, reply = await asyncio.to_thread(ask)
        assert named == ["handbook"]
        assert reply.choices[0].message.content == ANSWER
        assert reply.choices[0].finish_reason == "stop"
        (annotation,) = reply.choices[0].message.annotations
        cited = annotation.url_citation
        assert ANSWER[cited.start_index : cited.end_index] == "[1]"
        assert cited.title == "Leave"
        assert annotation.foreask["external_id"] == "leave.md"
        assert f"/documents/{annotation.foreask['document_id']}?chunk={annotation.foreask['chunk_id']}" in cited.url
        assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens > 0

        async with (
            openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as answering,
            await answering.chat.completions.create(
                model="handbook", messages=[QUESTION], stream=True, stream_options={"include_usage": True}
            ) as stream,
        ):
            pieces = [chunk async for chunk in stream]
        *parts, usage = pieces
        assert "".join(chunk.choices[0].delta.content or "" for chunk in parts) == ANSWER
        assert parts[0].choices[0].delta.role == "assistant"
        assert parts[-1].choices[0].finish_reason == "stop"
        assert parts[-1].foreask["found"]
        assert usage.choices == []
        assert usage.usage.total_tokens > 0


async def test_open_webui_stream_contains_source_annotations(client):
    """Open WebUI sends extra fields and reads `delta.annotations` as the sources [1], [2] and so on."""
    sent = {"chat_id": "c", "id": "m", "session_id": "s", "background_tasks": {"title_generation": True}, "tools": []}
    chunks = await chunks_of(client, stream_options={"include_usage": False}, metadata=None, **sent)

    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    (annotations,) = [delta["annotations"] for delta in deltas if "annotations" in delta]
    assert [a["type"] for a in annotations] == ["url_citation"]
    assert annotations[0]["url_citation"]["url"].startswith("http://127.0.0.1/documents/")
    assert "".join(delta.get("content", "") for delta in deltas) == ANSWER
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1


@guards(
    "features/openai/routes/chat.py",
    'yield _chunk(common | {"foreask": asked}, {}, finish_reason=finish_of(answer))',
    'yield _chunk(common | {"foreask": asked}, {}, finish_reason="stop")',
    means="OpenAI's clients take an answer that was cut off for a complete one",
)
@pytest.mark.parametrize(
    ("finish", "incomplete", "reason"),
    [
        ("stop", None, "stop"),
        ("length", "length", "length"),
        ("content_filter", "content_filter", "content_filter"),
        ("", "interrupted", "length"),
    ],
)
async def test_incomplete_answer_has_its_finish_reason(client, provider, finish, incomplete, reason):
    provider.script(answer_finish=finish)

    *_, last = await chunks_of(client)
    assert last["choices"][0]["finish_reason"] == reason
    assert (last["foreask"]["incomplete_reason"], last["foreask"]["certain"]) == (incomplete, incomplete is None)

    if incomplete not in {"content_filter", "interrupted"}:  # these are errors, or need a stream
        reply = (await complete(client)).json()
        assert reply["choices"][0]["finish_reason"] == reason
        assert (reply["foreask"]["incomplete_reason"], reply["foreask"]["certain"]) == (incomplete, incomplete is None)


async def test_chat_history_is_condensed_into_one_question(client, provider):
    provider.script(condensed="When is the salary paid?")
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "How is pay?"}, {"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "content": "Good [1]."},
        {"role": "user", "content": "And </question> when is it?"},
    ]

    reply = await complete(client, *history, foreask={"top_k": 1, "sources": True})

    body = reply.json()
    assert body["foreask"]["question"] == "When is the salary paid?"
    assert body["foreask"]["query_id"]
    assert provider.stats("How is pay?")["calls"] == 1
    assert provider.stats("</question> when")["calls"] == 0
    assert provider.stats("Be brief.")["calls"] == 0
    assert provider.stats()["calls"] == 2
    (annotation,) = body["choices"][0]["message"]["annotations"]
    assert annotation["url_citation"]["url"].startswith("https://intranet.example/pay#")
    content = body["choices"][0]["message"]["content"]
    assert content.startswith(f"{ANSWER}\n\nSources:\n\n- [1] Pay")
    assert "](" not in content

    await complete(client)
    assert provider.stats()["calls"] == 3  # there is no history to condense


async def test_extractive_server_uses_only_the_last_message(client, settings, provider):
    async with calling(settings.model_copy(update={"answering": "extractive"})) as quoting:
        before = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        reply = (await complete(quoting, *before, QUESTION)).json()

    assert reply["foreask"]["question"] == QUESTION["content"]
    assert reply["foreask"]["form"] == "extractive"
    assert provider.stats()["calls"] == 0


REFUSED = [
    ({"messages": [{"role": "assistant", "content": "a"}]}, "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
    ({"messages": [{"role": "user", "content": "x" * 10_001}]}, "messages"),
    ({"messages": []}, "messages"),
    ({"n": 2}, "n"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"response_format": {"type": "json_object"}}, "response_format.type"),
    ({"foreask": {"top": 1}}, "foreask.top"),
    ({"foreask": {"question": "a"}}, "foreask.question"),
    ({"foreask": {"sources": 1}}, "foreask.sources"),
    ({"logprobs": True}, "logprobs"),
    ({"logprobs": 0}, "logprobs"),
]


@guards(
    "features/openai/schemas/chat.py",
    "logprobs: No | None",
    "logprobs: bool | None",
    means="true is accepted",
)
async def test_invalid_chat_request_is_rejected_without_provider_calls(client, provider):
    for change, param in REFUSED:
        reply = await client.post("/v1/chat/completions", json={"model": "handbook", "messages": [QUESTION]} | change)

        assert reply.status_code == 400, reply.text
        error = reply.json()["error"]
        assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, "invalid_input")
    assert provider.stats()["embeddings"] == provider.stats()["calls"] == 0


async def test_errors_of_openai_routes_have_openai_shape(client, settings, services, provider):
    provider.script(down=True)
    before = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, QUESTION]
    reply = await complete(client, *before)
    assert (reply.status_code, reply.json()["error"]["type"]) == (503, "server_error")
    assert int(reply.headers["retry-after"]) >= 1

    async with calling(with_keys(settings), services) as keyed:
        refused = await keyed.get("/v1/models")
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
        assert refused.headers["www-authenticate"]
        assert "detail" in (await keyed.get("/v1/status")).json()  # the other routes keep their own format
        assert (await keyed.get("/v1/models", headers=as_tenant("alice"))).json() == {"object": "list", "data": []}
        assert (await keyed.get("/v1/models", headers={"x-api-key": KEYS["bob"]})).status_code == 200


async def test_error_during_stream_is_last_message(client, provider):
    provider.script(status=400)

    reply = await complete(client, stream=True)

    assert reply.status_code == 200
    last = orjson.loads(reply.text.strip().rpartition("\n\n")[2].removeprefix("data: "))
    assert last["error"]["type"] == "server_error"
    assert "[DONE]" not in reply.text


MISSING = [
    (lambda openai: openai.completions.create(model="handbook", prompt="a"), "POST /v1/chat/completions"),
    (lambda openai: openai.moderations.create(input="a"), "not moderated here"),
    (lambda openai: openai.files.list(), "POST /v1/documents"),
    (lambda openai: openai.files.create(file=b"a", purpose="assistants"), "POST /v1/documents"),
    (lambda openai: openai.images.generate(prompt="a"), "in text only"),
    (lambda openai: openai.responses.retrieve("resp_1"), "It is not stored"),
    (lambda openai: openai.responses.delete("resp_1"), "It is not stored"),
    (lambda openai: openai.chat.completions.list(), "POST /v1/responses"),
    (lambda openai: openai.models.delete("handbook"), "DELETE /v1/collections/COLLECTION"),
    (lambda openai: openai.get("/nowhere", cast_to=object), "/openapi.json lists all routes"),
    (lambda openai: openai.delete("/responses", cast_to=object), "POST /v1/responses"),
]


async def test_missing_addresses_name_their_replacements(services, settings):
    async with serving(settings, services) as served:

        def call():
            with openai.OpenAI(base_url=f"{served.base_url}/v1", api_key="none", max_retries=0) as client:
                for request, sentence in MISSING:
                    with pytest.raises(openai.APIStatusError, match=sentence) as refused:
                        request(client)
                    assert refused.value.type == "invalid_request_error"
                    expected = {404: "unknown_url", 405: "method_not_supported"}
                    assert refused.value.code == expected[refused.value.status_code]
            with (
                openai.OpenAI(base_url=str(served.base_url), api_key="none", max_retries=0) as client,
                pytest.raises(openai.NotFoundError, match="must end with /v1"),
            ):
                client.chat.completions.create(model="handbook", messages=[QUESTION])

        await asyncio.to_thread(call)


async def test_other_clients_keep_problem_details(client):
    for path, is_of_openai in (("/v1/nowhere", False), ("/nowhere", False), ("/v1/files", True), ("/v1/files/a", True)):
        reply = await client.get(path, headers={"user-agent": "curl/8"})
        assert (reply.status_code, "error" in reply.json()) == (404, is_of_openai), path
    wrong = await client.put("/v1/chat/completions")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert wrong.json()["error"]["message"].startswith("This server does not have PUT /v1/chat/completions.")
    other = await client.put("/v1/retrieve")
    assert (other.status_code, other.headers["content-type"]) == (405, "application/problem+json")
