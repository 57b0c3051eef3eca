"""Requests and replies of keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, Field

from shared.http.schemas.common import BodyModel, ReplyModel, example

_MOST_TOKENS = 10**15  # exact in Valkey's scripts, whose numbers are doubles
_TEN_YEARS_SECONDS = 10 * 366 * 24 * 60 * 60

TenantScope = Literal["read", "ask", "feedback", "write", "manage", "delegate"]
_LIMITS = {"requests_per_second": 5.0, "tokens_per_day": 1_000_000, "cost_per_day": None, "max_tokens": 8_000}
KeyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$")]


class KeyLimitsBody(BodyModel):
    """Limits of a key. null means that only the limits of the tenant apply."""

    requests_per_second: float | None = Field(None, ge=0.001, le=1_000_000)
    tokens_per_day: int | None = Field(
        None, ge=1, le=_MOST_TOKENS, description="Tokens of all models for queries of the key"
    )
    cost_per_day: float | None = Field(
        None, gt=0, le=1e12, description="Cost of queries of the key, in the currency of the prices"
    )
    max_tokens: int | None = Field(
        None, ge=1, le=_MOST_TOKENS, description="Maximum number of tokens in the texts of a reply"
    )


class KeyBody(BodyModel):
    """A key to create."""

    model_config = example(name="website", scopes=["ask"], expires_in_seconds=31_536_000, filter={"audience": "public"})

    name: KeyName = Field(description="Name of the key in logs; A-Z, a-z, 0-9, ., _, @ and -, at most 63 characters")
    scopes: list[TenantScope] = Field(
        min_length=1, max_length=5, description="Permissions of the key; no scope includes another"
    )
    expires_in_seconds: int | None = Field(
        None, ge=1, le=_TEN_YEARS_SECONDS, description="Lifetime; null if the key is valid until it is revoked"
    )
    filter: dict[str, Any] | None = Field(
        None,
        min_length=1,
        description="Metadata filter that is added to every query of the key, which then has only the scopes `ask` and"
        " `feedback`",
    )
    limits: KeyLimitsBody | None = Field(
        None, description="Limits of the key, which then lacks the scope `manage`; null: only the tenant's limits"
    )


class KeyChange(BodyModel):
    """Changes of a key. A field that is absent is unchanged."""

    model_config = example(limits={"requests_per_second": 5.0}, expires_in_seconds=None)

    limits: KeyLimitsBody | None = Field(None, description="New limits, which replace all old ones; null removes them")
    expires_in_seconds: int | None = Field(
        None, ge=1, le=_TEN_YEARS_SECONDS, description="New lifetime from now; null: valid until it is revoked"
    )


class KeyLimitsView(ReplyModel):
    """Limits of a key. null means that only the limits of the tenant apply."""

    requests_per_second: float | None
    tokens_per_day: int | None = Field(description="Tokens of all models for queries of the key")
    cost_per_day: float | None = Field(description="Cost of queries of the key, in the currency of the prices")
    max_tokens: int | None = Field(description="Maximum number of tokens in the texts of a reply")


class KeyView(ReplyModel):
    """A key, without the key itself."""

    model_config = example(
        id="8a5d0c3e-51c8-4f6e-9a3b-2b7b8f0c9d11",
        name="website",
        prefix="fa_8Yc1",
        scopes=["ask"],
        filter={"audience": "public"},
        limits=_LIMITS,
        created_at="2026-10-01T09:30:00Z",
        expires_at="2027-10-01T09:30:00Z",
        revoked_at=None,
        last_used_at="2026-10-02T11:00:00Z",
    )

    id: UUID
    name: str
    prefix: str | None = Field(description="First characters of the key; null for keys of older releases")
    scopes: Annotated[list[str], AfterValidator(sorted)]
    filter: dict[str, Any] | None
    limits: KeyLimitsView
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="Last use, to the minute; null if the key has not been used")


class NewKeyView(KeyView):
    """A new key."""

    model_config = example(
        id="8a5d0c3e-51c8-4f6e-9a3b-2b7b8f0c9d11",
        name="website",
        prefix="fa_8Yc1",
        scopes=["ask"],
        filter=None,
        limits=_LIMITS,
        created_at="2026-10-01T09:30:00Z",
        expires_at=None,
        revoked_at=None,
        last_used_at=None,
        key="fa_8Yc1cO0sM0o0r3T2n5p9Jd7vQxk1ZbWfG4hLuEiRtAs",
    )

    key: str = Field(description="The key. It is shown only once, because the server stores only its hash")


class SettingsKeyView(ReplyModel):
    """A key in the server's settings, which only they can change."""

    model_config = example(name="settings:6ca13d52", scopes=["ask", "feedback", "manage", "read", "write"])

    name: str = Field(description="Name in logs: the first characters of its hash")
    scopes: list[str]


class KeyPage(ReplyModel):
    items: list[KeyView]
    from_settings: list[SettingsKeyView] = Field(description="Keys of the tenant in the server's settings")
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")
