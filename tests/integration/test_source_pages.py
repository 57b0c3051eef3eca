"""The pages on sources are followed: their first commands sync a corpus of their kind, on servers of this machine."""

import json
import re
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from features.sources.ledger.notes import SourceNotes
from features.sources.web.services import web_of
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from tests.integration.test_api_sources import ParseWorker, write
from tests.support.api import serving
from tests.support.corpora import LOGIN, READER, database
from tests.support.git_server import GitFolder, GitServer
from tests.support.pages import HOW_TO, foreask_with_background
from tests.support.site import Site, html, serving_site

LEAVE = "Employees get thirty days of leave."


@asynccontextmanager
async def folder(tmp_path, **_):
    write(tmp_path, "leave.md", LEAVE)
    yield f"file://{tmp_path}", {}


@asynccontextmanager
async def rows(tmp_path, **_):
    write(tmp_path, "articles.jsonl", json.dumps({"id": "leave", "text": LEAVE}))
    yield f"file://{tmp_path}/articles.jsonl", {}


@asynccontextmanager
async def bucket(s3, **_):
    s3.make("acme-docs")
    s3.put("acme-docs", "manuals/leave.md", LEAVE.encode())
    yield "s3://acme-docs/manuals", s3.secret("acme-docs")


@asynccontextmanager
async def repository(tmp_path, **_):
    git = GitFolder(tmp_path / "handbook.git")
    for path in ("leave.md", "docs/leave.md"):
        git.write(path, LEAVE.encode())
    git.commit()
    with GitServer(tmp_path).running() as server:
        yield f"git+{server.url}/handbook.git", {}


@asynccontextmanager
async def table(settings, **_):
    async with database(settings.database_url.get_secret_value()) as (url, owner):
        await owner.execute(f"""
            CREATE TABLE articles
                (slug text, body text, title text, updated_at timestamptz, language text, product text);
            INSERT INTO articles VALUES ('leave', '{LEAVE}', 'Leave', now(), 'en', 'hr');
            GRANT SELECT ON articles TO {READER};
        """)
        parts = urlsplit(url)
        uri = f"postgresql://{parts.hostname}:{parts.port}{parts.path}"
        yield f"{uri} --option sslmode=disable", {"uri": uri} | LOGIN


@asynccontextmanager
async def site(**_):
    async with serving_site(Site(robots_status=404, missing_status=404)) as site:
        site.replies = {"/guide/": html('<a href="leave.html">Leave</a>'), "/guide/leave.html": html(f"<p>{LEAVE}</p>")}
        yield f"{site.url}/guide/", {}


CORPORA = {
    "sync-a-folder.md": folder,
    "sync-rows.md": rows,
    "sync-a-bucket.md": bucket,
    "sync-a-repository.md": repository,
    "sync-a-table.md": table,
    "sync-a-site.md": site,
    "sync-a-source.md": folder,
}


def first_commands(page):
    """Return the first commands of a page that add, sync and show a source; `{}` replaces the address of the source."""
    text = (HOW_TO / page).read_text().replace("\\\n", "")
    add = re.search(r"^    (foreask sources add \S+) \S+( .*)$", text, re.MULTILINE)
    sync = re.search(r"^    (foreask sync \S+)", text, re.MULTILINE)
    show = re.search(r"^    (foreask sources show \S+)$", text, re.MULTILINE)
    return f"{add[1]} {{}}{add[2]}", sync[1], show[1]


@pytest.fixture(params=CORPORA)
async def corpus(request, settings, s3, tmp_path):
    """Yield a page, the address of a corpus of its kind, and the secret of the corpus."""
    async with CORPORA[request.param](settings=settings, s3=s3, tmp_path=tmp_path) as (address, secret):
        yield request.param, address, secret


@pytest.fixture
async def foreask(corpus, services, settings, monkeypatch, capsys):
    """Return a function that runs a command while a worker syncs the corpus."""
    _, address, secret = corpus
    allowed = settings.model_copy(
        update={
            "source_roots": {"*": (address.partition(" ")[0],)},
            "source_secrets": {name: SecretStr(json.dumps(secret)) for name in ("ACME", "HELP_DB")},
            "sources_private_networks": True,
            "tuning": settings.tuning.model_copy(update={"crawl_pause": timedelta()}),
        }
    )
    async with ParsingSandbox() as sandbox, serving(allowed, services) as http:
        worker = ParseWorker(
            services, allowed, partial(web_of, allowed, sandbox, services.parts.readers, services.ledger[SourceNotes])
        )

        async def background():
            await worker.run()
            await worker.work()

        monkeypatch.setenv("FOREASK_URL", str(http.base_url))
        yield foreask_with_background(background, capsys, monkeypatch)


async def test_documented_commands_sync_a_source(corpus, foreask, provider):
    page, address, _ = corpus
    add, sync, show = first_commands(page)

    code, output = await foreask(add.format(address))
    assert code == 0, output
    code, output = await foreask(f"{sync} --wait")
    assert (code, "created" in output) == (0, True), output
    code, output = await foreask(show)
    assert (code, "done: " in output) == (0, True), output
