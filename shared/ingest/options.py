"""Options of the ingest: a collection's own options over the defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shared.domain.corpus.collections import CollectionOptions
from shared.ingest.generate.types import GenerationOptions
from shared.ingest.parse.chunking_options import ChunkingOptions


@dataclass(frozen=True, slots=True)
class IngestDefaults:
    """The options of collections that set none of their own."""

    chunking: ChunkingOptions
    generation: GenerationOptions

    def chunking_of(self, options: CollectionOptions) -> ChunkingOptions:
        most = options.chunk_max_chars or self.chunking.max_chars
        overlap, sections = options.chunk_overlap_chars, options.section_max_chars
        return ChunkingOptions(
            max_chars=most,
            overlap_chars=self.chunking.overlap_chars if overlap is None else overlap,
            # The defaults may have changed since the collection's options were checked against them.
            section_max_chars=None if sections is None else max(sections, most),
        )

    def generation_of(self, options: CollectionOptions) -> GenerationOptions:
        count = options.questions_per_chunk or self.generation.questions_per_chunk
        return replace(
            self.generation,
            questions_per_chunk=count,
            template=options.prompt,
            context=bool(options.context),
        )
