"""A file with a damaged part keeps the text of its other parts, and says which part is damaged."""

import io
import zipfile
from pathlib import Path

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers.guard import words
from tests.support.planted import guards

FILES = Path(__file__).parents[1] / "files" / "good"
HEADER = 30
SENTENCE = "the file is damaged: {} could not be read to the end; create or download it again"


def read(content, name):
    return extract(content, filename=name, media_type=None, max_text_chars=10**6)


def rewritten(content, change, *without):
    """Return an archive with changed parts."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for info in source.infolist():
            if info.filename not in without:
                archive.writestr(info.filename, change(info.filename, source.read(info)))
    return target.getvalue()


def damaged(content, part, first=0.3):
    """Return an archive whose part cannot be unpacked after its first bytes."""
    info = zipfile.ZipFile(io.BytesIO(content)).getinfo(part)
    data = bytearray(content)
    lengths = data[info.header_offset + 26 : info.header_offset + HEADER]
    start = info.header_offset + HEADER + sum(int.from_bytes(lengths[at : at + 2], "little") for at in (0, 2))
    for at in range(start + int(info.compress_size * first), start + info.compress_size):
        data[at] = 0xFF
    return bytes(data)


@guards(
    "shared/ingest/parse/readers/archive.py",
    "self._damaged[exact] = None",
    "",
    means="a damaged part is not named, and its document looks complete",
)
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("docling_unit_test_formatting.docx", "word/styles.xml"),
        ("kreuzberg_word_tables.docx", "docProps/core.xml"),
        ("kreuzberg_simple.pptx", "ppt/slideMasters/slideMaster1.xml"),
        ("kreuzberg_simple.pptx", "ppt/presentation.xml"),
        ("docling_table_with_title.xlsx", "xl/styles.xml"),
        ("kreuzberg_simple_table_with_caption.odt", "styles.xml"),
        ("markitdown_test.epub", "EPUB/content.opf"),
    ],
)
def test_damaged_side_part_loses_no_text(name, part):
    content = (FILES / name).read_bytes()

    found = read(damaged(content, part), name)

    assert sorted(words(found.text)) == sorted(words(read(content, name).text))
    assert found.unread[:1] == (SENTENCE.format(part),)


@guards(
    "shared/ingest/parse/readers/archive.py",
    "data += unpack(packed[start : start + _STEP_BYTES])",
    "break",
    means="a damaged part loses the text in front of the damage, too",
)
def test_damaged_body_keeps_text_before_damage():
    def longer(name, data):
        return data.replace(b"</w:body>", b"<w:p><w:r><w:t>Rest</w:t></w:r></w:p>" * 20_000 + b"</w:body>")

    content = rewritten((FILES / "kreuzberg_word_tables.docx").read_bytes(), longer)

    found = read(damaged(content, "word/document.xml", 0.9), "a.docx")

    assert "Rest" in found.text
    assert found.unread == (SENTENCE.format("word/document.xml"),)


def test_wrong_checksum_loses_no_text():
    content = (FILES / "kreuzberg_word_tables.docx").read_bytes()
    archive = zipfile.ZipFile(io.BytesIO(content))
    checksum = archive.getinfo("word/document.xml").CRC.to_bytes(4, "little")

    found = read(content.replace(checksum, b"\1\2\3\4"), "a.docx")

    assert found.text == read(content, "a.docx").text
    assert found.unread == (SENTENCE.format("word/document.xml"),)


def test_file_with_only_damaged_parts_is_refused():
    content = (FILES / "kreuzberg_simple_table_with_caption.odt").read_bytes()

    with pytest.raises(Unreadable, match=r"no text inside; the file is damaged: content\.xml could not"):
        read(damaged(content, "content.xml", 0), "a.odt")


@pytest.mark.parametrize(
    "changed",
    [
        lambda content: rewritten(content, lambda _, data: data, "mimetype"),
        lambda content: damaged(rewritten(content, lambda _, data: data), "mimetype", 0),
    ],
)
def test_missing_or_damaged_type_is_found_in_content(changed):
    content = (FILES / "kreuzberg_simple_table_with_caption.odt").read_bytes()

    assert read(changed(content), "a.odt").text == read(content, "a.odt").text
