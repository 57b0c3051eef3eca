"""Addresses have one form, and links, lists, sitemaps and feeds are read as their formats define."""

import pytest

from features.sources.web.crawl.addresses import is_trap, pattern_of
from features.sources.web.crawl.memory import MOST_NOTE_BYTES, MOST_PARENTS, Note, VisitOutcome
from features.sources.web.reading.lists import BadList, read_feed, read_list, read_sitemap
from features.sources.web.reading.robots import Robots, read_robots
from shared.domain.text.tags import tags
from shared.ingest.parse.main_part import main_part
from shared.ingest.parse.web.addresses import normal
from shared.ingest.parse.web.facts import Rules, facts_of, rules_of_header
from tests.support.planted import guards
from tests.support.processor_time import processor_time_limit

BASE = "https://example.org/a/b"
LONG = "The harbour opens at six o'clock in the morning. " * 10
CARDS = f"<article>1 {LONG}</article><article>2 {LONG}</article>"
ATOM = "<feed xmlns='http://www.w3.org/2005/Atom'>"


@pytest.mark.parametrize(
    ("link", "address"),
    [
        ("HTTPS://Example.ORG:443/a/../b/./c#part", "https://example.org/b/c"),
        ("/p?z=1&a=2&utm_source=x&fbclid=y&gclid=z", "https://example.org/p?a=2&z=1"),
        ("/p?a=2&a=1", "https://example.org/p?a=2&a=1"),
        ("/p?utm_source=x", "https://example.org/p"),
        ("/p;jsessionid=AB12?x=1&PHPSESSID=3", "https://example.org/p?x=1"),
        ("c", "https://example.org/a/c"),
        ("../../../c", "https://example.org/c"),
        ("//other.org", "https://other.org/"),
        ("http://example.org:80", "http://example.org/"),
        ("http://example.org:8080/", "http://example.org:8080/"),
        ("/%7euser/%c3%a4 \u00e4", "https://example.org/~user/%C3%A4%20%C3%A4"),
        ("/100%", "https://example.org/100%25"),
        ("http://m\u00fcnchen.de/", "http://xn--mnchen-3ya.de/"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("/a//b/", "https://example.org/a//b/"),
        ("/a/index.html", "https://example.org/a/index.html"),
        (" /a\n/b ", "https://example.org/a/b"),
    ],
)
def test_links_of_a_page_have_one_address(link, address):
    assert normal(link, BASE) == address
    assert normal(address) == address


@pytest.mark.parametrize(
    "link",
    [
        "mailto:a@example.org",
        "javascript:x()",
        "http://u:p@example.org/",
        "http://",
        "http://a:99999/",
        "/" + "x" * 1_024,
    ],
)
def test_other_links_have_no_address(link):
    assert normal(link, BASE) is None


def test_generated_addresses_share_a_pattern():
    first = pattern_of("https://example.org/calendar/2024/05?view=week&day=1")

    assert first == pattern_of("https://example.org/calendar/1999/12?day=31&view=month")
    assert first != pattern_of("https://example.org/calendar/2024/05")


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/a/b/c", False), ("/a/b/a/b/a/b", False), ("/a/a/a/a", True), ("/x" * 21, True), ("/?" + "a=1&" * 8, True)],
)
def test_loop_of_links_is_a_trap(path, expected):
    assert is_trap(f"https://example.org{path}") is expected


def facts(body, **headers):
    return facts_of(body, "https://example.org/a/", **headers)


def test_links_are_found_in_markup_only():
    body = """<a href="1">x</a> <!-- <a href=2> --> <script>"<a href='3'>"</script><A HREF = '4?a=1&amp;b=2'>y</A>
    <a rel="nofollow ugc" href=5> <area href=6> <link href=7 rel=next> <meta http-equiv=refresh content="0; url='8'">
    <title><a href=9></title> <a title="a > b" href=10>"""

    paths = [link.removeprefix("https://example.org/a/") for link in facts(body).links]

    assert paths == ["1", "4?a=1&b=2", "6", "8", "10"]


def test_base_and_canonical_address_are_read():
    found = facts('<base href="/docs/"><base href="/no/"><link rel="x canonical" href="c?utm_medium=1"><a href="d">')

    assert (found.canonical, found.links) == ("https://example.org/docs/c", ("https://example.org/docs/d",))


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        ("<meta name=robots content='NOINDEX'>", Rules(index=False)),
        ("<meta name=ROBOTS content='index, nofollow'>", Rules(follow=False)),
        ("<meta name=foreask content=none>", Rules(index=False, follow=False)),
        ("<meta name=otherbot content=noindex>", Rules()),
    ],
)
def test_rules_of_a_page_are_read(body, rules):
    found = facts(body + "<a href=1>")

    assert found.rules == rules
    assert bool(found.links) is rules.follow


@pytest.mark.parametrize(
    ("header", "rules"),
    [
        ("noindex", Rules(index=False)),
        ("otherbot: noindex, nofollow", Rules()),
        ("otherbot: noindex, foreask: nofollow", Rules(follow=False)),
        ("unavailable_after: 25 Jun 2010 15:00:00 PST, noindex", Rules(index=False)),
    ],
)
def test_rules_of_a_header_are_for_this_robot(header, rules):
    assert rules_of_header(header) == rules


@guards(
    "shared/domain/text/tags.py",
    "return found + len(mark) if found >= 0 else -1",
    "return found + len(mark) if found >= 0 else start",
    means="markup without an end is read forever",
)
def test_hostile_markup_takes_linear_time():
    """`html.parser` of Python 3.11 takes hours for the first of these."""
    with processor_time_limit(15):
        read_hostile_markup()


def read_hostile_markup():
    for part, count in (("<!--", 400_000), ("<script>", 400_000), ('<a href="', 40_000), ("<a b ", 20_000)):
        list(tags(part * count))
    for part in ("<main></main>", "<article><header></header></article>"):
        main_part(part * 20_000)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (f"<nav>menu</nav><main><h1>T</h1>{LONG}</main><footer>end</footer>", f"<main><h1>T</h1>{LONG}</main>"),
        (f"<nav>menu</nav><article>{LONG}<header>x</header></article>", f"<article>{LONG}<header>x</header></article>"),
        (f"<header>menu</header><div>{LONG}</div><aside>ad</aside>", f"<div>{LONG}</div>"),
        (f"<div role=navigation>menu</div><div>{LONG}</div>", f"<div>{LONG}</div>"),
        (f"<main></main><div>{LONG}</div>", f"<main></main><div>{LONG}</div>"),
        ("<div>A banner.</div><main>Open at six.</main>", "<main>Open at six.</main>"),
        ("<div>A banner.</div><div role=main>Open at six.</div>", "<div role=main>Open at six.</div>"),
        (f"<main>Loading</main><div>{LONG}</div>", f"<main>Loading</main><div>{LONG}</div>"),
        ("<article>News</article><div>Open.</div>", "<article>News</article><div>Open.</div>"),
        (
            f"<article>1 {LONG}</article><article>2 {LONG}</article>",
            f"<article>1 {LONG}</article><article>2 {LONG}</article>",
        ),
        (f"<nav>never closed <p>{LONG}</p>", f"<nav>never closed <p>{LONG}</p>"),
    ],
)
def test_main_part_has_no_navigation(page, expected):
    assert main_part(page) == expected


def test_unusable_lists_name_the_wrong_line():
    for content, problem in {
        b"https://example.org/\nftp://example.org/": "line 2",
        b'["https://example.org/", 7]': "address 2",
        b"{}": "array of addresses",
        b"[": "not valid JSON",
        b"\xff\xfe": "not UTF-8",
    }.items():
        with pytest.raises(BadList, match=problem):
            list(read_list(content, BASE))


def test_sitemap_without_pictures_is_read():
    found = read_sitemap(
        b"""<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:i="http://i/">
        <url><loc> https://example.org/1?b&amp;a </loc><i:image><i:loc>/i.png</i:loc></i:image></url></urlset>""",
        BASE,
    )

    assert (found.pages, found.sitemaps) == (["https://example.org/1?a&b"], [])


@pytest.mark.parametrize(
    "feed",
    [
        "<rss><channel><link>/no</link><item><title>t</title><link>/1</link><guid>/no</guid></item></channel></rss>",
        "<rss><channel><item><guid>/1</guid></item><item><guid isPermaLink='false'>/no</guid></item></channel></rss>",
        f"{ATOM}<link href='/no'/><entry><link rel='self' href='/no'/><link href='/1'/></entry></feed>",
        "<r:RDF xmlns:r='http://r/' xmlns='http://purl.org/rss/1.0/'><item><link>/1</link></item></r:RDF>",
    ],
)
def test_feeds_of_all_formats_are_read(feed):
    assert read_feed(feed.encode(), BASE) == ["https://example.org/1"]


def test_longest_note_fits_and_is_read_back():
    parents = tuple(f"{number:016x}" for number in range(MOST_PARENTS))
    note = Note(
        VisitOutcome.LISTED, "f" * 32, 'W/"' + "x" * 196, "y" * 64, "c" * 16, parents, has_more_parents=True, rank=100
    )

    assert len(note.encode()) <= MOST_NOTE_BYTES
    assert Note.decode(note.encode()) == note
    assert Note(VisitOutcome.LISTED, etag="x" * 2_000).encode() == Note(VisitOutcome.LISTED).encode()


def allowed(robots, path):
    found = read_robots(robots)
    return Robots(found.group.rules).allows(f"https://example.org{path}")


@guards(
    "features/sources/web/reading/robots.py",
    "return RobotsFile(own if names_own else of_all, sitemaps)",
    "return RobotsFile(of_all, sitemaps)",
    means="the rules for this robot are ignored",
)
@pytest.mark.parametrize(
    ("robots", "path", "expected"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: Foreask/1.0\nDisallow: /b", "/a", True),
        ("User-agent: other\nUser-agent: foreask\n# a comment\nDisallow: /a # here", "/a", False),
        ("User-agent: foreask\nAllow: /b\nUser-agent: other\nDisallow: /a", "/a", True),
        ("User-agent: foreask\nDisallow: /b\n\nUser-agent: FOREASK\nDisallow: /a", "/a", False),
        ("User-agent: foreasker\nDisallow: /", "/a", True),
        ("useragent foreask\ndissallow: /a", "/a", False),
        ("\ufeffDisallow: /\nUser-agent: *", "/a", True),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a", "/a", True),
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf?c=1", True),
        ("User-agent: *\nDisallow: /a$", "/ab", True),
        ("User-agent: *\nDisallow: /*a*b*c", "/xaxbx", True),
        ("User-agent: *\nDisallow: /*a*b*c", "/xaxbxc", False),
        ("User-agent: *\nDisallow: /*ab*ab$", "/ab", True),
        ("User-agent: *\nDisallow: /caf%c3%a9\nDisallow: /%7ejoe", "/caf%C3%A9", False),
        ("User-agent: *\nDisallow: /café", "/caf%C3%A9", False),
        ("User-agent: *\nDisallow: /%7ejoe", "/~joe", False),
        ("User-agent: *\nDisallow: private", "/private", False),
        ("User-agent: *\nDisallow: /\nAllow: /index.html", "/", True),
        ("User-agent: *\nCrawl-delay: 1\nDisallow: /a", "/a", False),
        ("User-agent: *\nSitemap: /s.xml\nUser-agent: foreask\nDisallow: /a", "/a", False),
        ("User-agent: *\nDisallow: " + "/*a" * 300, "/" + "/xa" * 30, False),
    ],
)
def test_robots_txt_decides_as_its_standard(robots, path, expected):
    assert allowed(robots, path) is expected


@pytest.mark.parametrize("value", ["-1", "inf", "nan", "1e999", "soon", ""])
def test_unusable_crawl_delay_is_ignored(value):
    assert read_robots(f"User-agent: *\nCrawl-delay: 2\nCrawl-delay: {value}").group.delay == 2


def test_hostile_robots_txt_takes_linear_time():
    """protego of version 0.7 takes a minute for 128 KB of the first, and hours for 500 KB."""
    half = 250_000
    hostile = (
        "".join(f"useragent a{number}\n" for number in range(half // 17)) + "Allow:/\n" * (half // 8),
        "".join(f"useragent foreask{number}\nuseragent *\nDisallow: /{number}\n" for number in range(12_000)),
        "useragent *\n" + "Disallow: /*a*a*a*a*a*a*a*a*a*a*a*a*a*b\n" * 12_000,
        "useragent *\n" + "Disallow: " + "*a" * half,
        "Sitemap: /s\n" * 40_000,
    )
    with processor_time_limit(15):
        for robots in hostile:
            allowed(robots, "/" + "a" * 1_000)
