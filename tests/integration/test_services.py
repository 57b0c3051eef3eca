"""A process imports only the libraries of its role, and requires only the settings that it uses."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from features.all import FEATURES
from features.erasure.check import erasure_check_of
from shared.domain.errors import InvalidInput
from shared.ledger.postgres.statements import Statement
from shared.services import build
from shared.services.start import check_start, hint_of, travels_openly
from shared.settings import TenantLimits
from tests.support.planted import guards

ROOT = Path(__file__).resolve().parents[2]
EVERY_ROLE = {"ir_measures", "scipy", "typer", "alembic", "gcld3", "onnxruntime", "xllamacpp", "qdrant_edge"}
EVERY_ROLE |= {"rich", "openai", "httpx2", "aiohttp", "qdrant_client", "grpc", "dulwich", "urllib3", "foreask_client"}
# Traces are off, and nothing uses OpenTelemetry's metrics.
EVERY_ROLE |= {"shared.process.telemetry.trace_export", "opentelemetry.sdk", "opentelemetry.exporter", "requests"}
WEB = {"fastapi", "uvicorn", "starlette", "multipart"}
WORKERS = WEB | {"httpx", "anyio", "opentelemetry", "tokenizers"}
OTHER_STAGES = {
    "shared.ingest.parse.isolation.sandbox",
    "shared.ingest.batches",
    "shared.ingest.index",
    "shared.storage",
}
OTHER_STAGES |= {"shared.ledger.work.parsing", "shared.ledger.work.batches", "shared.providers.embedding"}
OF_GENERATION = {"shared.ingest.generate.generator", "shared.ledger.work.generation", "shared.providers.chat"}
NEVER = {
    "api": {"shared.ingest.parse.isolation.sandbox", "shared.ingest.drain", "tokenizers"},
    "parse": WORKERS | {"numpy", "shared.query", "shared.providers.limiter", "shared.ledger.work.indexing"},
    "read": WORKERS | {"numpy", "shared.query", "shared.providers.limiter", "shared.ledger.work.indexing"},
    "generate": WORKERS | OTHER_STAGES | {"numpy", "shared.query", "shared.vectors", "shared.ledger.documents"},
    "index": WORKERS | OTHER_STAGES - {"shared.ingest.index", "shared.providers.embedding"} | OF_GENERATION,
    "scheduler": WORKERS | {"numpy", "shared.query", "shared.ingest.parse.isolation.sandbox"},
}
NEEDS = {
    "api": ["REDIS_URL", "DATABASE_URL", "QDRANT_URL", "LLM_MODEL", "EMBEDDING_MODEL"],
    "parse": ["REDIS_URL", "DATABASE_URL", "LLM_MODEL"],
    "generate": ["REDIS_URL", "DATABASE_URL", "LLM_MODEL"],
    "index": ["REDIS_URL", "DATABASE_URL", "QDRANT_URL", "EMBEDDING_MODEL"],
    "scheduler": ["REDIS_URL", "DATABASE_URL", "QDRANT_URL"],
}
VALUES = {
    "REDIS_URL": "redis://127.0.0.1:9/0",
    "DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none",
    "QDRANT_URL": "http://127.0.0.1:9",
    "LLM_MODEL": "none",
    "EMBEDDING_MODEL": "none",
}
# The start of a process: it imports its modules and builds the services of its role. Then it removes each required
# setting in turn and prints the error.
PROGRAM = """
from shared.process import start
with start.imports():
    import {entry}
import asyncio, os, sys
from shared.domain.errors import InvalidInput
from shared.services import build
from shared.settings import load

async def main():
    async with build("{role}", load(), {features}):
        print(*sys.modules)
    for name in {needs!r}:
        value = os.environ.pop("FOREASK_" + name)
        try:
            async with build("{role}", load(), {features}):
                print("nothing is missing")
        except InvalidInput as error:
            print(error.message)
        os.environ["FOREASK_" + name] = value

asyncio.run(main())
"""


@pytest.mark.parametrize("command", [["api"], ["workers", "parse"], ["workers", "scheduler"]])
async def test_programs_report_missing_schema(services, forks, tmp_path, command):
    url = services.settings.database_url.get_secret_value()
    async with services.database.pool.lend() as connection:
        await connection.execute(Statement("CREATE DATABASE empty"))
        variables = services.settings.environment() | {"FOREASK_DATABASE_URL": url.rpartition("/")[0] + "/empty"}
        program = forks.launch([sys.executable, "-m", *command], os.environ | variables, tmp_path / "log")
        code = await asyncio.to_thread(program.wait, 60)
        await connection.execute(Statement("DROP DATABASE empty WITH (FORCE)"))

    log = (tmp_path / "log").read_text()
    assert code == 1, log
    assert "The ledger has no schema: run `foreask schema`" in log
    assert "Traceback" not in log


@guards(
    "shared/process/network/proxies.py",
    ' or host.endswith(".localhost")',
    "",
    means="a name of this machine counts as remote",
)
@pytest.mark.parametrize(
    ("url", "openly"),
    [
        ("http://qdrant:6333", False),
        ("http://127.0.0.1:6333", False),
        ("http://[::1]:6333", False),
        ("http://qdrant.localhost:6333", False),
        ("https://qdrant.example.com:6333", False),
        ("http://qdrant.example.com:6333", True),
        ("http://192.0.2.7:6333", True),
        ("http://[2001:db8::7]:6333", True),
    ],
)
def test_only_remote_unencrypted_url_exposes_key(url, openly):
    assert travels_openly(url) is openly


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("HTTPS_PROXY", "socks5://proxy.example:1080", "HTTPS_PROXY names a SOCKS proxy"),
        ("SSL_CERT_FILE", "/missing/ca.pem", "SSL_CERT_FILE names a file that does not exist"),
    ],
)
async def test_unusable_network_stops_start(settings, monkeypatch, name, value, problem):
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv(name, value)

    with pytest.raises(InvalidInput, match=problem):
        await check_start(settings.model_copy(update={"llm_base_url": "https://models.example/v1"}), "generate")


def test_base_url_without_path_is_hinted_at():
    assert "most servers need /v1" in hint_of("https://models.example/")
    assert hint_of("https://models.example/v1") is None


@pytest.mark.usefixtures("session_services")  # they make the schema
async def test_scheduler_without_features_does_not_start(settings):
    with pytest.raises(ValueError, match="needs the features"):
        async with build("scheduler", settings):
            pytest.fail("it started")


@pytest.mark.usefixtures("session_services")
async def test_erasure_is_not_checked_without_features(settings):
    async with build("api", settings) as services:
        with pytest.raises(ValueError, match="needs the features"):
            erasure_check_of(services.parts)


async def test_only_api_warns_about_unencrypted_qdrant_key(settings, recwarn):
    change = {"qdrant_url": "http://qdrant.example.com:6333", "qdrant_api_key": SecretStr("k" * 30)}
    events = {}
    for role in ("api", "index", "scheduler"):
        with capture_logs() as logs:
            async with build(role, settings.model_copy(update=change), FEATURES):
                await check_start(settings.model_copy(update=change), role)
        events[role] = [entry["event"] for entry in logs]

    assert events == {"api": ["qdrant.key_without_tls"], "index": [], "scheduler": []}
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.usefixtures("session_services")  # they make the schema
@pytest.mark.parametrize("limits", [TenantLimits(cost_per_day=1.0), TenantLimits(query_cost_per_day=1.0)])
async def test_limit_in_money_without_prices_stops_start(settings, limits):
    unpriced = settings.model_copy(update={"tenant_limits": {"acme": limits}})
    prices = {"llm_input_price": 1.0, "llm_output_price": 1.0, "embedding_price": 0.0}
    for role in ("api", "generate"):
        with pytest.raises(InvalidInput, match=r"set FOREASK_LLM_INPUT_PRICE.* \(set FOREASK_EMBEDDING_PRICE"):
            await check_start(unpriced, role)
        await check_start(unpriced.model_copy(update=prices), role)
    for role in ("parse", "index", "scheduler"):
        await check_start(unpriced, role)


@pytest.mark.parametrize("role", NEEDS)
def test_roles_need_only_their_libraries_and_settings(role, tmp_path):
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("FOREASK_", "OPENAI_"))}
    variables |= {f"FOREASK_{name}": VALUES[name] for name in NEEDS[role]} | {"PYTHONPATH": str(ROOT)}
    entry = {"api": "api.server", "scheduler": "workers.process, workers.scheduler"}.get(role, "workers.process")
    features = "()"
    if role in ("api", "scheduler", "parse", "index"):
        entry, features = f"{entry}, features.all", "features.all.FEATURES"
    program = PROGRAM.format(role=role, entry=entry, features=features, needs=NEEDS[role])

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    modules, *reasons = done.stdout.splitlines()
    assert (EVERY_ROLE | NEVER[role]) & set(modules.split()) == set()
    assert reasons == [
        f"FOREASK_{name} is not set. `foreask up` starts an embedded engine for it." for name in NEEDS[role]
    ]
