"""The result of reading a page of the web in the sandbox."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from shared.ingest.parse.web.facts import PageFacts


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


def hash_of(text: str) -> str:
    """Return the hash of a text; white space does not matter."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:32]
