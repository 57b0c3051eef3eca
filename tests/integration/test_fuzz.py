"""The API under requests generated from its OpenAPI description: no server error and no undeclared reply.

The test suite runs a short version; `make fuzz` sends hundreds of requests for each operation.
"""

import asyncio
import base64
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
import schemathesis

from shared.http.openapi import EVENTS, NDJSON
from tests.support import fuzz_hooks
from tests.support.api import KEYS, serving, with_keys

# The tests of each route check that invalid values are refused.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
)
CASES = {"short": 1, "full": 200, "soak": 1000}  # requests per operation
PHASES = {"short": "examples,fuzzing", "full": "examples,coverage,fuzzing,stateful"}
OPEN_ENDED = "/events$"  # streams that end with a job, or never: each request would take a minute


@pytest.fixture
def size(request):
    return request.config.getoption("--faults")


def with_schemas_of_contents(value):
    """Describe streams by the schema of an event or a line: Schemathesis sends and reads each."""
    if isinstance(value, list):
        return [with_schemas_of_contents(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("contentMediaType") in {NDJSON, EVENTS}:
        return value["contentSchema"]
    return {name: with_schemas_of_contents(each) for name, each in value.items()}


async def fuzz(client, size, folder, *more):
    """Run Schemathesis against a server; return its exit code and output."""
    described = Path(folder) / "openapi.json"
    document = (await client.get("/openapi.json", timeout=None)).json()
    described.write_bytes(orjson.dumps(with_schemas_of_contents(document)))
    arguments = ["--url", str(client.base_url), "--request-timeout", "60"]
    arguments += ["--checks", ",".join(CHECKS), "--exclude-path-regex", OPEN_ENDED, "--max-examples", str(CASES[size])]
    arguments += ["--phases", PHASES.get(size, PHASES["full"]), "--generation-deterministic", "--no-color", *more]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", str(described), *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=os.environ | {"SCHEMATHESIS_HOOKS": str(Path(fuzz_hooks.__file__))},
    )
    printed, _ = await process.communicate()
    print(printed.decode())
    return process.returncode, printed.decode()


@pytest.mark.parametrize("media_type", ["text/markdown", "text/html", "application/json", "application/x-own", None])
async def test_downloads_of_any_media_type_match_description(client, media_type):
    content = b'{"leave": 30}'
    body = {"content_base64": base64.b64encode(content).decode(), "media_type": media_type}
    document = (await client.post("/v1/documents", json=body)).json()
    described = schemathesis.openapi.from_dict((await client.get("/openapi.json")).json())
    case = described["/v1/documents/{document_id}/content"]["GET"].Case(path_parameters={"document_id": document["id"]})

    reply = await client.get(f"/v1/documents/{document['id']}/content")
    reply.elapsed = timedelta()  # an in-process reply has none

    assert (reply.content, reply.headers["content-type"]) == (content, media_type or "application/octet-stream")
    case.validate_response(reply, checks=schemathesis.checks.CHECKS.get_by_names(CHECKS))


@pytest.mark.usefixtures("runner")
async def test_generated_requests_cause_no_server_error(services, settings, tmp_path, size):
    """With a key; in the long versions also without a key, and on a server without keys."""
    key = ["--header", f"authorization:Bearer {KEYS['alice']}"]
    keyed = with_keys(settings)
    runs = [(keyed, key), (keyed, []), (settings, [])]
    for served, sent in runs[: 1 if size == "short" else 3]:
        async with serving(served, services) as client:
            code, printed = await fuzz(client, size, tmp_path, *sent)

        assert code == 0, printed
