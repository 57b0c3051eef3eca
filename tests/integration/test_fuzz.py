"""The API under requests that are made from its own description: nothing breaks, and nothing is answered undeclared.

Short among the other tests; `make fuzz` makes hundreds of requests for each operation.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import fuzz_hooks
from tests.support.api import KEYS, serving, with_keys

# That each value is refused which the description refuses is left to the tests of each route. An address such as
# /v1/dead/retry has an answer to GET too, for `retry` could be an id.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
CASES = {"short": 1, "full": 200, "soak": 1000}  # of an operation
PHASES = {"short": "examples,fuzzing", "full": "examples,coverage,fuzzing,stateful"}
OPEN_ENDED = "/v1/events"  # a client would wait for its end


@pytest.fixture
def size(request):
    return request.config.getoption("--faults")


async def fuzz(client, size, folder, *more):
    """Run Schemathesis against a server; return its exit code and what it printed."""
    arguments = ["--checks", ",".join(CHECKS), "--exclude-path", OPEN_ENDED, "--max-examples", str(CASES[size])]
    arguments += ["--phases", PHASES.get(size, PHASES["full"]), "--generation-deterministic", "--no-color", *more]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{client.base_url}/openapi.json", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=os.environ | {"SCHEMATHESIS_HOOKS": str(Path(fuzz_hooks.__file__))},
    )
    printed, _ = await process.communicate()
    print(printed.decode())
    return process.returncode, printed.decode()


async def test_no_request_breaks_the_api(services, settings, tmp_path, size):
    """With a key; at length also without it, and on a server that asks for none."""
    key = ["--header", f"authorization:Bearer {KEYS['alice']}"]
    keyed = with_keys(settings)
    runs = [(keyed, key), (keyed, []), (settings, [])]
    for served, sent in runs[: 1 if size == "short" else 3]:
        async with serving(served, services) as client:
            code, printed = await fuzz(client, size, tmp_path, *sent)

        assert code == 0, printed
