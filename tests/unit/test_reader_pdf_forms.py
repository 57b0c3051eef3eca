"""Forms of PDF files: each value is next to its label."""

import pytest

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
