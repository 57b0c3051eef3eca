"""The words of an OpenDocument text or presentation arrive, in their order and structure."""

import io
import zipfile

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers import odf
from shared.ingest.parse.readers.guard import guarded
from tests.support.planted import guards

ODF = "urn:oasis:names:tc:opendocument:xmlns:"
NAMES = ("office", "text", "table", "style", "presentation", "form", "chart", "meta")
SPACES = " ".join(
    [
        *(f'xmlns:{name}="{ODF}{name}:1.0"' for name in NAMES),
        f'xmlns:draw="{ODF}drawing:1.0"',
        f'xmlns:svg="{ODF}svg-compatible:1.0"',
        'xmlns:xlink="http://www.w3.org/1999/xlink"',
        'xmlns:dc="http://purl.org/dc/elements/1.1/"',
        'xmlns:math="http://www.w3.org/1998/Math/MathML"',
    ]
)
MEDIA = "application/vnd.oasis.opendocument."


def content_of(body, kind="text", styles=""):
    return (
        f"<office:document-content {SPACES}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )


def archive(body, kind="text", styles="", media="text", **parts):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        target.writestr("mimetype", MEDIA + media)
        target.writestr("content.xml", content_of(body, kind, styles))
        for name, xml in parts.items():
            target.writestr(name.replace("__", "/").replace("_", " ").strip() + ".xml", xml)
    return buffer.getvalue()


def read(body, **more):
    """Return the Markdown of a text, after checking that the guard misses no word."""
    parts = odf.read_text(archive(body, **more)).parts
    assert guarded(parts).parts == parts
    return parts[0].markdown


def slides(*pages, **more):
    parts = odf.read_presentation(archive("".join(pages), kind="presentation", media="presentation", **more)).parts
    assert guarded(parts).parts == parts
    return [part.markdown for part in parts]


def p(text, more=""):
    return f"<text:p {more}>{text}</text:p>"


def h(text, level=1, more=""):
    return f'<text:h text:outline-level="{level}" {more}>{text}</text:h>'


def items(*texts, more=""):
    inner = "".join(f"<text:list-item>{text if text.startswith('<') else p(text)}</text:list-item>" for text in texts)
    return f"<text:list {more}>{inner}</text:list>"


def numbers(*levels, name="L", kind="list-style", level="list-level-style-number"):
    lines = "".join(f'<text:{level} text:level="{at}" {each}/>' for at, each in enumerate(levels, 1))
    return f'<text:{kind} style:name="{name}">{lines}</text:{kind}>'


def test_headings_have_their_level():
    assert read(h("One") + p("a") + h("Two", 2)) == "# One\n\na\n\n## Two"


@guards(
    "shared/ingest/parse/readers/odf/lists.py",
    'self._headings.next(level, attribute(node, "start-value"))',
    '""',
    means="headings have no number",
)
def test_headings_are_numbered_as_shown():
    level = "outline-level-style"
    outline = numbers(
        'style:num-format="1"', 'style:num-format="a" text:display-levels="2"', kind="outline-style", level=level
    )

    text = read(h("A") + h("B", 2) + h("C", 2) + h("D") + h("E", 1, 'text:is-list-header="true"'), styles=outline)

    assert text.split("\n\n") == ["# 1 A", "## 1.a B", "## 1.b C", "# 2 D", "# E"]


def test_paragraph_of_title_style_is_heading():
    style = '<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Title"/>'

    assert read(p("Handbook", 'text:style-name="P1"') + p("x"), styles=style) == "# Handbook\n\nx"


def test_bullets_are_list_with_levels():
    assert read(items("a", p("b") + items("c")) + p("d")) == "- a\n- b\n  - c\n\nd"


@guards(
    "shared/ingest/parse/readers/odf/styles.py",
    "max(1, level - style.shown_levels + 1)",
    "level",
    means="numbers lack the levels above",
)
def test_clauses_have_their_numbers():
    style = numbers(
        'style:num-format="1" style:num-suffix="."',
        'style:num-format="1" text:display-levels="2"',
        'style:num-format="a" style:num-prefix="(" style:num-suffix=")"',
    )
    clauses = items("A", p("B") + items("C", p("D") + items("E")), more='text:style-name="L"')

    assert read(clauses, styles=style).split("\n") == ["1. A", "2. B", "  - 2.1 C", "  - 2.2 D", "    - (a) E"]


@guards(
    "shared/ingest/parse/readers/odf/lists.py",
    'attribute(node, "continue-numbering") == "true"',
    "False",
    means="a continued list starts again",
)
def test_continued_list_continues_its_numbers():
    style = numbers('style:num-format="1" style:num-suffix="."')
    first = items("a", "b", more='text:style-name="L" xml:id="x"')
    continued = items("c", more='text:style-name="L" text:continue-numbering="true"')
    other = items("d", more='text:style-name="L"')
    named = items("e", more='text:style-name="L" text:continue-list="x"')

    text = read(first + p("text") + continued + other + named, styles=style)

    assert text == "1. a\n2. b\n\ntext\n\n3. c\n\n1. d\n\n4. e"


def test_item_keeps_its_paragraphs():
    assert read(items(p("a") + p("more"), "b")) == "- a\n  more\n- b"


def cell(text="", more="", name="table-cell"):
    return f"<table:{name} {more}>{p(text) if text else ''}</table:{name}>"


def row(*cells, more=""):
    return f"<table:table-row {more}>{''.join(cells)}</table:table-row>"


@guards(
    "shared/ingest/parse/readers/odf/tables.py",
    "text or self._merged.get((at[0], at[1] + offset), ",
    "text or (",
    means="merged cells are empty",
)
def test_merged_and_repeated_cells_are_filled():
    spanned = 'table:number-columns-spanned="2" table:number-rows-spanned="2"'
    covered = cell(name="covered-table-cell")
    table = (
        row(cell("Plan", spanned), covered, cell("a|b"))
        + row(covered, covered, cell("c"))
        + row(cell("x", 'table:number-columns-repeated="3"'), more='table:number-rows-repeated="2"')
    )

    assert read(f"<table:table>{table}</table:table>").split("\n") == [
        "| Plan | Plan | a\\|b |",
        "| --- | --- | --- |",
        "| Plan | Plan | c |",
        "| x | x | x |",
        "| x | x | x |",
    ]


@guards(
    "shared/ingest/parse/readers/odf/tables.py",
    "min(count, _MOST_REPEATED if text else _MOST_EMPTY)",
    "count",
    means="a repeated cell fills the memory",
)
def test_repeated_cells_are_limited():
    many = 'table:number-columns-repeated="9999"'
    table = row(cell("x", many), cell("", many), more='table:number-rows-repeated="9999"')

    assert len(read(f"<table:table>{table}</table:table>")) < 1_000_000


def test_table_of_one_cell_is_frame_around_text():
    inner = f"<table:table-cell>{p('a')}{items('b')}</table:table-cell>"

    assert read(f"<table:table>{row(inner)}</table:table>") == "a\n\n- b"


def test_nested_table_is_text_of_its_cell():
    inner = f"<table:table>{row(cell('b'), cell('c'))}</table:table>"
    table = row(f"<table:table-cell>{p('a')}{inner}</table:table-cell>", cell("d"))

    assert read(f"<table:table>{table}</table:table>") == "| a b c | d |\n| --- | --- |"


def test_note_follows_its_paragraph():
    body = f"<text:note-citation>1</text:note-citation><text:note-body>{p('except trainees')}</text:note-body>"

    text = read(p(f"30 days<text:note>{body}</text:note> a year") + p("x"))

    assert text == "30 days[^1] a year\n\n[^1]: except trainees\n\nx"


@guards(
    "shared/ingest/parse/readers/odf/text.py",
    'f"Comment by {author}: {text}" if author',
    '"" if author',
    means="comments are lost",
)
def test_comment_names_its_author():
    comment = f"<office:annotation><dc:creator>Ada</dc:creator><dc:date>2026</dc:date>{p('Why?')}</office:annotation>"

    assert read(p(f"be{comment}fore")) == "before\n\nComment by Ada: Why?"


@pytest.mark.parametrize("name", ["loext:sender-initials", "text:sender-initials", "meta:creator-initials"])
def test_initials_of_comment_join_no_word(name):
    initials = f'<{name} xmlns:loext="urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0">AL</{name}>'
    comment = f"<office:annotation><dc:creator>Ada</dc:creator>{initials}{p('Why?')}</office:annotation>"

    assert read(p(f"{comment}Resolved")) == "Resolved\n\nComment by Ada: Why?"


def test_text_box_follows_its_paragraph():
    box = f"<draw:frame> <draw:text-box>{p('inside')}{h('no heading')}</draw:text-box></draw:frame>"

    assert read(p(f"be{box}fore") + p("x")) == "before\n\ninside\n\nno heading\n\nx"


@guards("shared/ingest/parse/readers/odf/names.py", '"text:tracked-changes",', "", means="deleted text is read")
def test_deleted_text_is_left_out_and_inserted_kept():
    deletion = f'<text:changed-region text:id="c"><text:deletion>{p("old")}</text:deletion></text:changed-region>'
    changes = f"<text:tracked-changes>{deletion}</text:tracked-changes>"

    assert read(changes + p('a <text:change-start text:change-id="i"/>new<text:change-end/>')) == "a new"


def test_spaces_tabs_and_breaks_separate_words():
    assert read(p('a<text:s text:c="3"/>b<text:tab/>c<text:line-break/>d\n  e')) == "a   b c\nd e"


def test_index_is_read_without_its_template():
    template = "<text:table-of-content-source><text:index-title-template>no</text:index-title-template>"
    source = f"{template}</text:table-of-content-source>"
    body = f"<text:index-body>{p('Leave<text:tab/>3')}</text:index-body>"

    assert read(f"<text:table-of-content>{source}{body}</text:table-of-content>") == "Leave 3"


def test_fields_have_their_shown_value():
    field = '<text:user-field-get text:name="n">Ada</text:user-field-get>'

    assert read(f"<text:user-field-decls/>{p(f'Dear {field}')}") == "Dear Ada"


def test_link_has_its_address():
    link = '<text:a xlink:href="https://example.org/a"><text:span>terms</text:span></text:a>'

    assert read(p(f"See {link}, {link.replace('https://example.org/a', '#part')}.")) == (
        "See [terms](https://example.org/a), terms."
    )


OBJECT = '<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame>'


@guards(
    "shared/ingest/parse/readers/odf/text.py", 'texts.append(f" {formula(root)} ")', "pass", means="formulas are lost"
)
def test_formula_is_in_its_sentence():
    power = "<math:msup><math:mi>c</math:mi><math:mn>2</math:mn></math:msup>"
    source = '<math:annotation encoding="StarMath 5.0">E = m c^2</math:annotation>'
    formula = (
        f"<math:math {SPACES}><math:semantics><math:mrow><math:mi>E</math:mi><math:mo>=</math:mo><math:mi>m</math:mi>"
        f"{power}</math:mrow>{source}</math:semantics></math:math>"
    )

    assert read(p(f"so {OBJECT} holds"), Object_1__content=formula) == "so  E = mc^2  holds"


def test_chart_is_named_and_has_its_data():
    data = f"<table:table>{row(cell(), cell('Sales'))}{row(cell('Q1'), cell('19.2'))}</table:table>"
    chart = content_of(f"<chart:chart><chart:title>{p('Revenue')}</chart:title>{data}</chart:chart>", "chart")

    assert read(p(OBJECT), Object_1__content=chart) == ("Chart: Revenue\n\n|  | Sales |\n| --- | --- |\n| Q1 | 19.2 |")


def test_object_in_itself_ends():
    assert read(p("a" + OBJECT), Object_1__content=content_of(p("b" + OBJECT))) == "a\n\nb"


def test_controls_of_form_have_labels_and_values():
    forms = (
        '<office:forms><form:form><form:checkbox form:id="c" form:label="Paid" form:current-state="checked"/>'
        '<form:text form:id="t" form:current-value="Ada"/></form:form></office:forms>'
    )

    assert (
        read(forms + p('<draw:control draw:control="c"/> by <draw:control draw:control="t"/>')) == "Paid [x]  by  Ada"
    )


def test_headers_and_footers_are_left_out():
    styles = f"<office:document-styles {SPACES}><style:header>{p('Page 1')}</style:header></office:document-styles>"

    assert read(p("x"), **{"styles ": styles}) == "x"


@pytest.mark.parametrize("depth", [2_000, 20_000])
def test_deep_nesting_keeps_words(depth):
    body = "<text:section>" * depth + p("R&amp;D") + p("b") + "</text:section>" * depth
    parts = guarded(odf.read_text(archive(body)).parts).parts

    assert parts[0].markdown.split() == ["R&D", "b"]


def test_encrypted_file_names_the_remedy():
    with pytest.raises(Unreadable, match="protected with a password"):
        odf.read_text(archive("", **{"META-INF__manifest": "<m:encryption-data/>"}))


@pytest.mark.parametrize(
    ("media", "kind"), [("text", "text"), ("text-template", "text"), ("presentation", "presentation")]
)
def test_flat_file_is_read(media, kind):
    text = p("Kept")
    body = f"<draw:page><draw:frame>{text}</draw:frame></draw:page>" if kind == "presentation" else text
    xml = (
        f'<?xml version="1.0"?><office:document {SPACES} office:mimetype="{MEDIA}{media}"><office:body>'
        f"<office:{kind}>{body}</office:{kind}></office:body></office:document>"
    )

    assert extract(xml.encode(), filename=None, media_type=None, max_text_chars=99).text == "Kept"


@pytest.mark.parametrize("media", ["text", "text-template"])
def test_archive_is_read_by_its_media_type(media):
    meta = (
        f"<office:document-meta {SPACES}><office:meta><dc:title>Leave</dc:title></office:meta></office:document-meta>"
    )
    extracted = extract(archive(p("x"), media=media, meta=meta), filename=None, media_type=None, max_text_chars=99)

    assert (extracted.text, extracted.title) == ("x", "Leave")


def placed(text, left, top, more=""):
    size = 'svg:width="4cm" svg:height="10mm"'
    return (
        f'<draw:frame svg:x="{left}" svg:y="{top}" {size} {more}><draw:text-box>{p(text)}</draw:text-box></draw:frame>'
    )


@guards(
    "shared/ingest/parse/readers/odf/__init__.py",
    '(*blocks, ("end", ""))',
    "()",
    means="the shapes of slides are lost",
)
def test_slide_is_read_in_order_with_notes():
    notes = f"<presentation:notes>{placed('say it', '0cm', '0cm')}</presentation:notes>"
    frames = [
        placed("below", "1cm", "8cm"),
        placed("right", "10cm", "30mm"),
        placed("left", "1cm", "3cm"),
        placed("7", "1cm", "9cm", 'presentation:class="page-number"'),
        placed("Prices", "1cm", "1cm", 'presentation:class="title"'),
    ]
    comment = f"<office:annotation>{p('Why?')}</office:annotation>"

    assert slides(f"<draw:page>{''.join(frames)}{comment}{notes}</draw:page>") == [
        "## Prices\n\nleft\n\nright\n\nbelow\n\nSpeaker notes: say it\n\nComment: Why?"
    ]


def test_footer_of_slides_is_read_once():
    footer = '<presentation:footer-decl presentation:name="f">ACME</presentation:footer-decl>'
    page = f'<draw:page presentation:use-footer-name="f">{placed("x", "0cm", "0cm")}</draw:page>'

    assert slides(footer, page, page) == ["x\n\nACME", "x"]


def test_group_has_position_of_its_shapes():
    group = f"<draw:g>{placed('b', '1cm', '5cm')}</draw:g>"
    shape = f'<draw:custom-shape svg:x="1cm" svg:y="9cm">{p("c")}</draw:custom-shape>'
    page = f"<draw:page>{group}{placed('a', '1cm', '2cm')}{shape}</draw:page>"

    assert slides(page) == ["a\n\nb\n\nc"]
