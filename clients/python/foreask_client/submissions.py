"""Upload requests: the fields that all kinds of upload share, as a form, as JSON, or as lines of a batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypedDict

import httpx

from foreask_client.models import BatchLine, Document, Json, Lane
from foreask_client.requests import Request, as_type, given, post
from foreask_client.uploads import Attachment


class DocumentFields(TypedDict, total=False):
    """Fields of a document, which every kind of upload accepts as keyword arguments.

    Attributes:
        collection: name of the collection; the first upload creates it. Default: `default`.
        external_id: your name for the document. Default: the filename.
        title: default: from the content.
        metadata: an object to filter by.
        readable_by: its readers: `everyone`, `user:NAME` and `group:NAME`. None: as before.
        questions: ready-made questions, each a text or `{"text", "quote"}`. An empty list means no questions; None
            means that a language model writes them.
        lane: `interactive` (default), `bulk`, which has lower priority, or `batch`: the questions are generated
            within a day through the model's batch API.
        job: id of an open load that the document belongs to.
    """

    collection: str
    external_id: str | None
    title: str | None
    metadata: Json | None
    readable_by: Sequence[str] | None
    questions: Sequence[str | Mapping[str, str]] | None
    lane: Lane | None
    job: str | None


def document_body(fields: DocumentFields) -> Json:
    """Return the fields as a JSON body.

    Raises:
        TypeError: a field does not exist.
    """
    unknown = sorted(fields.keys() - DocumentFields.__annotations__.keys())
    if unknown:
        raise TypeError(f"an upload has no argument {unknown[0]!r}")
    body: Json = {"collection": "default"} | given(fields)
    if "questions" in body:
        body["questions"] = [q if isinstance(q, str) else dict(q) for q in body["questions"]]
    return body


def form_request(body: Json, file: Attachment, wait_seconds: int | None) -> Request[Document]:
    form = {name: value if isinstance(value, str) else json.dumps(value) for name, value in body.items()}
    return Request(
        "POST",
        "/v1/documents",
        as_type(Document),
        form=form,
        file=file,
        headers=_prefer(wait_seconds),
        repeatable=True,
        slow=True,
    )


def json_request(body: Json, wait_seconds: int | None = None) -> Request[Document]:
    return post("/v1/documents", Document, body, headers=_prefer(wait_seconds), repeatable=True, slow=True)


def batch_request(
    collection: str, lane: Lane | None, job: str | None, lines: Sequence[bytes]
) -> Request[list[BatchLine]]:
    return Request(
        "POST",
        "/v1/documents:batch",
        _batch_lines,
        params={"collection": collection} | given({"lane": lane, "job": job}),
        content=b"\n".join(lines),
        headers={"content-type": "application/x-ndjson"},
        repeatable=True,
        slow=True,
    )


def _prefer(wait_seconds: int | None) -> dict[str, str]:
    return {} if wait_seconds is None else {"prefer": f"wait={wait_seconds}"}


def _batch_lines(response: httpx.Response) -> list[BatchLine]:
    return [BatchLine.model_validate_json(line) for line in response.content.split(b"\n") if line.strip()]
