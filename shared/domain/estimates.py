"""What a load or a rebuild will cost, said before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from shared.domain.chunks import ChunkContent
from shared.domain.collections import CollectionOptions
from shared.domain.usage import Usage


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is to come.

    Args:
        documents: all of them, also those that cost nothing.
        chunks: what they are divided into.
        calls: of the language model, for what is not paid for yet, where no reply needs repair.
        prompt_tokens: of these calls.
        completion_tokens: of their replies.
        embeddings: texts and questions that are embedded.
        embedding_tokens: of these.
        points: what Qdrant will have.
        exact: whether the calls are exact: each chunk was counted, as it will be, and looked up among what is paid for.
        llm_cost: the price of the calls; None where no price is known.
        embedding_cost: the price of the embeddings; None where no price is known.
        seconds: how long it takes at the limits; None where no limit and no pace is known.
        tightest: the limit that takes longest, such as `llm tokens`.
    """

    documents: int
    chunks: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    embeddings: int
    embedding_tokens: int
    points: int
    exact: bool
    llm_cost: float | None
    embedding_cost: float | None
    seconds: float | None
    tightest: str | None


@dataclass(frozen=True, slots=True)
class Spent:
    """What was billed for a collection: the same numbers as an estimate's."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    embedding_tokens: int


@dataclass(frozen=True, slots=True)
class KeptEstimate:
    """The estimate with which the last load of a collection began, and what was billed since then.

    `estimate` has the fields of `Estimate` by name.
    """

    collection: str
    at: datetime
    estimate: Mapping[str, object]
    since: Spent


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk of a document's newest version.

    Args:
        ready_questions: came with the document; None: a model writes them.
        content_key: of its questions.
        stands: whether its points stand.
        reasons: why each of its questions was dropped, None where it passed; empty until they are judged.
    """

    document: str
    ordinal: int
    filename: str | None
    media_type: str | None
    content: ChunkContent
    ready_questions: int | None
    content_key: bytes
    stands: bool
    reasons: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class BilledChunk:
    """A chunk that was paid for: the options of its collection, what was billed, and what came of it."""

    tenant: str
    options: CollectionOptions
    content: ChunkContent
    content_key: bytes
    usage: Usage
    calls: int
    questions: tuple[str, ...]
    passed: int
