"""Generation options of a collection: its own options over the settings."""

from __future__ import annotations

from shared.domain.collections import CollectionOptions
from shared.ingest.generate import GenerationOptions, strategy_for
from shared.settings import Settings


def generation_options(settings: Settings, options: CollectionOptions, model: str) -> GenerationOptions:
    return GenerationOptions(
        strategy=settings.tuning.question_strategy or strategy_for(model),
        questions_per_chunk=options.questions_per_chunk or settings.questions_per_chunk,
        template=options.prompt,
    )
