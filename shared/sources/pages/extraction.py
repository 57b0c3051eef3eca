"""The port to the extractor of text, which runs in a confined process."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shared.sources.pages.reading.facts import PageFacts


@dataclass(frozen=True, slots=True)
class WebPageText:
    """The text of a page.

    Args:
        text: the main part as Markdown.
        title: title of the page, if it has one.
        media_type: type by its content.
        text_hash: hash of the text, as of `hash_of`.
    """

    text: str
    title: str | None
    media_type: str
    text_hash: str


@dataclass(frozen=True, slots=True)
class WebPageReading:
    """The facts and the text of a page.

    Args:
        facts: its facts.
        text: its text; None if it is not to be indexed, or has no readable text.
        problem: why it has no readable text, as a clause.
    """

    facts: PageFacts
    text: WebPageText | None = None
    problem: str | None = None


class Extractor(Protocol):
    """Reads downloaded pages."""

    async def __call__(
        self, path: Path, *, address: str, filename: str | None, media_type: str | None, robots: str, is_html: bool
    ) -> WebPageReading:
        """Return the facts and the text of a page.

        Args:
            path: the downloaded file.
            address: its address, to which links are relative.
            filename: last part of its path.
            media_type: type of the reply.
            robots: its header `X-Robots-Tag`.
            is_html: whether it may have links, and rules for robots.

        Raises:
            Unreadable: reading it took too much time or memory, or crashed.
            Unavailable: it cannot be read now.
        """


def hash_of(text: str) -> str:
    """Return the hash of a text; white space does not matter."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:32]
