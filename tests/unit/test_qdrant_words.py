"""Qdrant's refusals as sentences: in the words of several versions and of proxies, without names of other tenants."""

import orjson
import pytest

from shared.domain.errors import InvalidInput, Permanent, Unavailable
from shared.vectors.transport.errors import Refusal, converted
from shared.vectors.transport.words import words_of
from tests.support.planted import guards


def answer(words):
    return orjson.dumps({"status": {"error": words}, "time": 0.001})


@guards(
    "shared/vectors/transport/words.py",
    '(re.compile(r"\\b\\w+://[^\\s\\"\'`<]+"), "…"),',
    "",
    means="a reason shows the addresses of Qdrant's nodes",
)
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"Invalid API key or JWT", "Invalid API key or JWT"),
        (answer("Forbidden: Global manage access is required"), "Forbidden: Global manage access is required"),
        (b'{"status":"error"}', "error"),
        (b"{}", ""),
        (b"[1]", "[1]"),
        (b"", ""),
        (b"\xff\x00 broken\r\n text", "� broken text"),
        (
            b"<html><head><title>413 Request Entity Too Large</title></head><body>x</body>",
            "413 Request Entity Too Large",
        ),
        (b"<p>no <b>title</b></p>", "no title"),
        (
            answer("Not found: Collection `other-tenant` doesn't exist at http://10.1.2.3:6335/x"),
            "Not found: Collection … doesn't exist at …",
        ),
        (answer("peer 10.1.2.3:6335 failed in /qdrant/storage/collections/a, again"), "peer … failed in …, again"),
        (answer('invalid value "' + "secret " * 10 + '"'), "invalid value …"),
        (answer("x" * 300), "x" * 199 + "…"),
    ],
)
def test_words_are_one_line_without_names(content, words):
    assert words_of(content) == words


@pytest.mark.parametrize(
    ("status", "words", "kind", "sentence"),
    [
        (400, 'Limit exceeded 50 > 5 for "limit". Help: Reduce it.', InvalidInput, "raise `max_query_limit`"),
        (400, 'limit exceeded: 128 > 64 for "hnsw_ef"', InvalidInput, "raise `search_max_hnsw_ef`"),
        (403, 'Limit exceeded 50 > 5 for "limit"', Unavailable, "Qdrant forbids this to the API key"),
        (422, "Limit exceeded 9 > 5", InvalidInput, "Qdrant allows at most 5 for"),
        (422, "Validation error in JSON body: [limit: value 0 invalid]", Permanent, "Qdrant answered 422"),
        (400, "Exact search disabled! Help: Set exact=false.", InvalidInput, "A limit of Qdrant stops this request"),
        (400, "Index required but not found for 'colour'", InvalidInput, "declare the field `colour`"),
        (400, 'Index required but not found for "group" of', InvalidInput, "Qdrant does not filter by `group`"),
        (400, 'An index is required for "metadata.colour".', InvalidInput, "declare the field `colour`"),
        (
            400,
            'Index required but not found for "nested[].x" of',
            InvalidInput,
            "Qdrant does not filter by `nested[].x`",
        ),
        (400, "Wrong input: Vector dimension error", Permanent, "Qdrant answered 400 (Wrong input: Vector dimension"),
        (500, "No space left on device", Unavailable, "Qdrant has no disk space left"),
        (507, "", Unavailable, "Qdrant has no disk space left:"),
        (503, "", Unavailable, "Qdrant answered 503"),
    ],
)
def test_refused_query_names_limit_and_remedy(status, words, kind, sentence):
    error = converted(Refusal(status, answer(words)))

    assert type(error) is kind
    assert sentence in error.message
