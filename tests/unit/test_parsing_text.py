import codecs

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.text import decode

SENTENCE = "Zürich liegt am See \u2013 „schön“, très joli, año."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_common_encodings_are_told_apart(encoding):
    assert decode(SENTENCE.encode(encoding)) == SENTENCE


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark(encoding):
    assert decode(SENTENCE.encode(encoding)) == SENTENCE


def test_the_declared_charset_counts_where_it_is_not_utf8():
    assert decode("Привет, мир".encode("koi8-r"), charset="koi8-r") == "Привет, мир"
    assert decode('<meta charset="koi8-r">Привет'.encode("koi8-r")) == '<meta charset="koi8-r">Привет'
    assert decode("Привет".encode(), charset="koi8-r") == "Привет"


@pytest.mark.parametrize("charset", ["rot13", "hex", "no-such", "zip"])
def test_a_charset_that_is_none_is_ignored(charset):
    assert decode("café".encode("cp1252"), charset=charset) == "café"


def test_line_ends_and_nul():
    assert decode(b"a\r\nb\rc\0d") == "a\nb\ncd"
    assert decode(codecs.BOM_UTF8 + b"a") == "a"


def test_a_few_damaged_bytes_cost_those_characters_only():
    assert decode(("é" * 50).encode() + b"\xff" + ("ü" * 50).encode()) == "é" * 50 + "\ufffd" + "ü" * 50


def test_what_is_not_text_is_refused():
    with pytest.raises(Unreadable, match="not text"):
        decode(bytes(range(256)) * 20)
