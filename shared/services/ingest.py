"""Options of the ingest in the settings: default options and the slots of workers."""

from __future__ import annotations

from urllib.parse import urlsplit

from shared.domain.stages.pages import MOST_OF_A_CLAIM
from shared.ingest.generate.types import GenerationOptions, Strategy, strategy_for
from shared.ingest.options import IngestDefaults
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.settings import Settings

SLOTS_OF_SMALL = 128
"""Small documents that a parse worker has in progress: 32 are read together, and as many are committed together."""


def ingest_defaults(settings: Settings, model: str) -> IngestDefaults:
    """Return the default options with the strategy for a language model."""
    return IngestDefaults(
        ChunkingOptions(settings.chunk_max_chars, settings.chunk_overlap_chars),
        GenerationOptions(generation_strategy(settings, model), settings.questions_per_chunk),
    )


def generation_strategy(settings: Settings, model: str) -> Strategy:
    """Return the strategy for a language model."""
    return settings.tuning.question_strategy or strategy_for(model)


def slots_of_parser(settings: Settings) -> int:
    """Return the number of one tenant's documents that a parse worker has in progress."""
    return settings.parse_workers * 4  # some wait for a free child while others are committed


def slots_of_reader(settings: Settings) -> int:
    """Return the number of pages in progress of a read worker: some are committed while others are read."""
    return min(settings.parse_workers + 2, MOST_OF_A_CLAIM)


def batch_provider_name(settings: Settings) -> str:
    """Return the address of the language model without credentials: batches belong to it."""
    parts = urlsplit(settings.llm_url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.hostname}{port}{parts.path.rstrip('/')}"
