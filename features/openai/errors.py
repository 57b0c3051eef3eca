"""Errors in OpenAI's format, for the routes that OpenAI's clients call."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from features.openai.schemas import ChatError
from shared.domain.errors import ForeaskError
from shared.http.event_stream import message
from shared.http.problems import invalid_fields, problem_of, reply_to_error
from shared.http.replies import JsonReply
from shared.http.strict_route import Handler, StrictRoute

_CODES = {
    "unauthorized": "invalid_api_key",
    "no-collection": "model_not_found",
    "too-many-requests": "rate_limit_exceeded",
}
_BODY_HEADERS = {"content-type", "content-length"}
_PROBLEM = "urn:foreask:problem:"
_SERVER_ERROR = 500


class OpenAIRoute(StrictRoute):
    """A route whose errors have OpenAI's format."""

    def with_errors(self, handle: Handler) -> Handler:
        async def handle_with_errors(request: Request) -> Any:
            try:
                return await handle(request)
            except RequestValidationError as error:
                parameters = [{**e, "loc": e["loc"][1:]} for e in error.errors()]  # the first part is `path`
                return await _reply(request, invalid_fields(parameters))
            except ForeaskError as error:
                return await _reply(request, error)

        return handle_with_errors


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


async def _reply(request: Request, error: ForeaskError) -> Response:
    reply = await reply_to_error(request, error)
    headers = {name: value for name, value in reply.headers.items() if name not in _BODY_HEADERS}
    status = 400 if reply.status_code == HTTPStatus.UNPROCESSABLE_ENTITY else reply.status_code
    return JsonReply(error_of(error), status, headers)


def error_message(error: Exception, _: str) -> bytes:
    """Encode the last message of a failed stream."""
    return message(error_of(error))


def openai_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the statuses of a route's errors, including the errors of keys and limits."""
    return {
        status: {"model": ChatError, "description": HTTPStatus(status).phrase}
        for status in sorted({*statuses, 401, 403, 429, 503})
    }
