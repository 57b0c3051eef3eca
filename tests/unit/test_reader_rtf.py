"""RTF: every code page, field, table and list arrives; formatting data does not."""

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers import rtf
from tests.support.planted import guards

FONTS = (
    rb"{\fonttbl{\f0 Arial;}{\f1\fcharset238 Arial CE;}{\f2\fcharset204 Arial Cyr;}"
    rb"{\f3\fcharset128 MS Mincho;}{\f4\fcharset2 Symbol;}}"
)


def text_of(body, head=rb"{\rtf1\ansi\ansicpg1252"):
    (part,) = rtf.read(head + FONTS + body + b"}").parts
    return part.markdown


@guards(
    "shared/ingest/parse/readers/rtf/fonts.py",
    '    238: "cp1250",',
    '    238: "cp1252",',
    means="Czech letters are wrong",
    case="f1",
)
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb"\f1 p\'f8edpis", "předpis"),
        (rb"\f2 \'cc\'e8\'f0", "Мир"),
        (rb"\f3 \'83\'65\'83X\'83g", "テスト"),
        (rb"\f4 b\'b3d", "β≥δ"),
        (rb"\uc2\u26085\'93\'fa\u26412ab!", "日本!"),
        (rb"\uc0\u-10179\u-8704", "\U0001f600"),
        (rb"\f1 {\f2 \'c8} \'f8", "И ř"),
    ],
    ids=["f1", "f2", "f3", "f4", "uc2", "uc0", "groups"],
)
def test_letters_are_decoded_by_font_and_unicode(body, text):
    assert text_of(body) == text


def test_fonts_without_charset_use_code_page():
    (part,) = rtf.read(rb"{\rtf1\ansi\ansicpg1251{\fonttbl{\f0\fcharset0 Arial;}}\f0 \'cc\'e8\'f0}").parts

    assert part.markdown == "Мир"


@pytest.mark.parametrize(
    "hidden",
    [
        rb"{\*\generator Msftedit;}",
        rb"{\pict\pngblip 89504e47}",
        rb"{\pict\bin5 }}}{{}",
        rb"{\header Page one\par}",
        rb"{\*\themedata 504b}",
        rb"{\info{\author Ann}}",
        rb"{\*\unknown text}",
        rb"{\field{\*\fldinst PAGE}}",
        rb"{\*\bkmkstart a1}",
        rb"{\deleted old}",
        rb"{\*\unknown {a \} b} \\}",
    ],
)
def test_formatting_data_is_left_out(hidden):
    assert text_of(rb"before " + hidden + rb"after") == "before after"


@guards(
    "shared/ingest/parse/readers/rtf/interpreter.py",
    'elif word == "ud":',
    'elif word == "no word":',
    means="text with a variant in Unicode is lost",
)
def test_unicode_variant_replaces_its_text():
    assert text_of(rb"before {\upr{ri?eka}{\*\ud{\uc0\u345 eka}}} after") == "before řeka after"


@guards(
    "shared/ingest/parse/readers/rtf/blocks.py",
    'if flag == "above" and not self._row[index] and index < len(above):',
    "if False:",
    means="a row of a merged cell has no label",
)
def test_table_keeps_rows_and_fills_merged_cells():
    row = rb"\trowd%b\cellx1\cellx2\pard\intbl %b\cell %b\cell\row "
    table = (
        row % (b"", b"Country", b"City") + row % (rb"\clvmgf", b"Spain", b"Vigo") + row % (rb"\clvmrg", b"", b"Lugo|")
    )

    assert text_of(table + rb"\pard after\par") == (
        "| Country | City |\n| --- | --- |\n| Spain | Vigo |\n| Spain | Lugo\\| |\n\nafter"
    )


def test_headings_lists_links_notes_and_comments():
    style = rb"{\stylesheet{\s0 Normal;}{\s5 heading 2;}}"
    body = (
        rb"\pard\s5 Fees\par\pard {\listtext 1.\tab}One\par{\listtext 2.\tab}Two\par\pard "
        rb'See {\field{\*\fldinst{HYPERLINK "https://x.example/a"}}{\fldrslt this page}}'
        rb"{\footnote\pard A note.} now.\par "
        rb"\pard\outlinelevel0 Top\par\pard Text{\*\atnauthor Ann}{\*\annotation Check it.}\par"
    )

    assert text_of(style + body) == (
        "## Fees\n\n1. One\n2. Two\n\nSee [this page](https://x.example/a)[^1] now.\n\n[^1]: A note.\n\n"
        "# Top\n\nText\n\nComment (Ann): Check it."
    )


def test_header_is_read_if_body_is_empty():
    assert text_of(rb"{\header Animal hospital\par}") == "Animal hospital"


def test_title_is_stated():
    assert rtf.read(rb"{\rtf1{\info{\title Prices {\b 2026}}}x}").title == "Prices 2026"


@pytest.mark.parametrize(
    "content", [b"{\\rtf1 " + b"{" * 200_000 + b"x", b"{\\rtf1 x" + b"}" * 200_000, b"{\\rtf1 x\\bin999999 y"]
)
def test_hostile_rtf_ends_with_its_text(content):
    assert rtf.read(content).parts[0].markdown == "x"


def test_damaged_rtf_is_refused():
    with pytest.raises(Unreadable, match="the RTF file is damaged"):
        rtf.read(b"rtf1")


def test_packed_html_is_unpacked():
    packed = (
        rb"{\rtf1\ansi\fromhtml1{\*\htmltag64 <p>}\htmlrtf {\b\htmlrtf0 Caf\'e9 {\*\htmltag84 &amp;} <"
        rb"\htmlrtf }\htmlrtf0{\*\htmltag72 </p>}}"
    )

    assert rtf.packed_html(packed) == "<p>Café &amp; &lt;</p>"
