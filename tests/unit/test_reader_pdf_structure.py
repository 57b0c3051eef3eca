"""Headings and running titles of PDF files."""

from shared.ingest.parse.readers.pdf import read
from tests.support.drawn_pdfs import BODY, line, lines, pdf
from tests.support.planted import guards


def markdown(content):
    return [part.markdown for part in read(content).parts]


def headings(*contents):
    text = "\n".join(markdown(pdf(*contents)))
    return [found.lstrip("# ") for found in text.split("\n") if found.startswith("#")]


def clause(number, y):
    return line(50, y, f"{number}. Duties of party {number}", 12, "F2") + lines(50, y - 20, *[f"{BODY}."] * 4)


@guards(
    "shared/ingest/parse/readers/pdf/structure.py",
    "return normal(block.text).translate(_DIGITS), round(block.top / _SAME_HEIGHT)",
    "return normal(block.text).translate(_DIGITS), 0",
    means="headings that differ only in their numbers are labels of pages",
)
def test_clauses_that_differ_by_number_are_headings():
    pages = ["".join(clause(4 * page + at, 700 - 40 * page - 90 * at) for at in range(4)) for page in range(5)]

    assert headings(*pages) == [f"{number}. Duties of party {number}" for number in range(20)]


@guards(
    "shared/ingest/parse/readers/pdf/structure.py",
    "if len(blocks) >= least and not (differ and blocks[0].size >= body * _MUCH_LARGER):",
    "if len(blocks) < 0:",
    means="labels of pages are headings",
)
def test_label_on_each_page_is_not_a_heading():
    pages = [line(50, 600, "Confidential", 14, "F2") + lines(50, 560 - at, *[f"{BODY} {at}."] * 9) for at in range(5)]

    assert headings(*pages) == []


@guards(
    "shared/ingest/parse/readers/pdf/margins.py",
    "if best and best[2] is not None and block.size >= large and block.text[:1].isalpha():",
    "if not best:",
    means="chapters are running headers",
)
def test_chapter_at_top_of_each_page_is_heading():
    pages = [line(50, 760, f"Chapter {at}", 18, "F2") + lines(50, 730, *[f"{BODY} {at}."] * 20) for at in range(1, 7)]

    assert headings(*pages) == [f"Chapter {at}" for at in range(1, 7)]


@guards(
    "shared/ingest/parse/readers/pdf/structure.py",
    "if block.text.endswith(_COLONS) and not (large or block.bold):",
    "if not block.text:",
    means="the label of a field is a heading",
)
def test_label_with_colon_is_not_a_title():
    reading = read(pdf(line(50, 700, "Country:", 12) + lines(50, 600, *[BODY] * 9)))

    assert "#" not in reading.parts[0].markdown
    assert reading.title is None


@guards(
    "shared/ingest/parse/readers/pdf/structure.py",
    "if _LEADER.search(text):",
    "if not text:",
    means="lines of a table of contents are headings",
)
def test_line_of_contents_is_not_a_heading():
    content = line(50, 700, "Use of the crane . . . . . . . 12", 12, "F2") + lines(50, 600, *[BODY] * 9)

    assert headings(content) == []


@guards(
    "shared/ingest/parse/readers/pdf/blocks.py",
    "return _is_bold(before) and not _is_bold([line]) and _is_forced(before[-1], line, right)",
    "return False",
    means="a bold title is part of the paragraph below it",
)
def test_bold_title_over_mixed_paragraph_is_heading():
    parties = "BT /F1 10 Tf 1 0 0 1 50 686 Tm (Between ) Tj /F2 10 Tf (Acme Ltd) Tj /F1 10 Tf ( and others) Tj ET\n"

    assert headings(line(250, 700, "AGREEMENT", 10, "F2") + parties + lines(50, 650, *[BODY] * 9)) == ["AGREEMENT"]


def test_bold_fields_below_each_other_are_not_headings():
    fields = "".join(
        line(50, 700 - 30 * at, f"{name}: SA{at}", 10, "F2") for at, name in enumerate(("Carrier", "Sales"))
    )
    body = lines(50, 560, *[f"{BODY} {at}." for at in range(9)])

    assert headings(line(50, 750, "Part 1: Freight", 16, "F2") + fields + body) == ["Part 1: Freight"]
