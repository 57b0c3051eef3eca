"""Hostile contents of sources end their own reading with a sentence, and cost the worker that reads them little."""

import asyncio
import gzip
import socket
import stat
import threading
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from datetime import timedelta

import pytest
from aiohttp.web import Response
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, Tree

from features.sources.git.options import GitOptions
from features.sources.git.repositories import GitSource
from features.sources.web.crawl.memory import NoMemory
from features.sources.web.extraction import SandboxExtractor
from features.sources.web.options import CrawlOptions, FeedOptions, ListOptions, SitemapOptions
from features.sources.web.source import Web, open_pages
from features.sources.web.visitor import Politeness
from shared.confined.reading import Readers, ReadLimits
from shared.domain.errors import Misconfigured, Unavailable
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from tests.support.corpora import PRIVATE
from tests.support.planted import guards
from tests.support.processor_time import processor_time_limit
from tests.support.site import Site, html, serving_site

WORKER_SECONDS = 5  # of processor time, for contents that took the worker more than that
LIMIT = timedelta(seconds=2)
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
GOOD = "<main><p>The harbour opens at six, and the ferry leaves at seven.</p></main>"


@pytest.fixture(scope="module")
async def web():
    async with ParsingSandbox(timeout=LIMIT) as sandbox, aclosing(Readers()) as readers:
        politeness = Politeness(private=True, pause=timedelta(0))
        yield Web(SandboxExtractor(sandbox, "alice"), readers.for_tenant("alice"), NoMemory(), politeness)


@pytest.fixture
async def site():
    async with serving_site(Site(missing_status=404, robots_status=404)) as site:
        site.replies["/docs/good"] = html(GOOD)
        yield site


async def listed(source):
    """Return the paths of listed pages, the reasons for refusals, and the number of addresses that were stored."""
    async with aclosing(source):
        with processor_time_limit(WORKER_SECONDS):
            entries = [entry async for entry in source.entries()]
        stored = source._state._database.execute("SELECT count(*) FROM pages").fetchone()[0]
    found = {entry.key.partition("/docs/")[2] for entry in entries if not entry.refused}
    return found, {entry.refused for entry in entries if entry.refused}, stored


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (b"<meta charset=punycode>" + b"a" * 400_000 + b"-" + b"9a" * 200_000, None),
        (b"<meta charset=idna>" + GOOD.encode() + b"<p>\xff" + b"a." * 400_000, None),
        (("<a href=http://a" + "\u0660" * 1_900 + "/>").encode() * 2_600, "the page took longer than 2 s to read"),
        (b"<a href=/" + b"%" * 3_900 + b">" * 2 + b"<p>" * 100_000 + b"x", None),
    ],
    ids=["punycode", "idna", "foreign digits", "open paragraphs"],
)
async def test_hostile_page_is_refused_alone(site, web, page, reason):
    site.replies["/docs/"] = html("<a href=hostile>1</a><a href=good>2</a>")
    site.replies["/docs/hostile"] = Response(body=page, content_type="text/html")

    found, reasons, _ = await listed(open_pages(site.start, CrawlOptions(), web))

    assert "good" in found
    assert reason is None or any(reason in each for each in reasons)


@pytest.mark.parametrize(
    "robots",
    [
        "".join(f"useragent a{number}\n" for number in range(2_500)) + "Allow:/\n" * 4_000,
        "User-agent: *\n" + "Disallow: /*a*b*c*d*e*f*g*h*i*j*k*l*m\n" * 10_000,
        "User-agent: foreask\n" + "Disallow: /" + "*x" * 240_000 + "\n",
    ],
    ids=["product of names and rules", "stars", "long pattern"],
)
async def test_hostile_robots_txt_costs_worker_little(site, web, robots):
    site.robots, site.robots_status = robots, 200
    site.replies["/docs/"] = html("<a href=good>1</a>")

    found, _, _ = await listed(open_pages(site.start, CrawlOptions(), web))

    assert "good" in found


@guards(
    "features/sources/web/crawl/plans.py",
    "return self.options.pages * _ADDRESSES_PER_PAGE",
    "return 1 << 30",
    means="a sitemap fills the disk and the time of the worker",
)
@pytest.mark.parametrize("kind", ["sitemap", "index", "list", "feed"])
async def test_long_file_of_addresses_is_read_in_part(site, web, kind):
    places = [f"{site.url}/docs/{number}" for number in range(100_000)]
    locations = f"<urlset {NAMESPACE}>" + "".join(f"<url><loc>{place}</loc></url>" for place in places) + "</urlset>"
    site.replies["/part.xml"] = Response(body=gzip.compress(locations.encode()), content_type="application/gzip")
    parts = f"<sitemap><loc>{site.url}/part.xml</loc></sitemap>" * 40_000
    texts = {
        "sitemap": locations,
        "index": f"<sitemapindex {NAMESPACE}>{parts}</sitemapindex>",
        "list": "\n".join(places),
        "feed": "<rss>" + "".join(f"<item><link>{place}</link></item>" for place in places) + "</rss>",
    }
    site.replies["/all.xml"] = Response(text=texts[kind], content_type="application/xml")
    options = {"list": ListOptions, "feed": FeedOptions}.get(kind, SitemapOptions)(pages=3)

    _, reasons, stored = await listed(open_pages(f"{site.url}/all.xml", options, web))

    assert stored <= 30
    assert len(reasons) <= 2


@pytest.mark.parametrize(
    ("options", "content", "problem"),
    [
        (SitemapOptions, gzip.compress(bytes(60_000_000)), "cannot be unpacked, or has more than 52,428,800 bytes"),
        (SitemapOptions, b"<urlset>" + b"<a>" * 1_000_000, "nested more than 100 deep"),
        (SitemapOptions, b"<urlset " + b"a='b' " * 1_000_000, "not well-formed"),
        (ListOptions, b"[" * 5_000_000, "not valid JSON"),
        (ListOptions, b"[" + b"[]," * 500_000 + b"[]]", "address 1 is not an address"),
        (ListOptions, b"http://a" + "\u0660".encode() * 1_900 + b"/\n" * 2_000_000, "is not an address"),
        (FeedOptions, b"<rss><item>" + b"<link>/a</link>" * 100_000, "not well-formed"),
        (FeedOptions, b"<rss>" + b"<item/>" * 90_000 + b"</rss", "not well-formed"),
        (FeedOptions, b"<!DOCTYPE a [<!ENTITY b 'c'>]><rss>&b;</rss>", "declares entities"),
    ],
    ids=[
        *("packed zeros", "deep sitemap", "attributes", "deep list", "lists in a list", "foreign digits"),
        *("links without an end", "empty entries", "entities"),
    ],
)
async def test_hostile_file_of_addresses_names_its_problem(site, web, options, content, problem):
    site.replies["/all"] = Response(body=content)

    with pytest.raises(Misconfigured, match=problem):
        await listed(open_pages(f"{site.url}/all", options(), web))


def repository(folder, levels, width, name=b"d"):
    """Make a repository of folders in folders, in which each level is one object."""
    for each in ("objects/pack", "objects/info", "refs/heads"):
        (folder / each).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text("[core]\n\tbare = true\n\trepositoryformatversion = 0\n")
    store = DiskObjectStore(str(folder / "objects"))
    below, mode = Blob.from_string(b"A file."), stat.S_IFREG | 0o644
    for _ in range(levels):
        store.add_object(below)
        tree = Tree()
        for number in range(width):
            tree.add(name + b"%d" % number, mode, below.id)
        below, mode = tree, stat.S_IFDIR
    commit = Commit()
    commit.tree, commit.author, commit.committer, commit.message = below.id, b"a <a@b>", b"a <a@b>", b"x"
    commit.commit_time = commit.author_time = commit.commit_timezone = commit.author_timezone = 0
    store.add_object(below)
    store.add_object(commit)
    store.close()
    (folder / "refs/heads/main").write_bytes(commit.id + b"\n")
    return f"git+file://{folder}"


@guards(
    "features/sources/git/tree.py",
    "if names > MOST_NAMES:",
    "if False:",
    means="a repository of a kilobyte is listed without an end",
    case="visible",
)
@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ((10, 10, b".d"), "it has 11,111,111,110 names, more than 5,000,000: choose a folder with the option path"),
        ((10, 10, b"d"), "it has 11,111,111,110 names, more than 5,000,000: choose a folder with the option path"),
        ((300, 1, b"d"), "its folders are nested more than 100 deep"),
    ],
    ids=["hidden", "visible", "deep"],
)
async def test_hostile_repository_names_its_problem(tmp_path, readers, shape, problem):
    uri = repository(tmp_path / "hostile.git", *shape)

    async with aclosing(GitSource(uri, GitOptions(), {}, PRIVATE, readers.for_tenant("alice"))) as source:
        with processor_time_limit(WORKER_SECONDS), pytest.raises(Misconfigured, match=problem):
            [entry async for entry in source.entries()]


@guards(
    "features/sources/git/tree.py",
    "and not self._skips(f",
    "and self._skips is not (f",
    means="hidden folders are walked although none of their files is selected",
)
async def test_hidden_folders_are_not_walked(tmp_path):
    uri = repository(tmp_path / "hidden.git", 6, 12, b".d")  # three million names

    async with (
        aclosing(Readers(ReadLimits(LIMIT))) as quick,
        aclosing(GitSource(uri, GitOptions(), {}, PRIVATE, quick.for_tenant("alice"))) as source,
    ):
        assert [entry async for entry in source.entries()] == []


CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ntransfer-encoding: chunked\r\n\r\n"
INFORMING = b"HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n"


@asynccontextmanager
async def sending(first, endless):
    """Serve pages that start with some bytes, and continue with others without an end."""

    async def answer(reader, writer):
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            is_robots = b"/robots.txt" in head
            writer.write(b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n" if is_robots else first)
            while not is_robots:
                writer.write(endless)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/docs/"


@guards(
    "features/sources/web/bodies.py",
    "if len(parts) > _MOST_PIECES and",
    "if False and",
    means="a site takes the event loop of a worker by chunks of one byte",
    case="chunks",
)
@guards(
    "shared/outside/requests.py",
    "if self._informational > _MOST_INFORMATIONAL:",
    "if False:",
    means="a site takes the event loop of a worker by informational replies",
    case="informing",
)
@pytest.mark.parametrize(
    ("first", "endless", "problem"),
    [
        (CHUNKED, b"1\r\nx\r\n" * 10_000, "in pieces of a few bytes"),
        (b"", INFORMING * 1_000, "RemoteProtocolError"),
        (CHUNKED + b"1;", b"x" * 65_536, "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 10_000, "RemoteProtocolError"),
        (b"HTTP/1.1 302 X\r\nlocation: /", b"a" * 65_536, "RemoteProtocolError"),
        (CHUNKED, b"10000\r\n" + b"x" * 65_536 + b"\r\n", "more than 20,971,520 bytes"),
    ],
    ids=["chunks", "informing", "extension", "headers", "location", "endless"],
)
async def test_endless_reply_ends_at_once(web, first, endless, problem):
    async with sending(first, endless) as start:
        source = open_pages(start, CrawlOptions(), web)
        with pytest.raises(Unavailable, match=problem):
            await listed(source)


@pytest.mark.parametrize(
    "page",
    [
        b"<p title='" + b"x" * 19_000_000 + b"'>" + GOOD.encode(),
        b"<!---->" * 2_700_000,
        b"<svg>" * 3_000_000,
        b"<table><tr><td>" * 1_200_000,
    ],
    ids=["attribute", "comments", "pictures", "tables"],
)
async def test_large_page_leaves_others_readable(site, web, page):
    site.replies["/docs/"] = html("<a href=hostile>1</a><a href=good>2</a>")
    site.replies["/docs/hostile"] = Response(body=page, content_type="text/html")

    found, _, _ = await listed(open_pages(site.start, CrawlOptions(), web))

    assert "good" in found


async def test_sitemap_that_names_itself_is_read_once(site, web):
    index = f"<sitemapindex {NAMESPACE}><sitemap><loc>{site.url}/all.xml</loc></sitemap></sitemapindex>"
    site.replies["/all.xml"] = Response(text=index, content_type="application/xml")

    assert await listed(open_pages(f"{site.url}/all.xml", SitemapOptions(), web)) == (set(), set(), 0)


@contextmanager
def git_sending(first, endless):
    """Serve a repository whose first reply continues without an end."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(first)
                    while True:
                        connection.sendall(endless)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"git+http://127.0.0.1:{server.getsockname()[1]}/a.git"
        server.close()
        thread.join()


@guards(
    "features/sources/git/server.py",
    "if self._statuses > _MOST_INFORMATIONAL:",
    "if False:",
    means="a server of a repository takes a processor of a worker for an hour",
    case="informing",
)
@guards(
    "features/sources/git/remote.py",
    "if self._reads > _MOST_READS and",
    "if False and",
    means="a server of a repository takes a processor of a worker by pieces of one byte",
    case="lines",
)
@pytest.mark.parametrize(
    ("first", "endless", "problem"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000, "status 100 without an end"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/x-git-upload-pack-advertisement\r\n\r\n",
            b"0005x" * 10_000,
            "in pieces of a few bytes",
        ),
    ],
    ids=["informing", "lines"],
)
async def test_endless_repository_fails_at_once(readers, first, endless, problem):
    with git_sending(first, endless) as uri:
        async with aclosing(GitSource(uri, GitOptions(), {}, PRIVATE, readers.for_tenant("alice"))) as source:
            with processor_time_limit(20), pytest.raises(Misconfigured, match=problem):
                [entry async for entry in source.entries()]
