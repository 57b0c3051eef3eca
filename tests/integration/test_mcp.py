"""The MCP tools, called with the SDK's client over both transports."""

import json
import os
import sys
from contextlib import asynccontextmanager
from uuid import uuid4

import httpx2
import jsonschema
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from shared.settings import TenantLimits
from tests.support.api import KEYS, as_tenant, calling, serving, with_keys, work
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS

LEAVE = {"text": "# Leave\n\nEverybody has thirty days of leave a year.", "external_id": "leave.md"}
READING = ["search", "fetch", "ask", "list_collections"]
QUESTION = "How many days of leave has everybody?"
ASKED = {"search": {"query": QUESTION}, "ask": {"question": QUESTION}}
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
    """Return the structured content of a result, which its text repeats and its schema describes."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert json.loads(text_of(result)) == result.structured_content
    (schema,) = [each.output_schema for each in (await client.list_tools()).tools if each.name == tool]
    jsonschema.validate(result.structured_content, schema)
    return result.structured_content


async def refusal(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert result.structured_content is None
    return text_of(result)


@pytest.fixture
async def served(services, settings):
    async with serving(with_keys(settings), services) as client:
        yield client


@asynccontextmanager
async def connected(served, headers, *, query="", **options):
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=TIMEOUT_SECONDS) as http,
        Client(streamable_http_client(f"{served.base_url}/mcp{query}", http_client=http), **options) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_mcp_client_reads_and_adds_documents_over_http(served, services, mode):
    async with connected(served, as_tenant("alice"), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*READING, "add_document"]
        added = await called(client, "add_document", **LEAVE)
        assert (added["external_id"], added["state"]) == ("leave.md", "queued")
        await work(services, "parse", "index")

        assert await called(client, "list_collections") == {"collections": ["default"], "more": 0}
        (passage,) = (await called(client, "search", query=QUESTION))["results"]
        assert passage["title"] == "Leave"
        assert "thirty days" in passage["text"]
        assert passage["metadata"] == {"external_id": "leave.md"}
        assert passage["url"] == f"{served.base_url}/documents/{added['document_id']}?chunk={passage['id']}"
        assert await called(client, "fetch", id=passage["id"]) == passage
        answer = await called(client, "ask", question=QUESTION)
        assert (answer["answer"], answer["found"]) == ("The documents say so [1].", True)
        assert answer["citations"] == [passage | {"number": 1}]
        assert (await refusal(client, "search", query=QUESTION, top_k=0)).startswith("top_k: ")
        await refusal(client, "search", query=QUESTION, filter={"": 1})

    async with connected(served, as_tenant("bob"), mode=mode) as client:
        no_documents = "The collection 'default' has no documents yet: the first upload creates it."
        assert await refusal(client, "search", query=QUESTION) == no_documents
        assert await called(client, "list_collections") == {"collections": [], "more": 0}
        for unknown in (passage["id"], str(uuid4()), "leave.md", ""):
            assert await refusal(client, "fetch", id=unknown) == (
                f"There is no passage '{unknown}'. The results of search have ids."
            )


async def test_tools_report_missing_collection_and_unknown_field(served, services):
    async with connected(served, as_tenant("alice")) as client:
        await called(client, "add_document", **LEAVE, metadata={"department": "hr"})
        await work(services, "parse", "index")

        for tool, asked in ASKED.items():
            missing = await refusal(client, tool, **asked, collection="defualt")
            assert missing == "There is no collection 'defualt': there is 'default'."
            result = await called(client, tool, **asked, filter={"departement": "hr"})
            assert result["notice"].endswith(
                " has the metadata field 'departement' of the filter: there is 'department'."
            )


@guards(
    "clients/mcp/foreask_mcp/results.py",
    'return given if "#" in given else f"{given}#{chunk_id}"',
    "return given",
    means="clients take two passages of one document for one source",
)
@guards(
    "clients/mcp/foreask_mcp/results.py",
    'in {"http", "https"}',
    'not in {""}',
    means="a document's author puts a script into the address of a citation",
)
@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("https://intranet.example/pay", "https://intranet.example/pay#{id}"),
        ("https://intranet.example/pay#when", "https://intranet.example/pay#when"),
        ("javascript:alert(1)", "{server}/documents/{document}?chunk={id}"),
        (7, "{server}/documents/{document}?chunk={id}"),
    ],
)
async def test_citation_url_is_web_address_of_document(served, services, given, address):
    async with connected(served, as_tenant("alice")) as client:
        added = await called(client, "add_document", **LEAVE, metadata={"url": given})
        await work(services, "parse", "index")
        (passage,) = (await called(client, "search", query=QUESTION))["results"]
        answer = await called(client, "ask", question=QUESTION)
        fetched = await called(client, "fetch", id=passage["id"])

    document = added["document_id"]
    expected = address.format(id=passage["id"], document=document, server=str(served.base_url))
    assert {passage["url"], answer["citations"][0]["url"], fetched["url"]} == {expected}


async def test_address_names_collection_of_calls_without_one(served, services):
    async with connected(served, as_tenant("alice"), query="?collection=handbook") as client:
        await called(client, "add_document", **LEAVE)
        await work(services, "parse", "index")
        assert await called(client, "list_collections") == {"collections": ["handbook"], "more": 0}
        for tool, asked in ASKED.items():
            assert "thirty days" in str(await called(client, tool, **asked))
            other = await refusal(client, tool, **asked, collection="default")
            assert other == "The collection 'default' has no documents yet: there is 'handbook'."


@guards(
    "clients/mcp/foreask_mcp/results.py",
    "if start or len(found.before) == NEIGHBOURS",
    "if start",
    means="a model cannot read the start of a long document",
)
@guards(
    "clients/mcp/foreask_mcp/results.py",
    "if start >= at else chunk.text[len(chunk.text) - max(0, end - at) :]",
    "",
    means="the text of a document repeats sentences",
)
@pytest.mark.parametrize(
    ("separator", "words", "is_whole"),
    [("\n\n", 5, True), (" ", 5, True), ("\n\n", 30, False), (" ", 30, False), ("\n\n# Next rule\n\n", 5, False)],
    ids=["short", "short-paragraph", "long", "long-paragraph", "many-sections"],
)
async def test_fetched_parts_of_document_are_its_whole_text(served, services, separator, words, is_whole):
    pieces = [f"Rule {number} is a rule of the house{' and of the garden' * words}." for number in range(100)]
    document = separator.join(pieces)
    async with connected(served, as_tenant("alice")) as client:
        await called(client, "add_document", text=document, external_id="rules.md")
        await work(services, "parse", "index")
        (passage,) = (await called(client, "search", query="What is rule 50?", top_k=1))["results"]
        middle = await called(client, "fetch", id=passage["id"])
        parts = [middle]
        while (following := parts[-1].get("next_id")) is not None:
            parts.append(await called(client, "fetch", id=following))
        while (previous := parts[0].get("previous_id")) is not None:
            parts.insert(0, await called(client, "fetch", id=previous))

    assert passage["text"] in middle["text"]
    assert all(len(part["text"]) <= 40_000 and part["text"] in document for part in parts)
    joined = parts[0]["text"]
    for part in parts[1:]:
        overlap = next(n for n in range(len(part["text"]), -1, -1) if joined.endswith(part["text"][:n]))
        assert overlap > 0
        joined += part["text"][overlap:]
    assert joined == document
    assert (len(parts) == 1) == is_whole


async def test_key_sees_only_tools_of_its_scopes(served):
    body = {"name": "reader", "scopes": ["ask"]}
    key = (await served.post("/v1/keys", json=body, headers=as_tenant("alice"))).json()["key"]

    async with connected(served, {"authorization": f"Bearer {key}"}) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search", "ask", "list_collections"]
        assert await refusal(client, "add_document", **LEAVE) == "There is no tool 'add_document' for this key."


async def test_each_request_counts_once_towards_rate(services, settings):
    limits = TenantLimits(requests_per_second=0.001, burst=6)
    limited = with_keys(settings).model_copy(update={"tenant_limits": {"alice": limits}})
    search = {"name": "search", "arguments": ASKED["search"]}
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
        assert '"collections":[]' in (await keyless.post("/mcp", json=INITIALIZE | tool, headers=ACCEPT)).text


@pytest.mark.parametrize("command", [["cli", "mcp"], ["foreask_mcp"]], ids=" ".join)
async def test_mcp_client_starts_server_as_program(served, services, command):
    environment = {"FOREASK_URL": str(served.base_url), "FOREASK_API_KEY": KEYS["alice"], "HOME": os.environ["HOME"]}
    program = StdioServerParameters(
        command=sys.executable, args=["-m", *command, "--collection", "handbook"], env=environment
    )
    async with Client(program) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*READING, "add_document"]
        await called(client, "add_document", **LEAVE)
        await work(services, "parse", "index")
        (passage,) = (await called(client, "search", query=QUESTION))["results"]
        assert passage["url"].startswith(f"{served.base_url}/documents/")
        assert await called(client, "list_collections") == {"collections": ["handbook"], "more": 0}
