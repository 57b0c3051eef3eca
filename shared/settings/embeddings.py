"""Embedding models, which collections choose by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from shared.domain.corpus.index_location import vector_space
from shared.settings.masking import masked
from shared.settings.values import Duration, PositiveInt, model_url

EMBEDDING_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")


class Embedding(BaseModel):
    """An embedding model: an entry of FOREASK_EMBEDDINGS, or the default model.

    A prefix is put in front of each embedded question or text, such as E5's "query: " and "passage: ".
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: str = Field(min_length=1, description="name of the model at its server")
    base_url: str | None = Field(None, description="default: FOREASK_EMBEDDING_BASE_URL with its key")
    api_key: SecretStr | None = None
    dimensions: PositiveInt | None = Field(None, description="number to request; default: the model's own")
    query_prefix: str = ""
    passage_prefix: str = ""
    timeout: Duration = timedelta(seconds=120)
    price: float | None = Field(None, ge=0, description="price of a million tokens; default: the list price")
    requests_per_minute: PositiveInt | None = None
    tokens_per_minute: PositiveInt | None = None

    @field_validator("base_url")
    @classmethod
    def _require_url(cls, value: str | None) -> str | None:
        return None if value is None else model_url(value)

    @property
    def space(self) -> str:
        return vector_space(self.model, self.dimensions, self.query_prefix, self.passage_prefix)


def key_of(entry: Embedding) -> dict[str, SecretStr]:
    return {} if entry.api_key is None else {"api_key": entry.api_key}


def embeddings_json(embeddings: Mapping[str, Embedding], *, reveal: bool) -> str:
    """Return FOREASK_EMBEDDINGS as JSON, with secrets if `reveal` is set."""
    secrets = _secrets if reveal else _masked_secrets
    entries = {name: _set_fields(entry) | secrets(entry) for name, entry in embeddings.items()}
    return json.dumps(entries) if entries else ""


def _set_fields(entry: Embedding) -> dict[str, Any]:
    return entry.model_dump(mode="json", exclude_defaults=True)


def _secrets(entry: Embedding) -> dict[str, Any]:
    return {name: value.get_secret_value() for name, value in key_of(entry).items()}


def _masked_secrets(entry: Embedding) -> dict[str, Any]:
    url = {} if entry.base_url is None else {"base_url": masked(entry.base_url, secret=False)}
    return url | dict.fromkeys(key_of(entry), "***")
