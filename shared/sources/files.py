"""Sources whose entries are files."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import BinaryIO

from shared.domain.errors import Misconfigured, NotFound, TooLarge, Unavailable
from shared.sources.source import Entry, Source

COMPONENT = "source"


@dataclass(frozen=True, slots=True)
class OpenFile:
    """The content of an entry.

    Args:
        content: a file that can be read at any position.
        version: its version.
    """

    content: BinaryIO
    version: str


class FileSource(Source):
    """A source whose entries are files."""

    @abstractmethod
    def opened(self, entry: Entry) -> AbstractAsyncContextManager[OpenFile]:
        """Open the content of an entry.

        Raises:
            Unavailable: as `fetch`; also at the end, if the content changed while it was open.
            NotFound: as `fetch`.
            Unreadable: as `fetch`.
        """


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
