"""Outlook messages and Word 97 files: texts of compound files in every code page, without field codes."""

import struct

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers.mail.msg import unpacked_rtf
from tests.support.compound import compound_file, message, word_file
from tests.support.planted import guards

CHINESE = "格式"  # too short for a guess


def read(tree):
    return extract(compound_file(tree), filename="a.msg", media_type=None, max_text_chars=1_000_000)


@guards(
    "shared/ingest/parse/readers/mail/msg.py",
    "for page in (message.number(0x3FFD), by_locale, message.number(0x3FDE)):",
    "for page in (message.number(0x3FFD),):",
    means="a Chinese message without a code page is mojibake",
)
@pytest.mark.parametrize("numbers", [{0x3FFD: 950}, {0x3FF1: 0x0404}, {0x3FDE: 950}])
def test_code_page_of_message_is_found(numbers):
    data = CHINESE.encode("cp950")
    text = read(message({0x0037: data, 0x1000: data, 0x0C1A: "Ann"}, numbers, 32))

    assert text.text == f"# {CHINESE}\n\nFrom: Ann\n\n{CHINESE}"


def test_recipients_attachments_and_embedded_messages_are_read():
    recipient = message({0x3001: "Bob", 0x39FE: "b@x.example"}, {0x0C15: 1}, 8)
    attachment = message({0x3707: "pin.txt"}, {0x3705: 1}, 8, {"__substg1.0_37010102": b"The pin is 1234"})
    inner = message({0x0037: "Timetable", 0x1000: "At noon."}, {}, 24)
    embedded = message({0x3001: "Timetable"}, {0x3705: 5}, 8, {"__substg1.0_3701000D": inner})
    folders = {
        "__recip_version1.0_#00000000": recipient,
        "__attach_version1.0_#00000000": attachment,
        "__attach_version1.0_#00000001": embedded,
    }
    text = read(message({0x0037: "Ferry", 0x1000: "Hello"}, {}, 32, folders)).text

    assert text == (
        "# Ferry\n\nTo: Bob <b@x.example>\n\nHello\n\n## Timetable\n\nForwarded message\n\nAt noon.\n\n"
        "## pin.txt\n\nThe pin is 1234"
    )


def test_html_is_read_with_its_code_page():
    html = "<p>Schůze v pátek</p>".encode("cp1250")

    assert (
        read(message({0x0037: "s"}, {0x3FDE: 1250}, 32, {"__substg1.0_10130102": html})).text == "# s\n\nSchůze v pátek"
    )


def test_compressed_rtf_is_unpacked():
    # The example of MS-OXRTFCP 3.1.
    data = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )

    assert unpacked_rtf(data) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"


@guards(
    "shared/ingest/parse/readers/doc.py",
    "            self._in_code.append(True)",
    "            self._in_code.append(False)",
    means="a field code is text",
)
def test_word_97_fields_headings_and_tables():
    style = struct.pack("<HB", 0x2640, 0)
    cell = struct.pack("<HB", 0x2416, 1)
    row = cell + struct.pack("<HB", 0x2417, 1)
    content = word_file(
        [
            ("Fees\r", style),
            ('See \x13 HYPERLINK "https://x.example/a" \x14this page\x15; 5 €.\r', b""),
            ("Item\x07", cell),
            ("Cost\x07", cell),
            ("\x07", row),
            ("Laptop\x07", cell),
            ("1,200\x07", cell),
            ("\x07", row),
            ("End\r", b""),
        ]
    )

    assert extract(content, filename="a.doc", media_type=None, max_text_chars=10_000).text == (
        "# Fees\n\nSee [this page](https://x.example/a); 5 €.\n\n"
        "| Item | Cost |\n| --- | --- |\n| Laptop | 1,200 |\n\nEnd"
    )


@pytest.mark.parametrize("cut", [100, 600, 1_500, 2_600, 3_000])
@pytest.mark.parametrize("offset", [30, 44, 48, 60, 76, 540, 1_600])
def test_damaged_compound_file_ends_with_text_or_sentence(cut, offset):
    whole = compound_file(message({0x0037: "Ferry", 0x1000: "Hello"}, {}, 32))
    for content in (
        whole[:cut],
        whole[:offset] + b"\xfe\xff\xff\xff" + whole[offset + 4 :],
        whole[:offset] + bytes(4) + whole[offset + 4 :],
    ):
        try:
            text = extract(content, filename="a.msg", media_type=None, max_text_chars=10_000).text
        except Unreadable as error:
            text = str(error)
        assert text


@pytest.mark.parametrize(("body", "text"), [("\r", "Port office"), ("Open at six\r", "Open at six")])
def test_old_word_headers_are_read_without_other_text(body, text):
    content = word_file([(body, b"")], header="Port office\r")

    assert extract(content, filename="a.doc", media_type=None, max_text_chars=1_000).text == text
