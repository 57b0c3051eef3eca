"""The scripted batch API answers in the shapes of the real one, and has the faults of its script."""

import io
import subprocess
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx
import openai
import orjson
import pytest
from aiohttp import web
from openai.pagination import AsyncCursorPage
from openai.types import Batch, FileObject
from openai.types.chat import ChatCompletion
from openai.types.file_deleted import FileDeleted
from pydantic import SecretStr

from shared.domain.errors import Misconfigured, RateLimited, Refused, Unavailable
from shared.domain.spending.usage import Usage
from shared.providers.batches import BatchError, BatchMissing, BatchProvider, NotDone, _errors, found, request_line
from shared.providers.chat import Completion
from tests.support.batch_provider import BatchScript, application
from tests.support.deployment import ROOT
from tests.support.waiting import TIMEOUT_SECONDS, eventually

TOTALS = ("prompt_tokens", "completion_tokens")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def serving(**script):
    """Yield the endpoints of a batch API, a client of it, and a plain HTTP client."""
    app, endpoints = application(BatchScript(**script))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    client = BatchProvider(
        component="llm", base_url=f"{url}/v1", api_key=SecretStr("a-key"), timeout=timedelta(seconds=20)
    )
    try:
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=TIMEOUT_SECONDS) as plain:
            yield endpoints, client, plain
    finally:
        await client.aclose()
        await runner.cleanup()


def body(text):
    return {"model": "a-model", "messages": [{"role": "user", "content": text}]}


def lines(count):
    return b"".join(request_line(str(n), body(f"the text of number {n} and more")) for n in range(count))


async def created(client, count=4, mark="ours"):
    file_id = await client.upload("lines.jsonl", io.BytesIO(lines(count)))
    return await client.create(file_id, mark)


async def replies(client, file_id, offset=0):
    return [client.reply(line.content) async for line in client.lines(file_id, offset)] if file_id else []


async def read_into(read, client, file_id):
    async for line in client.lines(file_id, 0):
        read.append(line.content)


async def results(client, batch):
    batch = await client.get(batch.id)
    output, errors = await replies(client, batch.output_file_id), await replies(client, batch.error_file_id)
    return {reply.custom_id: reply.result for reply in output}, {reply.custom_id: reply.result for reply in errors}


async def test_replies_have_shapes_of_real_api():
    async with serving(running_seconds=60) as (endpoints, client, plain):
        batch = await created(client)
        raw = {
            "batch": (await plain.get(f"/v1/batches/{batch.id}")).json(),
            "list": (await plain.get("/v1/batches")).json(),
            "file": (await plain.get(f"/v1/files/{batch.input_file_id}")).json(),
        }
        endpoints.script.running_seconds = 0
        ended = (await plain.get(f"/v1/batches/{batch.id}")).json()
        line = orjson.loads((await plain.get(f"/v1/files/{ended['output_file_id']}/content")).content.splitlines()[0])
        deleted = (await plain.delete(f"/v1/files/{batch.input_file_id}")).json()

    for value in (raw["batch"], raw["list"]["data"][0], ended):
        assert value.keys() == Batch.model_fields.keys()
        Batch.model_validate(value, strict=True)
    assert (raw["batch"]["status"], ended["status"]) == ("in_progress", "completed")
    AsyncCursorPage[Batch].model_validate({name: raw["list"][name] for name in ("data", "has_more")})
    assert raw["file"].keys() == FileObject.model_fields.keys()
    FileObject.model_validate(raw["file"], strict=True)
    FileDeleted.model_validate(deleted, strict=True)
    assert line.keys() == {"id", "custom_id", "response", "error"}
    assert line["response"].keys() == {"status_code", "request_id", "body"}
    ChatCompletion.model_validate(line["response"]["body"], strict=True)


async def test_sdk_reads_whole_life_of_batch():
    async with serving() as (_, _, plain):
        sdk = openai.AsyncOpenAI(base_url=f"{plain.base_url}/v1", api_key="a-key", max_retries=0)
        async with sdk:
            file = await sdk.files.create(file=("lines.jsonl", lines(3)), purpose="batch")
            batch = await sdk.batches.create(
                input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
            )
            ended = await sdk.batches.retrieve(batch.id)
            output = await sdk.files.content(ended.output_file_id)
            listed = [each.id async for each in sdk.batches.list(limit=1)]

    assert (ended.status, ended.request_counts.completed, len(output.text.splitlines())) == ("completed", 3, 3)
    assert ended.usage.input_tokens > 0
    assert listed == [batch.id]


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ({"validating_seconds": 60}, "validating"),
        ({"running_seconds": 60}, "in_progress"),
        ({"stuck": True}, "in_progress"),
        ({"finalizing_seconds": 60}, "finalizing"),
        ({}, "completed"),
        ({"ends": "expired"}, "expired"),
        ({"ends": "failed", "errors": [{"code": "a_code", "message": "why", "line": 2, "param": None}]}, "failed"),
    ],
)
async def test_batch_has_every_status(script, status):
    async with serving(**script) as (_, client, plain):
        batch = await created(client)
        Batch.model_validate((await plain.get(f"/v1/batches/{batch.id}")).json(), strict=True)
        assert (await client.get(batch.id)).status == status


async def test_cancelled_batch_bills_finished_part_only():
    async with serving(stuck=True, done_share=0.5) as (endpoints, client, _):
        batch = await created(client)
        await client.cancel(batch.id)
        with pytest.raises(Unavailable):
            await client.cancel(batch.id)
        output, errors = await results(client, batch)

    assert sorted(output) == ["0", "1"]
    assert {custom_id: type(error) for custom_id, error in errors.items()} == {"2": NotDone, "3": NotDone}
    assert endpoints.stats.lines.total() == 2


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ({"share_expired": 1}, NotDone),
        ({"share_zero": 1}, NotDone),
        ({"share_refused": 1}, Refused),
        ({"share_overloaded": 1}, Unavailable),
    ],
)
async def test_failed_lines_cost_nothing_and_name_their_error(script, kind):
    async with serving(**script) as (endpoints, client, _):
        output, errors = await results(client, await created(client))

    assert output == {}
    assert {type(error) for error in errors.values()} == {kind}
    assert len(errors) == 4
    assert endpoints.stats.prompt_tokens.total() == 0


async def test_missing_lines_are_in_no_file():
    async with serving(share_missing=1) as (endpoints, client, _):
        assert await results(client, await created(client)) == ({}, {})
        assert endpoints.stats.lines.total() == 0


async def test_billed_tokens_equal_tokens_of_replies():
    async with serving(share_malformed=0.3, share_truncated=0.3, share_expired=0.2) as (endpoints, client, plain):
        batch = await created(client, count=40)
        output, errors = await results(client, batch)
        stats = (await plain.get("/batch-stats")).json()

    usage = sum((completion.usage for completion in output.values()), Usage())
    assert errors
    assert all(isinstance(completion, Completion) for completion in output.values())
    assert {"length", "stop"} == {completion.finish_reason for completion in output.values()}
    assert [stats[name] for name in TOTALS] == [usage.prompt_tokens, usage.completion_tokens]
    assert [endpoints.batches[batch.id].prompt_tokens, stats["lines"]] == [usage.prompt_tokens, len(output)]


async def test_list_is_read_to_its_end():
    async with serving() as (endpoints, client, _):
        made = [(await created(client, 1, str(n))).id for n in range(205)]
        listed = await client.list_since(LONG_AGO)
        assert [batch.id for batch in listed] == made[::-1]
        assert endpoints.stats.lists == 3

        endpoints.script.list_fails = True
        with pytest.raises(Unavailable):
            await client.list_since(LONG_AGO)
        assert len(await client.list_since(datetime.now(UTC) + timedelta(hours=1))) == 100


async def test_batch_is_found_by_mark_or_input_file():
    async with serving(forgets=True) as (endpoints, client, _):
        batch = await created(client, mark="ours")
        assert found(await client.list_since(LONG_AGO), "ours", batch.input_file_id) is None
        endpoints.script.forgets = False
        listed = await client.list_since(LONG_AGO)

    assert found(listed, "ours", "another").id == batch.id
    assert found(listed, "another", batch.input_file_id).id == batch.id
    assert found(listed, "another", "another") is None


async def test_new_batch_is_listed_after_lag():
    async with serving(list_lag_seconds=0.3) as (_, client, _):
        batch = await created(client)
        assert await client.list_since(LONG_AGO) == []

        async def listed():
            return [each.id for each in await client.list_since(LONG_AGO)] == [batch.id]

        await eventually(listed)


async def test_lost_upload_has_taken_effect():
    async with serving(lost_uploads=1) as (endpoints, client, _):
        with pytest.raises(Unavailable):
            await created(client)
        assert len(endpoints.files) == 1


async def test_lost_create_has_taken_effect():
    async with serving(lost_creates=1) as (_, client, _):
        with pytest.raises(Unavailable):
            await created(client)
        assert [batch.mark for batch in await client.list_since(LONG_AGO)] == ["ours"]


async def test_lost_cancel_has_taken_effect():
    async with serving(stuck=True, lost_cancels=1) as (_, client, _):
        batch = await created(client)
        with pytest.raises(Unavailable):
            await client.cancel(batch.id)
        assert (await client.get(batch.id)).status == "cancelled"


async def test_cut_create_has_no_effect():
    async with serving(cut_creates=1) as (_, client, _):
        with pytest.raises(Unavailable):
            await created(client)
        assert await client.list_since(LONG_AGO) == []


async def test_batch_of_deleted_file_is_refused():
    async with serving() as (endpoints, client, _):
        file_id = await client.upload("lines.jsonl", io.BytesIO(lines(1)))
        await client.delete_file(file_id)
        await client.delete_file(file_id)
        with pytest.raises(Refused):
            await client.create(file_id, "ours")
        assert endpoints.stats.creates == 0


async def test_batch_above_enqueued_limit_fails_after_creation():
    async with serving(enqueued_tokens=20) as (_, client, _):
        small = await created(client, 1)
        large = await client.get((await created(client, 9)).id)
        assert (await client.get(small.id)).status == "completed"

    assert large.status == "failed"
    assert large.was_rejected
    assert [error.code for error in large.errors] == ["token_limit_exceeded"]
    assert "Limit: 20 enqueued tokens" in large.errors[0].message


@pytest.mark.parametrize(("names", "numbers"), [("all", [2, 4]), ("first", [2]), ("none", [None])])
async def test_rejected_batch_names_its_lines(names, numbers):
    async with serving(rejected_containing="poisonous", names=names) as (_, client, plain):
        bodies = [body("harmless"), body("poisonous"), body("harmless"), body("poisonous")]
        content = b"".join(request_line(str(n), each) for n, each in enumerate(bodies))
        batch = await client.create(await client.upload("lines.jsonl", io.BytesIO(content)), "ours")
        Batch.model_validate((await plain.get(f"/v1/batches/{batch.id}")).json(), strict=True)
        batch = await client.get(batch.id)

    assert batch.was_rejected
    assert [error.line for error in batch.errors] == numbers
    assert isinstance(client.rejection(batch.errors[0]), Refused)


async def test_batch_that_breaks_was_not_rejected():
    async with serving(ends="broken", done_share=0.5) as (_, client, plain):
        batch = await created(client)
        Batch.model_validate((await plain.get(f"/v1/batches/{batch.id}")).json(), strict=True)
        batch = await client.get(batch.id)

    assert (batch.status, batch.was_rejected, batch.done) == ("failed", False, 4)


def test_invalid_code_is_not_shown():
    errors = {"data": [{"code": "Your org-x has", "message": None, "line": True}, "odd", {}]}
    assert _errors(errors) == (BatchError(None, "", None), BatchError(None, "", None))
    assert _errors("odd") == ()


@pytest.mark.parametrize("ignores_range", [False, True])
async def test_content_is_read_from_offset(ignores_range):
    async with serving(ignores_range=ignores_range) as (endpoints, client, _):
        batch = await client.get((await created(client, 2_000)).id)
        read = [line async for line in client.lines(batch.output_file_id, 0)]
        rest = [line async for line in client.lines(batch.output_file_id, read[1_499].end)]
        assert [line async for line in client.lines(batch.output_file_id, read[-1].end)] == []

    assert len(read) == 2_000
    assert rest == read[1_500:]
    assert (endpoints.stats.content_bytes < 1.5 * read[-1].end) is not ignores_range


async def test_cut_content_resumes_at_last_line():
    async with serving(cut_contents=1) as (endpoints, client, _):
        batch = await client.get((await created(client, 500)).id)
        read = []
        with pytest.raises(Unavailable):
            await read_into(read, client, batch.output_file_id)
        assert 0 < len(read) < 500
        offset = sum(len(line) + 1 for line in read)
        endpoints.script.cut_contents = 0
        read += [line.content async for line in client.lines(batch.output_file_id, offset)]
        whole = [line.content async for line in client.lines(batch.output_file_id, 0)]

    assert read == whole


async def test_server_that_pretends_has_no_replies():
    async with serving(pretends=True) as (_, client, _):
        batch = await client.get((await created(client)).id)
        assert batch.status == "completed"
        assert await replies(client, batch.output_file_id) == [None]


@pytest.mark.parametrize(
    ("script", "kind"),
    [({"absent": True}, BatchMissing), ({"status": 429}, RateLimited), ({"status": 401}, Misconfigured)],
)
async def test_errors_are_converted(script, kind):
    async with serving(**script) as (_, client, _):
        with pytest.raises(kind):
            await client.upload("lines.jsonl", io.BytesIO(lines(1)))
        with pytest.raises(kind):
            await client.create("file", "ours")
        with pytest.raises(kind):
            await client.list_since(LONG_AGO)
        with pytest.raises(kind):
            await client.get("batch")
        with pytest.raises(kind):
            await replies(client, "file")


async def test_missing_batch_and_file_are_reported():
    async with serving() as (_, client, _):
        with pytest.raises(BatchMissing):
            await client.get("batch_none")
        with pytest.raises(BatchMissing):
            await replies(client, "file_none")


def test_provider_runs_as_process():
    command = [sys.executable, "-m", "tests.support.batch_provider"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            url = f"http://127.0.0.1:{int(process.stdout.readline())}"
            with httpx.Client(base_url=url, trust_env=False, timeout=TIMEOUT_SECONDS) as plain:
                plain.post("/batch-script", json={"absent": True}).raise_for_status()
                assert plain.get("/v1/batches").status_code == 404
                assert plain.post("/batch-script", json={"unknown": 1}).status_code == 400
                plain.post("/batch-reset").raise_for_status()
                assert plain.get("/batch-stats").json()["creates"] == 0
        finally:
            process.kill()
