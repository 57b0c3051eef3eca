"""`foreask check`: one line for each engine and model, with the remedy, and never a traceback."""

import asyncio
import re
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
import structlog
from structlog.testing import capture_logs
from typer.testing import CliRunner

from api.app import create
from cli import main
from embedded.ports import free_port
from shared.ledger.model.collections import Collections
from shared.services.check import findings
from shared.services.parts import Parts
from shared.settings import EMBEDDED_LLM
from tests.support.api import ready
from tests.support.planted import guards
from tests.support.quirks import QuirkServer
from tests.support.waiting import eventually

ENGINES = ["PostgreSQL", "Redis", "Qdrant", "Uploads"]
MODELS = ["Questions", "Answers", "Embeddings"]
LINE = re.compile(r"(ok|failed) +(\w+) +(.*)")


@pytest.fixture
async def check(services, settings, provider):
    """Return a function that runs the command with changed settings, and returns its exit code and its lines."""
    logging = structlog.get_config()

    async def run(**changes):
        environment = settings.environment() | {f"FOREASK_{name.upper()}": value for name, value in changes.items()}
        ended = await asyncio.to_thread(CliRunner().invoke, main.app, ["check"], env=environment)
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        lines = [LINE.fullmatch(line) for line in ended.output.splitlines()]
        assert all(lines), ended.output
        return ended.exit_code, {line[2]: (line[1], line[3]) for line in lines}

    yield run
    structlog.configure(**logging)


async def test_check_prints_a_line_for_each_part(check):
    code, lines = await check()

    assert {part: text for part, (state, text) in lines.items() if state != "ok"} == {}
    assert set(lines) == {*ENGINES, *MODELS}
    assert code == 0
    assert lines["Embeddings"][1].endswith("scripted-embedding, 384 dimensions")


@guards(
    "shared/services/check.py",
    "{problem}. Settings: {check.settings}.",
    "{problem}.",
    means="a failed check does not name the settings to change",
)
@pytest.mark.parametrize(
    ("part", "setting", "url"),
    [
        ("PostgreSQL", "database_url", "postgresql://postgres:SECRET@127.0.0.1:{port}/postgres"),
        ("Redis", "redis_url", "redis://:SECRET@127.0.0.1:{port}/0"),
        ("Qdrant", "qdrant_url", "http://127.0.0.1:{port}"),
        ("Questions", "llm_base_url", "http://127.0.0.1:{port}/v1"),
        ("Embeddings", "embedding_base_url", "http://127.0.0.1:{port}/v1"),
        ("Reranker", "rerank_base_url", "http://127.0.0.1:{port}/v1"),
    ],
)
async def test_unreachable_part_names_its_setting(check, part, setting, url):
    port = free_port()

    code, lines = await check(**{setting: url.format(port=port)})

    state, sentence = lines[part]
    assert (code, state) == (1, "failed")
    assert sentence.startswith(f"127.0.0.1:{port}")
    assert f"FOREASK_{setting.upper()}" in sentence
    assert "SECRET" not in str(lines)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [(401, "does not accept the API key"), (404, "has no such model"), (402, "quota is used up")],
)
async def test_refusing_model_fails_check_in_one_line(check, provider, status, sentence):
    provider.script(status=status)

    code, lines = await check()

    failed = {part: text for part, (state, text) in lines.items() if state == "failed"}
    assert (code, sorted(failed)) == (1, ["Answers", "Questions"])
    assert sentence in failed["Questions"]


@guards(
    "shared/services/check.py",
    "await parts.chat.complete(neutral_request(request))",
    "await parts.chat.complete(NEUTRAL)",
    means="a model whose context is too short for a chunk passes the check",
)
async def test_short_context_fails_check(settings):
    async with QuirkServer.serving() as server, AsyncExitStack() as stack:
        server.everywhere = "vllm-2048"
        short = settings.model_copy(update={"llm_base_url": server.url()})
        found = {finding.part: finding async for finding in findings(Parts(short, stack))}

    assert "maximum context length is 2048 tokens" in (found["Questions"].problem or "")


@guards(
    "shared/services/check.py",
    "await parts.index.require_dimensions(parts.index_names.for_embedding(name), dimensions)",
    "pass",
    means="a model with vectors of another size passes the check",
)
async def test_model_with_other_dimensions_fails_check(check, services, provider):
    await ready(services, ("The harbour opens at six.", "a.md"))
    name = (await services.ledger[Collections].get("default", "default")).index_name
    provider.script(embedding_dimensions=100)

    code, lines = await check(qdrant_prefix=name.partition("-scripted")[0])

    state, sentence = lines["Embeddings"]
    assert (code, state) == (1, "failed"), sentence
    assert "built with 384 dimensions and the embedding model returns 100" in sentence


async def test_parts_that_up_starts_pass_check(check):
    unset = dict.fromkeys(
        (
            "database_url",
            "redis_url",
            "qdrant_url",
            "llm_base_url",
            "llm_model",
            "embedding_base_url",
            "embedding_model",
        ),
    )

    code, lines = await check(**unset)

    assert (code, sorted(lines)) == (0, ["Embeddings", "PostgreSQL", "Qdrant", "Questions", "Redis"])
    assert all("foreask up" in sentence for _, sentence in lines.values())


async def test_embedded_language_model_is_not_asked(check, provider):
    code, lines = await check(llm_model=EMBEDDED_LLM)

    assert (code, lines["Questions"][0]) == (0, "ok")
    assert "Answers" not in lines
    assert provider.stats()["calls"] == 0


async def test_silent_model_ends_check_in_time(settings):
    async with QuirkServer.serving() as server, AsyncExitStack() as stack:
        server.everywhere = "hung"
        silent = settings.model_copy(update={"embedding_base_url": server.url()})
        found = [finding async for finding in findings(Parts(silent, stack), timedelta(seconds=0.5))]

    (embeddings,) = [finding for finding in found if finding.part == "Embeddings"]
    assert "it has not answered" in embeddings.problem


async def test_starting_api_logs_its_check(services, settings, provider):
    provider.script(status=401)
    app = create(settings, checks=True)
    with capture_logs() as logs:
        async with app.router.lifespan_context(app):
            checked = lambda: [each for each in logs if each["event"].startswith("check.")]  # noqa: E731
            await eventually(lambda: len(checked()) == len([*ENGINES, *MODELS]), "not all parts are checked")

    failed = {each["part"] for each in checked() if each["event"] == "check.failed"}
    assert failed == {"Questions", "Answers"}
