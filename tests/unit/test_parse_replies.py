"""Each value in a parser's reply is checked, because a hostile file may control the process that sends it."""

from base64 import b64encode
from dataclasses import replace

import orjson
import pytest

from shared.confined.process import InvalidReply
from shared.domain.corpus.chunks import CONTENT_FIELDS, ChunkContent
from shared.domain.stages.pages import MAX_PICTURE_BYTES, PageText
from shared.ingest.parse.document import PagesToRead, ParsedDocument
from shared.ingest.parse.isolation.replies import ReplyChunks, ReplyLimits, pages_of, read_facts, read_head
from tests.support.parser_replies import (
    MISSING,
    SOUND,
    TEXT,
    changed,
    document_reply,
    messages_of,
    pages_reply,
    received,
)
from tests.support.planted import guards

LIMITS = ReplyLimits(chunks=10, text_chars=1_000, chunk_chars=200, questions=0)
CHUNK = ("document", 5, 0)
READ = ("document", 4)  # coverage, losses, unread
LOSS = ("document", 4, 1, 0)  # location, number, sample
FIELD = {name: (*CHUNK, position) for position, name in enumerate(CONTENT_FIELDS)}
WRONG = {
    "a number for a text": (FIELD["text"], 1),
    "a NUL in a text": (FIELD["text"], "\0" + TEXT),
    "a text longer than a chunk": (FIELD["text"], "a" * 201),
    "an object for a language": (FIELD["language"], {"a": 1}),
    "a NUL for a language": (FIELD["language"], "\0"),
    "a long language": (FIELD["language"], "english"),
    "a language with a line feed": (FIELD["language"], "en\n"),
    "a span after the text": (FIELD["span"], [10**10, 10**10 + 1]),
    "a span beyond the text": (FIELD["span"], [990, 1_001]),
    "a span before the text": (FIELD["span"], [-4, 9]),
    "a reversed span": (FIELD["span"], [9, 4]),
    "a span longer than its text": (FIELD["span"], [0, len(TEXT) + 1]),
    "a span of one number": (FIELD["span"], [0]),
    "a fraction in a span": (FIELD["span"], [0, 1.5]),
    "a truth value in a span": (FIELD["span"], [False, True]),
    "a section beyond the text": (FIELD["section"], {"start": 0, "end": 1_001}),
    "a reversed section": (FIELD["section"], {"start": 9, "end": 4}),
    "a section without end": (FIELD["section"], {"start": 0}),
    "a section with more": (FIELD["section"], {"start": 0, "end": 9, "more": 1}),
    "page 0": (FIELD["page"], 0),
    "a page after ten millions": (FIELD["page"], 10_000_001),
    "a text for a page": (FIELD["page"], "3"),
    "a long title of a chunk": (FIELD["title"], "a" * 201),
    "a NUL in the title of a chunk": (FIELD["title"], "\0"),
    "a long heading": (FIELD["heading_path"], ["a" * 201]),
    "a NUL in a heading": (FIELD["heading_path"], ["\0"]),
    "seven headings": (FIELD["heading_path"], ["a"] * 7),
    "a text for headings": (FIELD["heading_path"], "Ferry"),
    "a confidence above 100": (FIELD["confidence"], 101),
    "a negative confidence": (FIELD["confidence"], -1),
    "a fraction for a confidence": (FIELD["confidence"], 60.5),
    "a chunk with a field more": (CHUNK, [*document_reply()["document"][5][0], 1]),
    "a chunk with a field less": (CHUNK, document_reply()["document"][5][0][:-1]),
    "an empty list for a chunk": (CHUNK, []),
    "no document": (("document",), None),
    "a document without a field": (("document",), [None, 1_000, "text/html", [], []]),
    "a long title": (("document", 0), "a" * 201),
    "a NUL in the title": (("document", 0), "\0"),
    "a text longer than allowed": (("document", 1), 1_001),
    "a negative length": (("document", 1), -1),
    "a NUL in the media type": (("document", 2), "\0"),
    "a number for a media type": (("document", 2), 1),
    "an index without a question": (("document", 3), [0]),
    "a coverage above 1": ((*READ, 0), 1.5),
    "a negative coverage": ((*READ, 0), -0.5),
    "a text for a coverage": ((*READ, 0), "1"),
    "many losses": ((*READ, 1), [["page 2", 3, []]] * 21),
    "a long place": ((*LOSS, 0), "a" * 101),
    "a place with an escape": ((*LOSS, 0), "\x1b[2J"),
    "a NUL in a place": ((*LOSS, 0), "\0"),
    "a loss of no words": ((*LOSS, 1), 0),
    "a fraction of words": ((*LOSS, 1), 1.5),
    "a long sample": ((*LOSS, 2), ["a"] * 9),
    "a long word": ((*LOSS, 2), ["a" * 31]),
    "a NUL in a word": ((*LOSS, 2), ["\0"]),
    "many sentences": ((*READ, 2), ["A sentence."] * 21),
    "a long sentence": ((*READ, 2), ["a" * 301]),
    "a NUL in a sentence": ((*READ, 2), ["\0"]),
    "a line feed in a sentence": ((*READ, 2), ["One.\nTwo."]),
    "a completeness with a field less": (READ, [None, []]),
    "no completeness": (READ, None),
    "an unknown outcome": (("outcome",), "fine"),
    "another outcome with a document": (("outcome",), "unreadable"),
    "a NUL in the reason": (("reason",), "\0"),
    "a long reason": (("reason",), "a" * 2_001),
    "no state": (("native_files",), MISSING),
    "a text in the state": (("resident_bytes",), "many"),
    "a negative state": (("native_files",), -1),
    "a time that is no number": (("cpu_seconds",), None),
    "a field more": (("more",), 1),
    "pages with a document": (("pages",), [3, [2], "application/pdf"]),
    "a page's text with a document": (("text",), [TEXT, 4, 90.0]),
}
SCAN = ReplyLimits(chunks=10, text_chars=1_000, chunk_chars=200, questions=0, pages=3, read=frozenset({1}))
PAGE = ReplyLimits(chunks=0, text_chars=0, chunk_chars=0, questions=0, page_chars=100)
PDF = "application/pdf"
WRONG_PAGES = {
    "no pages": [3, [], PDF],
    "more than allowed": [9, [2, 3, 4, 5], PDF],
    "a page after the last one": [3, [4], PDF],
    "a page that has been read": [3, [1, 2], PDF],
    "a page twice": [3, [2, 2], PDF],
    "descending pages": [3, [3, 2], PDF],
    "page 0": [3, [0], PDF],
    "a text for a page": [3, ["2"], PDF],
    "a NUL in the media type": [3, [2], "\0"],
    "no media type": [3, [2], None],
    "another outcome": None,
}
WRONG_TEXTS = {
    "a text longer than a page": ["a" * 101, 1, 90.0],
    "a NUL": ["\0", 1, 90.0],
    "a number for a text": [1, 1, 90.0],
    "a negative number of words": [TEXT, -1, 90.0],
    "more words than characters": [TEXT, 1_000, 90.0],
    "a text without words": [TEXT, 0, 0.0],
    "a confidence without words": ["", 0, 50.0],
    "a confidence above 100": [TEXT, 4, 100.5],
    "a negative confidence": [TEXT, 4, -1.0],
    "a field less": [TEXT, 4],
    "another outcome": None,
}


def test_valid_reply_is_read_unchanged():
    assert received(document_reply(), LIMITS) == SOUND


@guards(
    "shared/ingest/parse/isolation/replies.py",
    'if "\\0" in text or',
    "if",
    means="the checks of a parser's reply accept a NUL",
    case="a NUL in a text",
)
@pytest.mark.parametrize(("path", "value"), WRONG.values(), ids=WRONG)
def test_reply_with_one_wrong_value_is_invalid(path, value):
    with pytest.raises(InvalidReply):
        received(changed(path, value), LIMITS)


def test_pages_to_read_are_read_unchanged():
    reply = pages_reply(outcome="pages", pages=[3, [2, 3], PDF])

    assert pages_of(read_head(orjson.dumps(reply), SCAN)) == PagesToRead(3, (2, 3), PDF)


@pytest.mark.parametrize("pages", WRONG_PAGES.values(), ids=WRONG_PAGES)
def test_pages_with_one_wrong_value_are_invalid(pages):
    with pytest.raises(InvalidReply):
        read_head(orjson.dumps(pages_reply(outcome="pages", pages=pages)), SCAN)


@guards(
    "shared/ingest/parse/isolation/replies.py",
    " or (document is None and head.parts):",
    ":",
    means="a reply without a document announces chunks",
)
def test_parts_without_document_are_invalid():
    with pytest.raises(InvalidReply):
        read_head(orjson.dumps(pages_reply(outcome="pages", pages=[3, [2], PDF], parts=1)), SCAN)


@pytest.mark.parametrize("limits", [LIMITS, PAGE])
def test_pages_without_reading_are_invalid(limits):
    with pytest.raises(InvalidReply):
        read_head(orjson.dumps(pages_reply(outcome="pages", pages=[3, [2], PDF])), limits)


def test_text_of_page_is_read_unchanged():
    reply = pages_reply(outcome="text", text=[TEXT, 4, 91.5])

    assert pages_of(read_head(orjson.dumps(reply), PAGE)) == PageText(TEXT, 4, 91.5)


@pytest.mark.parametrize(
    "picture",
    [b"<svg/>", b"RIFF\x04\0\0\0WAVE", b"RIFF\x04\0\0\0WEBP" + bytes(MAX_PICTURE_BYTES)],
    ids=["another format", "another container", "too large"],
)
def test_picture_of_page_with_wrong_content_is_invalid(picture):
    reply = pages_reply(outcome="text", text=[TEXT, 4, 91.5], picture=b64encode(picture).decode())

    with pytest.raises(InvalidReply):
        pages_of(read_head(orjson.dumps(reply), PAGE))


def test_picture_without_text_of_page_is_invalid():
    with pytest.raises(InvalidReply, match="not requested"):
        read_head(messages_of(document_reply() | {"picture": "AAAA"})[0], LIMITS)


@pytest.mark.parametrize("text", WRONG_TEXTS.values(), ids=WRONG_TEXTS)
def test_page_text_with_wrong_value_is_invalid(text):
    with pytest.raises(InvalidReply):
        read_head(orjson.dumps(pages_reply(outcome="text", text=text)), PAGE)


@pytest.mark.parametrize("text", [[TEXT, 4, 91.5], ["", 0, 0.0]])
def test_parser_cannot_answer_with_text_of_page(text):
    with pytest.raises(InvalidReply, match="not requested"):
        read_head(orjson.dumps(pages_reply(outcome="text", text=text)), SCAN)


def test_reader_of_pages_cannot_answer_with_document():
    with pytest.raises(InvalidReply, match="a document instead of"):
        read_head(messages_of(document_reply())[0], PAGE)


def test_question_indexes_must_fit_questions_and_chunks():
    limits = ReplyLimits(chunks=10, text_chars=1_000, chunk_chars=200, questions=2)

    assert received(changed(("document", 3), [0, 0]), limits).question_indexes == (0, 0)
    for indexes in ([0], [0, 1], [0, -1], [0, 0, 0]):
        with pytest.raises(InvalidReply):
            received(changed(("document", 3), indexes), limits)


def test_chunks_and_their_texts_are_limited():
    chunk = ChunkContent("a" * 200, (0, 200))
    short = ParsedDocument(None, 200, "text/plain", (chunk,) * 9)

    assert len(received(document_reply(ParsedDocument(None, 1_000, "text/plain", (chunk,) * 10)), LIMITS).chunks) == 10
    with pytest.raises(InvalidReply, match="more chunks than allowed"):
        received(document_reply(ParsedDocument(None, 1_000, "text/plain", (chunk,) * 11)), LIMITS)
    with pytest.raises(InvalidReply, match="longer than allowed"):
        received(document_reply(short), LIMITS)  # nine times 200 characters of a text of 200


def test_error_names_invalid_value_without_quoting_it():
    with pytest.raises(InvalidReply) as caught:
        received(changed(FIELD["language"], "a secret"), LIMITS)

    assert str(caught.value) == "0.6: string_pattern_mismatch"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff", b'{"parts": 0}'])
def test_message_without_reply_is_invalid(body):
    head, *_ = messages_of(document_reply())
    with pytest.raises(InvalidReply):
        read_head(body, LIMITS)
    with pytest.raises(InvalidReply):
        ReplyChunks(read_head(head, LIMITS), LIMITS).add(body)


WEB_PAGE = replace(LIMITS, facts=True)
FACTS = ["0123456789abcdef" * 2, True, False, "https://example.org/c", ["https://example.org/a", "http://[::1]:80/?b"]]


def page_of(facts):
    """Return the facts that the worker reads from the reply about a page of the web."""
    head, body, *_ = messages_of(document_reply() | {"facts": facts})
    return read_facts(body, read_head(head, WEB_PAGE))


def test_facts_of_page_are_read_unchanged():
    found, text_hash = page_of(FACTS)

    assert text_hash == FACTS[0]
    assert (found.rules.index, found.rules.follow, found.canonical, list(found.links)) == tuple(FACTS[1:])


@guards(
    "shared/ingest/parse/isolation/replies.py",
    'pattern="^https?://[!-~]+$"',
    'pattern="^"',
    means="a page that has taken over its process sends a line break in an address",
    case="line break",
)
@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, "../" + "0" * 29),
        (0, None),
        (1, 1),
        (3, "file:///etc/passwd"),
        (4, ["https://e/a\nhost: x"]),
        (4, ["https://e/" + "a" * 1_100]),
        (4, ["https://e/a"] * 10_001),
        (4, [7]),
    ],
    ids=["path", "no hash", "number", "scheme", "line break", "long", "many", "no text"],
)
def test_facts_with_wrong_value_are_invalid(position, value):
    with pytest.raises(InvalidReply):
        page_of([*FACTS[:position], value, *FACTS[position + 1 :]])


@pytest.mark.parametrize(
    ("reply", "limits"),
    [
        (document_reply() | {"facts": FACTS}, LIMITS),
        (document_reply(), WEB_PAGE),
        (pages_reply(outcome="hidden"), WEB_PAGE),
        (pages_reply(outcome="hidden"), LIMITS),
    ],
    ids=["of a file", "without facts", "hidden without facts", "hidden file"],
)
def test_facts_must_fit_the_request(reply, limits):
    with pytest.raises(InvalidReply, match="do not fit the request"):
        read_head(messages_of(reply)[0], limits)
