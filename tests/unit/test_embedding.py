import numpy as np
import pytest

from shared.domain.errors import Refused, TimedOut, Unavailable
from shared.providers.embedding import embed_each, free, pack
from tests.support.planted import guards


class Picky:
    """An embedder that rejects a whole request because of one text."""

    name = "picky"

    def __init__(self, refused: str = "bad") -> None:
        self.requests: list[list[str]] = []
        self._refused = refused

    async def dimensions(self) -> int:
        return 1

    async def embed(self, texts, billed=free):
        self.requests.append(list(texts))
        if self._refused in texts:
            raise Refused("this text is rejected")
        return np.array([[float(len(text))] for text in texts], dtype=np.float32)


def test_texts_are_packed_by_count_and_tokens():
    texts = ["a" * 30] * 5  # 11 estimated tokens each

    assert list(pack(texts, max_inputs=2, max_tokens=1000)) == [range(2), range(2, 4), range(4, 5)]
    assert list(pack(texts, max_inputs=10, max_tokens=33)) == [range(3), range(3, 5)]


def test_oversized_text_is_sent_in_separate_request():
    assert list(pack(["x", "y" * 900, "z"], max_inputs=9, max_tokens=100)) == [range(1), range(1, 2), range(2, 3)]


def test_empty_input_creates_no_request():
    assert list(pack([], max_inputs=2, max_tokens=2)) == []


async def test_rejected_text_fails_without_other_texts():
    embedder = Picky()

    vectors = await embed_each(embedder, ["one", "bad", "three", "four"])

    assert isinstance(vectors[1], Refused)
    assert [int(v[0]) for v in (vectors[0], vectors[2], vectors[3])] == [3, 5, 4]


@guards(
    "shared/providers/embedding.py",
    "if len(texts) == 1 and is_part:",
    "if False:",
    means="a text that hangs kills the texts next to it",
)
async def test_text_that_hangs_fails_alone():
    class Hanging(Picky):
        async def embed(self, texts, billed=free):
            try:
                return await super().embed(texts)
            except Refused as refusal:
                if len(texts) > 1:  # the limiter has decided that the text is the cause
                    raise
                raise TimedOut("late", component="embedding", answered=True) from refusal

    vectors = await embed_each(Hanging(), ["one", "bad", "three", "four"])

    assert [isinstance(vector, Refused) for vector in vectors] == [False, True, False, False]
    with pytest.raises(TimedOut):
        await embed_each(Hanging(), ["bad"])


async def test_unavailable_provider_causes_no_bisection():
    class Down(Picky):
        async def embed(self, texts, billed=free):
            await super().embed(texts)
            raise Unavailable("unavailable", component="embedding")

    embedder = Down()

    with pytest.raises(Unavailable):
        await embed_each(embedder, ["one", "two"])
    assert len(embedder.requests) == 1
