"""The port to the extractor of text, which runs in a confined process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class WebPageText:
    """The text of a page.

    Args:
        text: the main part as Markdown.
        title: title of the page, if it has one.
        media_type: type by its content.
    """

    text: str
    title: str | None
    media_type: str


class Extractor(Protocol):
    """Reads the text of downloaded files."""

    async def __call__(self, path: Path, *, filename: str | None, media_type: str | None) -> WebPageText:
        """Return the text of a file.

        Raises:
            Unreadable: it has no readable text.
            Transient: it cannot be read now.
        """
