"""Options for dividing a text into chunks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChunkingOptions:
    """Options for dividing a text.

    Args:
        max_chars: maximum length of a chunk's text.
        overlap_chars: length of repeated text before a chunk, only if a paragraph was cut.
        section_max_chars: maximum length of a section, a run of chunks under the same headings; None: no sections.
    """

    max_chars: int = 2_000
    overlap_chars: int = 100
    section_max_chars: int | None = None

    def __post_init__(self) -> None:
        if self.max_chars < 1 or self.overlap_chars < 0:
            raise ValueError("max_chars must be positive and overlap_chars not negative")
        if self.section_max_chars is not None and self.section_max_chars < self.max_chars:
            raise ValueError("section_max_chars must be max_chars or more")
