"""The boundary of the code that reads replies: its exceptions become errors of the reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from shared.domain.errors import ForeaskError, UnusableReply
from shared.domain.spending.usage import Usage

log = structlog.get_logger()


@contextmanager
def reading(component: str, usage: Callable[[], Usage] = Usage) -> Iterator[None]:
    """Convert each exception of the code that reads a reply: a reply of a new shape costs one attempt of one call.

    Args:
        component: the provider.
        usage: returns the tokens that the reply reports.
    """
    try:
        yield
    except UnusableReply as error:
        error.usage = error.usage or _reported(usage())
        raise
    except ForeaskError:
        raise
    except Exception as error:
        log.exception("reply.unread", component=component)
        raise UnusableReply(
            f"foreask cannot read the {component} provider's reply ({type(error).__name__}); the log has the error as"
            " reply.unread",
            component=component,
            usage=_reported(usage()),
        ) from error


def _reported(usage: Usage) -> Usage | None:
    return None if usage == Usage() else usage


class FewerVectors(UnusableReply):
    """A reply with another number of vectors than texts; `vectors` is that number."""

    def __init__(self, vectors: int, texts: int) -> None:
        super().__init__(f"the embedding provider sent {vectors} vectors for {texts} texts", component="embedding")
        self.vectors = vectors
