"""Pages of a site are listed once each, politely, and change only when their texts change."""

import asyncio
import gzip
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from aiohttp.web import Response

from features.sources.source import Entry
from features.sources.syncing.watched_source import WatchedSource
from features.sources.web.options import CrawlOptions, FeedOptions, ListOptions, SitemapOptions
from features.sources.web.source import Web, open_pages
from features.sources.web.visitor import Politeness
from shared.domain.errors import InvalidInput, Misconfigured, NotFound, TooLarge, Unavailable
from shared.outside import addresses
from tests.support.planted import guards
from tests.support.site import ROBOTS, Site, SqliteMemory, html, redirect, serving_site, text_of
from tests.support.waiting import eventually

FILES = Path(__file__).parents[1] / "files"
FAST = Politeness(user_agent="foreask/test (+https://host.invalid/robot)", private=True, pause=timedelta(0))
MOST = 1_000_000
PAGES = {"short": 500, "full": 5_000, "soak": 5_000}  # of a large site


@pytest.fixture
async def site():
    async with serving_site(Site(pages=10)) as site:
        yield site


@pytest.fixture
async def small(site):
    """Yield a site with the pages that a test adds to `replies`, and no other page."""
    site.robots_status = 404
    site.missing_status = 404
    return site


@pytest.fixture
def memory(tmp_path):
    memory = SqliteMemory(tmp_path / "notes.sqlite")
    yield memory
    memory.close()


@pytest.fixture
def web(extractor, reader, memory):
    return Web(extractor, reader, memory, FAST)


@asynccontextmanager
async def closing(source):
    try:
        yield source
    finally:
        await source.aclose()


async def listed(source):
    """Return the entries of a source as two mappings: key to version, and key to reason for refusal."""
    async with closing(source):
        entries = [entry async for entry in source.entries()]
    keys = [entry.key.encode() for entry in entries]
    assert keys == sorted(set(keys))
    return (
        {entry.key: entry.version for entry in entries if not entry.refused},
        {entry.key: entry.refused for entry in entries if entry.refused},
    )


async def paths_of(site, source):
    """Return the paths of the listed pages of a site."""
    versions, _ = await listed(source)
    return {key.removeprefix(site.url) for key in versions}


def crawl(site, web, **options):
    return open_pages(site.start, CrawlOptions(**options), web)


def whole(site, web):
    """Return a crawl of a generated site without its calendar."""
    return crawl(site, web, same_pattern=site.pages, pages=10 * site.pages, exclude="*calendar*,*loop*")


def page(number, *links):
    """Return a page with the text of a number, and with links."""
    return html(f"<main><p>{text_of(number, 0)}</p></main>" + "".join(f'<a href="{link}">x</a>' for link in links))


def add_pages(site, pages):
    """Add pages to a site: path to links; each has another text."""
    for path, links in pages.items():
        site.replies[path] = page(path, *links)


async def require_polite_complete_runs(site, web):
    """Check two runs of a generated site."""
    async with serving_site(Site(), "127.0.0.2") as private:
        site.private_url = f"{private.url}/secret"
        first, refused = await listed(whole(site, web))

        assert set(first) == site.documents
        assert len(set(first.values())) == len(first)
        assert {key.removeprefix(site.url) for key in refused} == {
            "/docs/out/host",
            "/docs/out/metadata",
            "/docs/out/private",
        }
        site.forget()
        second, _ = await listed(whole(site, web))

        assert second == first
        assert [path for path in site.bodies if site.has_etag(path)] == []
        assert len(site.requests) > site.pages
        assert private.requests == []
    assert site.most_at_once == 1
    assert not [path for path in site.all_requests if path.startswith("/docs/private/") or "nofollow" in path]
    assert site.agents == {FAST.user_agent}


@guards(
    "features/sources/web/crawl/crawl_statements.sql",
    "WHERE outcome = 'listed' AND address > (",
    "WHERE outcome = 'nothing' AND address > (",
    means="pages with the same text are several documents",
)
async def test_crawl_lists_each_text_once(web):
    async with serving_site(Site(pages=200)) as site:
        await require_polite_complete_runs(site, web)


async def test_large_crawl_lists_each_text_once(web, request):
    pages = PAGES[request.config.getoption("--faults")]
    async with serving_site(Site(pages=pages)) as site:
        await require_polite_complete_runs(site, web)


async def test_edited_page_changes_only_its_version(site, web):
    before, _ = await listed(whole(site, web))
    edited = site.url + site.path(2)
    source = whole(site, web)
    site.edited[site.path(2)] += 1

    async with closing(source):
        after = {entry.key: entry.version async for entry in source.entries() if not entry.refused}
        key = next(key for key, version in after.items() if version not in before.values())
        item = await source.fetch(Entry(key, after[key]), max_bytes=MOST)

    assert len(set(after.items()) - set(before.items())) == 1
    assert site.number(key) == site.number(edited)
    assert text_of(2, 1) in item.content.decode()
    assert item.version == after[key]


@pytest.mark.parametrize("name", ["nav", "div"])
async def test_moving_boilerplate_does_not_change_versions(small, web, name):
    main = "<main><p>Open at six, and on Sundays at eight.</p></main>"
    small.replies["/docs/"] = html(f"<{name}>Monday</{name}>{main}")
    before, _ = await listed(crawl(small, web))
    small.replies["/docs/"] = html(f"{main}<{name}>Tuesday: we have moved</{name}>")

    assert (await listed(crawl(small, web)))[0] == before


async def test_missing_page_is_not_listed(small, web):
    add_pages(small, {"/docs/": ["a", "b", "c"], "/docs/a": [], "/docs/b": [], "/docs/c": []})
    await listed(crawl(small, web))
    del small.replies["/docs/a"]
    small.replies["/docs/b"] = redirect("/docs/c")

    assert await paths_of(small, crawl(small, web)) == {"/docs/", "/docs/c"}


@guards(
    "features/sources/web/examination.py",
    "if await self._soft_errors.contains(address, text.text):",
    "if False:",
    means="an error page with status 200 becomes a document",
)
async def test_page_that_only_looks_existent_is_not_listed(site, web):
    site.replies["/docs/"] = page(0, "missing.html", "p/0.html")

    paths = await paths_of(site, whole(site, web))

    assert "/docs/missing.html" in site.requests
    assert "/docs/missing.html" not in paths
    assert "/docs/copy/6.html" in paths


async def test_failing_page_keeps_pages_it_links_to(small, web):
    add_pages(small, {"/docs/": ["a"], "/docs/a": ["b"], "/docs/b": []})
    before, _ = await listed(crawl(small, web))
    small.failing.add("/docs/a")

    after, refused = await listed(crawl(small, web))

    assert set(after) | set(refused) == set(before)
    assert refused == {f"{small.url}/docs/a": "The server answers with status 500."}


async def test_unreadable_page_is_refused_with_reason(small, web):
    small.replies["/docs/"] = page(0, "scan.pdf")
    body = (
        (FILES / "hostile" / "scanned.pdf").read_bytes() if (FILES / "hostile" / "scanned.pdf").exists() else b"%PDF-1"
    )
    small.replies["/docs/scan.pdf"] = Response(body=body, content_type="application/pdf")

    _, refused = await listed(crawl(small, web))

    assert refused[f"{small.url}/docs/scan.pdf"].startswith("The page cannot be read: ")


@guards(
    "features/sources/web/crawl/crawl.py",
    "self._state.known_children(page.digest) if visit.unchanged else visit.links",
    "visit.links",
    means="the links of an unchanged page are forgotten",
)
async def test_links_of_unchanged_page_are_remembered(small, web):
    """A page without links to it is not listed, also if the pages that linked to it were not downloaded again."""
    add_pages(small, {"/docs/": ["a", "b"], "/docs/a": ["only-a", "both"], "/docs/b": ["both", "only-b"]})
    add_pages(small, {"/docs/only-a": [], "/docs/both": [], "/docs/only-b": []})
    small.tag_replies = True
    await listed(crawl(small, web))
    small.replies["/docs/a"] = page("/docs/a")
    small.forget()

    paths = await paths_of(small, crawl(small, web))

    assert paths == {"/docs/", "/docs/a", "/docs/b", "/docs/both", "/docs/only-b"}
    assert set(small.bodies) == {"/docs/a"}


@guards(
    "features/sources/web/crawl/crawl.py",
    "            self._state.add_linked_by_more()",
    "            pass",
    means="a page with many parents is lost when some change",
)
async def test_page_with_many_parents_stays_when_some_change(small, web):
    parents = [f"/docs/{number:02}" for number in range(20)]
    add_pages(small, {"/docs/": parents, "/docs/target": []} | {parent: ["target"] for parent in parents})
    small.tag_replies = True
    before, _ = await listed(crawl(small, web))
    for parent in parents[:16]:  # as many as a note has
        small.replies[parent] = page(parent)

    assert set((await listed(crawl(small, web)))[0]) == set(before)


@guards(
    "features/sources/web/examination.py",
    "        if not await self._visitor.allows(address):\n            return Visit",
    "        if False:\n            return Visit",
    means="pages that robots.txt forbids are read",
)
async def test_robots_txt_that_changes_is_obeyed(site, web):
    await listed(whole(site, web))
    site.forget()
    site.robots = ROBOTS + "Disallow: /docs/copy/\n"

    paths = await paths_of(site, whole(site, web))

    assert not [path for path in site.requests if path.startswith("/docs/copy/")]
    assert "/docs/p/5.html" in paths


@guards(
    "features/sources/web/visitor.py",
    "if reply.status in _CLIENT_ERRORS or reply.status in _REDIRECTS:",
    "if True:",
    means="an unavailable robots.txt allows everything",
    case="503",
)
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_unavailable_robots_txt_stops_the_run(site, web, memory, status):
    site.robots_status = status

    with pytest.raises(Unavailable, match=f"robots.txt answers with status {status}"):
        await listed(whole(site, web))

    assert site.requests == ["/robots.txt"]


async def test_missing_robots_txt_allows_everything(small, web):
    add_pages(small, {"/docs/": ["private/x"], "/docs/private/x": []})

    assert await paths_of(small, crawl(small, web)) == {"/docs/", "/docs/private/x"}


@guards(
    "features/sources/web/crawl/crawl.py",
    "if self._by_pattern[page.pattern] >= self._plan.same_pattern:",
    "if False:",
    means="a calendar is read without an end",
)
async def test_calendar_is_bounded(site, web):
    paths = await paths_of(site, crawl(site, web, same_pattern=5, pages=5_000))

    assert len([path for path in paths if "calendar" in path]) == 5


@guards(
    "features/sources/web/crawl/crawl.py",
    "        self._state.refuse_unvisited(reason, also_unfound=limited)\n",
    "",
    means="pages after the limit of a run look deleted",
)
async def test_page_limit_deletes_nothing(small, web):
    add_pages(small, {"/docs/": ["a", "b"], "/docs/a": ["c"], "/docs/b": [], "/docs/c": []})
    before, _ = await listed(crawl(small, web))

    after, refused = await listed(crawl(small, web, pages=2))

    assert set(after) == {f"{small.url}/docs/", f"{small.url}/docs/a"}
    assert set(after) | set(refused) == set(before)
    assert "limit of 2 pages" in refused[f"{small.url}/docs/c"]


async def test_depth_and_prefix_bound_a_crawl(small, web):
    add_pages(small, {"/docs/": ["a/1", "b/1"], "/docs/a/1": ["2"], "/docs/a/2": ["3"], "/docs/b/1": []})
    add_pages(small, {"/docs/a/3": []})

    assert await paths_of(small, crawl(small, web, depth=2, exclude="/docs/b/*")) == {
        "/docs/",
        "/docs/a/1",
        "/docs/a/2",
    }
    with pytest.raises(InvalidInput, match="not below the prefix"):
        crawl(small, web, prefix="/other/")


@guards(
    "features/sources/web/examination.py",
    "if not facts.rules.index:",
    "if False:",
    means="a page that must not be indexed is listed or refused",
)
async def test_hidden_page_is_followed_but_not_listed(site, web):
    versions, refused = await listed(whole(site, web))
    pages = {key.removeprefix(site.url) for key in (*versions, *refused)}

    assert not {"/docs/noindex.html", "/docs/tagged.html"} & pages
    assert "/docs/behind-noindex.html" in pages


@guards(
    "features/sources/web/crawl/crawl_statements.sql",
    " AND target.outcome = 'listed' AND target.canonical IS NULL)",
    " AND target.outcome = 'listed')",
    means="two pages that name each other as canonical are lost",
)
async def test_canonical_page_replaces_others(small, web):
    for path, canonical in {"/docs/": "", "/docs/print": "a", "/docs/a": "a", "/docs/x": "y", "/docs/y": "x"}.items():
        link = f"<link rel=canonical href={canonical}>" if canonical else ""
        small.replies[path] = html(f"{link}<main><p>{text_of(path, 0)}</p></main><a href=print>1</a><a href=x>2</a>")

    # Two pages that name each other are both listed: none of them may be lost.
    assert await paths_of(small, crawl(small, web)) == {"/docs/", "/docs/a", "/docs/x", "/docs/y"}


@guards(
    "features/sources/web/crawl/crawl_statements.sql",
    "first.outcome IN ('listed', 'refused'))",
    "first.outcome IN ('listed'))",
    means="a duplicate replaces its failing first page",
)
@guards(
    "features/sources/web/examination.py",
    "text_hash = note.text_hash if note else None\n",
    "text_hash = None\n",
    means="a page that failed and has not changed loses its text",
)
async def test_failing_first_page_keeps_its_duplicates(small, web):
    add_pages(small, {"/docs/": ["a", "b"], "/docs/a": []})
    small.replies["/docs/b"] = page("/docs/a")
    await listed(crawl(small, web))
    small.failing.add("/docs/a")

    after, refused = await listed(crawl(small, web))

    assert f"{small.url}/docs/b" not in after
    assert set(refused) == {f"{small.url}/docs/a"}


@guards(
    "features/sources/web/crawl/crawl.py",
    "if page.hops >= _MOST_HOPS:",
    "if False:",
    means="a page of any redirect depth is followed",
)
async def test_long_chain_of_redirects_is_refused(small, web):
    add_pages(small, {"/docs/": ["0"], "/docs/8": []})
    small.replies |= {f"/docs/{number}": redirect(f"/docs/{number + 1}") for number in range(8)}

    _, refused = await listed(crawl(small, web))

    assert refused == {f"{small.url}/docs/5": "It is reached by more than 5 redirects."}
    assert "/docs/6" not in small.requests


async def test_unusable_start_fails_with_remedy(small, web):
    with pytest.raises(Misconfigured, match="does not exist"):
        await listed(crawl(small, web))
    small.replies["/docs/"] = redirect("https://www.host.invalid/docs/")
    with pytest.raises(Misconfigured, match=r"redirects to https://www\.host\.invalid/docs/"):
        await listed(crawl(small, web))
    small.robots, small.robots_status = "User-agent: foreask\nDisallow: /docs/\n", 200
    with pytest.raises(Misconfigured, match=r"robots\.txt of the host forbids"):
        await listed(crawl(small, web))


@guards(
    "features/sources/web/crawl/crawl.py",
    "if self._faults[host] >= _MOST_FAULTS:",
    "if False:",
    means="a server that is down is asked for every page",
)
async def test_server_that_fails_in_between_ends_the_run(small, web, memory):
    add_pages(small, {"/docs/": [f"{number:02}" for number in range(20)]})
    add_pages(small, {f"/docs/{number:02}": [] for number in range(20)})
    await listed(crawl(small, web))
    small.failing.update(f"/docs/{number:02}" for number in range(3, 20))
    written = memory.written
    small.forget()

    with pytest.raises(Unavailable, match="The last 10 pages of"):
        await listed(crawl(small, web))

    assert memory.written == written
    assert len(small.requests) < 20


def linked_pages(site):
    """Add 240 pages: the first one links to half of them, and each of these to one more."""
    paths = [f"/docs/{number}.html" for number in range(240)]
    add_pages(site, {"/docs/": paths[:120], **{path: paths[n + 120 : n + 121] for n, path in enumerate(paths)}})


def named(site, web, listing):
    """Return a crawl of all pages for a listing of this name."""
    source = crawl(site, web, same_pattern=1_000)
    source.name_listing(listing)
    return source


async def interrupted(site, source, until):
    """Stop a crawl as soon as a condition is met; return the paths that were requested until then."""
    async with closing(source):
        listing = asyncio.ensure_future(anext(source.entries()))
        await eventually(until)
        listing.cancel()
    requested = list(site.requests)
    site.forget()
    return requested


@guards(
    "features/sources/web/crawl/crawl_state.py",
    "        if page is None:",
    "        if True:",
    means="a crawl whose worker was killed starts from its first page",
)
async def test_interrupted_crawl_requests_no_page_again(small, web, memory):
    linked_pages(small)
    first = await interrupted(small, named(small, web, "one"), lambda: memory.written)
    second = await interrupted(small, named(small, web, "one"), lambda: len(small.requests) > 50)
    versions, refused = await listed(named(small, web, "one"))

    stored = [path for path in first if path in small.replies][:100]
    assert not {*second, *small.requests} & set(stored)
    assert len(versions) == 241
    assert not refused
    assert (versions, refused) == await listed(named(small, Web(web.extractor, web.reader, politeness=FAST), "one"))
    notes = {key async for key, _ in memory.notes()}
    assert notes == {*versions, *(f"page {key}" for key in versions)}


async def test_next_listing_visits_all_pages_again(small, web, memory):
    linked_pages(small)
    await interrupted(small, named(small, web, "one"), lambda: memory.written)
    add_pages(small, {"/docs/": [], "/docs/7.html": []})
    versions, _ = await listed(named(small, web, "two"))

    assert {key.removeprefix(small.url) for key in versions} == {"/docs/"}
    assert [key async for key, _ in memory.notes()] == list(versions)


async def test_private_start_is_refused_without_request(site, extractor, reader, memory):
    public_only = Web(extractor, reader, memory, Politeness())

    with pytest.raises(Misconfigured, match="FOREASK_SOURCES_PRIVATE_NETWORKS does not allow"):
        await listed(crawl(site, public_only))

    assert site.requests == []


@guards(
    "shared/outside/addresses.py",
    "if not private and not all(",
    "if False and not all(",
    means="a site leads a crawl to private addresses",
)
async def test_redirect_to_private_address_sends_no_request(small, extractor, reader, memory, monkeypatch):
    monkeypatch.setattr(addresses, "is_public", lambda address: address == "127.0.0.1")
    public_only = Web(extractor, reader, memory, Politeness(pause=timedelta(0)))
    async with serving_site(Site(), "127.0.0.2") as private:
        small.replies["/list"] = Response(text="/docs/a\n/docs/b\n")
        add_pages(small, {"/docs/a": []})
        small.replies["/docs/b"] = redirect(f"{private.url}/docs/")

        found, refused = await listed(open_pages(f"{small.url}/list", ListOptions(), public_only))

        assert private.requests == []
    assert set(found) == {f"{small.url}/docs/a"}
    assert "private address" in refused[f"{private.url}/docs/"]


@guards(
    "features/sources/web/visitor.py",
    "not self.permits(target) or",
    "",
    means="robots.txt of a site leads to addresses that the operator does not allow",
)
async def test_robots_redirected_outside_roots_is_absent(small, extractor, reader, memory):
    add_pages(small, {"/docs/": ["a"], "/docs/a": []})
    permitted = Web(extractor, reader, memory, FAST, lambda address: address.startswith(small.url))
    async with serving_site(Site(robots="User-agent: *\nDisallow: /\n"), "127.0.0.2") as private:
        small.replies["/robots.txt"] = redirect(f"{private.url}/admin?delete=everything")

        assert await paths_of(small, crawl(small, permitted)) == {"/docs/", "/docs/a"}

        assert private.requests == []


async def test_robots_redirected_to_metadata_is_absent(small, web):
    add_pages(small, {"/docs/": []})
    small.replies["/robots.txt"] = redirect("http://169.254.169.254/latest/meta-data/")

    assert await paths_of(small, crawl(small, web)) == {"/docs/"}


@pytest.mark.parametrize(
    ("requested", "seconds"), [("9" * 300, 300), ("9" * 500, 0), ("\u00b2", 0), ("-7", 0), ("7", 7)]
)
async def test_pause_requested_by_robots_is_limited(small, web, requested, seconds):
    small.replies["/robots.txt"] = Response(status=429, headers={"retry-after": requested})

    with pytest.raises(Unavailable, match="answers with status 429") as caught:
        await listed(crawl(small, web))

    assert caught.value.retry_after == timedelta(seconds=seconds)


@guards(
    "features/sources/web/visitor.py",
    "        async with host.lock:",
    "        if True:",
    means="requests to a host overlap",
)
async def test_requests_to_a_host_never_overlap(small, web):
    add_pages(small, {"/docs/": ["a", "b"], "/docs/a": [], "/docs/b": []})
    small.delay_seconds = 0.01
    source = crawl(small, web)

    async with closing(source):
        await asyncio.gather(*(source.find(f"{small.url}/docs/{name}") for name in "abab"))

    assert len(small.requests) > 4
    assert small.most_at_once == 1


@guards(
    "features/sources/web/visitor.py",
    "(host.pause or self._politeness",
    "(self._politeness",
    means="the pause that a site demands is ignored",
)
async def test_crawl_delay_separates_requests(small, web):
    add_pages(small, {"/docs/": ["a", "b"], "/docs/a": [], "/docs/b": []})
    small.robots, small.robots_status = "User-agent: *\nCrawl-delay: 0.2\n", 200

    await listed(crawl(small, web))

    assert all(later - earlier >= 0.19 for earlier, later in pairwise(small.times[1:]))


@guards(
    "features/sources/web/visitor.py",
    ".due = time.monotonic() + self._requested_pause(reply)",
    ".due = 0.0 * self._requested_pause(reply)",
    means="a busy server is asked again at once",
)
async def test_busy_server_is_asked_again_later(small, web):
    add_pages(small, {"/docs/": ["a"], "/docs/a": []})
    small.busy["/docs/a"] = 1

    assert await paths_of(small, crawl(small, web)) == {"/docs/", "/docs/a"}

    first, second = (at for at, path in zip(small.times, small.requests, strict=True) if path == "/docs/a")
    assert second - first >= 1  # as its Retry-After demands


async def test_list_reads_text_and_json(small, web):
    add_pages(small, {"/docs/a": ["c"], "/docs/b": []})
    for content in (
        f"# list\n\n{small.url}/docs/a?utm_source=x\n/docs/b\n",
        '{"urls": ["/docs/a", {"url": "docs/b"}]}',
    ):
        small.replies["/list"] = Response(text=content)
        assert await paths_of(small, open_pages(f"{small.url}/list", ListOptions(), web)) == {"/docs/a", "/docs/b"}

    small.replies["/list"] = Response(text="/docs/a\nmailto:office@host.invalid\n")
    with pytest.raises(Misconfigured, match="line 2 is not an address"):
        await listed(open_pages(f"{small.url}/list", ListOptions(), web))


@guards(
    "features/sources/web/crawl/crawl.py",
    "if error.component != COMPONENT or is_own:",
    "if True:",
    means="an unavailable host of a list stops the run",
)
async def test_other_unavailable_host_refuses_only_its_pages(small, web):
    async with serving_site(Site(robots_status=503), "127.0.0.2") as other:
        add_pages(small, {"/docs/a": []})
        small.replies["/list"] = Response(text=f"/docs/a\n{other.url}/docs/p/1.html\n{other.url}/docs/p/2.html\n")

        found, refused = await listed(open_pages(f"{small.url}/list", ListOptions(), web))

        assert other.requests == ["/robots.txt"]
    assert set(found) == {f"{small.url}/docs/a"}
    assert len(refused) == 2


async def test_sitemap_index_is_read_from_robots_txt(small, web):
    add_pages(small, {"/docs/a": ["c"], "/docs/b": [], "/docs/c": []})
    namespace = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://host.invalid/image"'
    index = f"<sitemapindex {namespace}><sitemap><loc>{small.url}/one.xml.gz</loc></sitemap></sitemapindex>"
    picture = "<image:image><image:loc>/docs/picture.png</image:loc></image:image>"
    locations = f"<url><loc>{small.url}/docs/a</loc>{picture}</url><url><loc>https://host.invalid/x</loc></url>"
    packed = gzip.compress(f"<urlset {namespace}>{locations}<url><loc>/docs/b</loc></url></urlset>".encode())
    small.replies["/index.xml"] = Response(text=index, content_type="application/xml")
    small.replies["/one.xml.gz"] = Response(body=packed, content_type="application/gzip")
    small.robots, small.robots_status = f"Sitemap: {small.url}/index.xml\n", 200

    assert await paths_of(small, open_pages(small.url, SitemapOptions(), web)) == {"/docs/a", "/docs/b"}


@guards(
    "features/sources/web/reading/elements.py",
    "    parser.EntityDeclHandler = _refuse_entity\n",
    "",
    means="a sitemap may declare entities",
)
async def test_unusable_sitemap_fails_the_run(small, web):
    with pytest.raises(Unavailable, match=r"sitemap\.xml answers with status 404"):
        await listed(open_pages(f"{small.url}/sitemap.xml", SitemapOptions(), web))
    for text, problem in {
        "<!DOCTYPE a [<!ENTITY b 'c'>]><urlset>&b;</urlset>": "declares entities",
        "<urlset><url>": "not well-formed XML in line 1",
        "<html></html>": "not a sitemap",
    }.items():
        small.replies["/sitemap.xml"] = Response(text=text)
        with pytest.raises(Misconfigured, match=problem):
            await listed(open_pages(f"{small.url}/sitemap.xml", SitemapOptions(), web))


@guards(
    "features/sources/web/crawl/plans.py",
    "    keeps_known = True",
    "    keeps_known = False",
    means="entries that left a feed are deleted",
)
async def test_entries_that_left_a_feed_stay(small, web):
    add_pages(small, {"/docs/1": [], "/docs/2": [], "/docs/3": []})
    small.replies["/feed"] = feed("/docs/1", "/docs/2")
    await listed(open_pages(f"{small.url}/feed", FeedOptions(), web))
    small.replies["/feed"] = feed("/docs/2", "/docs/3")

    assert await paths_of(small, open_pages(f"{small.url}/feed", FeedOptions(), web)) == {
        "/docs/1",
        "/docs/2",
        "/docs/3",
    }
    del small.replies["/docs/1"]
    assert await paths_of(small, open_pages(f"{small.url}/feed", FeedOptions(), web)) == {"/docs/2", "/docs/3"}


def feed(*paths):
    items = "".join(f"<item><title>x</title><link>{path}</link></item>" for path in paths)
    return Response(text=f'<rss version="2.0"><channel><link>/</link>{items}</channel></rss>')


async def test_fetched_page_is_its_main_part(small, web):
    small.replies["/docs/"] = html(
        f"<nav>Home</nav><main><h1>Hours</h1><p>{text_of(1, 0)}</p></main><footer>2026</footer>"
    )
    source = crawl(small, web)

    async with closing(source):
        (entry,) = [entry async for entry in source.entries()]
        small.forget()
        item = await source.fetch(entry, max_bytes=MOST)

        assert small.requests == []
        assert item.content.decode().strip() == f"# Hours\n\n{text_of(1, 0)}"
        assert (item.title, item.media_type, item.metadata) == ("Harbour", "text/markdown", {"url": small.start})
        with pytest.raises(TooLarge):
            await source.fetch(entry, max_bytes=10)


async def test_fetched_file_is_unchanged(small, web):
    content = (FILES / "good" / "kreuzberg_tiny.pdf").read_bytes()
    small.replies["/docs/"] = page(0, "leave.pdf")
    small.replies["/docs/leave.pdf"] = Response(body=content, content_type="application/pdf")
    source = crawl(small, web)

    async with closing(source):
        entries = [entry async for entry in source.entries()]
        item = await source.fetch(entries[1], max_bytes=MOST)

    assert (item.content, item.filename, item.media_type) == (content, "leave.pdf", "application/pdf")


async def test_unlisted_page_is_found_and_fetched_alone(small, web):
    add_pages(small, {"/docs/": ["a"], "/docs/a": []})
    before, _ = await listed(crawl(small, web))
    source = crawl(small, web)
    key = f"{small.url}/docs/a"

    async with closing(source):
        assert (await source.find(key)).version == before[key]
        assert await source.find(f"{small.url}/docs/b") is None
        assert await source.find(f"{small.url}/elsewhere") is None
        small.replies["/docs/a"] = page(7)
        item = await source.fetch(Entry(key, "other"), max_bytes=MOST)
        assert text_of(7, 0) in item.content.decode()
        assert item.version != before[key]
        del small.replies["/docs/a"]
        with pytest.raises(NotFound):
            await source.fetch(Entry(key, "other"), max_bytes=MOST)


@guards(
    "features/sources/web/source.py",
    "key not in await self._named_pages()",
    "False",
    means="a hint adds a page that the list does not have",
    case="list",
)
@pytest.mark.parametrize(
    ("options", "content"),
    [
        pytest.param(ListOptions(), "{url}/docs/a\n", id="list"),
        pytest.param(SitemapOptions(), "<urlset><url><loc>{url}/docs/a</loc></url></urlset>", id="sitemap"),
        pytest.param(FeedOptions(), "<rss><channel><item><link>{url}/docs/a</link></item></channel></rss>", id="feed"),
    ],
)
async def test_page_outside_list_is_not_found(small, web, options, content):
    add_pages(small, {"/docs/a": [], "/docs/b": []})
    small.replies["/list"] = Response(text=content.format(url=small.url))
    source = open_pages(f"{small.url}/list", options, web)

    async with closing(source):
        assert await source.find(f"{small.url}/docs/b") is None
        assert await source.find(f"{small.url}/docs/a")
        assert await source.find(f"{small.url}/docs/b") is None
    assert small.requests.count("/list") == 1
    assert "/docs/b" not in small.requests


async def test_unpacked_page_is_bounded(small, extractor, reader, memory):
    web = Web(extractor, reader, memory, Politeness(private=True, pause=timedelta(0), max_bytes=100_000))
    small.replies["/docs/"] = page(0, "bomb")
    packed = gzip.compress(b"<p>" + b"x" * 10_000_000)
    small.replies["/docs/bomb"] = Response(body=packed, content_type="text/html", headers={"content-encoding": "gzip"})

    _, refused = await listed(crawl(small, web))

    assert refused == {f"{small.url}/docs/bomb": "The page has more than 100,000 bytes."}


@guards(
    "features/sources/web/crawl/crawl.py",
    "            self._progressed()\n            await",
    "            await",
    means="a crawl fails when it takes longer than a source may hang",
)
async def test_crawl_reports_progress_after_each_page(small, web):
    add_pages(small, {"/docs/": ["a", "b"], "/docs/a": ["c"], "/docs/b": [], "/docs/c": []})
    progress = []
    async with closing(crawl(small, web)) as source:
        entries = WatchedSource(source, lambda: progress.append(len(small.requests))).entries()
        async with aclosing(entries):
            await anext(entries)  # after the crawl

    assert len(set(progress)) >= 4


async def test_listing_continues_after_a_key(small, web):
    add_pages(small, {"/docs/": ["a", "b"], "/docs/a": [], "/docs/b": []})
    source = crawl(small, web)

    async with closing(source):
        everything = [entry.key async for entry in source.entries()]
        small.forget()
        rest = [entry.key async for entry in source.entries(everything[0])]

    assert rest == everything[1:]
    assert small.requests == []
