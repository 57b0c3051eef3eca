"""PowerPoint 97: slides by the last save, titles, levels, tables, notes and comments; masters are left out."""

import struct
import time

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.slides import ppt
from tests.support.compound import compound_file
from tests.support.planted import guards

TITLE, BODY, NOTES, OTHER = 0, 1, 2, 4


def atom(kind, data=b"", instance=0):
    return struct.pack("<HHI", instance << 4, kind, len(data)) + data


def container(kind, *inner, instance=0):
    data = b"".join(inner)
    return struct.pack("<HHI", instance << 4 | 15, kind, len(data)) + data


def text(sort, words, levels=b""):
    return (
        atom(3999, struct.pack("<I", sort))
        + (atom(4008, words.encode("latin-1")) if words.isascii() else atom(4000, words.encode("utf-16-le")))
        + (atom(4001, levels) if levels else b"")
    )


def shape(*inner, box=(0, 0, 10, 10), child=False):
    left, top, width, height = box
    place = (
        atom(0xF00F, struct.pack("<4i", left, top, left + width, top + height))
        if child
        else atom(0xF010, struct.pack("<4h", top, left, left + width, top + height))
    )
    return container(0xF004, atom(0xF00A, bytes(8)), place, container(0xF00D, *inner))


def drawing(*shapes):
    return container(1036, container(0xF002, container(0xF003, container(0xF004, atom(0xF00A, bytes(8))), *shapes)))


def slide(*shapes, notes=0, comments=b""):
    return container(1006, atom(1007, bytes(16) + struct.pack("<I", notes) + bytes(4)), drawing(*shapes), comments)


def presentation(*parts, **options):
    """Return a file with slides and pages of notes, as `streams` has them."""
    return compound_file(streams(*parts, **options))


def streams(slides, notes=(), outlines=(), token=b"\x5f\xc0\x91\xe3", extra=b""):
    """Return slides and pages of notes; page `n` of the notes has the identifier `n`, from 1."""
    objects = [*slides, *notes]
    outlines = list(outlines) or [b""] * len(slides)

    def persist(number, identity):
        return atom(1011, struct.pack("<IIIII", number, 0, 0, identity, 0))

    listed = container(4080, *(persist(at + 2, 256 + at) + outlines[at] for at in range(len(slides))))
    noted = container(4080, *(persist(len(slides) + 2 + at, at + 1) for at in range(len(notes))), instance=2)
    stream, offsets = b"", []
    for each in (container(1000, listed, noted), *objects):
        offsets.append(len(stream))
        stream += each
    stream += extra
    directory = len(stream)
    stream += atom(6002, struct.pack("<I", 1 | len(offsets) << 20) + struct.pack(f"<{len(offsets)}I", *offsets))
    edit = len(stream)
    stream += atom(4085, struct.pack("<IIIIIII", 256, 0, 0, directory, 1, 0, 0))
    user = struct.pack("<HHI", 0, 4086, 20) + struct.pack("<I", 20) + token + struct.pack("<I", edit) + bytes(8)
    return {"PowerPoint Document": stream.ljust(4096, b"\0"), "Current User": user.ljust(4096, b"\0")}


def slides_of(content):
    reading = ppt.read(content)
    assert guarded(reading.parts).coverage in (1, None)
    return [part.markdown for part in reading.parts]


def test_slide_has_title_and_texts_in_order():
    below = shape(text(OTHER, "Below"), box=(0, 500, 100, 50))
    above = shape(text(OTHER, "Gr\u00f6\u00dfe \u20ac"), box=(0, 100, 100, 50))

    assert slides_of(presentation([slide(below, above, shape(text(TITLE, "Title"), box=(0, 900, 9, 9)))])) == [
        "# Title\n\nGr\u00f6\u00dfe \u20ac\n\nBelow"
    ]


@guards(
    "shared/ingest/parse/readers/slides/ppt.py",
    "found += (count, level)",
    "found += (count, 0)",
    means="the levels of a list are lost",
)
def test_placeholders_have_text_of_outline_with_levels():
    levels = struct.pack("<IHI", 4, 0, 0x0800) + b"\0\0" + struct.pack("<IHI", 7, 1, 0)
    outline = text(TITLE, "Plan") + text(BODY, "One\rTwo\x0bmore", levels)
    references = [shape(atom(3998, struct.pack("<I", index)), box=(0, index * 50, 9, 9)) for index in (0, 1)]

    assert slides_of(presentation([slide(*references)], outlines=[outline])) == ["# Plan\n\n- One\n  - Two\n  - more"]


@guards(
    "shared/ingest/parse/readers/slides/ppt.py",
    "if container.kind == _GROUP and depth and (table := self._cells(container)):",
    "if (table := None):",
    means="the cells of a table are paragraphs",
)
def test_group_of_cells_is_table():
    marked = container(0xF004, atom(0xF122, struct.pack("<HI", 0x39F, 1), instance=1))
    cells = [
        shape(text(OTHER, words), box=(column * 100, row * 50, 90, 40), child=True)
        for row, column, words in ((0, 0, "Name"), (0, 1, "Age"), (1, 1, "5"), (1, 0, "Ann"))
    ]
    assert slides_of(presentation([slide(container(0xF003, marked, *cells))])) == [
        "| Name | Age |\n| --- | --- |\n| Ann | 5 |"
    ]


def test_notes_and_comments_follow_their_slide():
    note = container(1008, atom(1009, bytes(8)), drawing(shape(text(NOTES, "Say hello")), shape(text(OTHER, "*"))))
    names = (atom(4026, "Ann".encode("utf-16-le"), 0), atom(4026, "Check this".encode("utf-16-le"), 1))
    comment = container(5000, container(12000, *names))
    first = slide(shape(text(TITLE, "One")), notes=1, comments=comment)

    assert slides_of(presentation([first, slide(shape(text(TITLE, "Two")))], [note])) == [
        "# One\n\nSpeaker notes:\n\nSay hello\n\nComment by Ann: Check this",
        "# Two",
    ]


def test_master_is_left_out():
    master = container(1016, drawing(shape(text(OTHER, "Click to edit"))))

    assert slides_of(presentation([slide(shape(text(OTHER, "Text")))], extra=master)) == ["Text"]


@guards("shared/ingest/parse/readers/slides/ppt.py", "raise Unreadable(_PROTECTED)", "pass", means="no slide is found")
def test_protected_presentation_is_refused():
    with pytest.raises(Unreadable, match="protected with a password; remove"):
        ppt.read(presentation([slide()], token=b"\xdf\xc4\xd1\xf3"))


@pytest.mark.parametrize("cut", [0, 600, 1_000, 2_000, 5_000, 9_000])
def test_damaged_presentation_is_refused_or_read_in_part(cut):
    content = presentation([slide(shape(text(OTHER, "Text" * 500)))] * 3)
    try:
        reading = ppt.read(content[:cut])
    except Unreadable as error:
        assert "damaged" in error.message  # noqa: PT017 - either outcome is right
    else:
        assert len(reading.parts) <= 3


def test_hostile_records_take_linear_time():
    deep = b"".join(struct.pack("<HHI", 15, 0xF003, 0xFFFFFFF) for _ in range(50_000))
    wide = container(0xF003, *[container(0xF003)] * 50_000)
    start = time.process_time()
    for hostile in (deep, wide, shape(text(OTHER, "a")) * 20_000):
        ppt.read(presentation([slide(hostile)]))

    assert time.process_time() - start < 10


@guards(
    "shared/ingest/parse/readers/slides/ppt.py",
    "file.root.folders.get(_BOTH_FORMATS, file.root)",
    "file.root",
    means="a presentation that PowerPoint 95 can open, too, has no text",
)
def test_newer_of_two_formats_is_read():
    newer = streams([slide(shape(text(TITLE, "Opening hours")))])

    assert slides_of(compound_file({"PowerPoint Document": bytes(4096), "PP97_DUALSTORAGE": newer})) == [
        "# Opening hours"
    ]
