"""Problem details (RFC 9457), the body of every error."""

from __future__ import annotations

from pydantic import Field

from shared.http.schemas.common import ReplyModel, example


class FieldError(ReplyModel):
    field: str
    message: str


class ProblemDetails(ReplyModel):
    """An error (RFC 9457). `detail` contains the next step."""

    model_config = example(
        type="urn:foreask:problem:invalid-input",
        title="The request is invalid",
        status=422,
        detail="top_k: Input should be greater than or equal to 1.",
        instance="/v1/retrieve",
        field="top_k",
        errors=[{"field": "top_k", "message": "Input should be greater than or equal to 1."}],
    )

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    field: str | None = Field(None, description="Field of the request to correct")
    errors: list[FieldError] | None = None
    component: str | None = Field(
        None,
        description="Failing component: `ledger`, `broker`, `qdrant`, `llm`, `embedding`, `identity provider`, or"
        " `worker` of a run",
    )
    key_state: str | None = Field(
        None,
        description="Why the key was refused: `missing`, `unknown`, `revoked` or `expired`. For a signed token also"
        " `not_valid_yet`, `other_audience`, `other_issuer`, `algorithm`, `unknown_key`, `other_key`, `signature`,"
        " `identity` or `malformed`",
    )
    job_id: str | None = Field(None, description="Open job that the request would repeat")
    collections: list[str] | None = Field(
        None,
        description="For a missing collection: the names of at most five collections that the key may list, the most"
        " similar first",
    )
    other_collections: int | None = Field(None, description="Number of further collections that the key may list")
