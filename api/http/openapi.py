"""The OpenAPI document. Routes read their bodies themselves, so FastAPI cannot see the bodies' models."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from api.schemas.builds import GateBody, SwitchBody
from api.schemas.calibration import CalibrateBody
from api.schemas.chat import ChatBody, EmbeddingsBody
from api.schemas.collections import CollectionChange
from api.schemas.dead_letters import DeadLetterFilter
from api.schemas.documents import BatchLine, BatchResult, DocumentBody, DocumentChange
from api.schemas.estimates import EstimateBody, MigrationBody
from api.schemas.evaluations import EvaluateBody, LabelledSetBody
from api.schemas.feedback import AcceptBody, FeedbackBody
from api.schemas.keys import KeyBody
from api.schemas.operators import OperatorVerifyBody
from api.schemas.problems import ProblemDetails
from api.schemas.queries import QueryBody, RetrieveBody, TokenEvent
from api.schemas.similarity import SimilarityBody
from api.schemas.status import ProgressEvent, StatusEvent
from api.schemas.trials import (
    TrialBody,
    TrialChunkEvent,
    TrialDoneEvent,
    TrialQuestionEvent,
    TrialScreenedEvent,
)
from api.schemas.verification import VerificationCountsView, VerificationProgress, VerifyBody
from api.schemas.webhooks import WebhookBody

_MODELS: list[tuple[type[BaseModel], JsonSchemaMode]] = [
    (model, "validation")
    for model in (
        DocumentBody,
        DocumentChange,
        BatchLine,
        BatchResult,
        CollectionChange,
        DeadLetterFilter,
        VerifyBody,
        VerificationCountsView,
        VerificationProgress,
        CalibrateBody,
        LabelledSetBody,
        EvaluateBody,
        ChatBody,
        EmbeddingsBody,
        RetrieveBody,
        QueryBody,
        FeedbackBody,
        AcceptBody,
        EstimateBody,
        GateBody,
        KeyBody,
        MigrationBody,
        OperatorVerifyBody,
        SwitchBody,
        WebhookBody,
        ProgressEvent,
        StatusEvent,
        TokenEvent,
        SimilarityBody,
        TrialBody,
        TrialChunkEvent,
        TrialQuestionEvent,
        TrialScreenedEvent,
        TrialDoneEvent,
        ProblemDetails,
    )
]
NDJSON = "application/x-ndjson"
# A stream is a sequence of these.
_EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {"event": {"type": "string"}, "data": {"type": "string", "contentMediaType": "application/json"}},
}
EVENTS: dict[str, Any] = {"text/event-stream": {"schema": _EVENT}}
_REF = "#/components/schemas/{model}"
_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["file"],
    "additionalProperties": False,
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "collection": {"type": "string", "default": "default"},
        "external_id": {"type": "string", "description": "default: the filename, else a hash of the content"},
        "title": {"type": "string"},
        "metadata": {"type": "string", "description": "a JSON object", "example": '{"department": "hr"}'},
        "questions": {
            "type": "string",
            "description": "a JSON list of ready-made questions",
            "example": '["How many days of leave are there?"]',
        },
        "lane": {"type": "string", "enum": ["interactive", "bulk"], "default": "interactive"},
    },
}


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _ref(model)}}}}


def json_or_form(model: type[BaseModel]) -> dict[str, Any]:
    body = json_body(model)
    body["requestBody"]["content"]["multipart/form-data"] = {"schema": _FORM}
    return body


def json_lines(model: type[BaseModel]) -> dict[str, Any]:
    """Describe a body of one JSON object a line."""
    return {"requestBody": {"required": True, "content": {NDJSON: {"schema": _ref(model)}}}}


def line_replies(model: type[BaseModel]) -> dict[str, Any]:
    """Describe a reply of one JSON object a line."""
    return {"description": "A line for each line of the request", "content": {NDJSON: {"schema": _ref(model)}}}


def replies(other: Mapping[int, dict[str, Any]], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe a route's other replies, and the statuses of its problem details."""
    described: dict[int | str, dict[str, Any]] = dict(other.items())
    return described | problems(*statuses)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    if HTTPStatus.UNAUTHORIZED in statuses:  # every key has a scope and limits, and depends on the ledger
        statuses = (*statuses, HTTPStatus.FORBIDDEN, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)
    content = {"application/problem+json": {"schema": _ref(ProblemDetails)}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def install(app: FastAPI) -> None:
    """Let the application generate its description once, on the first request for it."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def _describe(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    _, definitions = models_json_schema(_MODELS, ref_template=_REF)
    components = document.setdefault("components", {})
    schemas = definitions["$defs"] | components.get("schemas", {})
    components["schemas"] = {name: schemas[name] for name in sorted(schemas)}
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    document["security"] = [{"bearer": []}, {"key": []}]
    of_bodies = {str(status): reply for status, reply in problems(HTTPStatus.REQUEST_TIMEOUT).items()}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _drop_fastapi_problem(operation)
            if "requestBody" in operation:
                operation["responses"] |= of_bodies
            if path.startswith("/health/"):
                operation["security"] = []
    return document


def _drop_fastapi_problem(operation: dict[str, Any]) -> None:
    # FastAPI describes its own reply to invalid parameters, which this server never sends.
    content = operation["responses"].get("422", {}).get("content", {})
    if "application/problem+json" not in content:
        operation["responses"].pop("422", None)


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
