"""Error replies of the embedded engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class ErrorReply(Exception):
    """A reply in Qdrant's error shape."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def not_found(name: str) -> ErrorReply:
    return ErrorReply(404, f"Not found: {name}")


def wrong_input(message: str) -> ErrorReply:
    return ErrorReply(400, f"Wrong input: {message}")


def malformed(message: str) -> ErrorReply:
    return ErrorReply(400, f"Format error in JSON body: {message}")


def unsupported(feature: str) -> ErrorReply:
    return ErrorReply(
        501, f"Not supported by the embedded engine: {feature}. Give QDRANT_URL of a Qdrant server to use it."
    )


@contextmanager
def engine_errors() -> Iterator[None]:
    """Map the engine's exceptions to replies: bare `Exception`s that differ only in their text."""
    try:
        yield
    except ErrorReply:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise malformed(_first_line(error)) from error
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise _engine_error(str(error)) from error


def _engine_error(message: str) -> ErrorReply:
    if message.startswith("No point with id"):
        return not_found(message)
    if "internal error" in message or "Out of memory" in message:
        return ErrorReply(500, f"Service internal error: {message}")
    return wrong_input(message)


def _first_line(error: Exception) -> str:
    text = f"missing {error}" if isinstance(error, KeyError) else str(error)
    return text.split("\n", 1)[0]
