"""The reader of PDF: words in the order of reading, with true headings, tables and values of forms."""

import subprocess
import sys
from pathlib import Path

import pypdfium2
import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.pages import of_parts
from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.pdf import read
from shared.ingest.parse.readers.pdf.pictures import pictures_in
from shared.ingest.parse.readers.pdf.text.layer import text_layer
from shared.ingest.parse.readers.pdf.text.styles import Fonts
from shared.ingest.parse.readers.pdf.titles import real_title
from shared.ingest.parse.readers.reading import Part
from tests.support.drawn_pdfs import BODY, box, line, lines, pdf
from tests.support.planted import guards

FILES = Path(__file__).parents[1] / "files"


def markdown(content):
    return [part.markdown for part in read(content).parts]


@guards(
    "shared/ingest/parse/readers/pdf/layout/order.py",
    "elif depth < _MOST_DEPTH and (texts := text_columns(run, columns)):",
    "elif depth < 0 and (texts := text_columns(run, columns)):",
    means="columns of text are read as rows",
)
def test_columns_are_read_one_after_the_other():
    left = [f"left {index} of a column that fills its width" for index in range(9)]
    right = [f"right {index} of a column that fills its width" for index in range(9)]
    rows = [line(50, 700 - 12 * at, left[at]) + line(320, 700 - 12 * at, right[at]) for at in range(9)]

    (text,) = markdown(pdf("\n".join(rows)))

    assert " ".join(text.split()) == " ".join([*left, *right])


@guards(
    "shared/ingest/parse/readers/pdf/rulings.py",
    "grid = _Grid(across, down)",
    "grid = _Grid(across[:1], down)",
    means="a cell that wraps is two rows",
)
def test_table_with_lines_keeps_wrapped_cells():
    table = box((50, 86, 300), (700, 670, 640, 610))  # the texts next to the inner line are as close as words
    words = lines(55, 685, "Seal C", "Seal A", "Seal B", pitch=30) + lines(88, 685, "EUR", "10", "20", pitch=30)

    (text,) = markdown(pdf(line(50, 750, BODY) + table + words + line(55, 643, "of tin", 10)))

    assert text.endswith("| Seal C | EUR |\n| --- | --- |\n| Seal A of tin | 10 |\n| Seal B | 20 |")


@guards(
    "shared/ingest/parse/readers/pdf/layout/aligned.py",
    "_LEAST_ROWS = 3",
    "_LEAST_ROWS = 30",
    means="a table without ruling lines is running text",
)
def test_aligned_columns_are_a_table():
    rows = [("Port", "Ships", "Tons"), ("Kiel", "12", "3,400"), ("Turku", "7", "1,900"), ("Riga", "9", "2,000")]
    words = [line(50 + 120 * column, 700 - 14 * row, rows[row][column]) for row in range(4) for column in range(3)]

    (text,) = markdown(pdf(line(50, 750, BODY) + "\n".join(words) + line(50, 600, BODY)))

    assert "| Port | Ships | Tons |\n| --- | --- | --- |\n| Kiel | 12 | 3,400 |\n| Turku | 7 | 1,900 |" in text


@guards(
    "shared/ingest/parse/readers/pdf/tables.py",
    "first.continues = page.continues = True",
    "pass",
    means="the rows of a second page are another table",
)
def test_table_over_pages_is_one_table():
    def page(*rows):
        return "\n".join(
            line(50 + 150 * at, 750 - 14 * row, cell) for row, cells in enumerate(rows) for at, cell in enumerate(cells)
        )

    head = ("Code", "Meaning")
    reading = read(
        pdf(
            page(head, *((f"E{at}", f"fault {at}") for at in range(3))),
            page(*((f"E{at}", f"fault {at}") for at in range(3, 6))),
            page(head, *((f"E{at}", f"fault {at}") for at in range(6, 9))),
        )
    )

    rows = "\n".join(f"| E{at} | fault {at} |" for at in range(9))
    assert of_parts(reading.parts)[0] == f"| Code | Meaning |\n| --- | --- |\n{rows}"
    assert guarded(reading.parts).coverage == 1


@guards(
    "shared/ingest/parse/readers/pdf/structure.py",
    "if block.size >= body * _LARGER:",
    "if block.size >= body * 0.9:",
    means="lines of the body are headings",
)
def test_only_larger_lines_are_headings():
    content = (
        line(50, 750, "Opening hours", 18) + lines(50, 700, BODY, BODY + ".") + line(50, 670, "Ships wait outside")
    )

    (text,) = markdown(pdf(content + line(50, 640, "Fees", 13) + lines(50, 600, BODY, BODY)))

    assert [part for part in text.split("\n") if part.startswith("#")] == ["# Opening hours", "## Fees"]


@guards(
    "shared/ingest/parse/readers/pdf/structure.py",
    "block.level = _bookmarked(",
    "block.level = 0 * _bookmarked(",
    means="bookmarks are ignored",
)
def test_bookmarks_give_levels():
    outlines = (
        b"<< /Type /Outlines /First 101 0 R /Last 101 0 R >>",
        b"<< /Title (Fees) /Parent 100 0 R /Dest [10 0 R /Fit] /First 102 0 R /Last 102 0 R >>",
        b"<< /Title (Small boats) /Parent 101 0 R /Dest [10 0 R /Fit] >>",
    )
    content = line(50, 750, "Fees") + line(50, 720, BODY) + line(50, 690, "Small boats") + line(50, 660, BODY)

    (text,) = markdown(pdf(content, catalog="/Outlines 100 0 R", more=outlines))

    assert text.startswith("# Fees\n\nThe harbour")
    assert "\n\n## Small boats\n\n" in text


@guards(
    "shared/ingest/parse/readers/pdf/margins.py",
    "    page.blocks.remove(block)\n",
    "    pass\n",
    means="each page repeats its header",
)
def test_running_header_is_kept_once_and_no_heading():
    pages = [
        line(50, 780, "Harbour handbook", 14) + line(50, 600, f"{BODY} {at}") + line(300, 20, f"Page {at}")
        for at in (1, 2, 3)
    ]

    reading = read(pdf(*pages))

    assert [part.markdown.count("Harbour handbook") for part in reading.parts] == [1, 0, 0]
    assert [part.markdown.count("Page") for part in reading.parts] == [1, 0, 0]
    assert "#" not in reading.parts[0].markdown
    assert guarded(reading.parts).parts == reading.parts


@guards(
    "shared/ingest/parse/readers/pdf/margins.py",
    "if len(found) == len(page.blocks):",
    "if not page:",
    means="the only words of a page vanish",
)
def test_page_with_header_only_keeps_it():
    assert markdown(pdf(*(line(50, 780, f"Potato {at}") for at in (1, 2, 3)))) == ["Potato 1", "Potato 2", "Potato 3"]


@guards(
    "shared/ingest/parse/readers/pdf/blocks.py",
    'and "-" not in before and after',
    "and not before and after",
    means="words stay divided",
)
@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [
        ("The har-", "bour opens", "harbour opens"),
        ("An up-to-", "date list", "up-to-date list"),
        ("The C-", "64 runs", "C-64 runs"),
        ("A long-", "term plan", "long-term plan"),
        ("9 inter-", "na-\ntional lines", "9 international lines"),
        ("The hard high-", "light of it", "highlight of it"),
        ("All short-", "and long-term plans", "short- and long-term plans"),
        ("See the sea-", "side pier of the sea-side road", "sea-side pier"),
        ("See the sea-", "side pier of the seaside road", "seaside pier"),
    ],
)
def test_hyphen_at_line_end_joins_words(first, second, whole):
    reading = read(pdf(lines(50, 700, first, *second.split("\n"))))

    assert whole in reading.parts[0].markdown
    assert guarded(reading.parts).coverage == 1


@guards(
    "shared/ingest/parse/readers/pdf/hyphens.py",
    "if not first or not rest:",
    "if first or rest:",
    means="a word that the end of a page divides is two words",
)
def test_word_divided_by_page_end_is_whole():
    first = lines(50, 760, BODY, "and the ferries of the inter-") + line(50, 40, "1 Only in summer, at the pier", 7)

    reading = read(pdf(first, lines(50, 760, "national port are late", BODY)))

    texts = [part.markdown for part in reading.parts]
    assert "ferries of the international" in texts[0]
    assert texts[1].startswith("port are late")
    assert guarded(reading.parts).coverage == 1


FIELDS = (
    b"<< /Fields [101 0 R 102 0 R 103 0 R] >>",
    b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (a) /V (Ann Miller) /Rect [120 696 300 712] >>",
    b"<< /Subtype /Widget /FT /Ch /Ff 131072 /T (b) /V (Peru) /Opt [(Fiji) (Peru)] /Rect [99 666 200 682] >>",
    b"<< /Type /Annot /Subtype /Widget /FT /Btn /T (c) /V /Yes /AS /Yes /Rect [120 636 132 648] /AP 106 0 R >>",
    b"<< /Type /XObject /Subtype /Form /BBox [0 0 1 1] /Length 0 >> stream\n\nendstream",
    b"<< /Type /Annot /Subtype /Text /T (Kim) /Contents (Check the year) /Rect [400 700 420 720] >>",
    b"<< /N << /Yes 104 0 R /Off 104 0 R >> >>",
)


@guards(
    "shared/ingest/parse/readers/pdf/forms.py",
    'return "[x]" if raw.FPDFAnnot_IsChecked(form, annotation) else "[ ]"',
    'return "[ ]" if raw.FPDFAnnot_IsChecked(form, annotation) else "[x]"',
    means="a ticked box is read as empty",
)
def test_form_values_are_next_to_labels():
    content = lines(50, 700, "Name:", "Country:", "Agree:", pitch=30)

    (text,) = markdown(
        pdf(content, page="/Annots [101 0 R 102 0 R 103 0 R 105 0 R]", catalog="/AcroForm 100 0 R", more=FIELDS)
    )

    assert text.split("\n\n") == ["Name: Ann Miller", "Country: Peru", "Agree: [x]", "Comment by Kim: Check the year"]


@guards(
    "shared/ingest/parse/readers/pdf/text/layer.py",
    "ordered = sorted(groups.items(), key=",
    "ordered = sorted(groups.items(), reverse=True, key=",
    means="a stamp comes first",
)
def test_turned_text_follows_the_rest():
    turned = "BT /F1 10 Tf 0 1 -1 0 20 200 Tm (arXiv stamp) Tj ET"

    assert markdown(pdf(turned + line(50, 700, BODY))) == [f"{BODY}\n\narXiv stamp"]


@guards(
    "shared/ingest/parse/readers/pdf/text/words.py",
    "origin_y * cosine - origin_x * sine",
    "origin_y * cosine + origin_x * sine",
    means="lines are reversed",
)
def test_lines_of_turned_page_are_in_order():
    turned = [f"BT /F1 10 Tf 0 1 -1 0 {100 + 14 * at} 50 Tm (PageLine {at} of the page) Tj ET" for at in range(3)]

    (text,) = markdown(pdf("\n".join(turned), page="/Rotate 90"))

    assert text.split() == [word for at in "012" for word in ("PageLine", at, "of", "the", "page")]


@guards(
    "shared/ingest/parse/readers/pdf/text/words.py",
    "_RAISED = 0.65",
    "_RAISED = 0.01",
    means="the number of a footnote is a word",
)
def test_raised_number_stays_with_its_word():
    assert markdown(pdf("BT /F1 10 Tf 50 700 Td (Smith) Tj /F1 7 Tf 4 Ts (2) Tj /F1 10 Tf 0 Ts ( and Lee) Tj ET")) == [
        "Smith2 and Lee"
    ]


@guards(
    "shared/ingest/parse/readers/pdf/layout/scripts.py",
    "                chain.y = host.y",
    "                chain.y += 0",
    means="a power is a line of its own",
)
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            line(50, 700, "The area is r") + line(107.5, 705, "2", 7) + line(115, 700, "for all"),
            "is r 2 for all",
        ),
        (
            line(50, 700, "see T") + line(75, 705, "+", 7) + line(75, 696, "ij", 7) + line(90, 700, "below"),
            "T + ij below",
        ),
        (line(50, 704, "a", 7) + line(56, 700, "University of Porto"), "a University of Porto"),
    ],
    ids=["power", "both", "in front"],
)
def test_raised_and_lowered_text_stays_in_line(content, text):
    (found,) = markdown(pdf(content))

    assert found.endswith(text)
    assert "\n" not in found


@guards(
    "shared/ingest/parse/readers/pdf/text/words.py",
    "_LOWERED = 0.35",
    "_LOWERED = 0.01",
    means="a lowered letter divides a name",
)
def test_lowered_letter_stays_in_its_word():
    content = "BT /F1 10 Tf 50 700 Td (Use T) Tj 26.1 -2.2 Td (E) Tj 5.4 2.2 Td (X here) Tj ET"

    assert markdown(pdf(content)) == ["Use TEX here"]


def single_letters():
    """Return a PDF file with a narrow text as high as its page, whose letters are objects of their own."""
    widths = dict(zip("Price lst", (6.67, 3.33, 2.22, 5, 5.56, 2.78, 2.22, 5, 2.78), strict=True))
    letters = "".join(f"({char}) Tj {widths[char]} 0 Td " for char in "Price list")
    return pdf("".join(f"BT /F1 10 Tf 50 {780 - 11 * at} Td {letters} ET\n" for at in range(70)))


LETTERS = single_letters()


@guards(
    "shared/ingest/parse/readers/pdf/text/characters.py",
    "        self._remove_false_line_ends()\n",
    "",
    means="the letters of a printed page are words",
)
def test_single_letters_of_tall_narrow_text_are_words():
    (text,) = markdown(LETTERS)

    assert text.split() == ["Price", "list"] * 70


@guards(
    "shared/ingest/parse/readers/pdf/text/words.py",
    "if is_large and library.is_bitmap(self._page_address, at):",
    "if is_large:",
    means="letters without a known size have the size of the largest letters of the page",
)
def test_single_letters_keep_the_size_of_their_font():
    with pypdfium2.PdfDocument(LETTERS) as document:
        text_page = document[0].get_textpage()
        ((_, words),) = text_layer(text_page, text_page.count_chars(), Fonts()).groups

    assert {word.style.size for word in words} == {10.0}


def bitmap_font(text):
    """Return a PDF file with a text in a font of drawn glyphs without names, as TeX makes them of bitmaps."""
    glyph = b"<< /Length 36 >> stream\n500 0 0 0 500 700 d1 0 0 500 700 re f\nendstream"
    names = " ".join(f"/a{code}" for code in range(128))
    procedures = " ".join(f"/a{code} 102 0 R" for code in range(128))
    font = (
        "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [.001 0 0 .001 0 0] /FirstChar 0"
        f" /LastChar 127 /Widths [{'500 ' * 128}] /Encoding << /Differences [0 {names}] >>"
        f" /CharProcs << {procedures} >> >>"
    )
    content = f"BT /F9 10 Tf 50 700 Td <{text.encode('latin-1').hex()}> Tj ET".encode()
    form = (
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources << /Font << /F9 101 0 R >> >> /Length %d >>"
        b" stream\n%s\nendstream" % (len(content), content)
    )
    return pdf("/I1 Do", more=[form, font.encode(), glyph])


@guards(
    "shared/ingest/parse/readers/pdf/text/characters.py",
    "        if _is_old(text, found):",
    "        if any(text[at] in _ONLY_OLD for at in found):",
    means="a Danish page shows ligatures",
)
@guards(
    "shared/ingest/parse/readers/pdf/text/characters.py",
    "        if _DRAWN_AS_ONE.search(text):",
    "        if not text:",
    means="letters of ligatures in bitmap fonts are lost",
)
@pytest.mark.parametrize(
    ("codes", "text"),
    [
        ("de\x1cned di\x1berent e\x1ecient \x10so\x11", "defined different efficient “so”"),
        ("de\x0cned di\x0berent e\x0ecient s\x1cren", "defined different efficient søren"),
        ("s\x1cren f\x1crst", "søren først"),
        ("s\x1cren v\x1arbar", "søren værbar"),
        ("\x1fre \x1cre", "Øre øre"),
        ("a \x1c b", "a \ufffd b"),
    ],
    ids=["Cork", "old", "Danish", "Danish with ae", "Danish capital", "not in a word"],
)
def test_bitmap_ligatures_are_letters(codes, text):
    (part,) = read(bitmap_font(codes)).parts

    assert part.markdown == text
    assert part.illegible == ()


@guards(
    "shared/ingest/parse/readers/pdf/text/characters.py",
    '_DRAWN_ACCENT.sub("", self._plain(self.text))',
    "_DRAWN_ACCENT.sub(\"\", self._plain(self.text).replace('à', '`a'))",
    means="an accent of TeX is a lost word",
)
def test_drawn_accent_loses_no_word():
    content = "BT /F1 10 Tf 50 700 Td (Universit) Tj 38.9 0 Td (`) Tj 0.2 0 Td (a degli Studi di Padova) Tj ET"
    reading = read(pdf(content))

    assert guarded(reading.parts).parts[0].markdown == "Università degli Studi di Padova"
    assert "Università" in (reading.parts[0].plain or "")


@guards(
    "shared/ingest/parse/readers/pdf/text/characters.py",
    "(?: ?[{_MARKS}]|[{_MARKS}] )",
    " ?[{_MARKS}] ?",
    means="an accent joins the words around it",
)
def test_accent_over_no_letter_joins_no_words():
    content = line(50, 700, "computes B") + line(107, 700, "\xa8", 10) + line(113, 700, "from")

    (part,) = guarded(read(pdf(content)).parts).parts

    assert {"B", "from"} <= set(part.markdown.split())
    assert "Bfrom" not in (part.plain or "")


@guards(
    "shared/ingest/parse/readers/pdf/layout/columns.py",
    "_LEAST_NUMBERS = 8",
    "_LEAST_NUMBERS = 80",
    means="numbers of lines divide sentences",
)
def test_line_numbers_are_apart_from_sentences():
    numbers = lines(30, 700, *map(str, range(41, 51)), size=6)
    sentences = lines(
        60, 700, *[f"{BODY} and", "it is open again on the day after, when all of the ferries come back"] * 5
    )
    notes = lines(60, 700, *[BODY] * 10)

    (found,) = markdown(pdf(f"{numbers}\n{sentences}"))
    (numbered,) = markdown(pdf(f"{numbers}\n{notes}"))

    assert found.split()[:10] == [str(number) for number in range(41, 51)]
    assert not any(map(str.isdigit, found.split()[10:]))
    assert f"| 42 | {BODY} |" in numbered


@guards(
    "shared/ingest/parse/readers/pdf/layout/order.py",
    "_WIDE_AFTER_LABEL = 4.0",
    "_WIDE_AFTER_LABEL = 0.1",
    means="a label is a column",
)
def test_labels_of_lists_are_kept_as_printed():
    labels = ["1.", "(b)", "2.1"]
    content = "\n".join(
        line(50, 700 - 14 * at, label) + line(80, 700 - 14 * at, f"clause {at}") for at, label in enumerate(labels)
    )

    assert markdown(pdf(content)) == ["1. clause 0\n\n(b) clause 1\n\n2.1 clause 2"]


@guards(
    "shared/ingest/parse/readers/pdf/titles.py",
    "if not title or not any(map(str.isalpha, title)) or",
    "if not title or",
    means="1.0 is a title",
)
@pytest.mark.parametrize(
    "title",
    [
        "untitled",
        "(anonymous)",
        "Microsoft Word - x.doc",
        "report final.docx",
        "C:\\a\\b.pdf",
        "1.0",
        "Document1",
        "",
        "Untitled-3",
    ],
)
def test_default_titles_are_none(title):
    assert real_title(title) is None
    assert real_title("Rules of the harbour, 2.0") == "Rules of the harbour, 2.0"


def test_largest_text_is_title_without_metadata():
    content = line(50, 700, "Rules of the harbour", 20) + lines(50, 600, BODY, BODY)

    assert read(pdf(content, info="/Title (untitled)")).title == "Rules of the harbour"
    assert read(pdf(content, info="/Title (By-laws)")).title == "By-laws"


def test_stamp_or_footer_is_not_a_title():
    stamp = "BT /F1 24 Tf 0 1 -1 0 30 200 Tm (arXiv:2004 cs) Tj ET\n"
    content = line(50, 700, "Rules of the harbour", 20) + lines(50, 600, BODY, BODY)

    assert read(pdf(stamp + content)).title == "Rules of the harbour"
    assert read(pdf(content + line(50, 60, "ACME", 30))).title == "Rules of the harbour"


def cid_font(encoding, ordering):
    """Return the content of a page and objects whose font is not in the file."""
    return (
        f"<< /Type /Font /Subtype /Type0 /BaseFont /Heisei /Encoding /{encoding} /DescendantFonts [<< /Type /Font"
        f" /Subtype /CIDFontType0 /BaseFont /Heisei /CIDSystemInfo << /Registry (Adobe) /Ordering ({ordering})"
        " /Supplement 2 >> /DW 1000 /FontDescriptor << /Type /FontDescriptor /FontName /Heisei /Flags 6 /Ascent 723"
        " /Descent -241 /FontBBox [0 -200 1000 900] /ItalicAngle 0 /StemV 60 /CapHeight 700 >> >>] >>"
    ).encode()


@guards(
    "shared/ingest/parse/readers/pdf/opening.py",
    "    fonts.use()\n",
    "    pass\n",
    means="text whose font is not in the file vanishes",
)
@pytest.mark.parametrize(
    ("encoding", "ordering", "text"),
    [
        ("UniJIS-UCS2-H", "Japan1", "縦書の文"),
        ("UniGB-UCS2-V", "GB1", "竖排文字"),
        ("UniKS-UCS2-H", "Korea1", "대한민국"),
        ("UniCNS-UCS2-V", "CNS1", "直書文字"),
    ],
)
def test_text_without_font_in_file_is_read(encoding, ordering, text):
    strings = "".join(
        f"BT /F9 12 Tf 1 0 0 1 500 {700 - 13 * at} Tm <{ord(char):04x}> Tj ET\n" for at, char in enumerate(text)
    )
    content = pdf(strings, more=(b"null", cid_font(encoding, ordering)))

    reading = in_fresh_process(content.replace(b"/Font <<", b"/Font << /F9 101 0 R", 1))

    assert reading == [text, text]


def in_fresh_process(content):
    """Return Markdown and words of the plain text, as a process reads them that has not read a file before."""
    code = (
        "import sys; from shared.ingest.parse.readers.pdf import read; part = read(sys.stdin.buffer.read()).parts[0];"
        "sys.stdout.buffer.write('|'.join((''.join(part.markdown.split()), ''.join(part.plain.split()))).encode())"
    )
    done = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True, check=True, timeout=60)
    return done.stdout.decode().split("|")


@guards(
    "shared/ingest/parse/readers/pdf/text/characters.py",
    "return len(unknown) > 1 or unknown[0] > start or",
    "return False and",
    means="letters that the file does not map are not counted",
)
def test_letters_without_meaning_are_lost_words():
    content = lines(50, 700, BODY, "A w\x03\x04d and the sum of \x0512.5", "\x05 no word")

    (part,) = read(pdf(content)).parts
    (loss,) = guarded([part]).losses

    assert part.illegible == ("w\ufffd\ufffdd", "\ufffd12.5")
    assert (loss.location, loss.missing) == ("page 1", 2)


@guards(
    "shared/ingest/parse/readers/guard.py",
    "spelled = Counter(_letters([word]) for word in added.elements())",
    "spelled = +added",
    means="letters with other accents are lost words",
)
def test_words_divided_differently_are_not_lost():
    pairs = (
        ("TITLE of the page", "T I T L E of the page"),
        ("C C U U C U", "CUU CCU"),
        ("a big café", "a big cafe"),
        ("الإنتاجية", "اإلنتاجية"),
    )
    for text, plain in pairs:
        part = Part(text, plain)
        assert guarded([part]).parts == (part,)


@guards(
    "shared/ingest/parse/readers/pdf/blocks.py",
    "            while _has_caption(item):\n",
    "            while False:\n",
    means="the title of a table is its header",
)
def test_title_row_of_table_stays_apart():
    table = box((50, 200, 300), (700, 670, 640)) + box((50, 300), (730, 700))
    words = lines(55, 685, "Name", "Seal", pitch=30) + lines(205, 685, "EUR", "10", pitch=30)

    (text,) = markdown(pdf(line(50, 780, BODY) + table + line(120, 710, "Prices of all spare parts 2026") + words))

    assert text.endswith("\n\nPrices of all spare parts 2026\n\n| Name | EUR |\n| --- | --- |\n| Seal | 10 |")


@guards(
    "shared/ingest/parse/readers/pdf/text/words.py",
    "if gaps := self._spaces(start, end):",
    "if (gaps := self._spaces(start, end)) and not gaps:",
    means="words without a space between them are joined",
)
def test_move_as_wide_as_space_divides_words():
    moved = (
        "BT /F1 10 Tf 1 0 0 1 50 700 Tm (flo) Tj 2.5 Tc 10.56 0 Td (wc) Tj 0 Tc 14.72 0 Td (olours) Tj"
        " 40 0 Td (of the harbour) Tj ET\n"
    )
    tracked = "BT /F1 10 Tf 3 Tc 1 0 0 1 50 650 Tm (TITLE) Tj ET"

    assert markdown(pdf(moved + tracked)) == ["flow colours of the harbour\n\nTITLE"]


@guards(
    "shared/ingest/parse/readers/pdf/text/words.py",
    "is_large = not style.angle and self._chars.height(at) > _DRAWN * style.size",
    "is_large = style.angle and self._chars.height(at) > _DRAWN * style.size",
    means="the letters of a drawn font are apart",
)
def test_drawn_font_has_size_of_its_glyphs():
    glyph = b"<< /Length 35 >> stream\n50 0 0 -10 45 70 d1 0 -10 45 70 re f\nendstream"
    font = (
        b"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 0 0] /FontMatrix [1 0 0 1 0 0] /FirstChar 97 /LastChar 100"
        b" /Widths [50 50 50 50] /CharProcs << /a 102 0 R /b 102 0 R /c 102 0 R /d 102 0 R >>"
        b" /Encoding << /Type /Encoding /Differences [97 /a /b /c /d] >> >>"
    )
    content = "BT /F9 .12 Tf 1 0 0 1 50 700 Tm (ab) Tj 1 0 0 1 63 700 Tm (cd) Tj ET"

    made = pdf(content, more=(b"null", font, glyph)).replace(b"/Font <<", b"/Font << /F9 101 0 R", 1)

    assert markdown(made) == ["abcd"]


@guards(
    "shared/ingest/parse/readers/pdf/layout/aligned.py",
    "for label in _labels(rows):",
    "for label in [[line for row in rows for line in row]]:",
    means="labels of a figure are mixed",
)
def test_labels_of_figure_are_not_a_table():
    boxes = [
        (50, 700, "Main", "pump", "of", "the", "old", "quay"),
        (170, 700, "Spare"),
        (290, 688, "Valve", "closed"),
        (410, 676, "Tank"),
        (170, 664, "Drain", "pipe"),
    ]
    content = "\n".join(lines(x, y, *texts) for x, y, *texts in boxes)

    (text,) = markdown(pdf(line(50, 760, BODY) + content))

    labels = [" ".join(label.split()) for label in text.split("\n\n")[1:]]
    assert labels == ["Main pump of the old quay", "Spare", "Valve closed", "Tank", "Drain pipe"]


@guards(
    "shared/ingest/parse/readers/pdf/layout/aligned.py",
    "lead = int(_is_header_line(part))",
    "lead = 0",
    means="the header of a page is read by columns",
)
def test_header_with_three_texts_stays_one_line():
    header = line(50, 770, "NOP(1)") + line(230, 770, "Manual of commands") + line(480, 770, "NOP(1)")
    content = header + lines(50, 740, "NAME", "SYNOPSIS", "OPTIONS", "DESCRIPTION", pitch=14) + line(240, 684, "print")

    (text,) = markdown(pdf(content))

    assert text.startswith("NOP(1) Manual of commands NOP(1)\n\nNAME")


CHOICES = (
    b"<< /Fields [101 0 R 102 0 R 103 0 R] >>",
    b"<< /Subtype /Widget /FT /Ch /T (b) /V (Peru) /Opt [(Fiji) (Peru)] /Rect [99 640 200 690] >>",
    b"<< /FT /Btn /Ff 32768 /T (c) /V /Women /Kids [104 0 R 105 0 R] >>",
    b"<< /Subtype /Widget /FT /Tx /Ff 4096 /T (d) /V (Quay 1\rTurku) /Rect [99 540 200 590] >>",
    b"<< /Subtype /Widget /Parent 102 0 R /AS /Off /AP << /N << /Men 106 0 R >> >> /Rect [99 620 109 630] >>",
    b"<< /Subtype /Widget /Parent 102 0 R /AS /Women /AP << /N << /Women 106 0 R >> >> /Rect [99 600 109 610] >>",
    b"<< /Type /XObject /Subtype /Form /BBox [0 0 1 1] /Length 0 >> stream\n\nendstream",
)


@guards(
    "shared/ingest/parse/readers/pdf/forms.py",
    "if kind == raw.FPDF_FORMFIELD_LISTBOX and count",
    "if kind == 0 and count",
    means="options that are not chosen are lost",
)
def test_lists_and_buttons_show_all_choices():
    content = pdf(
        line(50, 750, BODY), page="/Annots [101 0 R 104 0 R 105 0 R 103 0 R]", catalog="/AcroForm 100 0 R", more=CHOICES
    )

    (text,) = markdown(content)

    assert " ".join(text.split()).endswith(" pier [ ] Fiji [x] Peru [ ] Men [x] Women Quay 1 Turku")


def test_form_that_only_xfa_has_is_named():
    xfa = (b"<< /Fields [] /XFA [(template) 101 0 R] >>", b"<< /Length 12 >> stream\n<template/>\nendstream")

    reading = read(pdf(line(50, 700, "Please wait..."), catalog="/AcroForm 100 0 R", more=xfa))

    assert reading.unread == (
        "the XFA form in the file was not read; print it to a new PDF file with Adobe Reader and add that",
    )
    assert not read(pdf(line(50, 700, BODY), catalog="/AcroForm 100 0 R", more=xfa)).unread


@guards(
    "shared/ingest/parse/readers/pdf/opening.py",
    "raw.FPDF_GetLastError() == raw.FPDF_ERR_PASSWORD",
    "not error",
    means="no reason is given",
)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ((FILES / "hostile/pdfminer_rc4_40.pdf").read_bytes(), "protected with a password"),
        (b"%PDF-1.4\nnothing", "is damaged"),
    ],
    ids=["password", "damage"],
)
def test_unreadable_file_has_a_reason(content, reason):
    with pytest.raises(Unreadable, match=reason):
        read(content)


@guards(
    "shared/ingest/parse/readers/pdf/forms.py",
    "yield f'the attached file",
    "yield f'a file",
    means="attachments are not named",
)
def test_attached_file_is_named():
    files = (
        b"<< /Names [(a.txt) 101 0 R] >>",
        b"<< /Type /Filespec /F (a.txt) /UF (a.txt) /EF << /F 102 0 R >> >>",
        b"<< /Type /EmbeddedFile /Length 2 >> stream\nhi\nendstream",
    )

    reading = read(pdf(line(50, 700, BODY), catalog="/Names << /EmbeddedFiles 100 0 R >>", more=files))

    assert reading.unread == ('the attached file "a.txt" was not read; add it as a document of its own',)


@guards(
    "shared/ingest/parse/readers/pdf/pictures.py",
    "first = 14 + 40 + len(palette)",
    "first = 14 + len(palette)",
    means="the pixels of a picture are shifted",
)
def test_picture_has_its_page_and_its_rows():
    image = (
        b"<< /Type /XObject /Subtype /Image /Width 2 /Height 2 /ColorSpace /DeviceRGB /BitsPerComponent 8 /Length 12 >>"
        b" stream\n\xff\0\0\0\xff\0\0\0\xff\xff\xff\xff\nendstream"
    )

    ((page, content),) = pictures_in(pdf(line(50, 700, BODY), "q 50 0 0 50 100 100 cm /I1 Do Q", more=(image,)))

    assert page == 2
    assert content[:2] == b"BM"
    assert int.from_bytes(content[10:14], "little") == 54
    assert content[54:60] == b"\0\0\xff\0\xff\0"
