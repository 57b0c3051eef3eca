"""Replies of embedding models of any shape: each vector belongs to its text, or the reply is unavailable."""

import base64
import struct

import numpy as np
import pytest

from shared.domain.errors import Unavailable
from shared.providers.replies.vectors import vectors_in
from tests.support.planted import guards

COUNT = 12
ROWS = [[float(n == each) for each in range(COUNT)] for n in range(COUNT)]  # text n has a vector of its own


def base64_of(row):
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()


def rows(value=lambda row: row, index=lambda n: n, order=range(COUNT)):
    return [{"object": "embedding", "index": index(n), "embedding": value(ROWS[n])} for n in order]


def without_index():
    return [{"embedding": row} for row in ROWS]


@guards(
    "shared/providers/replies/vectors.py",
    "return int(index) if index.isascii() and index.isdecimal() else None",
    "return None",
    means="vectors with numbers as text go to the wrong texts",
)
@pytest.mark.parametrize(
    "reply",
    [
        {"data": rows()},
        {"data": rows(base64_of)},
        {"data": rows(order=reversed(range(COUNT)))},
        {"data": rows(index=str, order=reversed(range(COUNT)))},
        {"data": rows(index=float, order=reversed(range(COUNT)))},
        {"data": rows(index=lambda n: n + 1, order=reversed(range(COUNT)))},  # from 1
        {"data": rows(index=lambda _: 0)},
        {"data": rows(index=lambda _: None)},
        {"data": rows(index=lambda n: f"text-{n}")},
        {"data": rows(index=bool)},
        {"data": without_index()},
        {"data": rows(lambda row: [row])},
        {"data": rows(lambda row: {"values": row})},
        {"data": rows(lambda row: {"float": row})},
        {"data": rows(lambda row: [37.0 * each for each in row])},
        {"data": ROWS},
        {"embeddings": ROWS},
        {"data": None, "embeddings": [{"embedding": row} for row in ROWS]},
        ROWS,
    ],
)
def test_each_vector_belongs_to_its_text(reply):
    assert np.array_equal(vectors_in(reply, COUNT), np.array(ROWS, dtype=np.float32))


@pytest.mark.parametrize("reply", [{"embedding": [0, 2]}, {"data": {"embedding": [0, 2]}}, [0, 2], {"data": [0, 2]}])
def test_vector_of_one_text_is_read(reply):
    assert vectors_in(reply, 1).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    "value", [7, True, None, "", "rubbish!", "AAA=", [], [[]], [[1.0], [2.0]], {}, {"values": None}, [None], ["x"]]
)
def test_unreadable_vector_is_unavailable(value):
    replies = [{"data": [{"index": 0, "embedding": value}]}, {"data": value}, {"embeddings": value}, value]
    for reply in replies:
        with pytest.raises(Unavailable) as caught:
            vectors_in(reply, 1)
        assert caught.value.burns_attempt


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({"data": rows()[:1]}, "1 vectors for 12 texts"),
        ({"data": [*rows(), *rows()]}, "24 vectors for 12 texts"),
        ({"data": [*rows()[:-1], {"index": COUNT - 1, "embedding": [1.0]}]}, "different lengths"),
        ({"data": [*rows()[:-1], {"index": COUNT - 1, "embedding": [float("nan")] * COUNT}]}, "not finite"),
        ({"data": [*rows()[:-1], {"index": COUNT - 1, "embedding": [0.0] * COUNT}]}, "vector of zeros"),
        ({"data": []}, "without vectors"),
    ],
)
def test_wrong_number_of_vectors_counts_as_attempt(reply, words):
    with pytest.raises(Unavailable, match=words) as caught:
        vectors_in(reply, COUNT)
    assert caught.value.burns_attempt
