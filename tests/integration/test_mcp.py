"""The MCP tools, called with the SDK's client over both transports."""

import os
import sys
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from shared.settings import TenantLimits
from tests.support.api import KEYS, as_tenant, calling, serving, with_keys, work
from tests.support.waiting import TIMEOUT_SECONDS

LEAVE = {"text": "# Leave\n\nEverybody has thirty days of leave a year.", "external_id": "leave.md"}
READING = ["search", "ask", "list_collections", "read_around"]
QUESTION = {"question": "How many days of leave has everybody?"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    },
}
ACCEPT = {"accept": "application/json, text/event-stream"}


def text_of(result):
    (content,) = result.content
    return content.text


async def called(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    return text_of(result)


@pytest.fixture
async def served(services, settings):
    async with serving(with_keys(settings), services) as client:
        yield client


@asynccontextmanager
async def connected(served, headers, **options):
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=TIMEOUT_SECONDS) as http,
        Client(streamable_http_client(f"{served.base_url}/mcp", http_client=http), **options) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_mcp_client_reads_and_adds_documents_over_http(served, services, mode):
    async with connected(served, as_tenant("alice"), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*READING, "add_document"]
        assert "is stored" in await called(client, "add_document", **LEAVE)
        await work(services, "parse", "index")

        assert await called(client, "list_collections") == "- default"
        found = await called(client, "search", **QUESTION)
        assert found.startswith("[1] Leave")
        assert "thirty days" in found
        chunk_id = found.partition("chunk_id ")[2].partition(")")[0]
        assert "thirty days" in await called(client, "read_around", chunk_id=chunk_id)
        lost = await client.call_tool("read_around", {"chunk_id": "a"})
        assert lost.is_error
        answer = await called(client, "ask", **QUESTION)
        assert answer.startswith("The documents say so [1].\n\nCited passages:\n\n[1] Leave")
        refused = await client.call_tool("search", QUESTION | {"top_k": 0})
        assert refused.is_error
        assert text_of(refused).startswith("top_k: ")
        refused = await client.call_tool("search", QUESTION | {"filter": {"": 1}})
        assert refused.is_error

    async with connected(served, as_tenant("bob"), mode=mode) as client:
        refused = await client.call_tool("search", QUESTION)
        assert refused.is_error
        assert text_of(refused) == "The collection 'default' has no documents yet: the first upload creates it."
        assert "no collection" in await called(client, "list_collections")


async def test_tools_report_missing_collection_and_unknown_field(served, services):
    async with connected(served, as_tenant("alice")) as client:
        await called(client, "add_document", **LEAVE, metadata={"department": "hr"})
        await work(services, "parse", "index")

        for tool in ("search", "ask"):
            refused = await client.call_tool(tool, QUESTION | {"collection": "defualt"})
            assert refused.is_error
            assert text_of(refused) == "There is no collection 'defualt': there is 'default'."
            result = await called(client, tool, **QUESTION, filter={"departement": "hr"})
            assert result.endswith(" has the metadata field 'departement' of the filter: there is 'department'.")


async def test_key_sees_only_tools_of_its_scopes(served):
    body = {"name": "reader", "scopes": ["ask"]}
    key = (await served.post("/v1/keys", json=body, headers=as_tenant("alice"))).json()["key"]

    async with connected(served, {"authorization": f"Bearer {key}"}) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == READING[:3]
        result = await client.call_tool("add_document", LEAVE)
        assert result.is_error
        assert text_of(result) == "There is no tool 'add_document' for this key."


async def test_each_request_counts_once_towards_rate(services, settings):
    limits = TenantLimits(requests_per_second=0.001, burst=6)
    limited = with_keys(settings).model_copy(update={"tenant_limits": {"alice": limits}})
    search = {"name": "search", "arguments": QUESTION}
    own_limit = {"name": "a", "scopes": ["ask"], "limits": {"requests_per_second": 0.001}}

    async with calling(limited, services) as client:

        async def send(method, headers, **params):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return await client.post("/mcp", json=body, headers=headers | ACCEPT)

        alice = as_tenant("alice")
        replies = [
            await send("initialize", alice, **INITIALIZE["params"]),
            await send("tools/list", alice),
            await send("tools/call", alice, **search),
            await client.get("/v1/collections", headers=alice),
        ]
        key = (await client.post("/v1/keys", json=own_limit, headers=alice)).json()["key"]
        of_key = [await send("tools/call", {"x-api-key": key}, **search) for _ in range(2)]
        rejected = await send("tools/list", alice)
        unlimited = await send("tools/list", as_tenant("bob"))

    assert [reply.headers["ratelimit"].split(";t=")[0] for reply in replies] == [
        f'"requests";r={n}' for n in (5, 4, 3, 2)
    ]
    assert "has no documents yet" in replies[2].text
    assert [reply.status_code for reply in of_key] == [200, 429]
    assert "has no documents yet" in of_key[0].text
    assert (rejected.status_code, rejected.json()["type"]) == (429, "urn:foreask:problem:too-many-requests")
    assert (unlimited.status_code, "ratelimit" in unlimited.headers) == (200, False)


async def test_unauthenticated_and_cross_origin_requests_are_refused(served, services, settings):
    reply = await served.post("/mcp", json=INITIALIZE, headers=ACCEPT)
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"]
    key = as_tenant("alice") | ACCEPT
    assert (await served.post("/mcp", json=INITIALIZE, headers=key)).status_code == 200
    foreign = await served.post("/mcp", json=INITIALIZE, headers=key | {"origin": "https://evil.example"})
    assert foreign.status_code == 403
    large = await served.post("/mcp", content=b" " * 2**20 + b"{}", headers=key | {"content-type": "application/json"})
    assert (large.status_code, large.json()["type"]) == (413, "urn:foreask:problem:too-large")
    for method in ("GET", "DELETE"):
        assert (await served.request(method, "/mcp", headers=key)).status_code == 405

    async with calling(settings, services) as keyless:
        assert (await keyless.post("/mcp", json=INITIALIZE, headers=ACCEPT)).status_code == 200
        rebound = ACCEPT | {"host": "evil.example", "origin": "http://evil.example"}
        assert (await keyless.post("/mcp", json=INITIALIZE, headers=rebound)).status_code == 401
        tool = {"method": "tools/call", "params": {"name": "list_collections", "arguments": {}}}
        assert "no collection" in (await keyless.post("/mcp", json=INITIALIZE | tool, headers=ACCEPT)).text


async def test_mcp_client_starts_server_as_program(served):
    environment = {"FOREASK_URL": str(served.base_url), "FOREASK_API_KEY": KEYS["alice"], "HOME": os.environ["HOME"]}
    program = StdioServerParameters(command=sys.executable, args=["-m", "cli", "mcp"], env=environment)
    async with Client(program) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*READING, "add_document"]
        assert "no collection" in await called(client, "list_collections")
