"""Documents inside Office files are read under their names, or named with the reason."""

import struct
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers.attachments import MAX_DEPTH
from tests.support.compound import compound_file
from tests.support.compound import word_file as old_word_file
from tests.support.planted import guards
from tests.support.word_files import p, r, word_file

FILES = Path(__file__).parents[1] / "files" / "good"
INNER = word_file(p("Rates rise in May"))
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def extracted(content, name="outer.docx"):
    return extract(content, filename=name, media_type=None, max_text_chars=10**6)


def with_object(content, part="Rates.docx", program="Word.Document.12"):
    body = p('<w:object><o:OLEObject ProgID="' + program + '" r:id="x"/></w:object>' + r("See the rates"))
    return word_file(body, {f"embeddings/{part}": content}, {"x": ("package", f"embeddings/{part}")})


def native(name, content):
    """Return the stream of a file that a document shows by its icon."""
    label, path = name.encode() + b"\0", b"C:\\" + name.encode() + b"\0"
    data = struct.pack("<H", 2) + label + path + bytes(4) + struct.pack("<I", len(path)) + path
    return struct.pack("<I", len(data)) + data + struct.pack("<I", len(content)) + content


@guards(
    "shared/ingest/parse/readers/word/__init__.py",
    "self._embedded[relation.target] = (program, data)",
    "pass",
    means="the text of a workbook in a Word file is lost, and its document is ready",
)
@pytest.mark.parametrize(
    ("content", "part", "heading"),
    [
        (INNER, "Rates.docx", "Rates.docx"),
        (compound_file({"Package": INNER}), "oleObject1.bin", "Embedded Word document"),
        (compound_file({"\1Ole10Native": native("Rates 2026.docx", INNER)}), "oleObject1.bin", "Rates 2026.docx"),
    ],
)
def test_embedded_document_follows_text(content, part, heading):
    found = extracted(with_object(content, part))

    assert found.text == f"See the rates\n\n# {heading}\n\nRates rise in May"
    assert found.unread == ()


@pytest.mark.parametrize(
    ("content", "program", "unread"),
    [
        (compound_file({"Equation Native": b"x" * 40}), "Equation.3", ()),
        (
            compound_file({"Equation Native": b"x" * 40}),
            "Visio.Drawing.11",
            ("an embedded Visio drawing was not read",),
        ),
        (b"PK\3\4 damaged", "Excel.Sheet.12", ('the embedded file "a.xlsx" was not read: the file is damaged',)),
        (
            compound_file({"\1Ole10Native": native("cut.docx", INNER)[:9]}),
            "Package",
            ("an embedded file was not read",),
        ),
    ],
)
def test_unreadable_object_is_named_unless_picture(content, program, unread):
    found = extracted(with_object(content, "a.xlsx", program))

    assert found.text == "See the rates"
    assert [sentence[: len(start)] for sentence, start in zip(found.unread, unread, strict=True)] == list(unread)


def test_nested_documents_are_read_to_limit():
    content = word_file(p("deepest"))
    for _ in range(MAX_DEPTH + 1):
        content = with_object(content)

    found = extracted(content)

    assert found.text.count("See the rates") == MAX_DEPTH + 1
    assert "deepest" not in found.text
    assert found.unread[0].endswith("it is nested in more than 3 files; add it on its own")


def added(name, relations, part):
    """Return a good file with a document inside, which a part refers to."""
    target = BytesIO()
    with zipfile.ZipFile(FILES / name) as source, zipfile.ZipFile(target, "w") as archive:
        entry = f'<Relationship Id="x" Type="{RELATIONS}/package" Target="../embeddings/Rates.docx"/></Relationships>'
        start = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        old = source.read(relations).decode() if relations in source.namelist() else f"{start}</Relationships>"
        for info in source.infolist():
            if info.filename != relations:
                archive.writestr(info, source.read(info))
        archive.writestr(relations, old.replace("</Relationships>", entry))
        archive.writestr(part, INNER)
    return target.getvalue()


@pytest.mark.parametrize(
    ("name", "relations", "part", "heading"),
    [
        (
            "kreuzberg_simple.pptx",
            "ppt/slides/_rels/slide1.xml.rels",
            "ppt/embeddings/Rates.docx",
            "### Rates.docx",
        ),
        (
            "docling_table_with_title.xlsx",
            "xl/worksheets/_rels/sheet1.xml.rels",
            "xl/embeddings/Rates.docx",
            "### Rates.docx",
        ),
    ],
)
def test_document_in_slide_or_sheet_is_read(name, relations, part, heading):
    found = extracted(added(name, relations, part), name)

    assert f"{heading}\n\nRates rise in May" in found.text
    assert found.unread == ()


@guards(
    "shared/ingest/parse/readers/compound.py",
    "            waiting += folder.folders.values()\n",
    "            pass\n",
    means="a document in an old Word file is missing without a word",
)
def test_document_in_old_file_is_named():
    objects = {"_1": {"Workbook": bytes(8)}, "_2": {"Workbook": bytes(8)}, "_3": {"Equation Native": bytes(8)}}

    assert extracted(old_word_file([("Rates\r", b"")], objects=objects), "a.doc").unread == (
        "an embedded Excel workbook was not read; save it as a file of its own and add that file",
    )
