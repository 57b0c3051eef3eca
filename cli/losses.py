"""The words and parts of a file that did not arrive in its chunks, as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foreask_client import Document


def sentences(document: Document) -> list[str]:
    """Return a sentence for each part of a document that misses words or was not read."""
    lost = [_sentence(loss.location, loss.missing, loss.sample) for loss in document.losses]
    return [*lost, *document.unread]


def _sentence(location: str, missing: int, sample: list[str]) -> str:
    words = f"{missing:,} words are missing" if missing != 1 else "1 word is missing"
    start = f"{location[0].upper()}{location[1:]}: {words}" if location else words
    return f"{start}, such as {', '.join(sample)}." if sample else f"{start}."
