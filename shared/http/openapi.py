"""The OpenAPI document, which FastAPI generates from the routes.

This module describes the parts that FastAPI has no types for: streams, problem details, and bodies that are read in
pieces. Routes refer to the models of these parts, whose definitions are generated with the document: that takes 0.6 s
of processor time, which no start of a process needs.

Generators of clients read the document, and each supports another part of OpenAPI, so it uses only the common parts:
`tests/unit/test_openapi_document.py` has the rules.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self

import orjson
from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.models import Schema
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from shared.http.schemas.problems import ProblemDetails

ADDRESS = "/openapi.json"
NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"
_PUBLIC = ("/health/", "/v1/sign-in")  # routes without a key
_REF = "#/components/schemas/{model}"
_SENTENCE_END = re.compile(r"(?<=\.)\s+")
_referred = set[type[BaseModel]]()
_forms = dict[str, dict[str, Any]]()
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
        "readable_by": {
            "type": "string",
            "description": "a JSON list of readers",
            "example": '["user:ada@example.org", "group:hr"]',
        },
        "questions": {
            "type": "string",
            "description": "a JSON list of ready-made questions",
            "example": '["How many days of leave do I get?"]',
        },
        "lane": {"type": "string", "enum": ["interactive", "bulk", "batch"], "default": "interactive"},
        "job": {"type": "string", "format": "uuid", "description": "id of an open load"},
    },
}


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """Describe a JSON body that the route does not declare as a parameter."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _schema(model)}}}}


def json_or_form(model: type[BaseModel]) -> dict[str, Any]:
    body = json_body(model)
    body["requestBody"]["content"] |= form_content("DocumentForm", _FORM)
    return body


def form_content(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a form. Generators give its class the name."""
    _forms[name] = schema
    return {"multipart/form-data": {"schema": {"$ref": _REF.format(model=name)}}}


def json_lines(model: type[BaseModel]) -> dict[str, Any]:
    """Describe a body of one JSON object a line."""
    return {"requestBody": {"required": True, "content": {NDJSON: {"schema": _lines(model)}}}}


def line_replies(model: type[BaseModel]) -> dict[str, Any]:
    """Describe a reply of one JSON object a line."""
    return {"description": "A line for each line of the request", "content": {NDJSON: {"schema": _lines(model)}}}


def _lines(model: type[BaseModel]) -> dict[str, Any]:
    # A client must send and receive lines as bytes: as an object, generated code would parse the whole body as JSON.
    return {
        "type": "string",
        "format": "binary",
        "contentMediaType": NDJSON,
        "contentSchema": _schema(model),
        "description": "One JSON object a line; `contentSchema` describes a line",
    }


def event_content(*models: type[BaseModel]) -> dict[str, Any]:
    """Describe a stream of server-sent events.

    Args:
        models: models of the events' data; none if the data has no model.
    """
    data: dict[str, Any] = {"type": "string", "contentMediaType": "application/json"}
    if models:
        data["contentSchema"] = {"anyOf": [_schema(model) for model in models]}
    event = {"type": "object", "required": ["event", "data"], "properties": {"event": {"type": "string"}, "data": data}}
    # A text for the same reason as lines.
    stream = {
        "type": "string",
        "contentMediaType": EVENTS,
        "contentSchema": event,
        "description": "Server-sent events; `contentSchema` describes an event",
    }
    return {EVENTS: {"schema": stream}}


def replies(other: Mapping[int, dict[str, Any]], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe a route's other replies, and the statuses of its problem details."""
    described: dict[int | str, dict[str, Any]] = dict(other.items())
    return described | problems(*statuses)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the problem details of a route; a route that requires a key has the errors of keys and limits, too."""
    if HTTPStatus.UNAUTHORIZED in statuses:
        statuses = (*statuses, HTTPStatus.FORBIDDEN, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)
    content = {"application/problem+json": {"schema": _schema(ProblemDetails)}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def operation_id(route: APIRoute) -> str:
    """Return the id of an operation: the name of the route's function.

    Generators name a client's functions by it, so another name breaks the programs that call them.
    """
    return route.name


def install(app: FastAPI) -> None:
    """Serve the description of the application, which is generated once, on the first request for it.

    Generation takes a second of processor time. It runs in a thread, so that other requests do not wait for it.
    """
    files: dict[str, _File] = {}  # by the path prefix of a proxy
    generating = asyncio.Lock()

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app)
        return app.openapi_schema

    def file(root: str) -> _File:
        return _File.of(describe() | {"servers": [{"url": root or "/"}]})

    app.openapi = describe  # type: ignore[method-assign]

    async def description(request: Request) -> Response:
        root = request.scope.get("root_path", "").rstrip("/")
        async with generating:
            if root not in files:
                files[root] = await asyncio.to_thread(file, root)
        return files[root].reply(request)

    app.add_route(ADDRESS, description, include_in_schema=False)


@dataclass(frozen=True, slots=True)
class _File:
    """The document as JSON, also compressed: it has half a megabyte."""

    content: bytes
    compressed: bytes

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        content = orjson.dumps(document)
        return cls(content, gzip.compress(content, mtime=0))

    def reply(self, request: Request) -> Response:
        headers = {"vary": "accept-encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.content, media_type="application/json", headers=headers)
        headers["content-encoding"] = "gzip"
        return Response(self.compressed, media_type="application/json", headers=headers)


def _describe(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _drop_fastapi_problem(operation)
            _summarize(operation)
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
            if "requestBody" in operation:
                operation["responses"]["408"] = _reply_to_slow_body(operation["responses"])
            if path.startswith(_PUBLIC):
                operation["security"] = []
    components = document.setdefault("components", {})
    schemas = _definitions() | _forms | components.get("schemas", {})
    components["schemas"] = {name: schemas[name] for name in sorted(schemas)}
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or the token of a person"},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key"},
        "basic": {"type": "http", "scheme": "basic", "description": "The key is the password; any user name"},
    }
    document["security"] = [{"bearer": []}, {"key": []}]
    document["servers"] = [{"url": "/"}]
    return document


def _reply_to_slow_body(replies: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the reply, which has the format of the operation's other errors."""
    content = next(reply["content"] for status, reply in replies.items() if status >= "400")
    return {"description": HTTPStatus.REQUEST_TIMEOUT.phrase, "content": content}


def _drop_fastapi_problem(operation: dict[str, Any]) -> None:
    # FastAPI describes its own reply to invalid parameters, but this server replies with problem details.
    content = operation["responses"].get("422", {}).get("content", {})
    if "application/problem+json" not in content:
        operation["responses"].pop("422", None)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without null: a parameter can be absent, but not null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if not kinds:
        return schema
    others = {name: value for name, value in schema.items() if name != "anyOf"}
    return kinds[0] | others if len(kinds) == 1 else {"anyOf": kinds, **others}


def _summarize(operation: dict[str, Any]) -> None:
    """Make the first sentence of the description the summary, which FastAPI takes from the function's name."""
    sentence, *rest = _SENTENCE_END.split(operation.pop("description"), maxsplit=1)
    operation["summary"] = sentence.removesuffix(".")
    if rest:
        operation["description"] = rest[0]


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return a reference to a model; the document defines the model and its parts."""
    _referred.add(model)
    return {"$ref": _REF.format(model=model.__name__)}


def _definitions() -> dict[str, Any]:
    """Return the schemas of the models that routes refer to, and of their parts, in the form of FastAPI's."""
    models = sorted(_referred, key=lambda model: model.__name__)
    found: dict[str, Any] = {}
    for model in models:
        found |= models_json_schema([(model, "validation")], ref_template=_REF)[1]["$defs"]
    return {
        name: jsonable_encoder(Schema.model_validate(schema), by_alias=True, exclude_none=True)
        for name, schema in found.items()
    }
