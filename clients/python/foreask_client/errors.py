"""The exception for every failure of a server or its network."""

from __future__ import annotations

import math
from typing import Any

import httpx

_MOST_SECONDS = 7 * 86_400.0  # callers compute with it, and a proxy may send any number


class ApiError(Exception):
    """The server rejected a request, failed, or was unreachable.

    Attributes:
        status: HTTP status of the reply; None if there was no readable reply.
        type: the API's problem type, such as `invalid-input` or `not-found`; None without problem details.
        detail: a sentence with the reason.
        request_id: id of the request in the server's log.
        retry_after: Retry-After of the reply, in seconds, or None.
        problem: all problem details (RFC 9457), or empty.
    """

    def __init__(
        self,
        detail: str,
        *,
        status: int | None = None,
        type: str | None = None,  # noqa: A002  the field's name in RFC 9457
        request_id: str | None = None,
        retry_after: float | None = None,
        problem: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.type = type
        self.detail = detail
        self.request_id = request_id
        self.retry_after = retry_after
        self.problem = problem or {}

    def __str__(self) -> str:
        return f"{self.detail} (status {self.status})" if self.status else self.detail


class NotFoundError(ApiError):
    """The server has no such object, or the key may not see it (status 404).

    If the object is a collection, `type` is `no-collection`, and `problem["collections"]` has the names of at most five
    collections that the key may list, the most similar first.
    """


def error_of(response: httpx.Response) -> ApiError:
    """Return the exception of an error reply whose body is read."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    return error_of_problem(
        problem if isinstance(problem, dict) else {},
        status=response.status_code,
        request_id=response.headers.get("x-request-id"),
        retry_after=_seconds(response.headers.get("retry-after")),
    )


def error_of_problem(
    problem: dict[str, Any],
    *,
    status: int | None = None,
    request_id: str | None = None,
    retry_after: float | None = None,
) -> ApiError:
    """Return the exception of problem details."""
    kind = problem.get("type")
    status = status or problem.get("status")
    error = NotFoundError if status == httpx.codes.NOT_FOUND else ApiError
    return error(
        str(problem.get("detail") or f"The server answered {status}."),
        status=status,
        type=kind.rpartition(":")[2] if isinstance(kind, str) else None,
        request_id=request_id,
        retry_after=retry_after,
        problem=problem,
    )


def _seconds(header: str | None) -> float | None:
    try:
        seconds = float(header or "")
    except ValueError:
        return None  # a date, which the API never sends
    return min(seconds, _MOST_SECONDS) if seconds >= 0 and math.isfinite(seconds) else None
