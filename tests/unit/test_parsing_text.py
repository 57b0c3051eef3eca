# ruff: noqa: RUF001  other scripts have letters that look like ours

import codecs

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse import kinds
from shared.ingest.parse.text import decode
from tests.support.planted import guards

SENTENCE = "Zürich liegt am See \u2013 „schön“, très joli, año."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_common_encodings_are_recognised(encoding):
    assert decode(SENTENCE.encode(encoding)) == SENTENCE


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_byte_order_mark_is_recognised(encoding):
    assert decode(SENTENCE.encode(encoding)) == SENTENCE


def test_declared_charset_applies_unless_utf8():
    assert decode("Привет, мир".encode("koi8-r"), charset="koi8-r") == "Привет, мир"
    assert decode('<meta charset="koi8-r">Привет'.encode("koi8-r")) == '<meta charset="koi8-r">Привет'
    assert decode("Привет".encode(), charset="koi8-r") == "Привет"


@pytest.mark.parametrize("charset", ["rot13", "hex", "no-such", "zip"])
def test_unknown_charset_is_ignored(charset):
    assert decode("café".encode("cp1252"), charset=charset) == "café"


def test_line_ends_are_unified_and_nul_replaced():
    assert decode(b"a\r\nb\rc\0d") == "a\nb\ncd"
    assert decode(codecs.BOM_UTF8 + b"a") == "a"


def test_damaged_bytes_lose_only_their_characters():
    assert decode(("é" * 50).encode() + b"\xff" + ("ü" * 50).encode()) == "é" * 50 + "\ufffd" + "ü" * 50


def test_binary_is_rejected_as_text():
    with pytest.raises(Unreadable, match="not text"):
        decode(bytes(range(256)) * 20)


RUSSIAN = "Каждый сотрудник имеет тридцать дней отпуска в году, а остаток пропадает в конце марта.\n"
GREEK = "Κάθε υπάλληλος έχει τριάντα ημέρες άδεια τον χρόνο, και το υπόλοιπο χάνεται στο τέλος του Μαρτίου.\n"
CHINESE = "每位员工每年有三十天的假期，剩下的假期在第二年三月底作废，不能再用，也不能折算成工资发给员工本人。\n"
JAPANESE = "従業員は誰でも一年に三十日の休暇があり、残った休暇は翌年の三月の終わりになくなります。\n"
THAI = "พนักงานทุกคนมีวันหยุดสามสิบวันต่อปี และวันที่เหลือจะหมดไปในปลายเดือนมีนาคมของปีถัดไป\n"
TURKISH = "Her çalışanın yılda otuz gün izni vardır, ama kalan günler için bir şey ödenmez ve mart sonunda kaybolur.\n"
CZECH = (
    "Každý zaměstnanec má třicet dní dovolené za rok, a to, co mu při odchodu zůstane, propadá před koncem března.\n"
)
FRENCH = "L’été dernier, les employés ont été très gênés : à Noël, où étaient passés les congés qu’ils espéraient ?\n"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1251", RUSSIAN),
        ("koi8-r", RUSSIAN),
        ("cp1253", GREEK),
        ("gb18030", CHINESE),
        ("cp932", JAPANESE),
        ("euc_jp", JAPANESE),
        ("cp874", THAI),
        ("cp1252", FRENCH),
        ("cp1254", TURKISH),
        ("cp1250", CZECH),
    ],
)
def test_undeclared_charset_is_detected(encoding, text):
    assert decode(text.encode(encoding)) == text
    assert decode((text * 2000).encode(encoding)) == text * 2000


@guards(
    "shared/ingest/parse/text.py",
    'return data.lstrip(b"\\0") if data.startswith(_PADDING) else data',
    "return data",
    means="a log that was emptied while it was open is refused as binary",
)
def test_padding_before_text_is_left_out():
    padded = bytes(70_000) + b"06:00 The pump has started.\n"

    assert decode(padded) == "06:00 The pump has started.\n"
    assert kinds.detect(padded, filename="pump.log", media_type=None) is kinds.TEXT
