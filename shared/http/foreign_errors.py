"""Routes whose errors have the format of another API, for the clients of that API."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from shared.domain.errors import ForeaskError
from shared.http.problems import invalid_fields, reply_to_error
from shared.http.replies import JsonReply
from shared.http.strict_route import Handler, StrictRoute

_BODY_HEADERS = {"content-type", "content-length"}


class ForeignErrorsRoute(StrictRoute):
    """A route whose errors have another format than problem details; their log lines and headers are the same."""

    def with_errors(self, handle: Handler) -> Handler:
        async def handle_with_errors(request: Request) -> Any:
            try:
                return await handle(request)
            except RequestValidationError as error:
                parameters = [{**e, "loc": e["loc"][1:]} for e in error.errors()]  # the first part is `path` or `query`
                return await self._reply(request, invalid_fields(parameters))
            except ForeaskError as error:
                return await self._reply(request, error)

        return handle_with_errors

    @staticmethod
    @abstractmethod
    def encoded(request: Request, error: ForeaskError, status: int) -> tuple[int, Any]:
        """Return the status and the content of the reply to an error.

        Args:
            request: the request.
            error: the error; the message of a missing collection has the names of others already.
            status: the status of problem details.
        """

    async def _reply(self, request: Request, error: ForeaskError) -> Response:
        reply = await reply_to_error(request, error)
        headers = {name: value for name, value in reply.headers.items() if name not in _BODY_HEADERS}
        status, content = self.encoded(request, error, reply.status_code)
        return JsonReply(content, status, headers)
