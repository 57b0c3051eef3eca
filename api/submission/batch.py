"""Many small documents in one request: lines are read, stored in packs, and answered in order."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from starlette.requests import ClientDisconnect
from starlette.types import Scope

from api.http.ndjson import Line
from api.schemas.documents import BatchLine, BatchResult, DocumentView
from api.submission.submission import content_of, described_by, new_document, submit
from api.submission.upload_guard import UploadGuard
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.documents import NewDocument
from shared.domain.errors import ForeaskError, Rejected, TooLarge, Transient
from shared.domain.lanes import Lane
from shared.http.access.quotas import Quotas
from shared.http.bodies import decode_beside, parse_json, validate_as
from shared.http.openapi import NDJSON
from shared.http.problems import log_failure, problem_of
from shared.http.schemas.problems import ProblemDetails
from shared.ledger.documents.submission import Submission
from shared.services.api import ApiServices
from shared.storage.uploads import Upload, too_large

MEDIA_TYPES = {NDJSON, "application/jsonl", "application/ndjson", "application/jsonlines"}
MOST_BYTES = 1 << 30  # of a request
MOST_LINES = 10_000  # of a request: all replies may have to be held in memory, 8 MB
_GROUP_LINES = 200  # stored in one pack and written in one transaction
_GROUP_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class _Document:
    """A document that a line describes; its bytes are not stored yet."""

    line: int
    new: NewDocument
    content: bytes


@dataclass(frozen=True, slots=True)
class _Refusal:
    line: int
    external_id: str | None
    error: ForeaskError


class DocumentBatch:
    """The documents of one request.

    Args:
        services: dependencies of the routes.
        collection: their collection.
        lane: their lane.
        quotas: limits of the tenant.
        scope: scope of the request; the log names its route.
        job_id: their load; None without one.
    """

    def __init__(
        self,
        services: ApiServices,
        collection: Collection,
        lane: Lane,
        quotas: Quotas,
        scope: Scope,
        *,
        job_id: UUID | None = None,
    ) -> None:
        self._services = services
        self._lane = lane
        self._quotas = quotas
        self._collection = collection
        self._scope = scope
        self._job_id = job_id
        self._stopped: Transient | None = None  # a component is unavailable: further lines are not tried

    async def receive(self, lines: AsyncGenerator[Line, None]) -> AsyncGenerator[bytes, None]:
        """Process the lines, and yield their replies.

        A document with a reply is durable. The reply has started with status 200, so an error that ends the request is
        also a line: the last one.
        """
        last = 0
        try:
            async with aclosing(_groups(lines)) as groups:
                async for group in groups:
                    yield await self._process(group)
                    last = group[-1].number
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001  only a line can still report the error
            if not isinstance(error, Rejected):
                log_failure(error, self._scope)
            yield _encode([_problem(last + 1, None, error)])

    async def _process(self, group: Sequence[Line]) -> bytes:
        size = sum(len(line.content or b"") for line in group)
        read = await decode_beside(size, partial(self._read, group))
        documents = [each for each in read if isinstance(each, _Document)]
        submissions = await self._submit(documents) if documents else {}
        return _encode([self._result(each, submissions) for each in read])

    def _read(self, group: Sequence[Line]) -> list[_Document | _Refusal]:
        return [self._read_line(line) for line in group]

    def _read_line(self, line: Line) -> _Document | _Refusal:
        external_id = None
        try:
            if line.content is None:
                most = self._services.settings.max_json_bytes
                raise TooLarge(f"The line is longer than {most:,} bytes (FOREASK_MAX_JSON_BYTES).")
            value = parse_json(line.content)
            external_id = _external_id(value)
            return self._read_document(line.number, validate_as(BatchLine, value))
        except Rejected as error:
            return _Refusal(line.number, external_id, error)

    def _read_document(self, line: int, body: BatchLine) -> _Document:
        content = content_of(body)
        if len(content) > self._services.settings.max_upload_bytes:
            raise too_large(self._services.settings.max_upload_bytes)
        unstored = Upload("", len(content), hashlib.sha256(content).digest())
        description = described_by(body, body.filename, body.media_type)
        new = new_document(body, description, unstored, self._collection, lane=self._lane, job_id=self._job_id)
        return _Document(line, new, content)

    async def _submit(self, documents: Sequence[_Document]) -> Mapping[int, Submission | ForeaskError]:
        """Store documents and insert their rows; return the result of each line."""
        if self._stopped is not None:
            return dict.fromkeys((document.line for document in documents), self._stopped)
        try:
            async with UploadGuard(self._services.uploads) as guard:
                uploads = await guard.store_pack([document.content for document in documents])
                stored = [
                    replace(document.new, upload=upload.name)
                    for document, upload in zip(documents, uploads, strict=True)
                ]
                submissions = await submit(stored, guard, self._services, self._quotas)
        except ForeaskError as error:
            if not isinstance(error, Rejected):
                log_failure(error, self._scope)
            if isinstance(error, Transient):
                self._stopped = error
            return dict.fromkeys((document.line for document in documents), error)
        return {document.line: done for document, done in zip(documents, submissions, strict=True)}

    def _result(self, read: _Document | _Refusal, submissions: Mapping[int, Submission | ForeaskError]) -> BatchResult:
        if isinstance(read, _Refusal):
            return _problem(read.line, read.external_id, read.error)
        done = submissions[read.line]
        if isinstance(done, ForeaskError):
            return _problem(read.line, read.new.external_id, done)
        shown = DocumentView.of(replace(done.document, metadata=None), self._services.settings)
        status = 202 if done.accepted else 200
        return BatchResult(line=read.line, status=status, external_id=shown.external_id, document=shown)


async def _groups(lines: AsyncGenerator[Line, None]) -> AsyncGenerator[list[Line], None]:
    """Yield lines in groups that are processed and held in memory together.

    Raises:
        TooLarge: there are too many lines; raised after the client has sent all of them.
    """
    group, size, count = list[Line](), 0, 0
    async with aclosing(lines):
        async for line in lines:
            count += 1
            if count <= MOST_LINES:
                group.append(line)
                size += len(line.content or b"")
            if group and (len(group) == _GROUP_LINES or size >= _GROUP_BYTES):
                yield group
                group, size = [], 0
    if group:
        yield group
    if count > MOST_LINES:
        raise TooLarge(f"A batch has at most {MOST_LINES:,} documents: send the rest in another batch.")


def _problem(line: int, external_id: str | None, error: Exception) -> BatchResult:
    problem = ProblemDetails(**problem_of(error))
    named = {} if external_id is None else {"external_id": external_id}
    return BatchResult(line=line, status=problem.status, error=problem, **named)


def _external_id(value: object) -> str | None:
    """Return the external id of a line, if it is readable."""
    name = value.get("external_id") if isinstance(value, dict) else None
    return name if isinstance(name, str) else None


def _encode(results: Sequence[BatchResult]) -> bytes:
    return b"".join(result.model_dump_json(exclude_unset=True).encode() + b"\n" for result in results)
