"""The errors of requests to Qdrant, and their conversion."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property

import structlog

from shared.domain.errors import ForeaskError, InvalidInput, Permanent, Rejected, Unavailable
from shared.process.network import problem_of
from shared.vectors.transport.words import (
    FORBIDDEN,
    TOO_LARGE,
    TOO_MANY,
    UNAUTHORIZED,
    StrictLimit,
    sentence_of,
    strict_limit,
    words_of,
)

RETRY_AFTER = timedelta(seconds=2)
COLLECTION_PAUSE = timedelta(seconds=15)  # a person must change the collection
ABSENT = 404
_BAD, _INVALID = 400, 422
_OF_POINT = frozenset({_BAD, TOO_LARGE, _INVALID})
_SLOW = frozenset({408, 504})
_ABOUT_OTHERS = frozenset({UNAUTHORIZED, FORBIDDEN, TOO_MANY})  # not about this request
_WORDS = 300  # bytes for the log
log = structlog.get_logger()


class NoAnswer(Exception):
    """Qdrant did not answer, or not with JSON of the expected form.

    Args:
        may_have_arrived: whether the request may be running.
    """

    def __init__(self, reason: object, *, may_have_arrived: bool = False) -> None:
        super().__init__(reason)
        self.may_have_arrived = may_have_arrived


class Refusal(Exception):
    """Qdrant answered with an error.

    Args:
        status: status of the answer.
        content: body of the answer.
        retry_after: requested pause; None without one.
    """

    def __init__(self, status: int, content: bytes, retry_after: timedelta | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.content = content
        self.retry_after = retry_after

    @cached_property
    def words(self) -> str:
        return words_of(self.content)

    @property
    def may_concern_points(self) -> bool:
        """Whether a point of the request may be the cause."""
        return self.status in _OF_POINT

    @property
    def may_concern_size(self) -> bool:
        """Whether a smaller request may pass."""
        return self.status in _OF_POINT | _SLOW or (self.status == TOO_MANY and self.retry_after is None)

    @property
    def is_slow(self) -> bool:
        """Whether the request took longer than its deadline."""
        return self.status in _SLOW

    @property
    def may_concern_batch(self) -> bool:
        """Whether Qdrant may answer the parts of a batch, sent alone."""
        if self.status == TOO_MANY:
            return self.retry_after is None
        return self.status == TOO_LARGE or (self.limit is not None and not self.limit.is_filter)

    @cached_property
    def limit(self) -> StrictLimit | None:
        """The limit of Qdrant's strict mode that the request exceeds."""
        if self.status in _ABOUT_OTHERS or not 400 <= self.status < 500:  # noqa: PLR2004
            return None
        return strict_limit(self.words, named=self.status != _BAD)


class SearchStopped(Unavailable):
    """Qdrant stopped a search at its deadline; it answers other requests."""

    def __init__(self, seconds: int) -> None:
        super().__init__(
            f"The search was stopped after {seconds} seconds. A filter on a field without an index is slow in a large"
            " collection: declare the field with `filterable`. Without such a filter Qdrant is busy: try again",
            component="qdrant",
            retry_after=RETRY_AFTER,
        )


class CollectionRefused(Unavailable):
    """A collection takes no points at all, and other collections may: its work waits for a person."""


@contextmanager
def index_errors() -> Iterator[None]:
    """Convert the errors of requests."""
    try:
        yield
    except Refusal as error:
        raise converted(error) from error
    except (NoAnswer, OSError) as error:
        raise Unavailable(_unreachable(error), component="qdrant", retry_after=RETRY_AFTER) from error


def _unreachable(error: Exception) -> str:
    reason = problem_of(error)
    return f"Qdrant cannot be reached: {reason}" if reason else "Qdrant cannot be reached"


def converted(error: Refusal) -> ForeaskError:
    """Return the error for people, and log Qdrant's whole message, which names nodes, folders and collections."""
    log.warning("qdrant.answered", status=error.status, words=error.content[:_WORDS].decode(errors="replace"))
    if error.limit is not None:
        return InvalidInput(error.limit.sentence, field="filter" if error.limit.is_filter else None)
    sentence = sentence_of(error.status, error.words)
    if 400 <= error.status < 500 and error.status not in _ABOUT_OTHERS | _SLOW:  # noqa: PLR2004
        return Permanent(sentence)
    return Unavailable(sentence, component="qdrant", retry_after=error.retry_after or RETRY_AFTER)


@contextmanager
def refusals_of_collection() -> Iterator[None]:
    """Convert a refusal of a request that concerns the collection: no chunk is the cause, and the work waits."""
    try:
        yield
    except (Permanent, Rejected) as error:
        message = f"Qdrant takes no points: {error.message}"
        raise CollectionRefused(message, component="qdrant", retry_after=COLLECTION_PAUSE) from error
