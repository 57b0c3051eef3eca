"""Requests and replies of keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from api.schemas.common import BodyModel, ReplyModel, example

_TEN_YEARS_SECONDS = 10 * 366 * 24 * 60 * 60

TenantScope = Literal["read", "ask", "write", "manage"]
KeyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$")]


class KeyBody(BodyModel):
    """A key to create."""

    model_config = example(name="website", scopes=["ask"], expires_in_seconds=31_536_000, filter={"audience": "public"})

    name: KeyName = Field(description="Name of the key in logs; A-Z, a-z, 0-9, ., _, @ and -, at most 63 characters")
    scopes: list[TenantScope] = Field(
        min_length=1, max_length=4, description="Permissions of the key; no scope includes another"
    )
    expires_in_seconds: int | None = Field(
        None, ge=1, le=_TEN_YEARS_SECONDS, description="Lifetime; null if the key is valid until it is revoked"
    )
    filter: dict[str, Any] | None = Field(
        None,
        min_length=1,
        description="Metadata filter that is added to every query of the key; requires that `ask` is the only scope",
    )


class KeyView(ReplyModel):
    """A key, without the key itself."""

    model_config = example(
        id="8a5d0c3e-51c8-4f6e-9a3b-2b7b8f0c9d11",
        name="website",
        scopes=["ask"],
        filter={"audience": "public"},
        created_at="2026-10-01T09:30:00Z",
        expires_at="2027-10-01T09:30:00Z",
        revoked_at=None,
        last_used_at="2026-10-02T11:00:00Z",
    )

    id: UUID
    name: str
    scopes: list[str]
    filter: dict[str, Any] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="Last use, to the minute; null if the key has not been used")


class NewKeyView(KeyView):
    """A new key."""

    model_config = example(
        id="8a5d0c3e-51c8-4f6e-9a3b-2b7b8f0c9d11",
        name="website",
        scopes=["ask"],
        filter=None,
        created_at="2026-10-01T09:30:00Z",
        expires_at=None,
        revoked_at=None,
        last_used_at=None,
        key="fa_8Yc1cO0sM0o0r3T2n5p9Jd7vQxk1ZbWfG4hLuEiRtAs",
    )

    key: str = Field(description="The key. It is shown only once, because the server stores only its hash")


class KeyPage(ReplyModel):
    items: list[KeyView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")
