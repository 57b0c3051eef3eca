"""Sources whose entries are files."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import BinaryIO

from features.sources.source import Entry, Source


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
