"""XML: whatever references and encodings a program writes, the text arrives and no reader fails."""

import zipfile
from io import BytesIO

import pytest

from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers import odf, word, xml
from shared.ingest.parse.readers.sheets import xlsx
from shared.ingest.parse.readers.xml_tree import parsed, well_formed
from tests.support.planted import guards

HALVES = "&#xD83D;&#xDE00;"
WORD = (
    '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
    "<w:body><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:body></w:document>"
)
ODT = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">'
    "<office:body><office:text><text:p>{}</text:p></office:text></office:body></office:document-content>"
)
SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1">'
    '<c r="A1" t="inlineStr"><is><t>{}</t></is></c></row></sheetData></worksheet>'
)


def archive(name, content):
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(name, content)
    return packed.getvalue()


@guards(
    "shared/ingest/parse/readers/xml_tree.py",
    'return _HALVES.sub(_whole_characters, xml) if b"&#" in xml else xml',
    "return xml",
    means="a reader fails at a character that is written as two halves",
    case="xml",
)
@guards(
    "shared/ingest/parse/readers/archive.py",
    "return well_formed(data) if exact.lower().endswith(_XML) else data",
    "return data",
    means="the loss guard sees halves of characters",
    case="docx",
)
@pytest.mark.parametrize(
    ("read", "content"),
    [
        (xml.read, f"<doc><p>ferry {HALVES} leaves</p></doc>".encode()),
        (
            word.read,
            archive("word/document.xml", WORD.format(f"ferry {HALVES} leaves")),
        ),
        (odf.read_text, archive("content.xml", ODT.format(f"ferry {HALVES} leaves"))),
        (xlsx.read, archive("xl/worksheets/sheet1.xml", SHEET.format(f"ferry {HALVES} leaves"))),
    ],
    ids=["xml", "docx", "odt", "xlsx"],
)
def test_character_written_as_halves_arrives_whole(read, content):
    (part,) = read(content).parts

    assert "ferry \U0001f600 leaves" in part.markdown
    assert "ferry \U0001f600 leaves" in (part.plain or "")


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("&#55357;&#56832;", "\U0001f600"),
        ("&#x00D83D;&#x0de00;", "\U0001f600"),
        ("&#xD83D;", "\ufffd"),
        ("&#xDE00;&#xD83D;", "\ufffd\ufffd"),
        ("&#xD83D; &#xDE00;", "\ufffd \ufffd"),
        ("&#55000;&#57344;", "\ud6d8\ue000"),
        ("&#x1F600;&#38;", "\U0001f600&"),
    ],
)
def test_references_become_characters_or_their_replacement(reference, text):
    root, is_whole = parsed(f'<a b="{reference}">{reference}</a>'.encode())

    assert is_whole
    assert root is not None
    assert (root.text, root.get("b")) == (text, text)


def test_wide_xml_becomes_usual_xml():
    wide = '<?xml version="1.0" encoding="utf-16"?><a>čas &#xD83D;&#xDE00;</a>'.encode("utf-16")

    assert well_formed(wide).decode() == "<a>čas &#128512;</a>"


@guards(
    "shared/ingest/parse/readers/sheets/xml_bytes.py",
    "if not attributes.isascii() or not",
    "if not",
    means="a damaged byte in a cell's attributes fails the whole workbook",
)
def test_damaged_attribute_of_cell_loses_no_other_cell():
    sheet = SHEET.replace('<c r="A1"', '<c r="B1" s="§"><v>17</v></c><c r="A1"').format("Oslo").encode("latin-1")

    extracted = extract(
        archive("xl/worksheets/sheet1.xml", sheet), filename="a.xlsx", media_type=None, max_text_chars=1_000
    )

    assert "Oslo" in extracted.text
    assert "17" in extracted.text
