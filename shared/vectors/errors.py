"""The errors of requests to Qdrant, and their conversion."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import structlog

from shared.domain.errors import Permanent, Unavailable
from shared.process.network import problem_of

RETRY_AFTER = timedelta(seconds=2)
ABSENT = 404
_TOO_MANY = 429
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


@contextmanager
def index_errors() -> Iterator[None]:
    """Convert the errors of requests."""
    try:
        yield
    except Refusal as error:
        raise _converted(error) from error
    except (NoAnswer, OSError) as error:
        raise Unavailable(_unreachable(error), component="qdrant", retry_after=RETRY_AFTER) from error


def _unreachable(error: Exception) -> str:
    reason = problem_of(error)
    return f"Qdrant cannot be reached: {reason}" if reason else "Qdrant cannot be reached"


def _converted(error: Refusal) -> Unavailable | Permanent:
    if error.status == _TOO_MANY and error.retry_after is not None:
        return Unavailable("Qdrant asks for fewer requests", component="qdrant", retry_after=error.retry_after)
    # Qdrant's message names nodes, folders and collections of other tenants, so it is logged but not returned.
    log.warning("qdrant.answered", status=error.status, words=error.content[:_WORDS].decode(errors="replace"))
    message = f"Qdrant answered {error.status}; its message is logged as qdrant.answered"
    if 400 <= error.status < 500 and error.status not in {401, 403, 408, _TOO_MANY}:  # noqa: PLR2004
        return Permanent(message)
    return Unavailable(message, component="qdrant", retry_after=RETRY_AFTER)
