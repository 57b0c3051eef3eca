"""A scripted batch API in OpenAI's shape: files and batches over HTTP, with faults and counts.

`tests.support.provider` serves it next to its chat completions. Run it alone as `python -m tests.support.batch_provider
--port 0`; it prints its port. `POST /batch-script` changes its behaviour while it runs, and `GET /batch-stats` returns
its counts.

A batch's state follows from its age, so that nothing runs in the background. Its results are computed when it ends.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import orjson
import uvloop
from aiohttp import web

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ENDED = ("failed", "completed", "expired", "cancelled")
_ENDPOINT = "/v1/chat/completions"
_PAGE = 100  # most batches of a page of the list
_DEFAULT_PAGE = 20

# A function that returns the completion of a chat's body.
Complete = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass
class BatchScript:
    """The behaviour of the batch API; every share is a probability from 0 to 1."""

    validating_seconds: float = 0.0
    running_seconds: float = 0.0
    finalizing_seconds: float = 0.0
    cancelling_seconds: float = 0.0
    seed: int = 7
    list_lag_seconds: float = 0.0  # a batch is listed so long after its creation
    list_fails: bool = False  # every page of the list but the first gets status 500
    lost_uploads: float = 0.0  # share of uploads that take effect, but whose connection is cut before the reply
    lost_creates: float = 0.0
    cut_creates: float = 0.0  # share of creates that have no effect, and whose connection is cut
    lost_cancels: float = 0.0
    cut_contents: float = 0.0  # share of downloads that end in the middle
    ignores_range: bool = False
    share_malformed: float = 0.0  # lines whose reply has no JSON
    share_truncated: float = 0.0  # lines whose reply stopped at the token limit
    share_expired: float = 0.0  # lines with the error batch_expired
    share_missing: float = 0.0  # lines in no file, and not billed
    share_refused: float = 0.0  # lines with status 400 of their own
    share_overloaded: float = 0.0  # lines with status 503
    share_zero: float = 0.0  # lines with status 0
    refused_field: str = ""  # lines with this field get status 400
    without_usage: bool = False  # replies report no tokens
    refused_containing: str = ""  # lines with this text get status 400
    malformed_containing: str = ""
    done_share: float = 1.0  # part of the lines that is done when a batch expires or is cancelled
    ends: Literal["completed", "expired", "failed", "broken"] = "completed"  # a broken one fails while it runs
    errors: list[dict[str, Any]] = field(default_factory=list)  # errors of a batch that fails
    hides_files: bool = False  # batches show no files with results
    rejected_containing: str = ""  # a line with this text makes its batch fail
    names: Literal["all", "first", "none"] = "all"  # the lines that the errors of such a batch name
    rejected_above: int = 0  # a batch of more lines fails, and no line is named; 0: no limit
    enqueued_tokens: int = 0  # a batch above this limit fails after its creation; 0: no limit
    stuck: bool = False  # batches never make progress
    pretends: bool = False  # a server that reports success without doing the work
    forgets: bool = False  # lists show neither metadata nor input files
    knows_no_expiry: bool = False  # a file with a time at which it expires is refused
    lists_no_files: bool = False
    absent: bool = False  # a server without the API: every path gets status 404
    status: int = 0  # every request gets this status


@dataclass
class BatchStats:
    """Counts since the start or the last reset."""

    uploads: int = 0
    creates: int = 0  # batches made
    create_calls: int = 0
    lists: int = 0
    gets: int = 0
    cancels: int = 0
    contents: int = 0
    content_bytes: int = 0
    refused_creates: int = 0
    by_mark: Counter[str] = field(default_factory=Counter)  # batches made, by the value of their metadata `foreask`
    lines: Counter[str] = field(default_factory=Counter)  # lines that were billed, by prompt
    prompt_tokens: Counter[str] = field(default_factory=Counter)  # billed, by prompt
    completion_tokens: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)  # lines with faults, by fault


@dataclass
class _File:
    id: str
    filename: str
    purpose: str
    content: bytes
    created: float
    lasts: int = 2_592_000  # seconds

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "file",
            "bytes": len(self.content),
            "created_at": int(self.created),
            "expires_at": int(self.created) + self.lasts,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }


@dataclass
class _Batch:
    id: str
    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None
    created: float
    requests: list[dict[str, Any]]
    errors: list[dict[str, Any]] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)  # start of each state
    status: str = "validating"
    output_file_id: str | None = None
    error_file_id: str | None = None
    completed: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    model: str | None = None


class BatchEndpoints:
    """The routes of the batch API.

    Args:
        complete: returns the completion of a chat's body.
        script: initial behaviour.
    """

    def __init__(self, complete: Complete, script: BatchScript | None = None) -> None:
        self.script = script or BatchScript()
        self.stats = BatchStats()
        self._complete = complete
        self._random = random.Random(self.script.seed)
        self.files: dict[str, _File] = {}
        self.batches: dict[str, _Batch] = {}

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/files", self.upload),
            web.get("/v1/files", self.list_files),
            web.get("/v1/files/{id}", self.file),
            web.delete("/v1/files/{id}", self.delete),
            web.get("/v1/files/{id}/content", self.content),
            web.post("/v1/batches", self.create),
            web.get("/v1/batches", self.list),
            web.get("/v1/batches/{id}", self.get),
            web.post("/v1/batches/{id}/cancel", self.cancel),
            web.get("/batch-stats", self.report),
            web.post("/batch-script", self.rewrite),
            web.post("/batch-reset", self.reset),
        ]

    # Control

    async def report(self, request: web.Request) -> web.Response:
        """Return the counts; with `?containing=TEXT`, the counts of lines include only prompts with the text."""
        s, text = self.stats, request.query.get("containing", "")
        lines = [prompt for prompt in s.lines if text in prompt]
        return json_reply(
            {name: value for name, value in vars(s).items() if not isinstance(value, Counter)}
            | {
                "by_mark": dict(s.by_mark),
                "faults": dict(s.faults),
                "second_batches": sum(count - 1 for count in s.by_mark.values()),
                "lines": sum(s.lines[prompt] for prompt in lines),
                "lines_twice": sum(s.lines[prompt] - 1 for prompt in lines),
                "prompt_tokens": sum(s.prompt_tokens[prompt] for prompt in lines),
                "completion_tokens": sum(s.completion_tokens[prompt] for prompt in lines),
                "files": len(self.files),
                "file_seconds": [file.lasts for file in self.files.values()],
                "statuses": dict(Counter(self._advanced(batch).status for batch in self.batches.values())),
            }
        )

    async def rewrite(self, request: web.Request) -> web.Response:
        return await rewritten(self.script, request)

    def restore(self) -> None:
        """Reset all counts and faults."""
        vars(self.script).update(vars(BatchScript()))
        self._clear()

    async def reset(self, _: web.Request) -> web.Response:
        self._clear()
        return json_reply({})

    def _clear(self) -> None:
        self.stats = BatchStats()
        self.files.clear()
        self.batches.clear()
        self._random = random.Random(self.script.seed)

    # Files

    async def upload(self, request: web.Request) -> web.StreamResponse:
        if (fault := self._fault()) is not None:
            await request.read()
            return fault
        form = await request.post()
        file, purpose = form["file"], form["purpose"]
        assert isinstance(file, web.FileField)
        seconds = form.get("expires_after[seconds]")
        if seconds is not None and (self.script.knows_no_expiry or form["expires_after[anchor]"] != "created_at"):
            return _error(400, "Unknown parameter: 'expires_after'.", "invalid_request_error")
        lasts = 2_592_000 if seconds is None else int(str(seconds))
        made = _File(_id("file"), file.filename, str(purpose), file.file.read(), time.time(), lasts)
        self.files[made.id] = made
        self.stats.uploads += 1
        return await self._reply(request, made.shown(), self.script.lost_uploads)

    async def list_files(self, request: web.Request) -> web.Response:
        """Return a page of two files, newest first; `after` is the id of the last file of the page before."""
        if (fault := self._fault()) is not None:
            return fault
        if self.script.lists_no_files:
            return _not_found("page")
        listed = [file for file in self.files.values() if file.purpose == request.query.get("purpose", file.purpose)]
        ids = [file.id for file in listed][::-1]
        first = ids.index(request.query["after"]) + 1 if "after" in request.query else 0
        page = [self.files[id_].shown() for id_ in ids[first : first + 2]]
        return json_reply({"object": "list", "data": page, "has_more": len(ids) > first + 2})

    async def file(self, request: web.Request) -> web.Response:
        found = self.files.get(request.match_info["id"])
        return json_reply(found.shown()) if found else _not_found("file")

    async def delete(self, request: web.Request) -> web.Response:
        found = self.files.pop(request.match_info["id"], None)
        return json_reply({"id": found.id, "object": "file", "deleted": True}) if found else _not_found("file")

    async def content(self, request: web.Request) -> web.StreamResponse:
        if (fault := self._fault()) is not None:
            return fault
        found = self.files.get(request.match_info["id"])
        if found is None:
            return _not_found("file")
        body, first, status = found.content, 0, 200
        if not self.script.ignores_range and (wanted := request.headers.get("range", "")).startswith("bytes="):
            first = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if first >= len(body):
                return web.Response(status=416)
            status = 206
        sent = body[first:]
        self.stats.contents += 1
        cut = self._random.random() < self.script.cut_contents
        response = web.StreamResponse(status=status, headers={"content-type": "application/octet-stream"})
        response.content_length = len(sent)
        await response.prepare(request)
        part = sent[: len(sent) // 2] if cut else sent
        self.stats.content_bytes += len(part)
        for start in range(0, len(part), 65_536):
            await response.write(part[start : start + 65_536])
        if cut:
            _hang_up(request)
        else:
            await response.write_eof()
        return response

    # Batches

    async def create(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        self.stats.create_calls += 1
        if (fault := self._fault()) is not None:
            return fault
        if self._random.random() < self.script.cut_creates:
            _hang_up(request)
            return web.Response()
        file = self.files.get(body["input_file_id"])
        if file is None or file.purpose != "batch":
            self.stats.refused_creates += 1
            return _error(400, f"Invalid file id: {body['input_file_id']}", "invalid_request_error")
        if body["endpoint"] != _ENDPOINT or body["completion_window"] != "24h":
            return _error(400, "Unsupported endpoint or completion window", "invalid_request_error")
        requests, errors = _requests(file.content)
        batch = _Batch(
            _id("batch"),
            file.id,
            body["endpoint"],
            body["completion_window"],
            body.get("metadata"),
            time.time(),
            requests,
            errors or self._rejected(requests),
            model=requests[0]["body"]["model"] if requests else None,
        )
        self.batches[batch.id] = batch
        self.stats.creates += 1
        self.stats.by_mark[(batch.metadata or {}).get("foreask", "")] += 1
        self._limit(batch)
        return await self._reply(request, self._shown(batch), self.script.lost_creates)

    async def get(self, request: web.Request) -> web.Response:
        self.stats.gets += 1
        if (fault := self._fault()) is not None:
            return fault
        batch = self.batches.get(request.match_info["id"])
        return json_reply(self._shown(self._advanced(batch))) if batch else _not_found("batch")

    async def list(self, request: web.Request) -> web.Response:
        """Return a page, newest first; `after` is the id of the last batch of the page before."""
        self.stats.lists += 1
        if (fault := self._fault()) is not None:
            return fault
        after = request.query.get("after")
        if self.script.list_fails and after:
            return _error(500, "scripted failure")
        limit = min(_PAGE, int(request.query.get("limit", _DEFAULT_PAGE)))
        listed = [b for b in self.batches.values() if b.created + self.script.list_lag_seconds <= time.time()][::-1]
        if after:
            ids = [batch.id for batch in listed]
            if after not in ids:
                return _error(400, f"No batch with id {after}", "invalid_request_error")
            listed = listed[ids.index(after) + 1 :]
        page = [self._shown(self._advanced(batch)) for batch in listed[:limit]]
        if self.script.forgets:
            page = [batch | {"metadata": None, "input_file_id": ""} for batch in page]
        ends = {"first_id": page[0]["id"] if page else None, "last_id": page[-1]["id"] if page else None}
        return json_reply({"object": "list", "data": page, "has_more": len(listed) > limit} | ends)

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        if (fault := self._fault()) is not None:
            return fault
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return _not_found("batch")
        if self._advanced(batch).status in (*ENDED, "cancelling"):
            return _error(409, f"Cannot cancel a batch with status '{batch.status}'.", "invalid_request_error")
        self._move(batch, "cancelling")
        self.stats.cancels += 1
        return await self._reply(request, self._shown(batch), self.script.lost_cancels)

    # The life of a batch

    def _rejected(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the errors that make a batch of valid requests fail."""
        s = self.script
        if s.ends == "failed":
            return list(s.errors)
        if s.rejected_above and len(requests) > s.rejected_above:
            return [_problem("invalid_request", None, "This file is invalid.")]
        if not s.rejected_containing:
            return []
        prompts = [request["body"]["messages"][-1]["content"] for request in requests]
        numbers = [number for number, prompt in enumerate(prompts, 1) if s.rejected_containing in prompt]
        named = {"all": numbers, "first": numbers[:1], "none": [None] if numbers else []}[s.names]
        return [_problem("invalid_request", number, "This request is invalid.") for number in named]

    def _limit(self, batch: _Batch) -> None:
        """Fail a batch that exceeds the limit of enqueued tokens, as providers do after the creation."""
        s = self.script
        enqueued = sum(
            _prompt_tokens(r["body"]) for b in self.batches.values() if b.status not in ENDED for r in b.requests
        )
        if s.enqueued_tokens and enqueued > s.enqueued_tokens:
            batch.errors = [
                {
                    "code": "token_limit_exceeded",
                    "line": None,
                    "message": f"Enqueued token limit reached for {batch.model} in organization org-x."
                    f" Limit: {s.enqueued_tokens:,} enqueued tokens. Please try again once some in_progress batches"
                    " have been completed.",
                    "param": None,
                }
            ]

    def _advanced(self, batch: _Batch) -> _Batch:
        """Move a batch through the states that its age allows."""
        s = self.script
        while batch.status not in ENDED:
            age = time.time() - batch.times.get(batch.status, batch.created)
            if batch.status == "validating" and age >= s.validating_seconds:
                self._move(batch, "failed" if batch.errors or s.ends == "failed" else "in_progress")
            elif batch.status == "in_progress" and age >= s.running_seconds and not s.stuck:
                self._move(batch, {"completed": "finalizing", "broken": "failed"}.get(s.ends, "expired"))
            elif batch.status == "finalizing" and age >= s.finalizing_seconds:
                self._move(batch, "completed")
            elif batch.status == "cancelling" and age >= s.cancelling_seconds:
                self._move(batch, "cancelled")
            else:
                break
        return batch

    def _move(self, batch: _Batch, status: str) -> None:
        batch.status = status
        batch.times[status] = time.time()
        if status in ("completed", "expired", "cancelled") or (status == "failed" and "in_progress" in batch.times):
            done = len(batch.requests) if status == "completed" else int(len(batch.requests) * self.script.done_share)
            self._execute(batch, done, status)

    def _execute(self, batch: _Batch, done: int, status: str) -> None:
        """Compute the output and error files of a batch of which the first `done` lines were worked on."""
        output, errors = [], []
        if self.script.pretends:
            output = [f"Processed batch {batch.id}".encode()]
            done = len(batch.requests)
            batch.completed = done
        else:
            for number, request in enumerate(batch.requests):
                ended = "batch_expired" if status == "expired" else "batch_cancelled"
                line = self._line(batch, request) if number < done else _line_error(request, ended)
                if line is None:
                    continue
                good = line["error"] is None and line["response"]["status_code"] == 200
                batch.completed += good
                batch.failed += not good
                (output if good else errors).append(orjson.dumps(line))
        self._random.shuffle(output)  # the order of the lines is free
        batch.output_file_id = self._result(batch, output, "output")
        batch.error_file_id = self._result(batch, errors, "error")

    def _result(self, batch: _Batch, lines: list[bytes], name: str) -> str | None:
        if not lines:
            return None
        content = b"\n".join(lines) + b"\n"
        file = _File(_id("file"), f"{batch.id}_{name}.jsonl", "batch_output", content, time.time())
        self.files[file.id] = file
        return file.id

    def _line(self, batch: _Batch, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result of a request, and bill it; None if it is missing."""
        prompt = request["body"]["messages"][-1]["content"]
        field = self.script.refused_field
        fault = "refused" if field in request["body"] else self._line_fault(prompt)
        if fault:
            self.stats.faults[fault] += 1
        match fault:
            case "missing":
                return None
            case "expired":
                return _line_error(request, "batch_expired")
            case "refused":
                message = f"Unsupported parameter: '{field}'." if field else "This request is invalid."
                return _line_status(request, 400, message, "invalid_request_error")
            case "overloaded":
                return _line_status(request, 503, "The server is overloaded.", "server_error")
            case "zero":
                return _line_status(request, 0, "", None)
            case _:
                return self._answered(batch, request, fault)

    def _line_fault(self, prompt: str) -> str:
        s, draw = self.script, self._random.random()
        for name in ("refused", "malformed"):
            if (text := getattr(s, f"{name}_containing")) and text in prompt:
                return name
        for name in ("missing", "expired", "refused", "overloaded", "zero", "malformed", "truncated"):
            if draw < getattr(s, f"share_{name}"):
                return name
            draw -= getattr(s, f"share_{name}")
        return ""

    def _answered(self, batch: _Batch, request: dict[str, Any], fault: str) -> dict[str, Any]:
        body = self._complete(request["body"])
        choice = body["choices"][0]
        if fault == "malformed":
            choice["message"]["content"] = "Sure! Here are the questions: " + choice["message"]["content"][:20]
        if fault == "truncated":
            choice["message"]["content"] = choice["message"]["content"][:20]
            choice["finish_reason"] = "length"
        prompt, usage = request["body"]["messages"][-1]["content"], body["usage"]
        self.stats.lines[prompt] += 1
        self.stats.prompt_tokens[prompt] += usage["prompt_tokens"]
        self.stats.completion_tokens[prompt] += usage["completion_tokens"]
        batch.prompt_tokens += usage["prompt_tokens"]
        batch.completion_tokens += usage["completion_tokens"]
        if self.script.without_usage:
            del body["usage"]
        return _line(request, {"status_code": 200, "request_id": uuid4().hex, "body": body})

    def _shown(self, batch: _Batch) -> dict[str, Any]:
        times = {
            f"{status}_at": int(batch.times[status]) if status in batch.times else None
            for status in ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")
        }
        done = batch.status not in ("validating", "failed") or "in_progress" in batch.times
        errors = {"object": "list", "data": batch.errors} if batch.status == "failed" else None
        counted = {"completed": batch.completed, "failed": batch.failed, "total": len(batch.requests) if done else 0}
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "model": batch.model,
            "errors": errors,
            "input_file_id": batch.input_file_id,
            "completion_window": batch.completion_window,
            "status": batch.status,
            "output_file_id": None if self.script.hides_files else batch.output_file_id,
            "error_file_id": None if self.script.hides_files else batch.error_file_id,
            "created_at": int(batch.created),
            "expires_at": int(batch.created) + 86_400,
            "request_counts": counted,
            "usage": {
                "input_tokens": batch.prompt_tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": batch.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": batch.prompt_tokens + batch.completion_tokens,
            },
            "metadata": batch.metadata,
        } | times

    # Faults

    def _fault(self) -> web.Response | None:
        if self.script.absent:
            return _error(404, "Not Found")
        if self.script.status:
            return _error(self.script.status, "scripted status")
        return None

    async def _reply(self, request: web.Request, value: object, lost: float) -> web.StreamResponse:
        """Return a reply, or cut the connection after the request has taken effect."""
        if self._random.random() >= lost:
            return json_reply(value)
        _hang_up(request)
        return web.Response()


def _requests(content: bytes) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the requests of an input file, and the errors that make its batch fail."""
    requests, errors, ids = [], [], set[str]()
    for number, line in enumerate(content.splitlines(), 1):
        try:
            request = orjson.loads(line)
            known = request["method"] == "POST" and request["url"] == _ENDPOINT and request["body"]["messages"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            known = None
        if not known:
            errors.append(_problem("invalid_json_line", number, "This line is not parseable as valid JSON."))
        elif request["custom_id"] in ids:
            errors.append(_problem("duplicate_custom_id", number, "The custom_id for this request is a duplicate."))
        else:
            ids.add(request["custom_id"])
            requests.append(request)
    if len({request["body"]["model"] for request in requests}) > 1:
        errors.append(_problem("mismatched_model", None, "Only one model can be used in a batch."))
    if not content:
        errors.append(_problem("empty_file", None, "The input file is empty."))
    return requests, errors


def _problem(code: str, line: int | None, message: str) -> dict[str, Any]:
    return {"code": code, "line": line, "message": message, "param": None}


def _line(request: Mapping[str, Any], response: dict[str, Any] | None) -> dict[str, Any]:
    return {"id": _id("batch_req"), "custom_id": request["custom_id"], "response": response, "error": None}


def _line_error(request: Mapping[str, Any], code: str) -> dict[str, Any]:
    message = "This request could not be executed before the completion window expired."
    return _line(request, None) | {"error": {"code": code, "message": message}}


def _line_status(request: Mapping[str, Any], status: int, message: str, kind: str | None) -> dict[str, Any]:
    error = {"error": {"message": message, "type": kind, "param": None, "code": None}}
    return _line(request, {"status_code": status, "request_id": uuid4().hex, "body": error})


def completion_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a completion with two questions of the prompt's words."""
    prompt = body["messages"][-1]["content"]
    words = prompt.split()[-6:]
    content = orjson.dumps({"questions": [f"What is {' '.join(words)}?", f"Who knows {' '.join(words)}?"]}).decode()
    prompt_tokens, completion_tokens = _prompt_tokens(body), len(content) // 4
    return {
        "id": _id("chatcmpl"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _prompt_tokens(body: Mapping[str, Any]) -> int:
    return len(body["messages"][-1]["content"]) // 4


def _id(kind: str) -> str:
    return f"{kind}_{uuid4().hex}"


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()  # type: ignore[attr-defined]  # it is a socket's


async def rewritten(script: DataclassInstance, request: web.Request) -> web.Response:
    """Set the fields of a script that a request names."""
    names = {field.name for field in fields(script)}
    for name, value in orjson.loads(await request.read()).items():
        if name not in names:
            return json_reply({"error": f"no such setting: {name}"}, status=400)
        setattr(script, name, value)
    return json_reply({})


def json_reply(value: object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json", status=status)


def _error(status: int, message: str, kind: str = "scripted") -> web.Response:
    return json_reply({"error": {"message": message, "type": kind, "param": None, "code": None}}, status)


def _not_found(kind: str) -> web.Response:
    return _error(404, f"No such {kind}.", "invalid_request_error")


def application(script: BatchScript | None = None) -> tuple[web.Application, BatchEndpoints]:
    """Return a server of the batch API alone, and its endpoints."""
    endpoints = BatchEndpoints(completion_of, script)
    app = web.Application(client_max_size=256 * 1024 * 1024)
    app.add_routes(endpoints.routes())
    return app, endpoints


async def serve(host: str, port: int) -> None:
    app, _ = application()
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    with suppress(KeyboardInterrupt):
        uvloop.run(serve(arguments.host, arguments.port))


if __name__ == "__main__":
    main()
