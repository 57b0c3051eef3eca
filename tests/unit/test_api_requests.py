"""Validation of requests: accepted values, and errors for all others."""

import asyncio
import base64
from collections import Counter
from datetime import UTC, datetime
from uuid import uuid4

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.middleware import FairAdmission
from api.schemas.documents import DocumentBody, DocumentFields
from api.submission.submission import content_of
from shared.domain.corpus.document_fields import content_hash, filename_of, media_type_of
from shared.domain.errors import InvalidInput, TooLarge
from shared.http import paging
from shared.http.bodies import parse_json, validate_as
from shared.http.problems import InvalidFields, MalformedRequest
from shared.http.schemas.collections import CollectionChange
from shared.http.schemas.queries import QueryBody, RetrieveBody
from tests.support.planted import guards

QUESTION = {"question": "Why?"}


def fields_of(model, value):
    with pytest.raises(InvalidFields) as raised:
        validate_as(model, value)
    return [error["field"] for error in raised.value.errors]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"question": None}, "question"),
        ({"question": 1}, "question"),
        ({"question": ""}, "question"),
        ({"question": " \n"}, "question"),
        ({"question": "x" * 10_001}, "question"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": "5"}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"top_k": True}, "top_k"),
        ({"top_k": None}, "top_k"),
        ({"min_score": "high"}, "min_score"),
        ({"min_score": 2}, "min_score"),
        ({"min_score": float("nan")}, "min_score"),
        ({"min_score": float("inf")}, "min_score"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 10**9}, "max_tokens"),
        ({"filter": []}, "filter"),
        ({"filter": "a"}, "filter"),
        ({"document_ids": []}, "document_ids"),
        ({"document_ids": ["x"]}, "document_ids.0"),
        ({"document_ids": [1]}, "document_ids.0"),
        ({"document_ids": str(uuid4())}, "document_ids"),
        ({"document_ids": [str(uuid4())] * 1001}, "document_ids"),
        ({"collection": "Ä"}, "collection"),
        ({"collection": "a\n"}, "collection"),
        ({"collection": ""}, "collection"),
        ({"collection": "a" * 64}, "collection"),
        ({"channels": ["questions"] * 2}, "channels"),
        ({"channels": ["questions", "text", "bm25", "text"]}, "channels"),
        ({"channels": []}, "channels"),
        ({"stream": 1}, "stream"),
        ({"temperature": 1}, "temperature"),
    ],
)
def test_invalid_query_field_is_rejected_by_name(change, field):
    assert fields_of(QueryBody, QUESTION | change) == [field]


@pytest.mark.parametrize("value", [None, [], "text", 1, [QUESTION]])
def test_non_object_body_is_rejected(value):
    with pytest.raises(InvalidFields):
        validate_as(RetrieveBody, value)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"text": None}, ""),
        ({"content_base64": "YQ=="}, ""),
        ({"text": 1}, "text"),
        ({"external_id": ""}, "external_id"),
        ({"external_id": "a\nb"}, "external_id"),
        ({"external_id": "x" * 1_101}, "external_id"),
        ({"title": "x" * 1_001}, "title"),
        ({"metadata": None}, "metadata"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"a": "x" * 40_000}}, "metadata"),
        ({"metadata": {"a": [[[[[[[[1]]]]]]]]}}, "metadata"),
        ({"questions": "Why?"}, "questions"),
        ({"questions": [1]}, "questions.0"),
        ({"questions": [""]}, "questions.0.text"),
        ({"questions": [{"quote": "a"}]}, "questions.0.text"),
        ({"questions": [{"text": "a", "page": 1}]}, "questions.0.page"),
        ({"lane": "fast"}, "lane"),
        ({"url": "http://example.com"}, "url"),
    ],
)
def test_invalid_document_field_is_rejected_by_name(change, field):
    assert fields_of(DocumentBody, {"text": "a"} | change) == [field]


def test_metadata_with_moderate_nesting_is_accepted():
    metadata = {"a": {"b": [1, {"c": [[[None]]]}]}}

    assert validate_as(DocumentFields, {"metadata": metadata}).metadata == metadata


@pytest.mark.parametrize(
    "change",
    [
        {"questions_per_chunk": 0},
        {"questions_per_chunk": 21},
        {"questions_per_chunk": "many"},
        {"questions_per_chunk": 2.5},
        {"prompt": "no place for it"},
        {"prompt": "{text} {colour}"},
        {"prompt": ""},
        {"chunk_max_chars": 10},
        {"chunk_overlap_chars": -1},
        {"embedding_model": "other"},
    ],
)
def test_collection_with_invalid_option_is_rejected(change):
    assert {field.split(".")[0] for field in fields_of(CollectionChange, change)} == {*change}


def test_ready_made_question_may_have_a_quote():
    fields = validate_as(DocumentFields, {"questions": ["a?", {"text": "b?", "quote": "b"}]})

    assert [(q.text, q.quote) for q in fields.questions] == [("a?", None), ("b?", "b")]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\x00"',
        b"[" * 100_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b"\xef\xbb\xbf{}",
    ],
)
def test_invalid_json_is_rejected(body):
    with pytest.raises(MalformedRequest):
        parse_json(body)


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"[]," * 100_000 + b"[]]",
        b"[" + b"{}," * 50_001 + b"0]",
        b"[" + b'"",' * 100_001 + b'""]',
        b"[" * 200_000,
    ],
)
def test_json_with_too_many_values_is_rejected_undecoded(body):
    with pytest.raises(TooLarge, match="100,000 values"):
        parse_json(body)


@pytest.mark.parametrize("length", range(65_500, 65_540, 3))
def test_json_value_count_ignores_contents_of_strings(length):
    text = '\\"' * (length // 2) + ',[{"' * 50_000
    assert parse_json(orjson.dumps({"text": text, "more": [1, 2]})) == {"text": text, "more": [1, 2]}


def test_excess_errors_are_counted():
    with pytest.raises(InvalidInput, match=r"2,000 fields are invalid"):
        validate_as(DocumentBody, {"text": "a"} | {f"x{number}": 1 for number in range(2_000)})


@pytest.mark.parametrize("value", ["\0", ["a\0b"], {"\0": 1}, {"a": [{"b": "\0"}]}])
def test_nul_is_rejected_at_any_depth(value):
    with pytest.raises(InvalidInput, match="NUL"):
        parse_json(orjson.dumps(value))


def test_text_mentioning_nul_is_accepted():
    assert parse_json(rb'"\\u0000"') == r"\u0000"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.md", "a.md"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\a.md", "a.md"),
        ("C:\\x\\a b.md", "a b.md"),
        ("Übersicht.pdf", "Übersicht.pdf"),
        ("", None),
        ("a/", None),
        (None, None),
    ],
)
def test_filename_is_reduced_to_last_component(name, expected):
    assert filename_of(name) == expected


@pytest.mark.parametrize("name", ["a\0.md", "a\n.md", "a\x7f", "\x1b[31m", "..", "a/..", ".", "ü" * 200])
def test_unusable_filename_is_rejected(name):
    with pytest.raises(InvalidInput):
        filename_of(name)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Text/Markdown; charset=utf-8", "text/markdown"),
        ("application/octet-stream", None),
        ("", None),
        (None, None),
    ],
)
def test_media_type_loses_its_parameters(value, expected):
    assert media_type_of(value) == expected


@pytest.mark.parametrize("value", ["text", "text/", "a b/c", "text/ü"])
def test_invalid_media_type_is_rejected(value):
    with pytest.raises(InvalidInput):
        media_type_of(value)


def test_content_changes_alter_hash_metadata_order_does_not():
    parts = {"content": "ab", "title": None, "metadata": {"a": 1, "b": 2}, "questions": None}
    changes = [{"content": "ac"}, {"title": "t"}, {"metadata": {"a": 1}}, {"questions": []}, {"questions": ["q"]}]

    hashes = {content_hash(parts | change) for change in [{}, *changes]}

    assert len(hashes) == 1 + len(changes)
    assert content_hash(parts | {"metadata": {"b": 2, "a": 1}}) == content_hash(parts)


@given(st.tuples(st.datetimes(timezones=st.just(UTC)), st.uuids()))
def test_cursor_round_trips_its_key(key):
    page, cursor = paging.split_page([key, key], 1, lambda row: (row[0].isoformat(), str(row[1])))

    assert page == [key]
    assert paging.read_cursor(cursor, lambda read: (datetime.fromisoformat(read[0]), read[1])) == (key[0], str(key[1]))


@given(st.text(max_size=50) | st.binary(max_size=50).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_invalid_cursor_is_rejected(cursor):
    with pytest.raises(MalformedRequest):
        paging.read_cursor(cursor, lambda key: datetime.fromisoformat(key[0]))


def test_last_page_has_no_cursor():
    assert paging.split_page([1, 2], 2, lambda row: (row,)) == ([1, 2], None)


@pytest.mark.parametrize("size", [1, 49_151, 49_152, 49_153, 200_000])
def test_sliced_base64_decodes_equally(size):
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    body = DocumentBody(content_base64=base64.b64encode(content).decode())

    assert content_of(body) == content


@pytest.mark.parametrize(
    "text", ["A" * 65_534 + "==AAAA", "A" * 65_536 + "A", "A" * 65_536 + "\n", "=AAA", "\u00c4AAA"]
)
def test_invalid_base64_is_rejected(text):
    with pytest.raises(InvalidInput, match="base64"):
        content_of(DocumentBody(content_base64=text))


@guards(
    "api/http/middleware.py",
    "_AT_ONCE = 4 ",
    "_AT_ONCE = 4_000 ",
    means="all requests that arrive together start in one iteration",
)
async def test_few_requests_start_in_one_iteration():
    starts, passes, started = FairAdmission(), [0], Counter()

    async def request():
        await starts.acquire(b"key")
        started[passes[0]] += 1

    async with asyncio.TaskGroup() as requests:
        for _ in range(200):
            requests.create_task(request())
        while started.total() < 200:
            await asyncio.sleep(0)
            passes[0] += 1

    assert max(started.values()) <= 4
    assert len(started) <= 55  # none waits without need


@guards(
    "api/http/middleware.py",
    "self._waiting[key] = turns  #",
    "self._waiting = OrderedDict({key: turns, **self._waiting})  #",
    means="the requests of a loud tenant start before all other requests",
)
async def test_requests_start_in_turns_of_their_keys():
    starts, order = FairAdmission(), []

    async def request(key):
        await starts.acquire(key)
        order.append(key)

    async with asyncio.TaskGroup() as requests:
        for key in [b"loud"] * 100 + [b"quiet"] * 3:
            requests.create_task(request(key))

    assert max(place for place, key in enumerate(order) if key == b"quiet") < 12


async def test_cancelled_request_takes_no_turn():
    starts, order = FairAdmission(), []

    async def request(number):
        await starts.acquire(b"key")
        order.append(number)

    tasks = [asyncio.create_task(request(number)) for number in range(12)]
    await asyncio.sleep(0)
    for task in tasks[4:11]:
        task.cancel()
    await asyncio.wait(tasks)

    assert order == [0, 1, 2, 3, 11]
