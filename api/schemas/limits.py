"""Replies about the limits of a tenant and their use."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shared.http.schemas.common import ReplyModel, example, example_of

LimitName = Literal[
    "requests_per_second",
    "upload_bytes_per_day",
    "documents",
    "collections",
    "tokens_per_day",
    "cost_per_day",
    "query_tokens_per_day",
    "query_cost_per_day",
]


class TenantLimitView(ReplyModel):
    """A limit of a tenant and its use. A day starts at midnight UTC."""

    model_config = example(name="upload_bytes_per_day", limit=1073741824, used=52428800)

    name: LimitName = Field(description="Name of the limit in FOREASK_TENANT_LIMITS")
    limit: int | float | None = Field(description="Maximum; null means unlimited")
    used: int | float | None = Field(
        description="Existing documents or collections, or the use of today; null if it is not counted: of requests, of"
        " daily amounts without a limit, of the ingest before its first generation, and while the broker is unavailable"
    )


class TenantLimitList(ReplyModel):
    model_config = example(items=[example_of(TenantLimitView)])

    items: list[TenantLimitView] = Field(description="All limits of the tenant, also unlimited ones")
