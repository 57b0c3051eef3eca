"""The client of batch APIs in OpenAI's shape: files, batches and their results.

No call is repeated here. The reply of `create` may be lost although the batch exists, and no provider has a key that
would make a second call harmless, so the caller lists the batches before every create.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from shared.domain.errors import ForeaskError, Permanent, Refused, Transient, Unavailable
from shared.providers.errors.answers import ErrorAnswer, refusal
from shared.providers.provider import Provider
from shared.providers.replies.chat import Completion, completion_in, usage_of
from shared.providers.replies.reading import reading

if TYPE_CHECKING:
    from httpx2 import Response

ENDPOINT = "/v1/chat/completions"
MARK = "foreask"  # key of the metadata with the id of our row
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_WINDOW = "24h"
_PAGE = 100
_FILE_LASTS = timedelta(days=7)  # as long as the leases of a batch's lines
_MOST_PAGES = 1_000  # a server whose pages never end is an error, and no complete list
_CLOCKS_DIFFER = timedelta(minutes=10)  # between ours and the provider's
_BLOCK_BYTES = 1 << 16
_LONGEST_LINE_BYTES = 16 << 20  # no reply to our requests is longer
_BEYOND_THE_END = 416
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class BatchMissing(Permanent):
    """The provider has no such file or batch, or no batch API."""


@dataclass(frozen=True, slots=True)
class BatchError:
    """An error of a batch that the provider has failed as a whole.

    Args:
        code: the provider's code; None without a code, and if the code is not a word.
        message: the provider's message, which may contain an organisation or a part of the key: do not show it.
        line: number of the line in the input file, from 1; None if the provider names none.
    """

    code: str | None
    message: str
    line: int | None


@dataclass(frozen=True, slots=True)
class ProviderBatch:
    """A batch as the provider reports it.

    Args:
        status: `validating`, `in_progress`, `finalizing`, `completed`, `failed`, `expired`, `cancelling`, `cancelled`.
        mark: the metadata that `create` has set; None if the provider returns none.
        done: number of requests with a result.
        errors: errors of a failed batch.
    """

    id: str
    status: str
    input_file_id: str
    created_at: datetime
    mark: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    done: int = 0
    errors: tuple[BatchError, ...] = ()

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    @property
    def was_rejected(self) -> bool:
        """Whether no request was executed, because the provider rejected the batch as a whole."""
        return self.status == "failed" and not (self.done or self._has_files)

    @property
    def has_lost_results(self) -> bool:
        """Whether the provider executed requests, but has no file with their results."""
        return self.status == "failed" and self.done > 0 and not self._has_files

    @property
    def _has_files(self) -> bool:
        return bool(self.output_file_id or self.error_file_id)


@dataclass(frozen=True, slots=True)
class BatchReply:
    """The result of one line: the completion, or the error that a live call would have raised.

    Args:
        status: status of the answer; 0 without one.
        body: its JSON.
    """

    custom_id: str
    result: Completion | ForeaskError
    status: int = 0
    body: Any = None


@dataclass(frozen=True, slots=True)
class ResultLine:
    """A line of a file, without its end, and the offset of the next line in bytes."""

    content: bytes
    end: int


class BatchProvider(Provider):
    """The batch API of an OpenAI-compatible provider; close it with `aclose`."""

    _expires = True  # whether files are sent with a time at which they expire

    @property
    def _raw(self) -> type[Response]:
        """The type of replies that the SDK does not read."""
        from httpx2 import Response  # noqa: PLC0415 - as in `Provider._sdk`

        return Response

    async def upload(self, name: str, content: BinaryIO) -> str:
        """Upload an input file; return its id. A file that is uploaded twice costs nothing.

        The provider deletes the file after a week if it knows the field `expires_after`: the process may die before it
        stores the id, and the provider may list no files.

        Raises:
            RateLimited, Unavailable, Refused: as `Provider.post_any`.
            BatchMissing: the server has no files.
        """
        if self._expires:
            anchor = {"anchor": "created_at", "seconds": int(_FILE_LASTS.total_seconds())}
            try:
                return await self._upload(name, content, {"expires_after": anchor})
            except Refused:  # perhaps because of the field; otherwise the second request is refused, too
                content.seek(0)
                file_id = await self._upload(name, content, {})
                self._expires = False
                return file_id
        return await self._upload(name, content, {})

    async def _upload(self, name: str, content: BinaryIO, fields: Mapping[str, Any]) -> str:
        with self._errors():
            response = await self._sdk.post(
                "/files",
                cast_to=self._raw,
                body={"purpose": "batch", **fields},
                files=[("file", (name, content, "application/jsonl"))],
                options={"headers": {"Content-Type": "multipart/form-data"}},
            )
        return _text(self._object(response), "id")

    async def input_files(self) -> list[tuple[str, str]]:
        """Return the ids and names of all input files of batches that the provider has.

        Raises:
            RateLimited, Unavailable, Refused: as `Provider.post_any`, also for a later page.
            BatchMissing: the server lists no files.
        """
        files: dict[str, str] = {}
        after: str | None = None
        for _ in range(_MOST_PAGES):
            query = {"purpose": "batch"} | ({"after": after} if after else {})
            data, has_more = await self._listed("/files", query)
            page = {_text(each, "id"): str(each.get("filename") or "") for each in data}
            if not page or page.keys() <= files.keys():
                return [*files.items()]
            files |= page
            if not has_more:
                return [*files.items()]
            after = next(reversed(page))
        raise Unavailable("the list of files does not end", component=self.component, answered=True)

    async def delete_file(self, file_id: str) -> None:
        """Delete a file, if it exists.

        Raises:
            RateLimited, Unavailable, Refused: as `Provider.post_any`.
        """
        try:
            with self._errors():
                await self._sdk.delete(f"/files/{file_id}", cast_to=self._raw)
        except BatchMissing:
            return

    async def create(self, input_file_id: str, mark: str) -> ProviderBatch:
        """Create a batch with a mark in its metadata. After any error but Refused, the batch may exist.

        Raises:
            RateLimited, Unavailable: as `Provider.post_any`.
            Refused: the provider has rejected the request, so the batch does not exist.
            BatchMissing: the server has no batches.
        """
        body = {
            "input_file_id": input_file_id,
            "endpoint": ENDPOINT,
            "completion_window": _WINDOW,
            "metadata": {MARK: mark},
        }
        with self._errors():
            response = await self._sdk.post("/batches", cast_to=self._raw, body=body)
        return _batch(self._object(response))

    async def get(self, batch_id: str) -> ProviderBatch:
        """Return a batch.

        Raises:
            RateLimited, Unavailable, Refused: as `Provider.post_any`.
            BatchMissing: the provider has no such batch.
        """
        with self._errors():
            response = await self._sdk.get(f"/batches/{batch_id}", cast_to=self._raw)
        return _batch(self._object(response))

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch. It ends later, with the results so far.

        Raises:
            RateLimited, Unavailable, Refused: as `Provider.post_any`; 409 if it has ended is Unavailable.
            BatchMissing: the provider has no such batch.
        """
        with self._errors():
            await self._sdk.post(f"/batches/{batch_id}/cancel", cast_to=self._raw)

    async def list_since(self, since: datetime) -> list[ProviderBatch]:
        """Return all batches that were created since a time, newest first: a complete list, or an error.

        Raises:
            RateLimited, Unavailable, Refused: as `Provider.post_any`, also for a later page.
            BatchMissing: the server has no list of batches.
        """
        found: list[ProviderBatch] = []
        after: str | None = None
        for _ in range(_MOST_PAGES):
            page, has_more = await self._page(after)
            found += page
            if not page or not has_more or page[-1].created_at < since - _CLOCKS_DIFFER:
                return found
            after = page[-1].id
        raise Unavailable("the list of batches does not end", component=self.component, answered=True)

    async def _page(self, after: str | None) -> tuple[list[ProviderBatch], bool]:
        query = {"limit": _PAGE} | ({"after": after} if after else {})
        batches, has_more = await self._listed("/batches", query)
        return [_batch(batch) for batch in batches], has_more

    async def _listed(self, path: str, query: Mapping[str, object]) -> tuple[list[Any], bool]:
        """Return the objects of a page of a list, and whether another page follows."""
        with self._errors():
            response = await self._sdk.get(path, cast_to=self._raw, options={"params": query})
        page = self._object(response)
        data = page.get("data")
        if not isinstance(data, list) or not all(isinstance(each, dict) for each in data):
            raise Unavailable("the provider sent no list", component=self.component, answered=True)
        return data, bool(page.get("has_more"))

    async def lines(self, file_id: str, offset: int) -> AsyncGenerator[ResultLine, None]:
        """Yield the lines of a file from an offset in bytes; the last one need not have an end.

        Raises:
            RateLimited, Unavailable, Refused: as `Provider.post_any`; also if the connection breaks between two lines.
            BatchMissing: the provider has no such file any more.
        """
        rest, end = bytearray(), offset
        async with aclosing(self._content(file_id, offset)) as blocks:
            async for block in blocks:
                rest += block
                *whole, last = rest.split(b"\n")
                if len(last) > _LONGEST_LINE_BYTES:
                    raise Unavailable("the provider sent an endless line", component=self.component, answered=True)
                for line in whole:
                    end += len(line) + 1
                    yield ResultLine(bytes(line), end)
                rest = last
        if rest:
            yield ResultLine(bytes(rest), end + len(rest))

    async def _content(self, file_id: str, offset: int) -> AsyncGenerator[bytes, None]:
        # An encoded reply would count the encoded bytes.
        headers = {"Range": f"bytes={offset}-", "Accept-Encoding": "identity"} if offset else {}
        try:
            with self._errors():
                async with self._sdk.files.with_streaming_response.content(file_id, extra_headers=headers) as reply:
                    skipped = 0 if reply.status_code == HTTPStatus.PARTIAL_CONTENT else offset
                    async for block in reply.iter_bytes(_BLOCK_BYTES):
                        part, skipped = block[skipped:], max(0, skipped - len(block))
                        if part:
                            yield part
        except _RangeNotSatisfiable:
            return

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors as for other calls, but distinguish a missing object from a missing model."""
        from shared.providers.sdk import sdk_errors, status_of  # noqa: PLC0415 - as in `Provider._sdk`

        try:
            with sdk_errors(self.component, self._key, timeout=self._timeout):
                yield
        except ForeaskError as error:
            status = status_of(error)
            if status == HTTPStatus.NOT_FOUND:
                raise BatchMissing(f"the {self.component} provider has no such file or batch") from error
            if status == _BEYOND_THE_END:
                raise _RangeNotSatisfiable(error.message) from error
            raise

    def _object(self, response: Response) -> Mapping[str, Any]:
        try:
            value = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            raise Unavailable(
                f"the {self.component} provider sent no JSON object", component=self.component, answered=True
            )
        return value

    def reply(self, line: bytes) -> BatchReply | None:
        """Return the result in a line of an output or error file; None if the line names no request."""
        try:
            value = orjson.loads(line)
            custom_id = value["custom_id"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return None
        if not isinstance(custom_id, str):
            return None
        response = value.get("response")
        response = response if isinstance(response, dict) else {}
        return BatchReply(custom_id, self._result(value), _number(response.get("status_code")), response.get("body"))

    def rejection(self, error: BatchError) -> ForeaskError:
        """Return the error that a live call would have raised, and log the provider's message."""
        said = {"code": error.code, "message": error.message, "type": "invalid_request_error", "param": None}
        try:
            self._completion(int(HTTPStatus.BAD_REQUEST), {"error": said})
        except ForeaskError as converted:
            return converted
        raise AssertionError("a status of 400 is an error")

    def _result(self, line: Mapping[str, Any]) -> Completion | ForeaskError:
        response = line.get("response")
        if not isinstance(response, dict):
            error = line.get("error")
            code = error.get("code") if isinstance(error, dict) else None
            return NotDone(f"the batch has no reply to this request ({code if isinstance(code, str) else 'no code'})")
        try:
            return self._completion(response.get("status_code"), response.get("body"))
        except ForeaskError as error:
            return error

    def _completion(self, status: object, body: object) -> Completion:
        if status == HTTPStatus.OK and isinstance(body, dict):
            if (error := ErrorAnswer.in_reply({}, body)) is not None:
                raise refusal(error, self.component, self._key)
            with reading(self.component, lambda: usage_of(body.get("usage"))):
                return completion_in(body, has_schema=True)
        if not isinstance(status, int) or status < HTTPStatus.BAD_REQUEST:
            raise NotDone(f"the batch has no reply to this request (status {status})")
        raise refusal(ErrorAnswer.of(status, {}, body), self.component, self._key)


class NotDone(Transient):
    """A line that the batch did not execute."""


class _RangeNotSatisfiable(Permanent):
    """A range that starts at the end of its file."""


def request_line(custom_id: str, body: Mapping[str, Any]) -> bytes:
    """Return the line of an input file for one chat completion, with its end."""
    return orjson.dumps({"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body}) + b"\n"


def found(batches: Sequence[ProviderBatch], mark: str, input_file_id: str) -> ProviderBatch | None:
    """Return the batch with our mark, or else with our input file, which no other batch has."""
    by_mark = next((batch for batch in batches if batch.mark == mark), None)
    return by_mark or next((batch for batch in batches if batch.input_file_id == input_file_id), None)


def _batch(value: object) -> ProviderBatch:
    """Read a batch; servers leave out optional fields, and some the counts."""
    if not isinstance(value, dict):
        raise Unavailable("the provider sent no batch", component="llm", answered=True)
    metadata = value.get("metadata")
    counts = value.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    return ProviderBatch(
        id=_text(value, "id"),
        status=_text(value, "status"),
        input_file_id=str(value.get("input_file_id") or ""),
        created_at=_time(value.get("created_at")),
        mark=metadata.get(MARK) if isinstance(metadata, dict) else None,
        output_file_id=value.get("output_file_id") or None,
        error_file_id=value.get("error_file_id") or None,
        done=sum(_number(counts.get(name)) for name in ("completed", "failed")),
        errors=_errors(value.get("errors")),
    )


def _errors(errors: object) -> tuple[BatchError, ...]:
    data = errors.get("data") if isinstance(errors, dict) else None
    return tuple(_error(each) for each in data if isinstance(each, dict)) if isinstance(data, list) else ()


def _error(value: Mapping[str, Any]) -> BatchError:
    code, line = value.get("code"), value.get("line")
    is_word = isinstance(code, str) and _CODE.fullmatch(code)
    return BatchError(code if is_word else None, str(value.get("message") or ""), line if type(line) is int else None)


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str) or not text:
        raise Unavailable(f"the provider sent no {name}", component="llm", answered=True)
    return text


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _time(value: object) -> datetime:
    """Return a time in seconds since 1970; a missing one is the newest possible, so that no search ends there."""
    if not isinstance(value, (int, float)):
        return datetime.max.replace(tzinfo=UTC)
    return datetime.fromtimestamp(value, UTC)
