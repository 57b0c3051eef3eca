"""Checks of the options of a collection, or of a planned build, against the settings."""

from __future__ import annotations

import dataclasses

from shared.domain.corpus.collections import Collection, CollectionOptions
from shared.domain.errors import InvalidInput
from shared.http.schemas.collections import MigrationBody, OptionsBody
from shared.services.api import ApiServices
from shared.services.ingest import generation_strategy
from shared.settings import Settings


def require_embedding(name: str, services: ApiServices) -> None:
    """Raise `InvalidInput` if no embedding of this name is configured."""
    if name not in services.embeddings:
        names = ", ".join(services.embeddings)
        raise InvalidInput(
            f"There is no embedding '{name}'. The configured embeddings are: {names}.", field="embedding"
        )


def require_sizes_fit(change: OptionsBody | CollectionOptions, settings: Settings) -> None:
    """Raise `InvalidInput` if chunks, overlap and sections cannot have these sizes."""
    most = change.chunk_max_chars or settings.chunk_max_chars
    overlap = settings.chunk_overlap_chars if change.chunk_overlap_chars is None else change.chunk_overlap_chars
    if overlap * 2 > most:
        raise InvalidInput(
            f"Chunks of at most {most} characters can overlap by {most // 2} characters at most, not {overlap}.",
            field="chunk_overlap_chars",
        )
    if change.section_max_chars is not None and change.section_max_chars < most:
        raise InvalidInput(
            f"A section of {change.section_max_chars} characters cannot hold a chunk of {most}:"
            " set chunk_max_chars to a part of section_max_chars, such as a quarter.",
            field="section_max_chars",
        )


def require_context_possible(change: OptionsBody, settings: Settings) -> None:
    """Raise `InvalidInput` if the option `context` is switched on, and the language model cannot write it."""
    model = settings.llm_model
    if change.context and model is not None and generation_strategy(settings, model) != "list":
        raise InvalidInput(
            f"The model {model} writes one question per call and no context: set FOREASK_LLM_MODEL to a larger model.",
            field="context",
        )


def migrated(collection: Collection, migration: MigrationBody, services: ApiServices) -> tuple[CollectionOptions, str]:
    """Return the options and the embedding of a planned build of a collection.

    Raises:
        InvalidInput: the embedding is not configured, the sizes are inconsistent, the model writes no context, or a
            field is declared.
    """
    changes = migration.model_dump(include=migration.model_fields_set - {"embedding"})
    if "filterable" in changes:
        raise InvalidInput(
            "Filterable fields can be declared only in a collection without documents.", field="filterable"
        )
    require_sizes_fit(migration, services.settings)
    require_context_possible(migration, services.settings)
    options: CollectionOptions = dataclasses.replace(collection.options, **changes)
    embedding = migration.embedding or collection.embedding_model
    require_embedding(embedding, services)
    return options, embedding
