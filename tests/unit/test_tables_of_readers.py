"""Tables of every format have one header row with the labels of both header rows, below the titles above them."""

from io import BytesIO
from zipfile import ZipFile

import pytest

from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers.markdown import as_table
from tests.support.planted import guards
from tests.support.word_files import word_file

TWO_ROWS = "| Region | 2025 Plan | 2025 Actual |\n| --- | --- | --- |\n| North | 1 | 2 |\n| South | 3 | 4 |"


@guards(
    "shared/ingest/parse/readers/markdown.py",
    "if not _is_title(row, width)), 0)",
    "if True), 0)",
    means="each chunk of a table repeats its title instead of the names of its columns",
    case="title",
)
@pytest.mark.parametrize(
    ("rows", "text"),
    [
        pytest.param(
            (
                ("Spring prices", "Spring prices"),
                ("valid in 2026", "valid in 2026"),
                ("Article", "Price"),
                ("Pump", "2"),
            ),
            "Spring prices\n\nvalid in 2026\n\n| Article | Price |\n| --- | --- |\n| Pump | 2 |",
            id="title",
        ),
        pytest.param(
            (("yes", "yes"), ("no", "yes"), ("yes", "no")),
            "| yes | yes |\n| --- | --- |\n| no | yes |\n| yes | no |",
            id="values",
        ),
        pytest.param(
            (("Kind", "2025", "2025"), ("Kind", "Plan", "Actual"), ("Tea", "1", "2")),
            "| Kind | 2025 Plan | 2025 Actual |\n| --- | --- | --- |\n| Tea | 1 | 2 |",
            id="merged-downwards",
        ),
        pytest.param(
            (("", "Sales", "Sales"), ("", "2024", "2025"), ("Tea", "1", "2")),
            "|  | Sales 2024 | Sales 2025 |\n| --- | --- | --- |\n| Tea | 1 | 2 |",
            id="years",
        ),
        pytest.param(
            (("Region", "Sales", "Sales"), ("", "17", "18"), ("Tea", "1", "2")),
            "| Region | Sales | Sales |\n| --- | --- | --- |\n|  | 17 | 18 |\n| Tea | 1 | 2 |",
            id="numbers-are-no-labels",
        ),
        pytest.param(
            (("9:00", "Opening", "Opening"), ("10:00", "Pumps", "Seals"), ("11:00", "Lunch", "Lunch")),
            "| 9:00 | Opening | Opening |\n| --- | --- | --- |\n| 10:00 | Pumps | Seals |\n| 11:00 | Lunch | Lunch |",
            id="row-with-its-own-key",
        ),
    ],
)
def test_header_has_labels_and_no_title(rows, text):
    assert as_table(rows) == text


def word(rows):
    def cell(text, span):
        return f'<w:tc><w:tcPr><w:gridSpan w:val="{span}"/></w:tcPr><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>'

    lines = ("".join(cell(*each) for each in row) for row in rows)
    return word_file(f"<w:tbl>{''.join(f'<w:tr>{line}</w:tr>' for line in lines)}</w:tbl>")


def opendocument(rows):
    def cell(text, span):
        spanned = f'<table:table-cell table:number-columns-spanned="{span}"><text:p>{text}</text:p></table:table-cell>'
        return spanned + "<table:covered-table-cell/>" * (span - 1)

    lines = (f"<table:table-row>{''.join(cell(*each) for each in row)}</table:table-row>" for row in rows)
    names = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("table", "text"))
    office = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
    body = f"<o:body><o:text><table:table>{''.join(lines)}</table:table></o:text></o:body>"
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr("content.xml", f'<o:document-content xmlns:o="{office}" {names}>{body}</o:document-content>')
    return file.getvalue()


def rtf(rows):
    lines = ""
    for row in rows:
        edges = [mark for _, span in row for mark in (r"\clmgf" if span > 1 else "", *[r"\clmrg"] * (span - 1))]
        texts = "".join(text + r"\cell " * span for text, span in row)
        lines += r"\trowd" + "".join(rf"{mark}\cellx{at}000" for at, mark in enumerate(edges, 1)) + rf" {texts}\row"
    return rf"{{\rtf1\ansi {lines}\pard}}".encode()


def html(rows):
    lines = ("".join(f"<td colspan={span}>{text}" for text, span in row) for row in rows)
    return f"<table>{''.join(f'<tr>{line}' for line in lines)}</table>".encode()


@pytest.mark.parametrize("write", [word, opendocument, rtf, html])
def test_two_header_rows_are_one_in_each_format(write):
    header = [[("Region", 1), ("2025", 2)], [("", 1), ("Plan", 1), ("Actual", 1)]]
    rows = [[(text, 1) for text in row] for row in (("North", "1", "2"), ("South", "3", "4"))]
    suffix = {word: "docx", opendocument: "odt", rtf: "rtf", html: "html"}[write]

    extracted = extract(write(header + rows), filename=f"a.{suffix}", media_type=None, max_text_chars=10_000)

    assert extracted.text == TWO_ROWS
    assert extracted.coverage == 1
