"""Every error has a status, explains the remedy, and reveals no internals."""

from datetime import timedelta
from uuid import UUID

import orjson
import pytest

from shared.domain import errors
from shared.http.problems import KINDS, InvalidFields, MalformedRequest, UnsupportedMedia, kind_of, reply_to
from shared.http.schemas.problems import ProblemDetails


def every(cls):
    return {cls, *(descendant for child in cls.__subclasses__() for descendant in every(child))}


def made(cls):
    if issubclass(cls, errors.Unavailable):
        return cls("It is unavailable.", component="qdrant")
    if issubclass(cls, InvalidFields):
        return cls([{"field": "top_k", "message": "Too many."}])
    if issubclass(cls, errors.JobIsOpen):
        return cls("It is open.", UUID(int=1))
    return cls("A sentence.")


@pytest.mark.parametrize(
    ("cls", "status"),
    [
        (MalformedRequest, 400),
        (errors.Unauthorized, 401),
        (errors.NotFound, 404),
        (errors.Conflict, 409),
        (errors.TooLarge, 413),
        (UnsupportedMedia, 415),
        (errors.InvalidInput, 422),
        (InvalidFields, 422),
        (errors.Refused, 422),
        (errors.BadReply, 502),
        (errors.Permanent, 502),
        (errors.RateLimited, 503),
        (errors.Unavailable, 503),
        (errors.ForeaskError, 500),
    ],
)
def test_error_class_determines_status(cls, status):
    reply = reply_to(made(cls), "/v1/x")

    problem = ProblemDetails.model_validate_json(reply.body)
    assert reply.status_code == problem.status == status
    assert reply.headers["content-type"] == "application/problem+json"
    assert problem.instance == "/v1/x"
    assert problem.type.startswith("urn:foreask:problem:")


@pytest.mark.parametrize(
    "cls",
    sorted((c for c in every(errors.ForeaskError) if c.__module__ == "shared.domain.errors"), key=lambda c: c.__name__),
    ids=lambda c: c.__name__,
)
def test_every_error_class_has_a_kind(cls):
    assert kind_of(made(cls)) in KINDS.values()
    if cls is not errors.ForeaskError:
        assert kind_of(made(cls)).status != 500


def test_retry_after_is_returned():
    after = timedelta(milliseconds=2300)
    reply = reply_to(errors.Unavailable("unavailable", component="ledger", retry_after=after))

    assert reply.headers["retry-after"] == "3"
    assert orjson.loads(reply.body)["component"] == "ledger"
    assert reply_to(errors.RateLimited("slow down")).headers["retry-after"] == "1"


def test_missing_key_explains_authentication():
    assert reply_to(errors.Unauthorized("no key")).headers["www-authenticate"].startswith("Bearer")


def test_all_invalid_fields_are_named():
    error = InvalidFields([{"field": "a", "message": "Wrong."}, {"field": "b.0", "message": "Wrong too."}])

    problem = orjson.loads(reply_to(error).body)

    assert problem["field"] == "a"
    assert problem["detail"] == "a: Wrong. (1 more in `errors`)"
    assert [e["field"] for e in problem["errors"]] == ["a", "b.0"]


def test_unexpected_error_reveals_no_details():
    reply = reply_to(RuntimeError("postgresql://user:secret@host"))

    assert reply.status_code == 500
    assert b"secret" not in reply.body
    assert b"RuntimeError" not in reply.body
