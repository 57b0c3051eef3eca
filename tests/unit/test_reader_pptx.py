"""The words of a PowerPoint file arrive, each with its slide."""

import io
import zipfile

import pytest

from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.chunking import divide
from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.slides import pptx
from tests.support.planted import guards

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
SPACES = " ".join(
    f'xmlns:{prefix}="{name}"'
    for prefix, name in {
        "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
        "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
        "cx": "http://schemas.microsoft.com/office/drawing/2014/chartex",
        "dgm": "http://schemas.openxmlformats.org/drawingml/2006/diagram",
        "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
        "a14": "http://schemas.microsoft.com/office/drawing/2010/main",
        "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
        "p": "http://schemas.openxmlformats.org/presentationml/2006/main",
        "p188": "http://schemas.microsoft.com/office/powerpoint/2018/8/main",
        "r": OFFICE,
    }.items()
)


def paragraph(text, properties=""):
    return f"<a:p>{properties}<a:r><a:t>{text}</a:t></a:r></a:p>"


def shape(*paragraphs, kind=None, index=None, at=None, style=""):
    mark = f"<p:ph{f' type={kind!r}' if kind else ''}{f' idx={index!r}' if index else ''}/>" if kind or index else ""
    body = "".join(each if each.startswith("<") else paragraph(each) for each in paragraphs)
    name = f'<p:nvSpPr><p:cNvPr id="2" name="s"/><p:cNvSpPr/><p:nvPr>{mark}</p:nvPr></p:nvSpPr>'
    return f"<p:sp>{name}<p:spPr>{position(at)}</p:spPr><p:txBody><a:bodyPr/>{style}{body}</p:txBody></p:sp>"


def position(at):
    return f'<a:xfrm><a:off x="{at[0]}" y="{at[1]}"/><a:ext cx="{at[2]}" cy="{at[3]}"/></a:xfrm>' if at else ""


def group(*shapes, at=None):
    return f"<p:grpSp><p:nvGrpSpPr/><p:grpSpPr>{position(at)}</p:grpSpPr>{''.join(shapes)}</p:grpSp>"


def frame(content):
    return f"<p:graphicFrame><a:graphic><a:graphicData>{content}</a:graphicData></a:graphic></p:graphicFrame>"


def slide(*shapes, name="sld", attributes=""):
    return f"<p:{name} {SPACES} {attributes}><p:cSld><p:spTree>{''.join(shapes)}</p:spTree></p:cSld></p:{name}>"


def relations(*targets):
    lines = (
        f'<Relationship Id="{key}" Type="{OFFICE}/{kind}" Target="{target}"{more}/>'
        for key, kind, target, more in (each if len(each) == 4 else (*each, "") for each in targets)
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{"".join(lines)}</Relationships>'


def deck(*slides, attributes="", main=(), **parts):
    """Return a presentation. A slide is its XML, or a pair of its XML and the relationships of the slide."""
    pairs = [each if isinstance(each, tuple) else (each, relations()) for each in slides]
    files = {
        "_rels/.rels": relations(("r1", "officeDocument", "ppt/presentation.xml")),
        "ppt/_rels/presentation.xml.rels": relations(
            *((f"s{number}", "slide", f"slides/slide{number}.xml") for number, _ in enumerate(pairs, 1)), *main
        ),
        "ppt/presentation.xml": f"<p:presentation {SPACES} {attributes}><p:sldIdLst>"
        + "".join(f'<p:sldId id="{255 + number}" r:id="s{number}"/>' for number, _ in enumerate(pairs, 1))
        + "</p:sldIdLst></p:presentation>",
    }
    for number, (xml, related) in enumerate(pairs, 1):
        files |= {f"ppt/slides/slide{number}.xml": xml, f"ppt/slides/_rels/slide{number}.xml.rels": related}
    return archive(files | {name.replace("__", "/") + ".xml": xml for name, xml in parts.items()})


def archive(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        for name, content in files.items():
            if content is not None:
                target.writestr(name, content)
    return buffer.getvalue()


def read(*slides, **more):
    """Return the Markdown of each slide, after checking that the guard misses no word."""
    parts = pptx.read(deck(*slides, **more)).parts
    checked = guarded(parts)
    assert not checked.losses
    assert checked.parts == parts
    return [part.markdown for part in parts]


def test_title_is_heading_above_texts():
    (text,) = read(slide(shape("Sold in May", at=(0, 100, 10, 10)), shape("Prices", kind="title")))

    assert text == "## Prices\n\nSold in May"


def test_title_in_two_lines_is_one_heading():
    title = shape("<a:p><a:r><a:t>Prices</a:t></a:r><a:br/><a:r><a:t>2026</a:t></a:r></a:p>", kind="ctrTitle")

    assert read(slide(title)) == ["## Prices 2026"]


@guards(
    "shared/ingest/parse/readers/slides/pptx.py",
    "start=first",
    "start=1",
    means="numbers of slides differ from PowerPoint's",
)
def test_slide_numbers_are_powerpoints():
    parts = pptx.read(deck(slide(), slide(shape("b")), attributes='firstSlideNum="5"')).parts

    assert [(part.number, part.location) for part in parts] == [(5, "slide 5"), (6, "slide 6")]


def test_slides_have_order_of_presentation():
    content = deck(slide(shape("first")), slide(shape("second")))
    with zipfile.ZipFile(io.BytesIO(content)) as source:
        files = {name: source.read(name).decode() for name in source.namelist()}
    files["ppt/presentation.xml"] = files["ppt/presentation.xml"].replace('"s1"', '"x"').replace('"s2"', '"s1"')
    files["ppt/presentation.xml"] = files["ppt/presentation.xml"].replace('"x"', '"s2"')

    assert [part.markdown for part in pptx.read(archive(files)).parts] == ["second", "first"]


def test_hidden_slide_is_read():
    assert read(slide(shape("kept"), attributes='show="0"')) == ["kept"]


def test_missing_slide_is_named():
    content = deck(slide(shape("one")), (None, relations()), slide(shape("three")))

    reading = pptx.read(content)

    assert [part.number for part in reading.parts] == [1, 2, 3]
    assert reading.unread == ("slide 2 is missing in the file or damaged; save it in PowerPoint again",)


@guards(
    "shared/ingest/parse/readers/slides/placement.py",
    "key=lambda placed: axis(placed.box)[0]",
    "key=lambda placed: 0",
    means="no order",
)
def test_shapes_are_read_by_position():
    shapes = [
        shape("D", at=(500, 500, 400, 100)),
        shape("B", at=(500, 100, 400, 100)),
        shape("C", at=(0, 500, 400, 100)),
        shape("A", at=(0, 102, 400, 100)),
    ]

    assert read(slide(*shapes)) == ["A\n\nB\n\nC\n\nD"]


@guards(
    "shared/ingest/parse/readers/slides/placement.py",
    "if len(bands) > 1 else _split",
    "if True else _split",
    means="columns are mixed",
)
def test_columns_are_read_one_after_the_other():
    left = [shape(f"left {row}", at=(0, row * 100, 400, 100)) for row in (1, 2)]
    right = [shape(f"right {row}", at=(500, row * 100 - 50, 400, 130)) for row in (1, 2)]

    assert read(slide(left[0], right[0], left[1], right[1])) == ["left 1\n\nleft 2\n\nright 1\n\nright 2"]


@guards(
    "shared/ingest/parse/readers/slides/pptx.py",
    "waiting += [None, *reversed(shape)]",
    "continue",
    means="groups are lost",
)
def test_group_is_read_together():
    inner = group(shape("deep", at=(9, 9, 1, 1)), at=(9, 9, 1, 1))
    card = group(shape("body", at=(1, 5, 1, 1)), shape("head", at=(1, 1, 1, 1)), inner, at=(0, 0, 100, 100))

    assert read(slide(shape("after", at=(0, 500, 100, 100)), card)) == ["head\n\nbody\n\ndeep\n\nafter"]


def test_groups_20000_deep_are_read():
    depth = 20_000
    xml = slide(*["<p:grpSp>"] * depth, shape("bottom"), *["</p:grpSp>"] * depth)

    assert [part.markdown for part in guarded(pptx.read(deck(xml)).parts).parts] == ["bottom"]


def test_damaged_slide_keeps_its_words():
    xml = slide(shape("first"), shape("R&amp;D")).replace("</p:spTree>", "<a:t>last</a:t> < <")

    assert guarded(pptx.read(deck(xml)).parts).parts[0].markdown.split() == ["first", "R&D", "last"]


BULLET = '<a:pPr lvl="{}"><a:buChar char="•"/></a:pPr>'
NUMBER = '<a:pPr lvl="{}"><a:buAutoNum type="{}"/></a:pPr>'


def test_bullets_make_list_with_levels():
    body = shape(paragraph("a", BULLET.format(0)), paragraph("b", BULLET.format(1)), "text")

    assert read(slide(body)) == ["- a\n  - b\n\ntext"]


@pytest.mark.parametrize(
    ("scheme", "labels"),
    [
        ("arabicPeriod", ["1.", "2."]),
        ("arabicParenR", ["1)", "2)"]),
        ("alphaLcParenBoth", ["- (a)", "- (b)"]),
        ("romanUcPeriod", ["- I.", "- II."]),
        ("circleNumDbPlain", ["1.", "2."]),
    ],
)
def test_numbers_of_lists_are_shown(scheme, labels):
    body = shape(*(paragraph(text, NUMBER.format(0, scheme)) for text in "xy"))

    assert read(slide(body)) == [f"{labels[0]} x\n{labels[1]} y"]


@guards(
    "shared/ingest/parse/readers/office/drawingml.py",
    "del self._counts[deeper]",
    "pass",
    means="numbers of levels go on",
)
def test_number_restarts_below_next_item():
    levels = [("a", 0), ("b", 1), ("c", 0), ("d", 1)]
    body = shape(*(paragraph(text, NUMBER.format(level, "arabicPeriod")) for text, level in levels))

    assert read(slide(body)) == ["1. a\n  1. b\n2. c\n  1. d"]


LAYOUT = relations(("l", "slideLayout", "../slideLayouts/l.xml"))


def designed(*shapes, layout, attributes=""):
    (text,) = read((slide(*shapes, attributes=attributes), LAYOUT), ppt__slideLayouts__l=slide(*layout))
    return text


@guards(
    "shared/ingest/parse/readers/slides/pptx.py",
    "if box is None and kind:",
    "if False:",
    means="placeholders have no position",
)
def test_placeholder_has_position_and_bullets_of_layout():
    style = '<a:lstStyle><a:lvl1pPr><a:buChar char="-"/></a:lvl1pPr></a:lstStyle>'
    prompt = shape("Click to edit", kind="body", index="1", at=(0, 500, 100, 100), style=style)

    text = designed(shape("item", kind="body", index="1"), shape("above", at=(0, 0, 100, 100)), layout=[prompt])

    assert text == "above\n\n- item"


@guards(
    "shared/ingest/parse/readers/slides/pptx.py",
    "if text not in footers",
    "if True",
    means="footers are repeated on each slide",
)
def test_footers_are_read_once_without_dates_and_numbers():
    field = '<a:p><a:fld type="slidenum"><a:t>7</a:t></a:fld></a:p>'
    footers = [shape("Confidential", kind="ftr"), shape(field, kind="sldNum"), shape("May 4", kind="dt")]

    assert read(slide(*footers), slide(*footers, shape("x"))) == ["Confidential", "x"]


def test_text_of_layout_is_read_once_unless_hidden():
    layout = [shape("ACME Ltd."), shape("Click to edit", kind="body")]

    assert designed(shape("x"), layout=layout) == "x\n\nACME Ltd."
    assert designed(shape("x"), layout=layout, attributes='showMasterSp="0"') == "x"


@guards("shared/ingest/parse/readers/office/drawingml.py", "text = cells[-1]", "pass", means="merged columns are empty")
@guards(
    "shared/ingest/parse/readers/office/drawingml.py",
    "text = rows[-1][len(cells)]",
    "pass",
    means="merged rows are empty",
)
def test_merged_cells_are_filled():
    def cell(text, more=""):
        return f"<a:tc {more}><a:txBody>{paragraph(text)}</a:txBody></a:tc>"

    top = cell("Plan", 'gridSpan="2"') + cell("", 'hMerge="1"') + cell("a|b")
    middle = cell("x", 'rowSpan="2"') + cell("1") + cell("2")
    bottom = cell("", 'vMerge="1"') + cell("3") + cell("")
    table = f"<a:tbl><a:tr>{top}</a:tr><a:tr>{middle}</a:tr><a:tr>{bottom}</a:tr></a:tbl>"

    assert read(slide(frame(table))) == ["| Plan | Plan | a\\|b |\n| --- | --- | --- |\n| x | 1 | 2 |\n| x | 3 |  |"]


@guards(
    "shared/ingest/parse/readers/slides/pptx.py", '_labelled("Speaker notes:", noted)', "()", means="notes are lost"
)
def test_speaker_notes_are_labelled():
    notes = slide(shape("not this", kind="sldNum"), shape("say it", "slowly", kind="body"), name="notes")
    related = relations(("n", "notesSlide", "../notesSlides/n.xml"))

    assert read((slide(shape("x")), related), ppt__notesSlides__n=notes) == ["x\n\nSpeaker notes: say it\n\nslowly"]


def test_old_comments_name_their_author():
    comments = f'<p:cmLst {SPACES}><p:cm authorId="0" idx="1"><p:text>Too long</p:text></p:cm></p:cmLst>'
    authors = f'<p:cmAuthorLst {SPACES}><p:cmAuthor id="0" name="Ada"/></p:cmAuthorLst>'
    related = relations(("c", "comments", "../comments/c.xml"))

    (text,) = read(
        (slide(shape("x")), related),
        main=[("a", "commentAuthors", "authors.xml")],
        ppt__comments__c=comments,
        ppt__authors=authors,
    )

    assert text == "x\n\nComment by Ada: Too long"


@guards(
    "shared/ingest/parse/readers/slides/pptx.py",
    '.iter("{*}cm", "{*}reply")',
    '.iter("{*}cm")',
    means="replies are lost",
)
def test_threaded_comments_have_replies():
    reply = f'<p188:reply authorId="B"><p188:txBody>{paragraph("Done")}</p188:txBody></p188:reply>'
    body = f"<p188:txBody>{paragraph('Shorten')}</p188:txBody>"
    thread = f'<p188:cm authorId="A"><p188:replyLst>{reply}</p188:replyLst>{body}</p188:cm>'
    comments = f"<p188:cmLst {SPACES}>{thread}</p188:cmLst>"
    authors = (
        f'<p188:authorLst {SPACES}><p188:author id="A" name="Ada"/><p188:author id="B" name="Bo"/></p188:authorLst>'
    )

    (text,) = read(
        (slide(), relations(("c", "comments", "../comments/c.xml"))),
        main=[("a", "authors", "authors.xml")],
        ppt__comments__c=comments,
        ppt__authors=authors,
    )

    assert text == "Comment by Ada: Shorten\n\nReply by Bo: Done"


def point(key, text, kind="node"):
    return f'<dgm:pt modelId="{key}" type="{kind}"><dgm:t>{paragraph(text)}</dgm:t></dgm:pt>'


@guards(
    "shared/ingest/parse/readers/office/drawingml.py",
    'order = number_of(link.get("srcOrd"), 0)',
    "order = 0",
    means="points change places",
)
def test_diagram_is_list_with_levels():
    points = (
        point("d", "", "doc") + point("1", "Sales") + point("3", "Bo") + point("2", "Ada") + point("p", "x", "pres")
    )
    links = [("d", "1", 0), ("1", "3", 1), ("1", "2", 0)]
    connections = "".join(f'<dgm:cxn srcId="{a}" destId="{b}" srcOrd="{order}"/>' for a, b, order in links)
    model = (
        f"<dgm:dataModel {SPACES}><dgm:ptLst>{points}</dgm:ptLst><dgm:cxnLst>{connections}</dgm:cxnLst></dgm:dataModel>"
    )
    related = relations(("d", "diagramData", "../diagrams/data1.xml"))

    (text,) = read((slide(frame('<dgm:relIds r:dm="d"/>')), related), ppt__diagrams__data1=model)

    assert text == "- Sales\n  - Ada\n  - Bo"


def test_diagram_with_circle_ends():
    points = point("1", "a") + point("2", "b")
    links = '<dgm:cxn srcId="1" destId="2"/><dgm:cxn srcId="2" destId="1"/>'
    model = f"<dgm:dataModel {SPACES}><dgm:ptLst>{points}</dgm:ptLst><dgm:cxnLst>{links}</dgm:cxnLst></dgm:dataModel>"
    related = relations(("d", "diagramData", "../diagrams/data1.xml"))

    (text,) = read((slide(frame('<dgm:relIds r:dm="d"/>')), related), ppt__diagrams__data1=model)

    assert sorted(text.replace("-", "").split()) == ["a", "b"]


def cached(name, values, code=""):
    points = "".join(f'<c:pt idx="{index}"><c:v>{value}</c:v></c:pt>' for index, value in enumerate(values))
    form = f"<c:formatCode>{code}</c:formatCode>" if code else ""
    return f"<c:{name}Ref><c:{name}Cache>{form}{points}</c:{name}Cache></c:{name}Ref>"


def charted(content):
    related = relations(("c", "chart", "../charts/chart1.xml"))
    (text,) = read((slide(frame('<c:chart r:id="c"/>')), related), ppt__charts__chart1=content)
    return text


@guards(
    "shared/ingest/parse/readers/office/charts.py",
    "shown = form.number(value)",
    "shown = general(value)",
    means="percentages are fractions",
)
@guards(
    "shared/ingest/parse/readers/office/charts.py",
    "if _digits(shown) == _digits(exact):",
    "if shown:",
    means="values are rounded as their labels",
)
def test_chart_is_table_of_its_data():
    def series(name, values, code):
        names = f"<c:tx>{cached('str', [name])}</c:tx><c:cat>{cached('str', ['Q1', 'Q2'])}</c:cat>"
        return f"<c:ser>{names}<c:val>{cached('num', values, code)}</c:val></c:ser>"

    def title(text):
        return f"<c:title><c:tx><c:rich>{paragraph(text)}</c:rich></c:tx></c:title>"

    plot = (
        f"<c:plotArea><c:valAx>{title('EUR')}</c:valAx><c:barChart>"
        f"{series('Sales', ['19.2', '21.400000000000002'], '#,##0')}"
        f"{series('Margin', ['0.125', '0.2'], '0.0%')}</c:barChart></c:plotArea>"
    )

    text = charted(f"<c:chartSpace {SPACES}><c:chart>{plot}{title('Revenue')}</c:chart></c:chartSpace>")

    rows = "| Category | Sales | Margin |\n| --- | --- | --- |\n| Q1 | 19.2 | 12.5% |\n| Q2 | 21.4 | 20.0% |"
    assert text == f"Chart: Revenue\n\nAxes: EUR\n\n{rows}"


def test_series_with_other_categories_has_own_table():
    def series(name, category, value):
        names = f"<c:tx>{cached('str', [name])}</c:tx><c:xVal>{cached('num', [category])}</c:xVal>"
        return f"<c:ser>{names}<c:yVal>{cached('num', [value])}</c:yVal></c:ser>"

    text = charted(f"<c:chartSpace {SPACES}>{series('a', 1, 2)}{series('b', 3, 4)}</c:chartSpace>")

    assert text == "| X | a |\n| --- | --- |\n| 1 | 2 |\n\n| X | b |\n| --- | --- |\n| 3 | 4 |"


@pytest.mark.parametrize(("code", "shown"), [("m/d/yyyy", "1/5/2002"), (r"yyyy\-mm\-dd", "2002-01-05")])
def test_dates_of_chart_are_dates(code, shown):
    category = f"<c:cat>{cached('num', ['37261'], code)}</c:cat>"
    text = charted(
        f"<c:chartSpace {SPACES}><c:ser>{category}<c:val>{cached('num', ['1'])}</c:val></c:ser></c:chartSpace>"
    )

    assert f"| {shown} | 1 |" in text


def test_chart_of_office_2016_is_read():
    data = (
        '<cx:chartData><cx:data id="0"><cx:strDim type="cat"><cx:lvl><cx:pt idx="0">Start</cx:pt></cx:lvl></cx:strDim>'
        '<cx:numDim type="val"><cx:lvl><cx:pt idx="0">100</cx:pt></cx:lvl></cx:numDim></cx:data></cx:chartData>'
    )
    name = '<cx:series><cx:tx><cx:txData><cx:v>Cash</cx:v></cx:txData></cx:tx><cx:dataId val="0"/></cx:series>'

    assert (
        charted(f"<cx:chartSpace {SPACES}>{data}{name}</cx:chartSpace>")
        == "| Category | Cash |\n| --- | --- |\n| Start | 100 |"
    )


@guards(
    "shared/ingest/parse/readers/office/drawingml.py",
    'find("{*}Choice")',
    'find("{*}Fallback")',
    means="the worse alternative is read",
)
def test_alternative_content_is_read_once():
    content = (
        f'<mc:AlternateContent><mc:Choice Requires="p14">{shape("new")}</mc:Choice>'
        f"<mc:Fallback>{shape('old')}</mc:Fallback></mc:AlternateContent>"
    )

    assert read(slide(content)) == ["new"]


@guards(
    "shared/ingest/parse/readers/office/drawingml.py",
    'parts.append(f" {linear(node)} ")',
    "pass",
    means="formulas are lost",
)
def test_formula_is_text_in_one_line():
    run = "<m:r><m:t>{}</m:t></m:r>"
    fraction = f"<m:f><m:num>{run.format('a+b')}</m:num><m:den>{run.format('2')}</m:den></m:f>"
    power = f"<m:sSup><m:e>{run.format('c')}</m:e><m:sup>{run.format('2')}</m:sup></m:sSup>"
    math = f"<a14:m><m:oMath>{fraction}{run.format('=')}{power}</m:oMath></a14:m>"
    body = f'<a:p><mc:AlternateContent><mc:Choice Requires="a14">{math}</mc:Choice></mc:AlternateContent></a:p>'

    assert read(slide(shape(body))) == ["(a+b)/2=c^2"]


def test_picture_has_description_unless_file_name():
    def picture(text):
        return f'<p:pic><p:nvPicPr><p:cNvPr id="1" name="x" descr="{text}"/></p:nvPicPr></p:pic>'

    automatic = picture("A red bridge&#10;&#10;Description automatically generated")

    assert read(slide(automatic, picture("image1.png"))) == ["Picture: A red bridge"]


def test_link_has_its_address():
    run = '<a:p><a:r><a:rPr><a:hlinkClick r:id="h"/></a:rPr><a:t>terms</a:t></a:r></a:p>'
    related = relations(("h", "hyperlink", "https://example.org/a", ' TargetMode="External"'))

    assert read((slide(shape(run)), related)) == ["[terms](https://example.org/a)"]


def test_file_in_slide_is_named():
    related = relations(("e", "package", "../embeddings/Prices.xlsx"), ("o", "oleObject", "../embeddings/o.bin"))

    assert pptx.read(deck((slide(shape("x")), related))).unread == (
        "slide 1 contains the file Prices.xlsx, which was not read; add it as a file of its own",
    )


def test_strict_names_are_read():
    old, new = (
        "http://schemas.openxmlformats.org/presentationml/2006/main",
        "http://purl.oclc.org/ooxml/presentationml/main",
    )
    xml = slide(shape("x", kind="title"), shape(paragraph("y", BULLET.format(0)))).replace(old, new)

    assert read(xml) == ["## x\n\n- y"]


@pytest.mark.parametrize("line", ["# 1", "| x |", "> 5 kg", "- 3 degrees", "---", "==="])
def test_text_that_looks_like_markup_is_escaped(line):
    text = extract(
        deck(slide(shape("intro", paragraph(line.replace(">", "&gt;"))))),
        filename="a.pptx",
        media_type=None,
        max_text_chars=99,
    ).text

    assert text == f"intro\n\n\\{line}"


def test_unknown_shape_keeps_its_words():
    new = f"<p:newThing><p:part><p:txBody>{paragraph('kept')}</p:txBody></p:part></p:newThing>"

    assert read(slide(new)) == ["kept"]


@pytest.mark.parametrize(
    ("stated", "title"),
    [
        ("Budget 2026", "Budget 2026"),
        ("PowerPoint Presentation", "Heading"),
        ("PowerPoint-Präsentation", "Heading"),
        ("Présentation PowerPoint", "Heading"),
        ("Slide 1", "Heading"),
        ("Microsoft PowerPoint - old.ppt", "Heading"),
        ("", "Heading"),
    ],
)
@guards(
    "shared/ingest/parse/readers/stated_titles.py",
    "if title and not _MADE_BY_PROGRAM.fullmatch(title)",
    "if title",
    means="a program's title is used",
)
def test_title_is_not_a_programs(stated, title):
    properties = f'<x xmlns:dc="d"><dc:title>{stated}</dc:title></x>'
    content = deck(slide(shape("Heading", kind="title")), docProps__core=properties)

    assert extract(content, filename="a.pptx", media_type=None, max_text_chars=99).title == title


@guards(
    "shared/ingest/parse/chunks/chunking.py", "if extracted.apart and", "if False and", means="a chunk has two slides"
)
def test_short_slides_are_chunks_with_their_number():
    slides = [slide(shape(f"Title {number}", kind="title"), shape(f"Text {number}")) for number in range(1, 7)]
    slides[3] = slide(shape(paragraph("an item", BULLET.format(0))))

    chunks = divide(extract(deck(*slides), filename="a.pptx", media_type=None, max_text_chars=999), ChunkingOptions())

    assert [chunk.page for chunk in chunks] == [1, 2, 3, 4, 5, 6]
    assert chunks[5].text == "## Title 6\n\nText 6"
    assert (chunks[3].heading_path, chunks[5].heading_path) == ((), ("Title 6",))
