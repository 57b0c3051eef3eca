"""The errors of all kinds of sources."""

from __future__ import annotations

from shared.domain.errors import Misconfigured, NotFound, TooLarge, Unavailable

COMPONENT = "source"


def unavailable(problem: str) -> Unavailable:
    return Unavailable(problem, component=COMPONENT)


def not_found(key: str) -> NotFound:
    return NotFound(f"{key} does not exist any more.")


def too_much_space(need: str, most_bytes: int) -> Misconfigured:
    """Return the error of a source that needs too much temporary space.

    Args:
        need: start of the sentence, such as `The rows need`.
        most_bytes: the most that it may use.
    """
    return Misconfigured(
        f"{need} more than {most_bytes:,} bytes of temporary space (FOREASK_SOURCE_TEMPORARY_BYTES): divide the table"
        " into several sources.",
        component=COMPONENT,
    )


def too_large(size: int, max_bytes: int) -> TooLarge:
    return TooLarge(f"It has {size:,} bytes, and a document may have {max_bytes:,} (FOREASK_MAX_UPLOAD_BYTES).")
