"""A process imports what its role needs, and asks for no setting that it does not use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EVERYBODY = {"ir_measures", "scipy", "typer", "alembic", "kreuzberg", "onnxruntime", "xllamacpp", "qdrant_edge"}
WEB = {"fastapi", "uvicorn", "starlette", "multipart"}
NEVER = {
    "api": {"shared.ingest.parse.sandbox", "shared.ingest.drain", "tokenizers"},
    "parse": WEB | {"qdrant_client", "grpc", "openai", "httpx", "aiohttp", "tokenizers", "shared.query"},
    "generate": WEB | {"qdrant_client", "grpc", "tokenizers", "shared.query", "shared.ingest.parse.sandbox"},
    "index": WEB | {"tokenizers", "shared.ingest.parse.sandbox"},
    "scheduler": WEB | {"openai", "aiohttp", "tokenizers", "shared.query", "shared.ingest.parse.sandbox"},
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
# What a process does before it serves: the modules that it runs, and the services that its role makes. Without each
# setting in turn, it prints why it cannot.
PROGRAM = """
import asyncio, os, sys
import {entry}
from shared.domain.errors import InvalidInput
from shared.services import build
from shared.settings import load

async def main():
    async with build("{role}", load()):
        print(*sys.modules)
    for name in {needs!r}:
        value = os.environ.pop("FOREASK_" + name)
        try:
            async with build("{role}", load()):
                print("nothing is missing")
        except InvalidInput as error:
            print(error.message)
        os.environ["FOREASK_" + name] = value

asyncio.run(main())
"""


@pytest.mark.parametrize("role", NEEDS)
def test_a_role_imports_and_needs_nothing_that_it_does_not_use(role, tmp_path):
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("FOREASK_", "OPENAI_"))}
    variables |= {f"FOREASK_{name}": VALUES[name] for name in NEEDS[role]} | {"PYTHONPATH": str(ROOT)}
    entry = "api.__main__" if role == "api" else "workers.__main__"
    program = PROGRAM.format(role=role, entry=entry, needs=NEEDS[role])

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
    assert (EVERYBODY | NEVER[role]) & set(modules.split()) == set()
    assert reasons == [
        f"FOREASK_{name} is not set. `foreask up` starts an embedded engine for it." for name in NEEDS[role]
    ]
