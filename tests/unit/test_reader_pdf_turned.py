"""Text of PDF files whose letters are turned: negative sizes of fonts, and slanted lines."""

from contextlib import closing
from math import cos, radians, sin

import pypdfium2
import pytest

from shared.ingest.parse.readers.pdf import read
from shared.ingest.parse.readers.pdf.text.characters import Characters
from shared.ingest.parse.readers.pdf.text.styles import Fonts
from shared.ingest.parse.readers.pdf.text.words import Finder
from tests.support.drawn_pdfs import BODY, line, lines, pdf
from tests.support.planted import guards


def markdown(content):
    (part,) = read(content).parts
    return part.markdown


def letters(x, y, text, angle, size=10):
    """Return the content of a slanted line in which each letter is an object of its own, 6 points wide."""
    a, b = cos(radians(angle)), sin(radians(angle))
    return "\n".join(
        f"BT /F3 {size} Tf {a} {b} {-b} {a} {x + 6 * at * a} {y + 6 * at * b} Tm ({char}) Tj ET"
        for at, char in enumerate(text)
        if char != " "
    )


@guards(
    "shared/ingest/parse/readers/pdf/text/styles.py",
    "if size < 0:",
    "if size < -1000:",
    means="words of forms with negative sizes are read from the end",
)
def test_negative_size_keeps_order_of_words():
    content = "\n".join(
        f"BT /F1 -10 Tf -1 0 0 -1 50 {700 - 12 * at} Tm ({text}) Tj ET"
        for at, text in enumerate(("Ordinary business income", "Net rental income"))
    )

    text = markdown(pdf(lines(50, 760, BODY[:30]) + content))

    assert text.split("\n\n")[-1].split() == ["Ordinary", "business", "income", "Net", "rental", "income"]


@pytest.mark.parametrize("angle", [20, 45, 60, 330])
@guards(
    "shared/ingest/parse/readers/pdf/text/words.py",
    "if style.angle % 90:",
    "if style.angle < 0:",
    means="the letters of slanted words are words",
)
def test_letters_of_slanted_line_are_words(angle):
    content = "\n".join(
        letters(200 + 12 * at * sin(radians(angle)), 400 - 12 * at * cos(radians(angle)), text, angle)
        for at, text in enumerate(("a draft of the harbour", "for the pier only"))
    )
    page = pdf(content).replace(b"/BaseFont /Helvetica-Bold", b"/BaseFont /Courier").replace(b"/F2", b"/F3")

    assert markdown(page).split() == ["a", "draft", "of", "the", "harbour", "for", "the", "pier", "only"]


ARABIC = dict(zip("abcdef", ("0623", "064a", "064b", "0636", "0627", "0650"), strict=True))
"""Letters of a font that draws Arabic: alef, yeh, the signs of tanween and kasra, dad and alef."""


def mapped(content, codes):
    """Return a page whose font `F2` maps these characters to these codes of Unicode."""
    pairs = "\n".join(f"<{ord(char):02x}> <{code}>" for char, code in codes.items())
    cmap = f"begincmap 1 begincodespacerange <00> <ff> endcodespacerange {len(codes)} beginbfchar {pairs} endbfchar"
    stream = f"<< /Length {len(cmap)} >> stream\n{cmap}\nendstream".encode()
    return pdf(content, more=[b"null", stream]).replace(
        b"/BaseFont /Helvetica-Bold /Encoding", b"/BaseFont /Helvetica-Bold /ToUnicode 101 0 R /Encoding"
    )


def arabic(*letters):
    """Return a page with these letters, each with its distance from the left."""
    content = "\n".join(f"BT /F2 12 Tf 1 0 0 1 {x} 700 Tm ({char}) Tj ET" for char, x in letters)
    return mapped(content, ARABIC).replace(b"/BaseFont /Helvetica-Bold", b"/BaseFont /Courier")


@pytest.mark.parametrize(
    ("letters", "text"),
    [
        ([("a", 128), ("b", 121), ("c", 112), ("d", 114), ("e", 107)], "أيضًا"),  # the sign is in front of its letter
        ([("a", 128), ("b", 121), ("d", 114), ("c", 113), ("e", 107)], "أيضًا"),
        ([("a", 128), ("b", 121), ("c", 122), ("d", 100), ("e", 93)], "أيً ضا"),  # two words
        ([("a", 128), ("b", 121), ("c", 114), ("f", 113), ("d", 114), ("e", 107)], "أيضًِا"),
    ],
)
@guards(
    "shared/ingest/parse/readers/pdf/text/characters.py",
    "if _VOWEL_SIGN.search(self.text):",
    "if self.text is None:",
    means="a vowel sign divides its word",
)
def test_vowel_sign_follows_its_letter(letters, text):
    assert markdown(arabic(*letters)) == text


def test_digits_drawn_one_by_one_are_one_number():
    content = "".join(line(50 + 5.56 * at, 700, char) for at, char in enumerate("122112"))
    with pypdfium2.PdfDocument(pdf(content)) as document, closing(document[0].get_textpage()) as text_page:
        chars = Characters(text_page, text_page.count_chars())
        for at in range(0, len(chars.boxes), 4):  # some fonts have the boxes of the ink only
            chars.boxes[at] += 0.9
            chars.boxes[at + 2] -= 0.9

        words = Finder(text_page, chars, Fonts()).words()

    assert [word.text for word in words] == ["122112"]


@pytest.mark.parametrize(
    ("moved", "text"),
    [
        ("(ne) Tj 2.5 Tc 12 0 Td (wc) Tj 0 Tc 14.5 0 Td (on\\256gurations) Tj", "new configurations"),
        ("(Miller) Tj 2.5 Tc 36 0 Td (,C) Tj 0 Tc 14.5 0 Td (ampus) Tj", "Miller, Campus"),
        ("(Cede) Tj 2.5 Tc 24 0 Td (x2) Tj 0 Tc 14.5 0 Td (0) Tj", "Cedex 20"),
        ("[(Verzwei\\257) 600 ( ung)] TJ", "Verzweiflung"),  # the space is drawn over the ligature
    ],
)
def test_moves_as_wide_as_spaces_divide_words(moved, text):
    page = mapped(f"BT /F2 10 Tf 1 0 0 1 50 700 Tm {moved} ET", {"\xae": "00660069", "\xaf": "0066006c"})
    page = page.replace(b"/BaseFont /Helvetica-Bold", b"/BaseFont /Courier")

    assert markdown(page) == text
