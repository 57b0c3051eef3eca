"""The options in force in a collection: its own, and the settings' values of all others."""

from __future__ import annotations

from dataclasses import dataclass

from shared.domain.corpus.collections import CollectionOptions
from shared.ingest.generate.generator import prompt_in_use
from shared.ingest.generate.per_question import count_of
from shared.ingest.generate.types import QuestionCount
from shared.services.ingest import ingest_defaults
from shared.services.ocr import chosen_languages
from shared.services.parse import describes_pictures
from shared.settings import Settings


@dataclass(frozen=True, slots=True)
class OptionsInForce:
    """The value of each option.

    Args:
        prompt: template of the prompt.
        instructions: the fixed instructions of the model.
        prompt_version: version of the instructions.
        section_max_chars: None: documents have no sections.
        ocr_languages: None: the usual languages that are installed.
    """

    questions_per_chunk: QuestionCount
    prompt: str
    instructions: str
    prompt_version: str
    chunk_max_chars: int
    chunk_overlap_chars: int
    prepend_questions: bool
    section_max_chars: int | None
    ocr_languages: str | None
    captions: bool
    context: bool


def options_in_force(settings: Settings, options: CollectionOptions) -> OptionsInForce:
    """Resolve options as the workers do that have the same settings."""
    defaults = ingest_defaults(settings, settings.llm_model or "")
    chunking, generation = defaults.chunking_of(options), defaults.generation_of(options)
    prompt, is_list = prompt_in_use(generation), generation.strategy == "list"
    return OptionsInForce(
        questions_per_chunk=generation.questions_per_chunk if is_list else count_of(generation),
        prompt=prompt.template,
        instructions=prompt.instructions,
        prompt_version=prompt.version,
        chunk_max_chars=chunking.max_chars,
        chunk_overlap_chars=chunking.overlap_chars,
        prepend_questions=bool(options.prepend_questions),
        section_max_chars=chunking.section_max_chars,
        ocr_languages=chosen_languages(settings, options.ocr_languages),
        captions=describes_pictures(settings, options.captions),
        context=generation.context and is_list,
    )
