"""HTML becomes Markdown: tables, lists and code keep their form, and nothing that a browser hides is text."""

import pytest

from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.html import markdown_of, plain_of, read, title_of
from tests.support.planted import guards

CASES = {
    "entities": ("<p>R&amp;D &lt;5 &euro;&nbsp;x&#39;s</p>", "R&D <5 € x's"),
    "a stray less-than sign": ("<p>if a < b and c > d then x<y</p>", "if a < b and c > d then x<y"),
    "a stray sign before a letter": ("<p>a<b<c and 5<6</p>", "a<b<c and 5<6"),
    "two html elements": ("<html><head><html><title>t</title><title>u</title></head><body><p>x</body>", "x"),
    "a title without an end": ("<html><head><title>My page<body><p>text", "text"),
    "frames": ("<frameset><frame src=a><noframes><p>no frames</p></noframes></frameset>", "no frames"),
    "lists": (
        "<ol start=3><li>a<ul><li>b<li>c</ul><li value=9><p>d</p><p>e</p></ol>",
        "3. a\n   - b\n   - c\n9. d\n\n   e",
    ),
    "letters and Roman numbers": (
        "<ol type=a><li>x<li>y</ol><ol reversed style='list-style: upper-roman'><li>x<li>y</ol>",
        "a. x\nb. y\n\nII. x\nI. y",
    ),
    "cards": ("<ul><li><h3>Card</h3><p>text</li></ul>", "### Card\n\ntext"),
    "definitions": ("<dl><dt>Term</dt><dd>Def</dd><dd><p>More</dd></dl>", "Term\nDef\nMore"),
    "code": (
        '<pre class="language-py"><code>if a &lt; b:\n    c</code></pre>',
        "```py\nif a < b:\n    c\n```",
    ),
    "code with a fence": ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
    "quotations": ("<blockquote><p>a</p><blockquote>b</blockquote></blockquote>", "> a\n> \n> > b"),
    "inline": (
        "<p>a <b>bold</b> <b>p</b>art <code>x_y</code> <del>5</del> x<sup>2</sup> H<sub>2</sub>O</p>",
        "a **bold** part `x_y` ~~5~~ x² H2O",
    ),
    "links": ('<a href="/x">link</a> <a href="mailto:a@b.c?subject=x">us</a>', "link us (a@b.c)"),
    "pictures": ('<img alt="a cat"> <img alt="IMG_1.jpg"> <img alt="" src="data:image/png;base64,AAAA">', "a cat"),
    "breaks": ("a<br>b<br><br>c", "a\nb\n\nc"),
    "forms": (
        (
            "<label>Name <input value=Ann></label><select><option>S<option>M</select>"
            "<input type=checkbox checked> <input type=hidden value=csrf><input type=password value=secret>"
        ),
        "Name Ann S, M [x]",
    ),
    "details": ("<details><summary>Sum</summary>body</details>", "**Sum**\n\nbody"),
    "markup in the text": ("<p># a</p><p>| b</p>c<br>---", "\\# a\n\n\\| b\n\nc\n\\---"),
    "permalinks": ('<h2>Install <a href="#i">¶</a></h2>', "## Install"),
    "a heading without an end": ("<h2>Fees<div>A berth</div><ul><li>is 5.</ul>", "## Fees\n\nA berth\n\n- is 5."),
    "unseen": (
        (
            "<head><meta name=description content=d><style>s</style></head><script>1</script><template>t</template>"
            "<noscript>n</noscript><svg><title>s</title><text>s</text></svg><!-- c --><p hidden>h</p>"
            "<p style='color:red; display: none'>d</p><iframe>i</iframe>text"
        ),
        "text",
    ),
}
TABLES_AND_LAYOUTS = {
    "two header rows": (
        "<table><thead><tr><th rowspan=2>Land<th colspan=2>2025<tr><th>Plan<th>Real</thead><tr><td>D<td>1<td>2</table>",
        "| Land | 2025 Plan | 2025 Real |\n| --- | --- | --- |\n| D | 1 | 2 |",
    ),
    "a title row": (
        "<table><tr><th colspan=2>Prices<tr><th>a<th>b<tr><td>1<td>2</table>",
        "Prices\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    "merged cells": (
        "<table><tr><th>a<th>b<tr><td rowspan=2>G<td>1<tr><td>2</table>",
        "| a | b |\n| --- | --- |\n| G | 1 |\n| G | 2 |",
    ),
    "a label of rows": (
        "<table><tr><th>a<th>b<tr><td colspan=2>Group<tr><td>1<td>2</table>",
        "| a | b |\n| --- | --- |\n| Group |  |\n| 1 | 2 |",
    ),
    "headers in the first column": (
        "<table><tr><th>Name<td>Ann<tr><th>Age<td>5</table>",
        "|  |  |\n| --- | --- |\n| Name | Ann |\n| Age | 5 |",
    ),
    "pipes, lists and breaks in cells": (
        "<table><tr><th>a<th>b<tr><td>x|y<td><ul><li>p<li>q</ul><tr><td>1<br>2<td>3</table>",
        "| a | b |\n| --- | --- |\n| x\\|y | p; q |\n| 1 2 | 3 |",
    ),
    "a layout with headings": (
        "<table><tr><td>Menu<td><h1>T</h1><p>a</p><table><tr><th>x<th>y<tr><td>1<td>2</table></table>",
        "Menu\n\n# T\n\na\n\n| x | y |\n| --- | --- |\n| 1 | 2 |",
    ),
    "a layout of one column": ("<table><tr><td>a<tr><td>b</table>", "a\n\nb"),
    "a layout of one row": ("<table><tr><td>Total<td>5 €</table>", "Total 5 €"),
    "a stated layout": ("<table role=presentation><tr><td>a<td>b<tr><td>c<td>d</table>", "a b\n\nc d"),
    "a table in an item": (
        "<ol><li>Do<table><tr><th>a<th>b<tr><td>1<td>2</table><li>next</ol>",
        "1. Do\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n2. next",
    ),
}
N = 10_000
HOSTILE = {
    "elements": "<div>" * N + "deep",
    "lists": "<ul><li>a" * N + "deep",
    "tables": "<table><tr><td>" * N + "deep",
    "inline": "<b>a " * N + "deep",
    "quotations": "<blockquote>a" * 900 + "deep",
    "signs": "<" * N + "<p>deep",
    "columns": "<table>" + ("<tr>" + "<td colspan=999>x" * 5) * 2_000 + "</table>deep",
    "rows": "<table><tr>" + "<td rowspan=65000 colspan=200>x" + "<tr><td>a" * 5_000 + "</table>deep",
}


@pytest.mark.parametrize(("page", "markdown"), CASES.values(), ids=CASES)
def test_html_becomes_markdown_that_shows_the_same(page, markdown):
    assert markdown_of(page) == markdown


@guards(
    "shared/ingest/parse/readers/html/tables.py",
    "if presentation or not _is_data(rows):",
    "if presentation:",
    means="each layout is a table",
)
@guards(
    "shared/ingest/parse/readers/html/tables.py",
    "while len(grid) > 2 and",
    "while False and",
    means="a title row is the header of the table",
)
@guards(
    "shared/ingest/parse/readers/html/tables.py",
    "below[len(slots)] = (rows - 1,",
    "below[-1] = (rows - 1,",
    means="merged cells are filled once",
)
@pytest.mark.parametrize(("page", "markdown"), TABLES_AND_LAYOUTS.values(), ids=TABLES_AND_LAYOUTS)
def test_tables_are_tables_and_layouts_are_not(page, markdown):
    assert markdown_of(page) == markdown


@pytest.mark.parametrize("page", [page for page, _ in (*CASES.values(), *TABLES_AND_LAYOUTS.values())])
def test_two_readings_have_the_same_words(page):
    parts = read(f"x<p hidden>y</p>z{page}").parts

    checked = guarded(parts)

    assert (checked.parts, checked.losses) == (parts, ())


@guards(
    "shared/ingest/parse/readers/html/__init__.py",
    'pieces.append(_BREAK if name in BLOCKS else "")',
    "pass",
    means="hidden blocks join their neighbours",
)
def test_hidden_block_separates_its_neighbours():
    assert plain_of("x<p hidden>y</p>z") == "x\n\nz"


@guards(
    "shared/ingest/parse/readers/html/__init__.py",
    "if any(_TOO_DEEP in error.message",
    'if any("none" in error.message',
    means="deep text is lost",
)
@pytest.mark.parametrize("page", HOSTILE.values(), ids=HOSTILE)
def test_hostile_page_ends_with_its_text(page):
    assert "deep" in markdown_of(page)
    assert "deep" in plain_of(page)


@guards(
    "shared/ingest/parse/readers/html/__init__.py",
    "if drawings <= 0:",
    "if True:",
    means="the title of a drawing is the title of the page",
)
def test_title_is_the_title_of_the_page():
    assert title_of("<svg><title>icon</title></svg><title>Help &amp; <b>returns</title>") == "Help &"
    assert title_of("<p>no title</p>") is None


def test_meta_tags_and_data_are_left_out():
    page = (
        "<html><head><meta name=viewport content=w><link rel=canonical href=u><title>T &amp; u</title></head>"
        f"<body><p>Text.</p><img src='data:image/png;base64,{'Ab9+' * 99}'></body></html>"
    )

    extracted = extract(page.encode(), filename="a.html", media_type=None, max_text_chars=1000)

    assert (extracted.text, extracted.title, extracted.coverage) == ("Text.", "T & u", 1.0)


@guards(
    "shared/ingest/parse/readers/html/tree.py",
    "len(alt) >= _SENTENCE_CHARS and alt in self._paragraphs",
    "alt in self._paragraphs",
    means="a tick in a table is missing, because another row has the word",
    case="short",
)
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("Ferries leave the harbour at six", 1, id="headline"),
        pytest.param("yes", 2, id="short"),
    ],
)
def test_alternative_text_does_not_repeat_a_paragraph(text, shown):
    page = f'<a href="/6"><img alt="{text}"></a><h3><a href="/6">{text}</a></h3><p>Details on {text}.'

    reading = read(page)

    assert reading.parts[0].markdown.count(text) == shown + 1
