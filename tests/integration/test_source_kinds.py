"""Sources with a server of every kind are added over HTTP, and synced as a parse worker does."""

import json
from datetime import timedelta
from functools import partial
from urllib.parse import urlsplit

import pytest
from aiohttp.web import Response
from pydantic import SecretStr

from features.sources.ledger.notes import SourceNotes
from features.sources.web.services import web_of
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from tests.integration.test_api_sources import ParseWorker, names
from tests.support.api import calling
from tests.support.corpora import LOGIN, TableCorpus, database
from tests.support.git_server import GitFolder, GitServer
from tests.support.site import Site, serving_site


@pytest.fixture
def server(settings):
    """Return the address of PostgreSQL without a database."""
    parts = urlsplit(settings.database_url.get_secret_value())
    return f"postgresql://{parts.hostname}:{parts.port}"


@pytest.fixture
def allowed(settings, server):
    """Return settings that allow sources on this machine."""
    secret = {"uri": server} | LOGIN
    tuning = settings.tuning.model_copy(update={"crawl_pause": timedelta()})
    return settings.model_copy(
        update={
            "source_roots": {"*": ("git+http://127.0.0.1", server, "http://127.0.0.1")},
            "source_secrets": {"TABLES": SecretStr(json.dumps(secret))},
            "sources_private_networks": True,
            "tuning": tuning,
        }
    )


@pytest.fixture(scope="module")
async def sandbox():
    async with ParsingSandbox() as sandbox:
        yield sandbox


@pytest.fixture
def worker(services, allowed, sandbox):
    return ParseWorker(
        services, allowed, partial(web_of, allowed, sandbox, services.parts.readers, services.ledger[SourceNotes])
    )


@pytest.fixture
async def client(services, allowed, provider):
    async with calling(allowed, services) as client:
        yield client


async def add(client, uri, **fields):
    reply = await client.post("/v1/sources", json={"name": "corpus", "uri": uri, **fields})
    assert reply.status_code == 201, reply.text
    return reply.json()["kind"]


async def test_repository_is_synced(client, services, worker, allowed, tmp_path):
    repository = GitFolder(tmp_path / "handbook.git")
    repository.write("leave.md", b"Thirty days of leave.")
    repository.write("travel/expenses.md", b"Expenses are paid within a week.")
    repository.commit()
    with GitServer(tmp_path).running() as server:
        allowed.source_roots["*"] = (f"git+{server.url}",)
        assert await add(client, f"git+{server.url}/handbook.git") == "git"
        first = await worker.sync(client, "corpus")
        repository.write("leave.md", b"Thirty-one days of leave.")
        repository.commit()
        second = await worker.sync(client, "corpus")

        await worker.work()

    assert (first.created, first.error) == (2, None)
    assert (second.changed, second.unchanged) == (1, 1)
    documents = (await client.get("/v1/documents")).json()["items"]
    assert [each["state"] for each in documents] == ["ready", "ready"]
    assert [name async for names in services.uploads.pages() for name in names] == []
    assert await names(client) == ["corpus/leave.md", "corpus/travel/expenses.md"]


async def test_table_is_synced_with_its_secret(client, worker, settings, server):
    async with database(settings.database_url.get_secret_value()) as (url, owner):
        corpus = TableCorpus(url, owner)
        await corpus.write({"1": "Thirty days of leave.", "2": "Expenses are paid within a week."})
        options = {"table": "article", "id": "key", "text": "body", "sslmode": "disable"}
        kind = await add(client, server + urlsplit(url).path, options=options, secret_name="tables")
        assert kind == "postgresql"
        first = await worker.sync(client, "corpus")
        await corpus.write({"2": "Expenses are paid within two weeks."})
        second = await worker.sync(client, "corpus")

    assert (first.created, first.error) == (2, None)
    assert (second.changed, second.unchanged) == (1, 1)
    assert await names(client) == ["corpus/1", "corpus/2"]


async def test_second_crawl_downloads_only_pages_without_tags(client, worker, allowed):
    async with serving_site(Site(pages=4)) as site:
        allowed.source_roots["*"] = (site.url,)
        options = {"exclude": ["*calendar*", "*loop*", "*maybe*"]}
        assert await add(client, site.start, options=options) == "crawl"
        first = await worker.sync(client, "corpus")
        site.forget()
        second = await worker.sync(client, "corpus")

    assert first.error is None
    assert {f"corpus/{address}" for address in site.documents} == set(await names(client))
    assert (second.created, second.changed, second.missing) == (0, 0, 0)
    assert not [path for path in site.bodies if site.has_etag(path)]


async def test_list_of_addresses_stays_within_tenants_roots(client, worker, allowed):
    async with serving_site(Site(pages=1), host="127.0.0.3") as other, serving_site(Site(pages=1)) as site:
        allowed.source_roots["*"] = (site.url,)
        refused = await client.post("/v1/sources", json={"name": "corpus", "uri": other.start})
        assert (refused.status_code, refused.json()["field"]) == (422, "uri")
        site.replies["/list.txt"] = Response(text=f"{other.start}\n{site.url}{site.path(0)}\n")
        assert await add(client, f"{site.url}/list.txt") == "list"
        sync = await worker.sync(client, "corpus")

    assert (sync.created, sync.refused) == (1, 1)
    assert other.requests == []
