"""Errors as RFC 9457 problem details; no other module turns an error into a status."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from math import ceil
from types import MappingProxyType
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Scope

from shared.domain.errors import (
    BadReply,
    Conflict,
    Forbidden,
    ForeaskError,
    InvalidInput,
    JobIsOpen,
    NoCollection,
    NotFound,
    Permanent,
    RateLimited,
    Refused,
    Rejected,
    TenantLimited,
    TooLarge,
    Transient,
    Unauthorized,
    Unavailable,
)
from shared.http import missing_collections
from shared.http.methods import allowed
from shared.http.replies import JsonReply

log = structlog.get_logger()

NO_ROUTE = "none"  # no route has the address


class MalformedRequest(InvalidInput):
    """The request is unreadable: broken JSON, a truncated form, an invalid cursor."""


class UnsupportedMedia(InvalidInput):
    """The body has a media type that the route does not accept."""


class SlowBody(InvalidInput):
    """The client sends its body too slowly, or has stopped; the connection is closed after the reply."""


class NoSuchRange(InvalidInput):
    """The requested range starts after the end of the file, which has `size` bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(f"The file has {size:,} bytes, and the range starts after them.", field="range")
        self.size = size


class TooManyRequests(Transient):
    """The caller has reached a limit; `headers` describe it."""

    def __init__(
        self, message: str, *, retry_after: timedelta | None = None, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(message, retry_after=retry_after)
        self.headers = dict(headers)


class NoBasicKey(Unauthorized):
    """As `Unauthorized`, on a route that accepts HTTP Basic authentication.

    Some senders, such as Amazon SNS, send their password only after such a reply.
    """


class InvalidFields(InvalidInput):
    """Several fields of the request are invalid; `errors` names each."""

    def __init__(self, errors: Sequence[Mapping[str, str]]) -> None:
        first = errors[0]
        super().__init__(_sentence(errors), field=first["field"] or None)
        self.errors = errors


@dataclass(frozen=True, slots=True)
class ProblemKind:
    status: int
    name: str
    title: str


_UNEXPECTED = ProblemKind(500, "internal", "Internal error")

# An error's class decides, or else its nearest parent in this table.
KINDS: Mapping[type[ForeaskError], ProblemKind] = {
    MalformedRequest: ProblemKind(400, "malformed", "The request cannot be read"),
    Unauthorized: ProblemKind(401, "unauthorized", "A valid key is required"),
    Forbidden: ProblemKind(403, "forbidden", "The key lacks a permission"),
    NoCollection: ProblemKind(404, "no-collection", "There is no such collection"),
    NotFound: ProblemKind(404, "not-found", "Not found"),
    SlowBody: ProblemKind(408, "slow-body", "The body arrived too slowly"),
    Conflict: ProblemKind(409, "conflict", "The request conflicts with the current state"),
    TooLarge: ProblemKind(413, "too-large", "The request is too large"),
    UnsupportedMedia: ProblemKind(415, "unsupported-media", "The media type is not supported"),
    NoSuchRange: ProblemKind(416, "no-such-range", "The range is not satisfiable"),
    TooManyRequests: ProblemKind(429, "too-many-requests", "Too many requests"),
    InvalidInput: ProblemKind(422, "invalid-input", "The request is invalid"),
    Rejected: ProblemKind(422, "invalid-input", "The request is invalid"),
    Refused: ProblemKind(422, "refused", "A provider rejected the text of the request"),
    BadReply: ProblemKind(502, "bad-reply", "A model's reply is unusable"),
    Permanent: ProblemKind(502, "bad-gateway", "A component rejected the request"),
    TenantLimited: ProblemKind(429, "too-many-requests", "Too many requests"),
    # The limit is the provider's: status 429 would mean that the caller had sent too many requests.
    RateLimited: ProblemKind(503, "rate-limited", "A provider has reached its rate limit"),
    Unavailable: ProblemKind(503, "unavailable", "A required component is unavailable"),
    Transient: ProblemKind(503, "unavailable", "A required component is unavailable"),
    ForeaskError: _UNEXPECTED,
}


def kind_of(error: ForeaskError) -> ProblemKind:
    return next(KINDS[parent] for parent in type(error).__mro__ if parent in KINDS)


def problem_of(error: Exception, instance: str | None = None) -> dict[str, Any]:
    """Return the problem details of an error. Details of an unexpected error are not shown."""
    if not isinstance(error, ForeaskError):
        return _problem(
            _UNEXPECTED, "This is an error of the server; its log has details under the request id.", instance
        )
    problem = _problem(kind_of(error), error.message, instance)
    if isinstance(error, Rejected) and error.field:
        problem["field"] = error.field
    if isinstance(error, InvalidFields):
        problem["errors"] = list(error.errors)
    if isinstance(error, Unauthorized) and error.key_state is not None:
        problem["key_state"] = error.key_state
    if isinstance(error, JobIsOpen):
        problem["job_id"] = str(error.job_id)
    if isinstance(error, NoCollection) and error.similar is not None:
        problem["collections"], problem["other_collections"] = list(error.similar), error.others
    if isinstance(error, Unavailable):
        problem["component"] = error.component
    return problem


def reply_to(error: Exception, instance: str | None = None) -> Response:
    problem = problem_of(error, instance)
    headers = {}
    if isinstance(error, Unauthorized):
        scheme = "Basic" if isinstance(error, NoBasicKey) else "Bearer"
        headers["www-authenticate"] = f'{scheme} realm="foreask"'
    if isinstance(error, NoSuchRange):
        headers["content-range"] = f"bytes */{error.size}"
    if isinstance(error, SlowBody):
        headers["connection"] = "close"  # otherwise the server would wait for the rest of the body
    if isinstance(error, Transient):
        after = error.retry_after.total_seconds() if error.retry_after else 1
        headers["retry-after"] = str(max(1, ceil(after)))
    if isinstance(error, TooManyRequests):
        headers |= error.headers
    return _reply(problem, headers)


def invalid_fields(errors: Sequence[Any]) -> InvalidFields:
    """Convert pydantic's errors to dotted fields and sentences, without values, which may be a caller's text."""
    return InvalidFields([{"field": _field(e["loc"]), "message": _message(e)} for e in errors])


def install(app: FastAPI) -> None:
    """Reply to every error with problem details."""
    app.add_exception_handler(ForeaskError, reply_to_error)
    app.add_exception_handler(RequestValidationError, _reply_to_invalid_parameters)
    app.add_exception_handler(HTTPException, _reply_to_routing)
    app.add_exception_handler(ClientDisconnect, _reply_to_disconnect)


def route_of(scope: Scope) -> str:
    """Return the template of a request's route, because the address may contain a caller's text."""
    return getattr(scope.get("route"), "path", NO_ROUTE)


def log_failure(error: Exception, scope: Scope) -> None:
    """Log an error that the caller did not cause; the log line has the request's id and tenant."""
    if isinstance(error, ForeaskError):
        log.warning("request.failed", kind=type(error).__name__, route=route_of(scope))
    else:
        log_crash(error, scope)


def log_crash(error: Exception, scope: Scope) -> None:
    # The message may contain a caller's text, so only the frames are logged.
    frames = traceback.format_tb(error.__traceback__)[-12:]
    log.error("request.crashed", kind=type(error).__name__, route=route_of(scope), frames=frames)


async def reply_to_error(request: Request, error: Exception) -> Response:
    # The caller causes a 429, and the log line of the request has the status.
    if isinstance(error, (Transient, Permanent)) and not isinstance(error, (TooManyRequests, TenantLimited)):
        log_failure(error, request.scope)
    if isinstance(error, NoCollection):
        await missing_collections.complete(error, request)
    return reply_to(error, request.url.path)


async def _reply_to_invalid_parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [{**e, "loc": e["loc"][1:]} for e in error.errors()]  # the first part is `query` or `path`
    return reply_to(invalid_fields(errors), request.url.path)


async def _reply_to_routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    details = {
        404: "No route has this address: /openapi.json lists all routes.",
        405: f"This route does not support {request.method}: /openapi.json lists its methods.",
    }
    kind = ProblemKind(status, status.phrase.lower().replace(" ", "-"), status.phrase)
    detail = details.get(status, str(error.detail))
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["allow"] = allowed(request.app.routes, request.scope)
    return _reply(_problem(kind, detail, request.url.path), headers)


async def _reply_to_disconnect(request: Request, _: Exception) -> Response:
    return reply_to(MalformedRequest("The client disconnected before the request was complete."), request.url.path)


def _problem(kind: ProblemKind, detail: str, instance: str | None) -> dict[str, Any]:
    problem = {
        "type": f"urn:foreask:problem:{kind.name}",
        "title": kind.title,
        "status": int(kind.status),
        "detail": detail,
    }
    return problem | ({"instance": instance} if instance else {})


def _reply(problem: dict[str, Any], headers: dict[str, str]) -> Response:
    return JsonReply(problem, problem["status"], headers, media_type="application/problem+json")


def _field(location: Sequence[object]) -> str:
    return ".".join(str(part) for part in location)[:200]


def _message(error: Mapping[str, Any]) -> str:
    match error["type"]:
        case "extra_forbidden":
            return "This field is unknown."
        case "missing":
            return "This field is required."
        case "value_error":
            return str(error["ctx"]["error"])
    return f"{error['msg']}."


def _sentence(errors: Sequence[Mapping[str, str]]) -> str:
    first = errors[0]
    sentence = f"{first['field']}: {first['message']}" if first["field"] else first["message"]
    return sentence if len(errors) == 1 else f"{sentence} ({len(errors) - 1} more in `errors`)"
