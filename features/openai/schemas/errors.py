"""Errors in OpenAI's format."""

from __future__ import annotations

from pydantic import Field

from shared.http.schemas.common import ReplyModel, example


class ChatErrorDetail(ReplyModel):
    message: str = Field(description="Explanation, with the next step")
    type: str = Field(description="`invalid_request_error`, `rate_limit_error` or `server_error`")
    param: str | None = Field(description="Field of the request to correct")
    code: str


class ChatError(ReplyModel):
    """An error in OpenAI's format."""

    model_config = example(
        error={
            "message": "There is no collection 'handbok'.",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
    )

    error: ChatErrorDetail
