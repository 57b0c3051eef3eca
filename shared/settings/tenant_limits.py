"""Limits of tenants."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from shared.settings.values import PositiveInt

OTHERS = "*"  # the entry of FOREASK_TENANT_LIMITS for tenants without an entry


class TenantLimits(BaseModel):
    """The limits of a tenant: an entry of FOREASK_TENANT_LIMITS. None means unlimited. A day starts at midnight UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    requests_per_second: float | None = Field(None, gt=0, description="requests to the API per second")
    burst: PositiveInt | None = Field(None, description="requests at once after a pause; default: for 2 seconds")
    upload_bytes_per_day: PositiveInt | None = None
    documents: PositiveInt | None = None
    collections: PositiveInt | None = None
    listeners: PositiveInt | None = Field(1_000, description="event streams of progress per API process")
    llm_requests_per_minute: PositiveInt | None = Field(None, description="calls of the language model per minute")
    llm_tokens_per_minute: PositiveInt | None = None
    tokens_per_day: PositiveInt | None = Field(None, description="tokens of the language model for the ingest")
    cost_per_day: float | None = Field(None, gt=0, description="cost of the ingest, in the currency of the prices")
    pages_per_day: PositiveInt | None = Field(None, description="pages without a text layer that are read by OCR")
    query_tokens_per_day: PositiveInt | None = Field(None, description="tokens of all models for queries")
    query_cost_per_day: float | None = Field(None, gt=0, description="cost of queries, in the currency of the prices")
