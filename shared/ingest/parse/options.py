"""Chunking options of a collection: its own options over the settings."""

from __future__ import annotations

from shared.domain.collections import CollectionOptions
from shared.ingest.parse.document import ChunkingOptions
from shared.settings import Settings


def chunking_options(settings: Settings, options: CollectionOptions) -> ChunkingOptions:
    most = options.chunk_max_chars or settings.chunk_max_chars
    overlap, sections = options.chunk_overlap_chars, options.section_max_chars
    return ChunkingOptions(
        max_chars=most,
        overlap_chars=settings.chunk_overlap_chars if overlap is None else overlap,
        # The settings may have changed since the collection's options were checked against them.
        section_max_chars=None if sections is None else max(sections, most),
    )
