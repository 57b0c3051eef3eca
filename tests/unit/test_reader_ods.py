"""OpenDocument spreadsheets are read as people see them."""

from __future__ import annotations

import zipfile
from io import BytesIO

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.sheets import ods
from tests.support.planted import guards

_NAMES = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in (
        ("office", "office"),
        ("table", "table"),
        ("text", "text"),
        ("draw", "drawing"),
        ("chart", "chart"),
    )
)


def _spreadsheet(rows: str, **parts: str) -> bytes:
    content = (
        f'<office:document-content {_NAMES} xmlns:dc="dc" xmlns:xlink="x"><office:body><office:spreadsheet>'
        f'<table:table table:name="Prices">{rows}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {"content.xml": content, **parts}.items():
            archive.writestr(name, text)
    return stream.getvalue()


def _cell(text: str, attributes: str = "") -> str:
    return f"<table:table-cell {attributes}><text:p>{text}</text:p></table:table-cell>"


def _row(*cells: str) -> str:
    return f"<table:table-row>{''.join(cells)}</table:table-row>"


def _text(rows: str, **parts: str) -> str:
    reading = ods.read(_spreadsheet(rows, **parts))
    assert guarded(reading.parts).parts == reading.parts, "the two readings differ"
    return reading.parts[0].markdown


def test_shown_texts_of_cells_are_read() -> None:
    rows = _row(_cell("Item"), _cell("Price")) + _row(
        _cell("Pump<text:s text:c='2'/>A"), _cell("7,50 €", 'office:value-type="currency" office:value="7.5"')
    )
    assert _text(rows) == "## Prices\n\n| Item | Price |\n| --- | --- |\n| Pump  A | 7,50 € |"


@guards(
    "shared/ingest/parse/readers/sheets/ods.py",
    "column += repeated",
    "column += 1",
    means="values move to columns on their left",
)
def test_repeated_cells_take_their_columns() -> None:
    empty = '<table:table-cell table:number-columns-repeated="2"/>'
    rows = _row(*map(_cell, ("a", "b", "c", "d"))) + _row(_cell("1"), empty, _cell("4"))
    assert "| 1 |  |  | 4 |" in _text(rows)


def test_repeated_empty_rows_are_left_out() -> None:
    filler = '<table:table-row table:number-rows-repeated="1048500"><table:table-cell/></table:table-row>'
    assert _text(_row(_cell("a"), _cell("b")) + filler) == "## Prices\n\na: b"


@guards(
    "shared/ingest/parse/readers/sheets/ods.py",
    "if self._cells > _MOST_CELLS",
    "if False",
    means="a small file fills the memory",
)
def test_text_repeated_too_often_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ods, "_MOST_CELLS", 1000)
    rows = f'<table:table-row table:number-rows-repeated="2000">{_cell("x")}</table:table-row>'
    with pytest.raises(Unreadable, match="too large when unpacked; divide it"):
        ods.read(_spreadsheet(rows))


@guards(
    "shared/ingest/parse/readers/sheets/ods.py",
    "sheet.merges.append",
    "(lambda merge: None)",
    means="merged cells are filled once",
)
def test_merged_cells_are_filled() -> None:
    covered = "<table:covered-table-cell/>"
    rows = (
        _row(_cell("Country"), _cell("City"), _cell("N"))
        + _row(_cell("Peru", 'table:number-rows-spanned="2"'), _cell("Lima"), _cell("1"))
        + _row(covered, _cell("Ica"), _cell("2"))
    )
    assert "| Peru | Ica | 2 |" in _text(rows)


@guards(
    "shared/ingest/parse/readers/sheets/ods.py",
    "sheet.notes.append(",
    "(lambda note: None)(",
    means="comments are lost",
)
def test_comments_are_labelled() -> None:
    note = "<office:annotation><dc:creator>Ann</dc:creator><text:p>too high</text:p></office:annotation>"
    rows = _row(f"<table:table-cell>{note}<text:p>9</text:p></table:table-cell>", _cell("b"))
    assert _text(rows).endswith("- Comment on A1 by Ann: too high")


def test_text_boxes_are_read() -> None:
    shapes = "<table:shapes><draw:frame><draw:text-box><text:p>Read me</text:p></draw:text-box></draw:frame>"
    assert _text(f"{shapes}</table:shapes>{_row(_cell('a'))}") == "## Prices\n\na\n\nRead me"


def test_charts_are_tables() -> None:
    chart = (
        f"<office:document-content {_NAMES}><office:body><office:chart><chart:chart>"
        "<chart:title><text:p>Ducks</text:p></chart:title>"
        f"<table:table>{_row(_cell('Month'), _cell('Lakes'))}{_row(_cell('May'), _cell('5'))}</table:table>"
        "</chart:chart></office:chart></office:body></office:document-content>"
    )
    shapes = '<table:shapes><draw:frame><draw:object xlink:href="./Object 1"/></draw:frame></table:shapes>'
    text = _text(shapes, **{"Object 1/content.xml": chart})
    assert text == "## Prices\n\nChart: Ducks\n\n| Month | Lakes |\n| --- | --- |\n| May | 5 |"


@guards(
    "shared/ingest/parse/readers/sheets/ods.py",
    "sheet.formulas.append(",
    "(lambda formula: None)(",
    means="formulas without values are not named",
)
def test_formula_without_value_is_named() -> None:
    rows = _row(_cell("a"), '<table:table-cell table:formula="of:=[.A1]*2"/>')
    assert 'sheet "Prices" has 1 formula without a stored value' in ods.read(_spreadsheet(rows)).unread[0]


def test_protected_file_is_refused() -> None:
    content = _spreadsheet("", **{"META-INF/manifest.xml": "<manifest:encryption-data/>"})
    with pytest.raises(Unreadable, match="remove the password"):
        ods.read(content)


@guards(
    "shared/ingest/parse/readers/sheets/ods.py",
    "    if not whole:",
    "    if None:",
    means="the lost end of a damaged file is not named",
)
def test_lost_end_of_damaged_file_is_named() -> None:
    whole = _spreadsheet(_row(_cell("Code"), _cell("Price")) + _row(_cell("E17"), _cell("five")))
    with zipfile.ZipFile(BytesIO(whole)) as archive:
        content = archive.read("content.xml").decode()
    damaged = ods.read(_spreadsheet("", **{"content.xml": content[: content.index("five")]}))

    assert ods.read(whole).unread == ()
    assert [sentence.partition(",")[0] for sentence in damaged.unread] == ["the file is damaged"]
    assert "E17" in damaged.parts[0].markdown
