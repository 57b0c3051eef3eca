"""Word files: their text arrives complete, in order, and with the numbers that Word shows."""

import time

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse import kinds
from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers import word
from shared.ingest.parse.readers.guard import guarded
from tests.support.planted import guards
from tests.support.word_files import (
    NAMESPACES,
    item,
    level,
    numbering,
    p,
    package,
    r,
    relations_xml,
    root,
    style,
    styled,
    tbl,
    tc,
    tr,
    word_file,
)

BULLET = level(0, "•", "bullet") + level(1, "o", "bullet")
CLAUSES = level(0, "%1.") + level(1, "%1.%2") + level(2, "(%3)", "lowerLetter") + level(3, "(%4)", "lowerRoman")


def text_of(content):
    (part,) = word.read(content).parts
    return part.markdown


def text(body, parts=None, relations=None):
    return text_of(word_file(body, parts, relations))


def paragraphs(body, parts=None, relations=None):
    return text(body, parts, relations).split("\n\n")


def listed(body, levels=CLAUSES, lists="", styles=""):
    return paragraphs(body, {"numbering.xml": numbering(levels, lists), "styles.xml": root("styles", styles)})


def test_ampersands_and_angles_are_kept():
    assert text(p("R&amp;D staff pay if 5 &gt; 3 &amp;&amp; 2 &lt; 4")) == "R&D staff pay if 5 > 3 && 2 < 4"


def test_runs_of_a_word_are_joined():
    assert text(p(r("Fer") + "<w:proofErr/>" + r("ry", "<w:b/>") + r(" late"))) == "Ferry late"


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<w:tab/>", "a\tb"),
        ("<w:br/>", "a\nb"),
        ("<w:noBreakHyphen/>", "a-b"),
        ("<w:softHyphen/>", "ab"),
        ('<w:sym w:font="Wingdings" w:char="F0FC"/>', "a✓b"),
        ('<w:sym w:font="Symbol" w:char="F061"/>', "a\u03b1b"),
        ("<w:lastRenderedPageBreak/>", "ab"),
    ],
)
def test_special_characters_are_shown(inside, expected):
    assert text(p(f"<w:r><w:t>a</w:t>{inside}<w:t>b</w:t></w:r>")) == expected


def test_letters_of_symbol_font_are_greek():
    assert text(p(r("\uf061", '<w:rFonts w:ascii="Symbol"/>'))) == "\u03b1"


@guards(
    "shared/ingest/parse/readers/word/walk.py",
    '("del", "moveFrom",',
    '("moveFrom",',
    means="deleted text is part of the document",
)
def test_deleted_text_is_left_out():
    body = p("<w:del><w:r><w:t>40</w:t></w:r></w:del><w:ins><w:r><w:t>55</w:t></w:r></w:ins>" + r(" euros"))

    assert text(body) == "55 euros"


@guards(
    "shared/ingest/parse/readers/word/walk.py",
    '("del", "moveFrom",',
    '("del",',
    means="moved text occurs twice",
)
def test_moved_text_occurs_once():
    body = p(f"<w:moveFrom>{r('moved')}</w:moveFrom>" + r("a")) + p(f"<w:moveTo>{r('moved')}</w:moveTo>" + r(" b"))

    assert paragraphs(body) == ["a", "moved b"]


@guards(
    "shared/ingest/parse/readers/word/paragraphs.py",
    "return mark is not None and",
    "return False and",
    means="a paragraph whose mark was deleted is divided",
)
def test_paragraphs_without_mark_between_them_are_one():
    assert text(p("One ", "<w:rPr><w:del/></w:rPr>") + p("two")) == "One two"


def test_deleted_row_is_not_restored_by_guard():
    deleted = tr(*(tc(p(r(f"old{at}"))) for at in range(9)), properties='<w:del w:id="1"/>')
    content = word_file(tbl(tr(tc(p(r("Country")))), tr(tc(p(r("Peru")))), deleted))

    assert guarded(word.read(content).parts).parts[0].markdown == "| Country |\n| --- |\n| Peru |"


def test_deleted_row_is_left_out():
    rows = tr(tc("a"), tc("b")), tr(tc("c"), tc("d"), properties="<w:del/>"), tr(tc("e"), tc("f"))

    assert text(tbl(*rows)) == "| a | b |\n| --- | --- |\n| e | f |"


def test_hidden_text_is_kept():
    assert text(p(r("secret", "<w:vanish/>"))) == "secret"


def test_content_controls_and_smart_tags_are_read():
    control = f"<w:sdt><w:sdtPr><w:alias/></w:sdtPr><w:sdtContent>{p('block')}</w:sdtContent></w:sdt>"
    tag = f"<w:smartTag>{r('Ber')}</w:smartTag>"

    assert paragraphs(control + p(tag + r("lin"))) == ["block", "Berlin"]


def test_reading_of_a_word_follows_it():
    assert text(p(f"<w:r><w:ruby><w:rt>{r('kana')}</w:rt><w:rubyBase>{r('漢')}</w:rubyBase></w:ruby></w:r>")) == (
        "漢(kana)"
    )


# Headings

HEADINGS = (
    style("H1", "heading 1", '<w:outlineLvl w:val="0"/>')
    + style("Own", "Clause title", parent="H1")
    + style("berschrift2", "Überschrift 2")
    + style("Big", "Body text")
)


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        (styled("Ports", "H1"), "# Ports"),
        (styled("Ports", "Own"), "# Ports"),
        (styled("Ports", "berschrift2"), "## Ports"),
        (styled("Ports", "Big"), "Ports"),
        (p("Ports", '<w:outlineLvl w:val="2"/>'), "### Ports"),
        (p("Ports", '<w:pStyle w:val="H1"/><w:outlineLvl w:val="9"/>'), "Ports"),
        (styled("", "H1") + p("Ports"), "Ports"),
        (styled("A long clause. " * 20, "H1"), ("A long clause. " * 20).strip()),
    ],
    ids=["style", "ancestor", "localized", "text", "outline", "no outline", "empty", "long"],
)
def test_heading_has_the_level_of_its_style(paragraph, expected):
    assert text(paragraph, {"styles.xml": root("styles", HEADINGS)}) == expected


def test_numbered_heading_shows_its_number():
    styles = style("H1", "heading 1", '<w:outlineLvl w:val="0"/><w:numPr><w:numId w:val="1"/></w:numPr>')

    assert listed(styled("Scope", "H1") + styled("Payment", "H1"), styles=styles) == ["# 1. Scope", "# 2. Payment"]


# Lists


@guards(
    "shared/ingest/parse/readers/word/numbering.py",
    "            counts[deeper] = None",
    "            pass",
    means="a clause is not numbered from the start below the next one",
)
def test_clauses_have_numbers_of_all_levels():
    body = "".join(item(f"c{number}", at) for number, at in enumerate((0, 1, 2, 2, 1, 0, 1, 2)))

    assert listed(body) == ["1. c0", "1.1 c1", "(a) c2", "(b) c3", "1.2 c4", "2. c5", "2.1 c6", "(a) c7"]


def test_bullets_are_nested():
    assert listed(item("a") + item("b", 1) + item("c"), BULLET) == ["- a\n  - b\n- c"]


def test_items_below_a_number_are_indented():
    levels = level(0, "%1.") + level(1, "•", "bullet")

    assert listed(item("a") + item("b", 1) + item("c"), levels) == ["1. a\n   - b\n2. c"]


def test_break_in_item_stays_in_item():
    two = "<w:r><w:t>a</w:t><w:br/><w:t>b</w:t></w:r>"

    assert listed(f'<w:p><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>{two}</w:p>', BULLET) == ["- a\n  b"]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("lowerLetter", ["a", "b", "c"]),
        ("upperRoman", ["I", "II", "III"]),
        ("decimalZero", ["01", "02", "03"]),
        ("ordinal", ["1st", "2nd", "3rd"]),
        ("cardinalText", ["One", "Two", "Three"]),
        ("ordinalText", ["First", "Second", "Third"]),
        ("chineseCounting", ["一", "二", "三"]),
        ("russianUpper", ["\u0410", "\u0411", "\u0412"]),
        ("unknownForm", ["1", "2", "3"]),
    ],
)
def test_number_has_the_form_of_its_level(form, expected):
    body = item("x") * 3

    assert listed(body, level(0, "§ %1:", form)) == [f"§ {number}: x" for number in expected]


def test_legal_numbers_are_digits():
    levels = level(0, "Article %1", "upperRoman") + level(1, "%1.%2", more="<w:isLgl/>")

    assert listed(item("a") + item("b", 1), levels) == ["Article I a", "1.1 b"]


def test_missing_level_shows_its_start():
    assert listed(item("a", 1) + item("b", 0)) == ["1.1 a", "1. b"]


def test_lists_with_one_definition_count_together():
    again = '<w:num w:numId="2"><w:abstractNumId w:val="0"/></w:num>'

    assert listed(item("a") + item("b", list_id=2), lists=again) == ["1. a\n2. b"]


@guards(
    "shared/ingest/parse/readers/word/numbering.py",
    "        counts[restarted] = None",
    "        pass",
    means="a list that starts again goes on counting",
)
def test_start_override_restarts_once():
    override = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride>'
    again = f'<w:num w:numId="2"><w:abstractNumId w:val="0"/>{override}</w:num>'
    body = item("a") + item("b", list_id=2) + item("c", list_id=2)

    assert listed(body, lists=again) == ["1. a\n5. b\n6. c"]


def test_level_that_never_restarts_counts_on():
    levels = level(0, "%1.") + level(1, "Rule %2", more='<w:lvlRestart w:val="0"/>')

    assert listed(item("a") + item("b", 1) + item("c") + item("d", 1), levels) == [
        "1. a",
        "Rule 1 b",
        "2. c",
        "Rule 2 d",
    ]


def test_style_chooses_its_level():
    levels = level(0, "%1.") + level(1, "%1.%2", more='<w:pStyle w:val="Sub"/>')
    styles = style("Sub", "Sub clause", '<w:numPr><w:numId w:val="1"/></w:numPr>')

    assert listed(item("a") + styled("b", "Sub"), levels, styles=styles) == ["1. a", "1.1 b"]


def test_paragraph_can_leave_the_list_of_its_style():
    styles = style("L", "List Number", '<w:numPr><w:numId w:val="1"/></w:numPr>')
    out = p("b", '<w:pStyle w:val="L"/><w:numPr><w:numId w:val="0"/></w:numPr>')

    assert listed(styled("a", "L") + out + styled("c", "L"), styles=styles) == ["1. a", "b", "2. c"]


def test_list_of_a_style_of_numbering_is_found():
    lists = (
        '<w:abstractNum w:abstractNumId="7"><w:numStyleLink w:val="Outline"/></w:abstractNum>'
        '<w:num w:numId="9"><w:abstractNumId w:val="7"/></w:num>'
    )
    properties = '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>'
    outline = f'<w:style w:type="numbering" w:styleId="Outline">{properties}</w:style>'

    assert listed(item("a", list_id=9), lists=lists, styles=outline) == ["1. a"]


def test_automatic_number_in_empty_cell_is_shown():
    empty = item("")
    table = tbl(tr(tc("No."), tc("Name")), tr(tc(empty), tc("Ann")), tr(tc(empty), tc("Bob")))

    assert listed(table) == ["| No. | Name |\n| --- | --- |\n| 1. | Ann |\n| 2. | Bob |"]


# Tables


@guards(
    "shared/ingest/parse/readers/word/tables.py",
    '                text = " ".join(dict.fromkeys(filter(None, (_label(above.get(column, "")), text))))',
    "                pass",
    means="rows below a merged cell have no label",
)
def test_merged_cells_are_filled():
    start, more = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    rows = (
        tr(tc("Group"), tc("Plan", '<w:gridSpan w:val="2"/>')),
        tr(tc("North", start), tc("1"), tc("2")),
        tr(tc("", more), tc("3"), tc("")),
    )

    assert text(tbl(*rows)) == ("| Group | Plan | Plan |\n| --- | --- | --- |\n| North | 1 | 2 |\n| North | 3 |  |")


def test_two_header_rows_become_one():
    start, more, wide = '<w:vMerge w:val="restart"/>', "<w:vMerge/>", '<w:gridSpan w:val="2"/>'
    rows = (
        tr(tc("City", start), tc("2026", wide)),
        tr(tc("", more), tc("Plan"), tc("Actual")),
        tr(tc("Kiel"), tc("1"), tc("2")),
    )

    assert text(tbl(*rows)) == "| City | 2026 / Plan | 2026 / Actual |\n| --- | --- | --- |\n| Kiel | 1 | 2 |"


def test_title_row_is_above_the_table():
    rows = tr(tc("Prices", '<w:gridSpan w:val="2"/>')), tr(tc("Item"), tc("Price")), tr(tc("Rope"), tc("5"))

    assert paragraphs(tbl(*rows)) == ["Prices", "| Item | Price |\n| --- | --- |\n| Rope | 5 |"]


def test_nested_table_is_in_its_cell():
    inner = tbl(tr(tc("a"), tc("b")), tr(tc("c"), tc("d")))

    assert text(tbl(tr(tc("x"), tc("y")), tr(tc(p("in") + inner + p("out")), tc("z")))) == (
        "| x | y |\n| --- | --- |\n| in a, b; c, d out | z |"
    )


def test_table_of_one_cell_becomes_paragraphs():
    styles = {"styles.xml": root("styles", HEADINGS)}

    assert paragraphs(tbl(tr(tc(styled("Ports", "H1") + p("Kiel")))), styles) == ["# Ports", "Kiel"]


def test_row_of_text_columns_becomes_paragraphs():
    assert paragraphs(tbl(tr(tc(p("a") + p("b")), tc(p("c"))))) == ["a", "b", "c"]


def test_bar_in_cell_is_escaped():
    assert "| a \\| b | c |" in text(tbl(tr(tc("a | b"), tc("c"))))


# Text boxes, drawings


def test_text_box_is_read_once():
    box = f"<w:txbxContent>{p('In the box')}</w:txbxContent>"
    choice = f'<mc:Choice Requires="wps"><w:drawing><wps:txbx>{box}</wps:txbx></w:drawing></mc:Choice>'
    fallback = f"<mc:Fallback><w:pict><v:textbox>{box}</v:textbox></w:pict></mc:Fallback>"
    body = p(f"<w:r><mc:AlternateContent>{choice}{fallback}</mc:AlternateContent></w:r>" + r("Outside"))

    assert paragraphs(body) == ["Outside", "In the box"]


def test_old_text_box_and_word_art_are_read():
    box = f'<w:pict><v:textbox><w:txbxContent>{p("Box")}</w:txbxContent></v:textbox><v:textpath string="Art"/></w:pict>'

    assert paragraphs(p(f"<w:r>{box}</w:r>" + r("Text"))) == ["Text", "Box", "Art"]


def test_fallback_without_choice_is_read():
    assert text(p(f"<mc:AlternateContent><mc:Fallback>{r('old')}</mc:Fallback></mc:AlternateContent>")) == "old"


def test_picture_shows_its_description():
    blip = '<w:drawing><wp:inline><wp:docPr descr="A map of the port"/><a:blip r:embed="x"/></wp:inline></w:drawing>'

    assert text(p(f"<w:r>{blip}</w:r>")) == "![A map of the port]()"


def test_chart_is_a_table():
    def points(*values):
        return "".join(f'<c:pt idx="{at}"><c:v>{each}</c:v></c:pt>' for at, each in enumerate(values))

    def series(name, *values):
        categories = f"<c:cat><c:strRef><c:strCache>{points('Kiel', 'Oslo')}</c:strCache></c:strRef></c:cat>"
        cache = f"<c:formatCode>0%</c:formatCode>{points(*values)}"
        return (
            f"<c:ser><c:tx><c:strRef><c:strCache>{points(name)}</c:strCache></c:strRef></c:tx>{categories}"
            f"<c:val><c:numRef><c:numCache>{cache}</c:numCache></c:numRef></c:val></c:ser>"
        )

    title = "<c:title><c:tx><c:rich><a:p><a:r><a:t>Ferries</a:t></a:r></a:p></c:rich></c:tx></c:title>"
    chart = f"<c:chartSpace {NAMESPACES}>{title}{series('2025', 0.3, 0.5)}{series('2026', 0.4, 0.6)}</c:chartSpace>"
    body = p('<w:r><w:drawing><c:chart r:id="x"/></w:drawing></w:r>')

    assert paragraphs(body, {"chart1.xml": chart}, {"x": ("chart", "chart1.xml")}) == [
        "Chart: Ferries",
        "| Category | 2025 | 2026 |\n| --- | --- | --- |\n| Kiel | 30% | 40% |\n| Oslo | 50% | 60% |",
    ]


def test_diagram_is_a_list():
    def point(identifier, label):
        return f'<dgm:pt modelId="{identifier}"><dgm:t><a:p><a:r><a:t>{label}</a:t></a:r></a:p></dgm:t></dgm:pt>'

    points = '<dgm:pt modelId="0" type="doc"/>' + point(1, "Plan") + point(2, "Draw") + point(3, "Build")
    links = "".join(
        f'<dgm:cxn srcId="{above}" destId="{below}" srcOrd="{order}"/>'
        for above, below, order in ((0, 3, 1), (0, 1, 0), (1, 2, 0))
    )
    data = (
        f"<dgm:dataModel {NAMESPACES}><dgm:ptLst>{points}</dgm:ptLst><dgm:cxnLst>{links}</dgm:cxnLst></dgm:dataModel>"
    )
    body = p('<w:r><w:drawing><dgm:relIds r:dm="x"/></w:drawing></w:r>')

    assert text(body, {"data1.xml": data}, {"x": ("diagramData", "data1.xml")}) == "- Plan\n  - Draw\n- Build"


def test_embedded_workbook_is_named():
    content = word_file(p('<w:object><o:OLEObject ProgID="Excel.Sheet.12"/></w:object>' + r("See")))

    assert word.read(content).unread == (
        "an embedded Excel workbook was not read; save it as a file of its own and add that file",
    )


# Fields and links


def field(code, result="", nested=""):
    kinds_ = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")]
    middle = kinds_[1] + result if result else ""
    return f"{kinds_[0]}<w:r><w:instrText>{code}</w:instrText></w:r>{nested}{middle}{kinds_[2]}"


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (field(" PAGEREF x ", r("7")), "7"),
        (field(' HYPERLINK "https://a.example/x" ', r("rules")), "[rules](https://a.example/x)"),
        (field(' IF x = "y" ', r("yes"), nested=field("MERGEFIELD x", r("hidden"))), "yes"),
        (field(" MACROBUTTON Go Click here "), "Click here"),
        (f'<w:fldSimple w:instr="DATE">{r("May")}</w:fldSimple>', "May"),
        (field(' XE "index" '), ""),
    ],
    ids=["result", "link", "nested", "button", "simple", "index"],
)
def test_field_shows_its_result(runs, expected):
    assert text(p(runs)) == expected


def test_field_without_end_hides_no_text():
    start = '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>'

    assert paragraphs(p(start) + p(field("REF x", r("seven"))) + p("eight")) == ["seven", "eight"]


def test_form_fields_show_their_values():
    data = "<w:ffData><w:checkBox><w:checked/></w:checkBox></w:ffData>"
    box = f'<w:r><w:fldChar w:fldCharType="begin">{data}</w:fldChar></w:r>'
    end = '<w:r><w:fldChar w:fldCharType="end"/></w:r>'

    assert text(p(box + end + r(" agreed"))) == "☒ agreed"


@pytest.mark.parametrize(
    ("words", "target", "expected"),
    [
        ("rules", "https://a.example/x?a=1&amp;b=2", "[rules](https://a.example/x?a=1&b=2)"),
        ("a.example/x", "https://a.example/x", "a.example/x"),
        ("ann@a.example", "mailto://ann@a.example", "ann@a.example"),
        ("run", "javascript://x", "run"),
    ],
)
def test_link_has_its_address_unless_shown(words, target, expected):
    body = p(f'<w:hyperlink r:id="x">{r(words)}</w:hyperlink>')

    assert text(body, relations={"x": ("hyperlink", target)}) == expected


# Notes


def notes(kind, **texts):
    return root(f"{kind}s", "".join(f'<w:{kind} w:id="{one[1:]}">{p(text)}</w:{kind}>' for one, text in texts.items()))


def test_notes_follow_their_paragraph():
    body = (
        p(r("A") + '<w:r><w:footnoteReference w:id="8"/></w:r>' + r(" b") + '<w:r><w:endnoteReference w:id="3"/></w:r>')
        + p("Next")
        + p(r("C") + '<w:r><w:footnoteReference w:id="5"/></w:r>')
    )
    parts = {"footnotes.xml": notes("footnote", n5="five", n8="eight"), "endnotes.xml": notes("endnote", n3="three")}

    assert paragraphs(body, parts) == ["A[^1] b[^i]", "[^1]: eight", "[^i]: three", "Next", "C[^2]", "[^2]: five"]


def test_notes_of_a_list_follow_the_list():
    noted = p(r("a") + '<w:r><w:footnoteReference w:id="1"/></w:r>', '<w:numPr><w:numId w:val="1"/></w:numPr>')
    parts = {"numbering.xml": numbering(BULLET), "footnotes.xml": notes("footnote", n1="note")}

    assert paragraphs(noted + item("b") + p("End"), parts) == ["- a[^1]\n- b", "[^1]: note", "End"]


def test_mark_of_author_stays_as_written():
    mark = '<w:r><w:footnoteReference w:id="1" w:customMarkFollows="1"/><w:t>*</w:t></w:r>'

    assert paragraphs(p(r("A") + mark), {"footnotes.xml": notes("footnote", n1="* note")}) == ["A*", "* note"]


def test_note_without_reference_is_kept():
    assert paragraphs(p("A"), {"footnotes.xml": notes("footnote", n5="five")}) == ["A", "five"]


def test_comment_names_its_author():
    comments = root("comments", f'<w:comment w:id="0" w:author="Ann">{p("Check this.")}</w:comment>')
    body = p(r("Taxis") + '<w:r><w:commentReference w:id="0"/></w:r>')

    assert paragraphs(body, {"comments.xml": comments}) == ["Taxis", "Comment by Ann: Check this."]


# Equations


def m(name, *parts):
    return f"<m:{name}>{''.join(parts)}</m:{name}>"


def mr(value):
    return m("r", m("t", value))


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        (mr("E=m") + m("sSup", m("e", mr("c")), m("sup", mr("2"))), "E=mc^2"),
        (mr("A=π") + m("sSup", m("e", mr("r")), m("sup", mr("2"))), "A=π r^2"),
        (m("f", m("num", mr("a+b")), m("den", mr("2"))), "(a+b)/2"),
        (m("rad", m("deg"), m("e", mr("x"))), "√(x)"),
        (
            m(
                "nary",
                '<m:naryPr><m:chr m:val="∑"/></m:naryPr>',
                m("sub", mr("i=1")),
                m("sup", mr("n")),
                m("e", mr("i")),
            ),
            "∑_(i=1)^n i",
        ),
        (m("d", '<m:dPr><m:begChr m:val="["/><m:endChr m:val="]"/></m:dPr>', m("e", mr("x"))), "[x]"),
        (m("func", m("fName", mr("sin")), m("e", mr("θ"))), "sin θ"),
        (m("m", m("mr", m("e", mr("1")), m("e", mr("0"))), m("mr", m("e", mr("0")), m("e", mr("1")))), "1, 0; 0, 1"),
    ],
    ids=["power", "greek", "fraction", "root", "sum", "brackets", "function", "matrix"],
)
def test_equation_is_in_its_sentence(equation, expected):
    assert text(p(r("It is ") + m("oMath", equation) + r(" here."))) == f"It is {expected} here."


# Parts, names, damage


def test_parts_in_other_formats_are_read():
    body = (
        p("Before")
        + '<w:altChunk r:id="h"/><w:altChunk r:id="d"/><w:altChunk r:id="m"/><w:altChunk r:id="f"/>'
        + p("After")
    )
    mail = b"MIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\n\n<p>Saved &amp; sent</p>"
    parts = {
        "a.html": "<p>From HTML</p>",
        "b.docx": word_file(p("From Word")),
        "c.mht": mail,
        "d.rtf": r"{\rtf1 From RTF\par}",
    }
    names = zip("hdmf", parts, strict=True)
    relations = {identifier: ("aFChunk", name) for identifier, name in names}

    assert paragraphs(body, parts, relations) == [
        "Before",
        "From HTML",
        "From Word",
        "Saved & sent",
        "From RTF",
        "After",
    ]


def test_strict_names_are_read():
    main = f"<w:document {NAMESPACES}><w:body>{p('Strict')}</w:body></w:document>".replace(
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "http://purl.oclc.org/ooxml/wordprocessingml/main",
    )
    content = package(
        {"_rels/.rels": relations_xml({"r": ("officeDocument", "word/document.xml")}), "word/document.xml": main}
    )

    assert text_of(content) == "Strict"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/word/document2.xml", "word/document2.xml"),
        ("word/Document.xml", "word/document.xml"),
        ("content/main.xml", "content/main.xml"),
        ("lost.xml", "word/document.xml"),
    ],
    ids=["absolute", "case", "folder", "wrong"],
)
def test_main_document_is_found(target, name):
    main = f"<w:document {NAMESPACES}><w:body>{p('Found')}</w:body></w:document>"
    content = package({"_rels/.rels": relations_xml({"r": ("officeDocument", target)}), name: main, "word/x.xml": ""})

    assert kinds.detect(content, filename="a.docx", media_type=None) is kinds.DOCX
    assert text_of(content) == "Found"


def test_headers_are_read_only_without_body():
    header = root("hdr", p("Letterhead"))
    relations = {"x": ("header", "header1.xml")}

    assert text(p("Body"), {"header1.xml": header}, relations) == "Body"
    assert text(p(""), {"header1.xml": header}, relations) == "Letterhead"


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("Port rules", "Port rules"),
        ("untitled", None),
        ("Microsoft Word - rules.doc", None),
        ("rules_v2.docx", None),
        ("C:\\files\\rules", None),
        ("Document1", None),
        ("", None),
    ],
)
def test_title_set_by_program_is_ignored(stated, expected):
    core = f'<cp:coreProperties xmlns:cp="x" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{stated}</dc:title></cp:coreProperties>'
    main = f"<w:document {NAMESPACES}><w:body>{p('x')}</w:body></w:document>"
    relations = {"r": ("officeDocument", "word/document.xml"), "c": ("core-properties", "docProps/core.xml")}
    content = package({"_rels/.rels": relations_xml(relations), "word/document.xml": main, "docProps/core.xml": core})

    assert word.read(content).title == expected


@pytest.mark.parametrize(
    "damage",
    [
        lambda xml: xml[: xml.index("second")] + "second",
        lambda xml: xml.replace("</w:p>", "", 1),
        lambda xml: xml.replace("<w:body>", "<w:body>\x01&undefined;"),
        lambda xml: xml.replace("<w:body>", "<w:body>" + "<w:sdt>" * 5_000),
    ],
    ids=["cut", "unclosed", "characters", "deep"],
)
def test_damaged_text_is_recovered(damage):
    xml = f"<w:document {NAMESPACES}><w:body>{p('The first one.')}{p('The second one.')}</w:body></w:document>"
    content = package({"word/document.xml": damage(xml)})

    (part,) = guarded(word.read(content).parts).parts

    assert "The first one." in part.markdown
    assert "second" in part.markdown


def test_entities_are_not_resolved():
    entity = '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>'
    xml = f"{entity}<w:document {NAMESPACES}><w:body>{p('a&f;b')}</w:body></w:document>"

    (part,) = guarded(word.read(package({"word/document.xml": xml})).parts).parts

    assert "root" not in part.markdown


def test_file_without_main_document_is_refused():
    with pytest.raises(Unreadable, match="no main document"):
        word.read(package({"word/styles.xml": "<x/>"}))


@pytest.mark.parametrize("opened", ["<w:p>", "<w:tbl><w:tr><w:tc>", "<m:oMath><m:f><m:num>", "<w:txbxContent><w:p>"])
def test_deep_nesting_takes_linear_time(opened):
    xml = f"<w:document {NAMESPACES}><w:body>{opened * 10_000}<w:r><w:t>deep</w:t></w:r></w:body></w:document>"
    started = time.process_time()

    guarded(word.read(package({"word/document.xml": xml})).parts)

    assert time.process_time() - started < 5


def test_nested_spans_do_not_multiply():
    inner = p("word")
    for _ in range(40):
        inner = tbl(tr(tc(inner, '<w:gridSpan w:val="60"/>'), tc("x")), tr(tc("y"), tc("z")))

    assert len(text(inner)) < 100_000


@guards(
    "shared/ingest/parse/readers/markdown.py",
    'if "\\n" in text or text[:1] in _MARKS',
    "if False",
    means="text of the file becomes markup",
)
def test_text_that_looks_like_markup_is_escaped():
    assert paragraphs(p("# 1 is best") + p("| a") + p("-5 degrees") + p("> 5 days")) == [
        "\\# 1 is best",
        "\\| a",
        "-5 degrees",
        "\\> 5 days",
    ]


def test_words_of_both_readings_agree():
    rows = tbl(tr(tc("a"), tc("b")), tr(tc("c"), tc("d")))
    content = word_file(
        p("Fer") + rows + p(r("x") + m("oMath", mr("y=2"))) + item("z"), {"numbering.xml": numbering(CLAUSES)}
    )

    assert guarded(word.read(content).parts).coverage == 1


@guards(
    "shared/ingest/parse/readers/word/plain.py",
    'b"<w:moveFrom", ',
    "",
    means="text that was moved is counted at its old position, and the file becomes plain text",
)
@pytest.mark.parametrize(
    "body",
    [
        f"<w:moveFrom>{r('moved away')}</w:moveFrom>",
        f"<w:del>{r('deleted')}</w:del>",
        r("a") + "<w:tab/>" + r("b") + "<w:noBreakHyphen/>" + r("c"),
        r("R&amp;D ©"),
    ],
)
def test_words_of_raw_xml_agree(body):
    parts = word.read(word_file(p(r("Ferry") + body))).parts

    checked = guarded(parts)

    assert (checked.parts, checked.losses) == (parts, ())


def test_extraction_uses_the_reader():
    extracted = extract(word_file(p("Ferry")), filename="a.docx", media_type=None, max_text_chars=100)

    assert (extracted.text, extracted.coverage) == ("Ferry", 1)
