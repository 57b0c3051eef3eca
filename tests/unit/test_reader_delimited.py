"""CSV and TSV are read with any delimiter; damaged quotes do not swallow rows."""

from __future__ import annotations

import pytest

from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.chunking import divide
from shared.ingest.parse.document import ExtractedText
from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers.sheets import delimited
from tests.support.planted import guards


def _markdown(text: str, *, tabs: bool = False) -> str:
    return delimited.read(text, tabs=tabs).parts[0].markdown


@guards(
    "shared/ingest/parse/readers/sheets/delimited.py",
    'DELIMITERS = "\\t;|,"',
    'DELIMITERS = ","',
    means="fields of other delimiters are one field",
)
@pytest.mark.parametrize("delimiter", ["\t", ";", "|", ","])
def test_delimiter_is_found(delimiter: str) -> None:
    rows = [
        ["Name", "Unit", "Price"],
        ["Seal", "pcs", "1.5"],
        ["Ring; flat" if delimiter == "," else "Ring", "kg", "2"],
    ]
    assert "| Seal | pcs | 1.5 |" in _markdown("\n".join(delimiter.join(row) for row in rows))


def test_decimal_commas_do_not_divide_fields() -> None:
    assert "| Seal | 1,5 | 2,75 |" in _markdown("Name;Net;Gross\nSeal;1,5;2,75\nRing;3,5;4,25\n")


@guards(
    "shared/ingest/parse/readers/sheets/delimited.py",
    "body = rest if stated else text",
    "body = text",
    means="sep= is the header",
)
def test_line_with_separator_is_left_out() -> None:
    assert _markdown("sep=:\nName:Price\nSeal:5\n").startswith("| Name | Price |\n| --- |")


def test_rows_above_the_header_are_paragraphs() -> None:
    text = "Report of 2026\nCreated;2026-01-05\n\nArticle;Unit;Price\nSeal;pcs;1,50\nRing;kg;2,75\n"
    assert _markdown(text).startswith("Report of 2026\n\nCreated: 2026-01-05\n\n| Article | Unit | Price |\n| --- |")


@guards(
    "shared/ingest/parse/readers/sheets/delimited.py",
    "elif quote > line_end:",
    "elif False:",
    means="an unclosed quote swallows later rows",
)
def test_unclosed_quote_ends_with_its_row() -> None:
    text = _markdown('id,text,n\n1,"open,2\n2,fine,3\n3,"quoted, ok",4\n4,5" pipe,6\n')
    assert '| 1 | "open | 2 |\n| 2 | fine | 3 |\n| 3 | quoted, ok | 4 |\n| 4 | 5" pipe | 6 |' in text


def test_quoted_field_has_lines_and_quotes() -> None:
    assert '| 1 | two lines, "so" | x |' in _markdown('id,text,n\n1,"two\nlines, ""so""",x\n2,b,c\n')


@guards(
    "shared/ingest/parse/readers/sheets/delimited.py",
    "or wasted > len(text) * 4 + _MOST_FIELD_CHARS",
    "",
    means="unclosed quotes take hours",
)
def test_many_unclosed_quotes_take_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0
    original = delimited._quoted

    def counting(text: str, start: int, delimiter: str) -> tuple[str | None, int]:
        nonlocal tried
        field, end = original(text, start, delimiter)
        tried += end - start if field is None else 0
        return field, end

    monkeypatch.setattr(delimited, "_quoted", counting)
    text = '""x\n' * 3_000
    assert sum(1 for _ in delimited.rows(text, ",")) == 3_000
    assert tried < 200_000


def test_rows_of_unequal_length_are_kept() -> None:
    assert "| 2 | b | c | d |" in _markdown("x,y,z\n1,a\n2,b,c,d\n3,e,f\n4,g,h\n")


@guards("shared/ingest/parse/extraction.py", "tabs=kind is kinds.TSV", "tabs=False", means="commas divide a TSV file")
def test_tsv_is_divided_by_tabs() -> None:
    content = b"a,b\tc,d\tx\n1,2\t3,4\n5,6\t7,8\ty\n9,8\n"
    extracted = extract(content, filename="a.tsv", media_type=None, max_text_chars=1000)
    assert isinstance(extracted, ExtractedText)
    assert "| a,b | c,d | x |" in extracted.text


def test_legacy_charset_is_decoded() -> None:
    content = "Größe;Preis\nfür;1,5\nüber;2,5\n".encode("cp1252")
    extracted = extract(content, filename="a.csv", media_type="text/csv; charset=cp1252", max_text_chars=1000)
    assert isinstance(extracted, ExtractedText)
    assert "| Größe | Preis |" in extracted.text
    assert extracted.coverage == 1


def test_long_field_keeps_key_in_each_chunk() -> None:
    text = "Code,Text\nE17," + "A seal may leak. " * 300 + "\nE18,short\n"
    extracted = extract(text.encode(), filename="a.csv", media_type=None, max_text_chars=100_000)
    assert isinstance(extracted, ExtractedText)
    chunks = divide(extracted, ChunkingOptions())
    assert len(chunks) > 2
    assert all("| E17 | A seal" in chunk.text for chunk in chunks)
