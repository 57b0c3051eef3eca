"""Excel workbooks are read as people see them: values, tables, comments, drawings."""

from __future__ import annotations

import zipfile
from io import BytesIO
from xml.sax.saxutils import escape, quoteattr

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.chunking import divide
from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.reading import FileReading
from shared.ingest.parse.readers.sheets import xlsx
from tests.support.planted import guards

_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_A = "http://schemas.openxmlformats.org/drawingml/2006/main"
_C = "http://schemas.openxmlformats.org/drawingml/2006/chart"
_XDR = "http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing"

Value = str | float | None


def _letters(column: int) -> str:
    return chr(ord("A") + column) if column < 26 else _letters(column // 26 - 1) + _letters(column % 26)


def _cell(reference: str, value: Value) -> str:
    if isinstance(value, str) and value.startswith("<"):
        return value.replace("<c", f'<c r="{reference}"', 1)
    if isinstance(value, str):
        return f'<c r="{reference}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{reference}"><v>{value!r}</v></c>'


def _rows(rows: list[list[Value]], first: int = 1) -> str:
    return "".join(
        f'<row r="{number}">'
        + "".join(_cell(f"{_letters(at)}{number}", value) for at, value in enumerate(row) if value is not None)
        + "</row>"
        for number, row in enumerate(rows, first)
        if row
    )


def _relations(*relations: tuple[str, str]) -> str:
    found = "".join(
        f'<Relationship Id="r{at}" Type="{_OFFICE}/{kind}" Target={quoteattr(target)}/>'
        for at, (kind, target) in enumerate(relations, 1)
    )
    return f'<Relationships xmlns="{_RELATIONS}">{found}</Relationships>'


def workbook(*sheets: str, after: str = "", formats: tuple[str, ...] = (), properties: str = "", **parts: str) -> bytes:
    """Return a workbook whose sheets have this XML in `sheetData`; `after` follows the rows of the first sheet."""
    codes = "".join(f'<numFmt numFmtId="{164 + at}" formatCode={quoteattr(code)}/>' for at, code in enumerate(formats))
    styles = "".join(f'<xf numFmtId="{164 + at}"/>' for at in range(len(formats)))
    files = {
        "_rels/.rels": _relations(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}">{properties}<sheets>'
        + "".join(f'<sheet name="Sheet {at}" sheetId="{at}" r:id="r{at}"/>' for at in range(1, len(sheets) + 1))
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": _relations(
            *(("worksheet", f"worksheets/sheet{at}.xml") for at in range(1, len(sheets) + 1)),
            ("styles", "styles.xml"),
        ),
        "xl/styles.xml": f'<styleSheet xmlns="{_SHEET}"><numFmts>{codes}</numFmts>'
        f'<cellXfs><xf numFmtId="0"/>{styles}</cellXfs></styleSheet>',
    }
    for at, rows in enumerate(sheets, 1):
        files[f"xl/worksheets/sheet{at}.xml"] = (
            f'<worksheet xmlns="{_SHEET}"><sheetData>{rows}</sheetData>{after if at == 1 else ""}</worksheet>'
        )
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {**files, **parts}.items():
            archive.writestr(name, text)
    return stream.getvalue()


def _read(content: bytes) -> FileReading:
    reading = xlsx.read(content)
    assert guarded(reading.parts).parts == reading.parts, "the two readings differ"
    return reading


def _text(content: bytes) -> str:
    return "\n\n".join(part.markdown for part in _read(content).parts)


def _chunks(content: bytes) -> list[str]:
    extracted = extract(content, filename="a.xlsx", media_type=None, max_text_chars=10_000_000)
    return [chunk.text for chunk in divide(extracted, ChunkingOptions())]  # type: ignore[arg-type]


@guards(
    "shared/ingest/parse/readers/sheets/cell_styles.py",
    "codes.get(identifier) or BUILT_IN",
    '"" or BUILT_IN',
    means="own number formats are ignored",
)
def test_cells_have_their_number_format() -> None:
    cells = '<c r="A1" s="1"><v>46085</v></c><c r="B1" s="2"><v>1067</v></c><c r="C1" s="3"><v>1.5625</v></c>'
    text = _text(workbook(f'<row r="1">{cells}</row>', formats=("dd/mm/yyyy", "00000", "[h]:mm")))
    assert all(shown in text for shown in ("04/03/2026", "01067", "37:30"))


@guards(
    "shared/ingest/parse/readers/sheets/cell_styles.py",
    "since_1904=since_1904)\n",
    "since_1904=False)\n",
    means="dates of old Macintosh files are four years early",
)
def test_workbook_of_1904_has_its_dates() -> None:
    cells = '<row r="1"><c r="A1" s="1"><v>0</v></c></row>'
    text = _text(workbook(cells, formats=("yyyy-mm-dd",), properties='<workbookPr date1904="1"/>'))
    assert "1904-01-01" in text


@guards(
    "shared/ingest/parse/readers/sheets/xml_bytes.py",
    'if count != content.count(b"<c", start, end)',
    "if False",
    means="cells that some programs write in another form are lost",
)
def test_rows_of_any_form_have_all_cells() -> None:
    usual = (
        '<row r="1"><c r="A1" t="str"><v>Name</v></c><c r="B1" t="str"><v>R&amp;D</v></c></row>'
        '<row r="2"><c r="A2" t="inlineStr"><is><t>Apple</t></is></c><c r="B2"><f>1+2</f><v>3</v></c></row>'
        '<row r="3"><c r="A3" t="b"><v>1</v></c><c r="B3"><v>1234.5678901</v></c></row>'
    )
    unusual = {
        "comment": usual + "<!-- made by a program -->",
        "more elements": usual.replace("<v>3", "<extLst/><v>3"),
        "apostrophes": usual.replace('t="b"', "t='b'"),
        "space": usual.replace('<c r="A3" t="b">', '<c  r="A3" t="b" >'),
        "order": usual.replace('<c r="A3" t="b">', '<c t="b" r="A3">'),
    }
    expected = _text(workbook(usual))
    assert "| TRUE | 1234.56789 |" in expected
    assert {name: _text(workbook(rows)) for name, rows in unusual.items()} == dict.fromkeys(unusual, expected)


@guards(
    "shared/ingest/parse/readers/sheets/xml_bytes.py",
    """if content.count(b'<c r="') != content.count(b"<c ") or b"<c>" in content:""",
    "if False:",
    means="a value moves to the column of an empty cell",
)
def test_cell_without_reference_follows_empty_cell() -> None:
    first, second = _rows([["Name", "Unit", "Price"]]), _rows([["Apple", "kg", 7]], 3)
    empty = '<c r="A2" s="0"/><c r="B2" s="0"/>'
    assert "|  |  | 5 |" in _text(workbook(f'{first}<row r="2">{empty}<c><v>5</v></c></row>{second}'))


@guards(
    "shared/ingest/parse/readers/sheets/number_formats.py",
    'or places[-1] != "5"',
    "or True",
    means="halves are rounded to the even digit",
)
def test_halves_are_rounded_up() -> None:
    cells = "".join(
        f'<c r="{column}1" s="1"><v>{value}</v></c>' for column, value in zip("ABC", (0.125, 2.5, 1.005), strict=True)
    )
    assert "0.13, 2.50, 1.01" in _text(workbook(f'<row r="1">{cells}</row>', formats=("0.00",)))


def test_values_of_all_types_are_shown() -> None:
    cells = (
        '<row r="1"><c r="A1" t="b"><v>1</v></c><c r="B1" t="e"><v>#N/A</v></c>'
        '<c r="C1" t="str"><f>A1</f><v>made</v></c>'
        '<c r="D1" t="inlineStr"><is><r><t>rich </t></r><r><rPr><b/></rPr><t>text</t></r><rPh><t>no</t></rPh></is></c>'
        '<c r="E1" t="d"><v>2026-03-04</v></c><c><is><t>next_x000D_</t></is></c></row>'
    )
    assert "TRUE, #N/A, made, rich text, 2026-03-04, next" in _text(workbook(cells))


@guards(
    "shared/ingest/parse/readers/sheets/worksheets.py",
    'if not value and form.kind != "str":',
    "if False:",
    means="formulas without values are not named",
)
def test_formula_without_value_is_named() -> None:
    cells = _rows([["a", "b"], [1, "<c><f>A2*2</f></c>"], [2, "<c><f>A3*2</f><v></v></c>"]])
    reading = _read(workbook(cells))
    assert "| 1 | =A2*2 |" in reading.parts[0].markdown
    assert 'sheet "Sheet 1" has 2 formulas without a stored value, such as B2 =A2*2' in reading.unread[0]


@guards(
    "shared/ingest/parse/readers/sheets/worksheets.py",
    "if self._recalculates and zeros.are_all:",
    "if False:",
    means="0 stands for values never calculated",
)
def test_formulas_never_calculated_are_named() -> None:
    cells = _rows([["a", "b"], [1, "<c><f>A2*2</f><v>0</v></c>"]])
    reading = _read(workbook(cells, properties='<calcPr fullCalcOnLoad="1"/>'))
    assert "=A2*2" in reading.parts[0].markdown
    assert reading.unread


def test_calculated_zero_is_a_value() -> None:
    cells = _rows([["a", "b"], [1, "<c><f>A2*0</f><v>0</v></c>"], [1, "<c><f>A2*2</f><v>2</v></c>"]])
    reading = _read(workbook(cells, properties='<calcPr fullCalcOnLoad="1"/>'))
    assert "| 1 | 0 |" in reading.parts[0].markdown
    assert not reading.unread


@guards(
    "shared/ingest/parse/readers/sheets/headers.py",
    "if len(cells) < 2 or covered < usual",
    "if covered < usual - 9",
    means="a title is taken for the header",
)
def test_title_above_table_becomes_paragraph() -> None:
    rows = [["Prices of 2026"], ["Currency", "EUR"], ["Article", "Unit", "Size", "Price"]]
    content = workbook(_rows([*rows, *([f"A{at}", "pcs", "big and heavy", at] for at in range(200))]))
    chunks = _chunks(content)
    assert chunks[0].startswith("## Sheet 1\n\nPrices of 2026\n\nCurrency: EUR\n\n| Article |")
    assert len(chunks) > 3
    assert all("| Article | Unit | Size | Price |\n| ---" in chunk for chunk in chunks)


@guards(
    "shared/ingest/parse/readers/sheets/headers.py", "first -= 1", "break", means="an upper header row is a paragraph"
)
@pytest.mark.parametrize("merged", [True, False])
def test_two_header_rows_become_one(merged: bool) -> None:
    rows: list[list[Value]] = [[None, 2025, None, "Sum", None], ["City", "Plan", "Actual", "Plan", "Actual"]]
    after = '<mergeCells><mergeCell ref="B1:C1"/><mergeCell ref="D1:E1"/></mergeCells>' if merged else ""
    text = _text(workbook(_rows([*rows, ["Oslo", 1, 2, 3, 4], ["Rome", 5, 6, 7, 8]]), after=after))
    assert "| City | Plan 2025 | Actual 2025 | Sum Plan | Sum Actual |\n| --- |" in text


@guards(
    "shared/ingest/parse/readers/sheets/headers.py",
    "after += 1",
    "break",
    means="a lower header row has values",
)
def test_merged_labels_above_second_header_row() -> None:
    rows: list[list[Value]] = [["City", 2025, None], [None, "Plan", "Actual"], ["Oslo", 1, 2], ["Rome", 3, 4]]
    after = '<mergeCells><mergeCell ref="A1:A2"/><mergeCell ref="B1:C1"/></mergeCells>'
    assert "| City | Plan 2025 | Actual 2025 |\n| --- |" in _text(workbook(_rows(rows), after=after))


@guards(
    "shared/ingest/parse/readers/sheets/grid.py",
    "return {**texts, **cells} if texts else cells",
    "return cells",
    means="merged cells are filled once",
)
def test_merged_cells_are_filled() -> None:
    rows: list[list[Value]] = [["Country", "City", "N"], ["Peru", "Lima", 1], [None, "Cusco", 2], [None, "Ica", 3]]
    text = _text(workbook(_rows(rows), after='<mergeCells><mergeCell ref="A2:A4"/></mergeCells>'))
    assert "| Peru | Cusco | 2 |\n| Peru | Ica | 3 |" in text


def test_merged_title_is_shown_once() -> None:
    rows: list[list[Value]] = [["Budget"], ["Item", "Cost"], ["Pump", 5]]
    text = _text(workbook(_rows(rows), after='<mergeCells><mergeCell ref="A1:B1"/></mergeCells>'))
    assert text == "## Sheet 1\n\nBudget\n\n| Item | Cost |\n| --- | --- |\n| Pump | 5 |"


@guards(
    "shared/ingest/parse/readers/sheets/grid.py",
    "if previous and _continues(previous, band, grid):",
    "if False:",
    means="a total row has no header",
)
def test_empty_row_inside_table_does_not_end_it() -> None:
    rows: list[list[Value]] = [["Item", "Cost"], ["Pump", 5], [], ["Total", 5]]
    assert "| Pump | 5 |\n| Total | 5 |" in _text(workbook(_rows(rows)))


@guards(
    "shared/ingest/parse/readers/sheets/grid.py",
    "if _is_apart(left, right):",
    "if False:",
    means="tables next to each other are one table",
)
def test_tables_next_to_each_other_are_apart() -> None:
    rows: list[list[Value]] = [["Name", "Age", None, "City", "Size"], ["Ann", 3, None, "Oslo", 9]]
    text = _text(workbook(_rows([*rows, ["Bob", 4, None, "Rome", 8], [None, None, None, "Bonn", 7]])))
    assert "| Bob | 4 |\n\n| City | Size |" in text


def test_empty_column_inside_table_is_left_out() -> None:
    rows: list[list[Value]] = [["Item", "Note", None, "2025", "2024"], ["Pump", "new", None, 1, 2]]
    assert "| Pump | new | 1 | 2 |" in _text(workbook(_rows([*rows, ["Seal", "old", None, 3, 4]])))


@guards(
    "shared/ingest/parse/readers/sheets/tables.py",
    "names.get(column) or _reference(number, column)",
    "_reference(number, column)",
    means="values of wide tables have no name",
)
def test_wide_table_has_names_in_each_chunk() -> None:
    names: list[Value] = ["Respondent", *(f"How satisfied are you with topic {at}?" for at in range(300))]
    chunks = _chunks(
        workbook(_rows([names, *([f"R{row}", *(f"answer {row}-{at}" for at in range(300))] for row in range(2))]))
    )
    assert all("topic" in chunk for chunk in chunks)
    assert all(chunk.split("\n\n")[-1].startswith("Respondent: R") for chunk in chunks)
    assert all(
        f"How satisfied are you with topic {at}?: answer 1-{at}\n" in "\n".join([*chunks, ""]) for at in range(300)
    )


@guards(
    "shared/ingest/parse/readers/sheets/xlsx.py",
    "if not _END.search(",
    "if None and not _END.search(",
    means="the lost end of a damaged sheet is not named",
)
@pytest.mark.parametrize(
    ("cut", "unread"),
    [
        (
            len("</sheetData></worksheet>"),
            ('sheet "Sheet 1" is damaged, and its end was not read; save it again in Excel',),
        ),
        (0, ()),
    ],
)
def test_lost_end_of_sheet_is_named(cut: int, unread: tuple[str, ...]) -> None:
    sheet = f'<worksheet xmlns="{_SHEET}"><sheetData>{_rows([["Code", "Price"], ["E17", 5]])}</sheetData></worksheet>'
    damaged = workbook("", **{"xl/worksheets/sheet1.xml": sheet[: len(sheet) - cut]})
    reading = _read(damaged)
    assert reading.unread == unread
    assert "E17" in reading.parts[0].markdown


@guards(
    "shared/ingest/parse/readers/sheets/tables.py",
    "            empty.pop(column, None)\n",
    "            empty.clear()\n",
    means="the names of columns without values are lost",
)
def test_wide_table_names_columns_without_values() -> None:
    names: list[Value] = ["Respondent", *(f"How satisfied are you with topic {at}?" for at in range(300)), "Remarks"]
    text = _text(workbook(_rows([names, ["R0", *(f"answer {at}" for at in range(300))]])))
    assert text.endswith("Without values: Remarks")


@guards(
    "shared/ingest/parse/readers/sheets/tables.py",
    "others = key if at else",
    "others = {} if at else",
    means="a piece of a long cell has no key",
)
def test_piece_of_long_cell_has_key_of_row() -> None:
    rows: list[list[Value]] = [["Code", "Text"], ["E17", "A seal may leak. " * 300], ["E18", "short"]]
    chunks = _chunks(workbook(_rows(rows)))
    assert len(chunks) > 2
    assert all("| Code | Text |" in chunk and "| E17 | A seal" in chunk for chunk in chunks)


@guards(
    "shared/ingest/parse/readers/sheets/grid.py",
    "max(_SMALL, cells / _DENSE)",
    "10**12",
    means="a sparse sheet fills the memory",
)
def test_sparse_sheet_is_short() -> None:
    diagonal = "".join(f'<row r="{at + 1}">{_cell(f"{_letters(at)}{at + 1}", at)}</row>' for at in range(1_500))
    far = '<row r="1048576"><c r="XFD1048576"><v>42</v></c></row>'
    text = _text(workbook(diagonal + far))
    assert text.endswith("\n\n42")
    assert len(text) < 100_000


@guards(
    "shared/ingest/parse/readers/sheets/worksheets.py",
    "if self._chars > MOST_SHOWN_CHARS:",
    "if False:",
    means="a small file fills the memory",
)
def test_text_shown_too_often_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.ingest.parse.readers.sheets.worksheets.MOST_SHOWN_CHARS", 50_000)
    with pytest.raises(Unreadable, match="too large when unpacked; divide it"):
        xlsx.read(workbook(_rows([["long " * 1000]] * 20)))


@guards(
    "shared/ingest/parse/readers/sheets/grid.py", "if left_over < 0:", "if False:", means="many merged cells take hours"
)
def test_merged_cells_fill_a_limited_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.ingest.parse.readers.sheets.grid._MOST_FILLED", 4)
    rows: list[list[Value]] = [["a", "b"], *([["x", at] if at == 0 else [None, at] for at in range(9)])]
    text = _text(workbook(_rows(rows), after='<mergeCells><mergeCell ref="A2:A10"/></mergeCells>'))
    assert text.count("| x |") == 4


@guards(
    "shared/ingest/parse/readers/sheets/tables.py",
    'text = text.replace("|", r"\\|")',
    "pass",
    means="a pipe in a cell makes another column",
)
def test_pipe_and_line_break_stay_in_their_cell() -> None:
    assert "| a \\| b | one two |" in _text(workbook(_rows([["Key", "Text"], ["a | b", "one\ntwo"], ["c", "d"]])))


def test_sheets_have_headings_and_names() -> None:
    reading = _read(workbook(_rows([["first"]]), "", _rows([["third"]])))
    assert [(part.location, part.markdown) for part in reading.parts] == [
        ('sheet "Sheet 1"', "## Sheet 1\n\nfirst"),
        ('sheet "Sheet 3"', "## Sheet 3\n\nthird"),
    ]


_BOX = (
    f'<xdr:wsDr xmlns:xdr="{_XDR}" xmlns:a="{_A}"><xdr:sp><xdr:txBody><a:p><a:r><a:t>R&amp;D is </a:t></a:r>'
    "<a:r><a:t>open</a:t></a:r></a:p><a:p><a:r><a:t># all day</a:t></a:r></a:p></xdr:txBody></xdr:sp></xdr:wsDr>"
)


def _titled(text: str) -> str:
    return f"<c:title><c:tx><c:rich><a:p><a:r><a:t>{text}</a:t></a:r></a:p></c:rich></c:tx></c:title>"


def _points(*values: str) -> str:
    return "".join(f'<c:pt idx="{at}"><c:v>{value}</c:v></c:pt>' for at, value in enumerate(values))


_CHART = (
    f'<c:chartSpace xmlns:c="{_C}" xmlns:a="{_A}"><c:chart>{_titled("Ducks")}<c:plotArea><c:barChart><c:ser>'
    f"<c:tx><c:strRef><c:strCache>{_points('Lakes')}</c:strCache></c:strRef></c:tx>"
    f"<c:cat><c:strRef><c:strCache>{_points('May', 'June')}</c:strCache></c:strRef></c:cat>"
    f"<c:val><c:numRef><c:numCache><c:formatCode>0.0%</c:formatCode>{_points('0.5', '0.25')}</c:numCache></c:numRef>"
    f"</c:val></c:ser></c:barChart><c:valAx>{_titled('Share')}</c:valAx></c:plotArea></c:chart></c:chartSpace>"
)


@guards(
    "shared/ingest/parse/readers/sheets/xlsx.py", "blocks += shape_texts(root)", "pass", means="text boxes are lost"
)
def test_text_boxes_are_read() -> None:
    text = _text(
        workbook(
            "",
            **{
                "xl/worksheets/_rels/sheet1.xml.rels": _relations(("drawing", "../drawings/drawing1.xml")),
                "xl/drawings/drawing1.xml": _BOX,
            },
        )
    )
    assert text == "## Sheet 1\n\nR&D is open\n\\# all day"


@guards(
    "shared/ingest/parse/readers/office/charts.py",
    "yield from _tables([each",
    "_tables([each",
    means="the values of charts are lost",
)
def test_charts_are_tables() -> None:
    text = _text(
        workbook(
            "",
            **{
                "xl/worksheets/_rels/sheet1.xml.rels": _relations(("drawing", "../drawings/drawing1.xml")),
                "xl/drawings/drawing1.xml": f'<xdr:wsDr xmlns:xdr="{_XDR}"/>',
                "xl/drawings/_rels/drawing1.xml.rels": _relations(("chart", "/xl/charts/chart1.xml")),
                "xl/charts/chart1.xml": _CHART,
            },
        )
    )
    assert text.startswith(
        "## Sheet 1\n\nChart: Ducks\n\nAxes: Share\n\n| Category | Lakes |\n| --- | --- |\n| May | 50.0% |"
    )


@guards(
    "shared/ingest/parse/readers/sheets/xlsx.py",
    "not text.startswith(_PLACEHOLDER)",
    "True",
    means="comments have a sentence of Excel",
)
def test_comments_have_cell_and_author() -> None:
    old = (
        f'<comments xmlns="{_SHEET}"><authors><author>Ann</author></authors><commentList>'
        '<comment ref="A2" authorId="0"><text><r><t>Ann:</t></r><r><t>\ntoo high</t></r></text></comment>'
        '<comment ref="B2" authorId="0"><text><t>[Threaded comment] open in a new version</t></text></comment>'
        "</commentList></comments>"
    )
    threaded = (
        '<t:ThreadedComments xmlns:t="x"><t:threadedComment ref="B2" personId="p"><t:text>Why?</t:text>'
        "</t:threadedComment></t:ThreadedComments>"
    )
    text = _text(
        workbook(
            _rows([["a", "b"], [7, 8]]),
            **{
                "xl/worksheets/_rels/sheet1.xml.rels": _relations(
                    ("comments", "../comments1.xml"), ("threadedComment", "../threadedComments/t1.xml")
                ),
                "xl/comments1.xml": old,
                "xl/threadedComments/t1.xml": threaded,
            },
        )
    )
    assert text.endswith('- Comment on A2 ("7") by Ann: too high\n- Comment on B2 ("8"): Why?')


def test_binary_workbook_is_refused() -> None:
    content = workbook("", **{"_rels/.rels": _relations(("officeDocument", "xl/workbook.bin"))})
    with pytest.raises(Unreadable, match="save it as xlsx"):
        xlsx.read(content)
