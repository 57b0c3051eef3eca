"""Errors in OpenAI's format, for the routes that OpenAI's clients call."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import Request

from features.openai.schemas.errors import ChatError
from shared.domain.errors import ForeaskError
from shared.http.event_stream import message
from shared.http.foreign_errors import ForeignErrorsRoute
from shared.http.problems import problem_of

_CODES = {
    "unauthorized": "invalid_api_key",
    "no-collection": "model_not_found",
    "too-many-requests": "rate_limit_exceeded",
}
_PROBLEM = "urn:foreask:problem:"
_SERVER_ERROR = 500


class OpenAIRoute(ForeignErrorsRoute):
    """A route whose errors have OpenAI's format."""

    @staticmethod
    def encoded(request: Request, error: ForeaskError, status: int) -> tuple[int, Any]:
        del request
        return 400 if status == HTTPStatus.UNPROCESSABLE_ENTITY else status, error_of(error)


def error_of(error: Exception) -> dict[str, Any]:
    """Return an error in OpenAI's format. Details of an unexpected error are not shown."""
    problem = problem_of(error)
    name, status = problem["type"].removeprefix(_PROBLEM), problem["status"]
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        kind = "rate_limit_error"
    else:
        kind = "server_error" if status >= _SERVER_ERROR else "invalid_request_error"
    code = _CODES.get(name, name.replace("-", "_"))
    param = "model" if name == "no-collection" else problem.get("field")
    return {"error": {"message": problem["detail"], "type": kind, "param": param, "code": code}}


def error_message(error: Exception, _: str) -> bytes:
    """Encode the last message of a failed stream."""
    return message(error_of(error))


def openai_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the statuses of a route's errors, including the errors of keys and limits."""
    return {
        status: {"model": ChatError, "description": HTTPStatus(status).phrase}
        for status in sorted({*statuses, 401, 403, 429, 503})
    }
