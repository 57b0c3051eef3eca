"""Forms of PDF files: each value is next to its label."""

import pytest

from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.pdf import read
from tests.support.drawn_pdfs import line, pdf
from tests.support.planted import guards


def markdown(content):
    return [part.markdown for part in read(content).parts]


BUTTON = b"<< /Type /XObject /Subtype /Form /BBox [0 0 1 1] /Length 0 >> stream\n\nendstream"
FIELDS = (
    b"<< /Fields [101 0 R 102 0 R 103 0 R 104 0 R] >>",
    b"<< /Subtype /Widget /FT /Ch /Ff 131072 /T (b) /V (Chile) /Opt [(Chile) (Peru)] /Rect [120 690 220 718] >>",
    b"<< /Subtype /Widget /FT /Btn /T (c) /V /Yes /AS /Yes /Rect [120 650 140 670] /AP 108 0 R >>",
    b"<< /FT /Btn /Ff 32768 /T (d) /V /M /Kids [105 0 R 106 0 R] >>",
    b"<< /Subtype /Widget /FT /Ch /T (e) /V (Car) /Opt [(Bus) (Car)] /Rect [120 500 220 560] >>",
    b"<< /Subtype /Widget /Parent 103 0 R /AS /Off /AP << /N << /S 107 0 R >> >> /Rect [120 600 140 620] >>",
    b"<< /Subtype /Widget /Parent 103 0 R /AS /M /AP << /N << /M 107 0 R >> >> /Rect [160 600 180 620] >>",
    BUTTON,
    b"<< /N << /Yes 107 0 R /Off 107 0 R >> >>",
)


@guards(
    "shared/ingest/parse/readers/pdf/forms.py",
    "y = labels.baseline(box)",
    "y = None",
    means="values are apart from their labels",
)
def test_values_of_all_fields_are_next_to_labels():
    labels = zip((700, 650, 600, 530), ("Country:", "Agree:", "Size:", "Travel by:"), strict=True)
    content = "".join(line(50, y, label, 12) for y, label in labels)

    (text,) = markdown(
        pdf(content, page="/Annots [101 0 R 102 0 R 105 0 R 106 0 R 104 0 R]", catalog="/AcroForm 100 0 R", more=FIELDS)
    )

    assert text.split("\n\n") == ["Country: Chile", "Agree: [x]", "Size: [ ] S [x] M", "Travel by: [ ] Bus [x] Car"]


@pytest.mark.parametrize(("printed", "text"), [("M", "Size: [ ] S [x] M"), ("", "Size: [ ] S [x] M")])
def test_printed_option_is_not_repeated(printed, text):
    content = line(50, 600, "Size:", 12) + (line(144, 602, "S", 12) + line(184, 602, printed, 12) if printed else "")

    (found,) = markdown(pdf(content, page="/Annots [105 0 R 106 0 R]", catalog="/AcroForm 100 0 R", more=FIELDS))

    assert found == text


def appearance(*texts):
    """Return a stream that draws lines, as the appearance of an annotation does."""
    drawn = "".join(line(2, 30 - 12 * at, text) for at, text in enumerate(texts)).encode()
    start = (
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 200 44] /Resources << /Font << /F1 103 0 R >> >> /Length %d >>"
    )
    return start % len(drawn) + b" stream\n" + drawn + b"\nendstream"


FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
SIGNATURE = b"/Subtype /Widget /FT /Sig /T (s) /V << /Type /Sig >>"


@guards(
    "shared/ingest/parse/readers/pdf/__init__.py",
    "self.drawn[number] = notes.drawn",
    "pass",
    means="the visible text of a signature is lost",
)
@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (SIGNATURE, "Signed by Alice\nDate: 2026.10.27"),
        (b"/Subtype /Widget /FT /Btn /Ff 65536 /T (b)", "Signed by Alice\nDate: 2026.10.27"),
        (b"/Subtype /Widget /FT /Tx /T (total)", "Signed by Alice\nDate: 2026.10.27"),
        (b"/Subtype /Widget /FT /Tx /Ff 8192 /T (password)", ""),
        (b"/Subtype /Widget /FT /Tx /T (name) /V (Bob)", "Bob"),
        (b"/Subtype /Stamp", "Signed by Alice\nDate: 2026.10.27"),
        (b"/Subtype /Stamp /F 2", ""),
        (b"/Subtype /Stamp /Contents (Paid)", "Comment: Paid"),
        (b"/Subtype /FreeText", "Signed by Alice\nDate: 2026.10.27"),
    ],
)
def test_text_that_only_appearance_has_is_read(kind, found):
    more = (
        b"<< /Fields [101 0 R] >>",
        b"<< /Type /Annot " + kind + b" /Rect [120 500 320 544] /AP << /N 102 0 R >> >>",
        appearance("Signed by Alice", "Date: 2026.10.27"),
        FONT,
    )
    content = pdf(line(50, 700, "Contract", 12), page="/Annots [101 0 R]", catalog="/AcroForm 100 0 R", more=more)

    (part,) = guarded(read(content).parts).parts

    assert part.markdown.split("\n\n", 1)[1:] == ([found] if found else [])
    assert all(word in part.plain for word in found.removeprefix("Comment:").split())


def test_field_of_file_without_form_is_read():
    field = (
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Bob) /Rect [120 500 320 544] /AP << /N 102 0 R >> >>"
    )
    more = (b"<< >>", field, appearance("Bob"), FONT)

    (text,) = markdown(pdf(line(50, 700, "Contract", 12), page="/Annots [101 0 R]", more=more))

    assert text == "Contract\n\nBob"


def test_text_below_appearance_is_not_repeated():
    more = (
        b"<< /Fields [101 0 R] >>",
        b"<< /Type /Annot " + SIGNATURE + b" /Rect [120 500 320 544] /AP << /N 102 0 R >> >>",
        appearance("Signed by Alice"),
        FONT,
    )
    content = line(50, 700, "Contract", 12) + line(122, 502, "Signature of the tenant")

    (text,) = markdown(pdf(content, page="/Annots [101 0 R]", catalog="/AcroForm 100 0 R", more=more))

    assert text.split("\n\n") == ["# Contract", "Signature of the tenant", "Signed by Alice"]
