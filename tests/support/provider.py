"""A scripted OpenAI-compatible provider: chat completions and embeddings over HTTP, with faults and counts.

Run it as `python -m tests.support.provider --port 0`; it prints its port. `POST /script` changes its behaviour while it
runs, `GET /stats` returns the counted calls, and `POST /restore` resets both.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import random
import re
import time
import zlib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
import uvloop
from aiohttp import web
from numpy.typing import NDArray

from tests.support.batch_provider import BatchEndpoints, json_reply, rewritten

DIMENSIONS = 384
_POLL_SECONDS = 0.02
_WORD = re.compile(r"\w+")
_REWRITES = {"hypothetical_answer", "queries", "step_back_question", "entities"}


@dataclass
class Script:
    """The provider's behaviour; every share is a probability from 0 to 1."""

    latency_seconds: float = 0.0
    latency_spread_seconds: float = 0.0  # calls take up to so much longer
    held: bool = False  # chats are answered when this becomes false
    embedding_latency_seconds: float = 0.0
    embedding_status: int = 0  # every embedding request gets this status
    embedding_dimensions: int = 0  # size of all vectors, whatever is requested
    questions: int = 5  # per reply; 0: the number in the prompt
    seed: int = 7
    share_500: float = 0.0
    share_hang: float = 0.0
    share_truncated: float = 0.0
    share_malformed: float = 0.0
    share_drip: float = 0.0
    requests_per_minute: int = 0  # 0: no limit; a sliding window of one minute scaled to `window_seconds`
    window_seconds: float = 60.0
    retry_after_seconds: float = 1.0
    refuse_containing: str = ""  # embedding requests with this text get the status below
    refuse_chats_containing: str = ""  # chats with this text get it
    refuse_status: int = 400
    malformed_containing: str = ""  # chats with this text always get broken JSON
    hostile: bool = False  # questions contain a NUL and half of a surrogate pair
    down: bool = False  # every request gets status 503
    status: int = 0  # every chat gets this status
    error: dict[str, Any] = field(default_factory=dict)  # fields of the errors, such as `message` and `code`
    rewriting: dict[str, Any] = field(default_factory=dict)  # fields of the replies to calls that rewrite a question
    rewrite_fault: str = ""  # fault of those calls: `hang`, `rubbish` or `500`
    condensed: str = ""  # the question that a conversation is condensed into
    rerank_fault: str = ""  # `hang`, `rubbish`, `nan`, `indexes` or `500`
    rerank_list: bool = False  # results as a bare list with the field `score`
    billed_replies: list[int] = field(default_factory=list)  # lowest and highest number of billed tokens of a reply
    share_no_capacity: float = 0.0  # flex calls that are refused because no capacity is left
    no_capacity: dict[str, Any] = field(default_factory=lambda: {"status": 429, "code": "resource_unavailable"})
    refuses_tier: bool = False  # calls with a service tier get status 400
    reply_tier: str = ""  # tier of all replies; default: the requested one, and none without a request
    usage: dict[str, Any] = field(default_factory=dict)  # fields of the usage of chats that replace the counted ones
    reads_pictures: bool = True  # False: chats with a picture get status 400
    described: str = "A bar chart of the herring catch"  # description of every picture; its hash follows
    context: dict[str, Any] = field(
        default_factory=lambda: {
            "context": "From the notices of the port of Oban on the Scottish coast, for the masters of all vessels.",
            "terms": [
                "quay",
                "opening times",
                "docking",
                "marina",
                "berth",
                "seaport",
                "when can boats enter",
                "jetty",
            ],
        }
    )  # fields of a reply to a call that asks for a context, next to the questions
    answer: str = "The documents say so [1]."  # text of replies without a schema
    answer_finish: str = "stop"  # finish reason of answers; empty: a stream ends without a sign of its end
    caches_prompts: bool = False  # prompts of 1,024 tokens are written to a cache and read from it, as of GPT-5.6


@dataclass
class Stats:
    chats: Counter[str] = field(default_factory=Counter)  # calls received, by prompt
    answered: Counter[str] = field(default_factory=Counter)  # complete replies with status 200, by prompt
    spoilt: Counter[str] = field(default_factory=Counter)  # useless replies among `answered`, by prompt
    abandoned: Counter[str] = field(default_factory=Counter)  # `answered` after the caller had disconnected, by prompt
    prompts: dict[str, str] = field(default_factory=dict)  # text of a prompt by its key in the counters
    prompt_tokens: Counter[str] = field(default_factory=Counter)  # billed for chats, by prompt
    completion_tokens: Counter[str] = field(default_factory=Counter)
    embeddings: int = 0
    embedded_inputs: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    in_flight: int = 0
    peak_in_flight: int = 0
    arrivals: list[float] = field(default_factory=list)
    reranks: list[dict[str, Any]] = field(default_factory=list)  # received bodies
    headers: dict[str, dict[str, str]] = field(default_factory=dict)  # headers of the last call of each kind
    bodies: list[dict[str, Any]] = field(default_factory=list)  # bodies of the last chats, without their messages
    bills: dict[str, Counter[str]] = field(
        default_factory=dict
    )  # billed calls and tokens of chats by tier of the reply


_BY_PROMPT = ("chats", "answered", "spoilt", "abandoned", "prompt_tokens", "completion_tokens")


class ScriptedEndpoints:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.stats = Stats()
        self._random = random.Random(script.seed)
        self._window: list[float] = []
        self._digests: dict[str, int] = {}
        self._chats: list[web.Request] = []
        self.batches = BatchEndpoints(self._complete)
        self._cached_prefixes: set[str] = set()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=256 * 1024 * 1024)
        app.add_routes(
            [
                web.post("/v1/chat/completions", self.chat),
                web.post("/v1/embeddings", self.embed),
                web.post("/v1/rerank", self.rerank),
                web.get("/v1/models", self.models),
                web.get("/stats", self.report),
                web.post("/script", self.rewrite),
                web.post("/reset", self.reset),
                web.post("/restore", self.restore),
                *self.batches.routes(),
            ]
        )
        return app

    async def models(self, _: web.Request) -> web.Response:
        return json_reply({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    async def report(self, request: web.Request) -> web.Response:
        """Return the counts; with `?containing=TEXT`, only the calls whose prompts contain the text."""
        s = self._stats_of(request.query["containing"]) if "containing" in request.query else self.stats
        return json_reply(
            {
                "chats": dict(s.chats),
                "answered": dict(s.answered),
                "calls": s.chats.total(),
                "paid_twice": sum(max(0, n - s.spoilt[key] - 1) for key, n in s.answered.items()),
                "abandoned": s.abandoned.total() + sum(chat.transport is None for chat in self._chats),
                # Repeated calls whose earlier reply reached a connected caller.
                "repeated": sum(max(0, n - s.spoilt[key] - s.abandoned[key] - 1) for key, n in s.answered.items()),
                "prompt_tokens": s.prompt_tokens.total(),
                "completion_tokens": s.completion_tokens.total(),
                "embeddings": s.embeddings,
                "embedded_inputs": s.embedded_inputs,
                "statuses": {str(k): v for k, v in s.statuses.items()},
                "in_flight": s.in_flight,
                "awaited": sum(
                    chat.transport is not None for chat in self._chats
                ),  # calls whose callers are still connected
                "peak_in_flight": s.peak_in_flight,
                "arrivals": s.arrivals,
                "reranks": s.reranks,
                "headers": s.headers,
                "bodies": s.bodies,
                "bills": {tier: dict(bill) for tier, bill in s.bills.items()},
            }
        )

    def _stats_of(self, text: str) -> Stats:
        s = self.stats
        keys = {key for key, prompt in s.prompts.items() if text in prompt}
        parts = {name: Counter({k: n for k, n in getattr(s, name).items() if k in keys}) for name in _BY_PROMPT}
        return replace(s, **parts)

    async def rewrite(self, request: web.Request) -> web.Response:
        return await rewritten(self.script, request)

    async def reset(self, _: web.Request) -> web.Response:
        in_flight = self.stats.in_flight
        self.stats = Stats(in_flight=in_flight)
        self._window = []
        self._cached_prefixes = set()
        return json_reply({})

    async def restore(self, request: web.Request) -> web.Response:
        """Reset all counts and faults, also of the batch API."""
        vars(self.script).update(vars(Script()))
        self.batches.restore()
        return await self.reset(request)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        self.stats.headers["chat"] = {str(name): value for name, value in request.headers.items()}
        prompt = _text_of(body["messages"][-1])
        self.stats.bodies = [*self.stats.bodies[-9:], {name: body[name] for name in body if name != "messages"}]
        key = hashlib.sha256(orjson.dumps(body["messages"])).hexdigest()[:24]
        stats = self.stats
        stats.chats[key] += 1
        stats.prompts[key] = prompt
        stats.arrivals.append(time.time())
        stats.in_flight += 1
        self._chats.append(request)
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)
        try:
            response = await self._chat(stats, request, body, prompt, key)
        finally:
            stats.in_flight -= 1
            self._chats = [chat for chat in self._chats if chat is not request]
        stats.statuses[response.status] += 1
        return response

    async def _delay(self) -> None:
        s = self.script
        if s.latency_seconds or s.latency_spread_seconds:
            await asyncio.sleep(s.latency_seconds + random.uniform(0, s.latency_spread_seconds))
        while s.held:
            await asyncio.sleep(_POLL_SECONDS)

    async def _chat(
        self, stats: Stats, request: web.Request, body: dict[str, Any], prompt: str, key: str
    ) -> web.StreamResponse:
        s = self.script
        fault = (
            self._fault()
            or self._tier_fault(body.get("service_tier"))
            or self._picture_fault(body)
            or self._text_fault(body)
        )
        if fault is not None:
            return fault
        if self._rewrite_fault(body) == "500":
            return _error(500, "out of memory")
        draw = self._random.random()
        if draw < s.share_hang or self._rewrite_fault(body) == "hang":
            await asyncio.sleep(3600)
        await self._delay()
        stats.answered[key] += 1
        if request.transport is None:
            stats.abandoned[key] += 1
        if body.get("stream"):
            return await self._stream(request, prompt)
        content, finish = self._content(body, prompt), "stop" if "response_format" in body else s.answer_finish
        draw -= s.share_hang
        if 0 <= draw < s.share_truncated:
            content, finish = content[: len(content) // 2], "length"
            stats.spoilt[key] += 1
        draw -= s.share_truncated
        if 0 <= draw < s.share_malformed or (s.malformed_containing and s.malformed_containing in prompt):
            content = "Sure! Here are the questions:" + content[: len(content) // 2]
            stats.spoilt[key] += 1
        tier = s.reply_tier or body.get("service_tier")
        usage = self._billed(body, self._reply_tokens(body, content), tier) | s.usage
        stats.prompt_tokens[key] += usage["prompt_tokens"]
        stats.completion_tokens[key] += usage["completion_tokens"]
        reply = orjson.dumps(
            _completion(body, key, content, finish) | {"usage": usage} | ({"service_tier": tier} if tier else {})
        )
        draw -= s.share_malformed
        if 0 <= draw < s.share_drip:
            return await _drip(request, reply)
        return web.Response(body=reply, content_type="application/json")

    def _complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the completion of a line of a batch, whose faults the batch has."""
        return _completion(body, "batch", self._content(dict(body), body["messages"][-1]["content"]), "stop")

    def _reply_tokens(self, body: dict[str, Any], content: str) -> int:
        """Return the number of billed tokens of a reply; a model that thinks bills more than its text."""
        if not self.script.billed_replies:
            return len(content) // 4
        return min(
            self._random.randint(*self.script.billed_replies), body.get("max_completion_tokens") or body["max_tokens"]
        )

    def _fault(self) -> web.Response | None:
        s = self.script
        if s.down:
            return _error(503, "the provider is down")
        if s.status:
            return self._refusal(s.status, "scripted status")
        if s.requests_per_minute and not self._admit():
            return _error(429, "rate limit", {"retry-after": str(s.retry_after_seconds)})
        if self._random.random() < s.share_500:
            return _error(500, "out of memory")
        return None

    def _tier_fault(self, tier: str | None) -> web.Response | None:
        s = self.script
        if tier is not None and s.refuses_tier:
            return json_reply(
                {"error": {"message": f"Unsupported service_tier: {tier}", "type": "invalid_request_error"}}, 400
            )
        if tier == "flex" and self._random.random() < s.share_no_capacity:
            code = s.no_capacity["code"]
            return json_reply(
                {"error": {"message": "no capacity", "type": code, "code": code}}, s.no_capacity["status"]
            )
        return None

    def _picture_fault(self, body: dict[str, Any]) -> web.Response | None:
        if self.script.reads_pictures or _picture_of(body["messages"][-1]) is None:
            return None
        return self._refusal(400, "this model does not support image inputs")

    def _text_fault(self, body: dict[str, Any]) -> web.Response | None:
        words = self.script.refuse_chats_containing
        if not words or words not in orjson.dumps(body["messages"]).decode():
            return None
        return self._refusal(self.script.refuse_status, "this text is blocked")

    def _billed(self, body: dict[str, Any], completion: int, tier: str | None) -> dict[str, Any]:
        """Return the usage of a chat, and add it to the bill of its tier."""
        prompt = len(_text_of(body["messages"][-1])) // 4
        details = {}
        if self.script.caches_prompts:
            prompt = sum(map(_tokens_of, body["messages"]))
            cached, written = self._cache(body)
            details = {"prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written}}
            self._bill(tier).update(cached_tokens=cached, cache_write_tokens=written)
        self._bill(tier).update(calls=1, prompt_tokens=prompt, completion_tokens=completion)
        return _usage(prompt, completion) | details

    def _bill(self, tier: str | None) -> Counter[str]:
        return self.stats.bills.setdefault(tier or "default", Counter())

    def _cache(self, body: dict[str, Any]) -> tuple[int, int]:
        """Return the tokens that are read from and written to the prompt cache.

        A prefix that ends with a breakpoint is cached if it has at least 1,024 tokens. Without the mode `explicit`, the
        end of the prompt is a breakpoint, too.
        """
        prefix, size, ends = "", 0, list[tuple[str, int]]()
        for message in body["messages"]:
            for part in _parts_of(message):
                prefix, size = prefix + part["text"], size + len(part["text"]) // 4
                if "prompt_cache_breakpoint" in part:
                    ends.append((prefix, size))
        if body.get("prompt_cache_options", {}).get("mode", "implicit") == "implicit":
            ends.append((prefix, size))
        cached = written = 0
        for text, tokens in ends:
            if tokens >= 1_024 and text in self._cached_prefixes:
                cached = tokens
            elif tokens >= 1_024:
                written = tokens - cached
                self._cached_prefixes.add(text)
        return cached, written

    def _refusal(self, status: int, message: str) -> web.Response:
        error = {"message": message, "type": "scripted", "code": None} | self.script.error
        return json_reply({"error": error}, status)

    def _admit(self) -> bool:
        """Apply a sliding window that also counts rejected requests, as providers do."""
        now = time.monotonic()
        window = [t for t in self._window if t > now - self.script.window_seconds]
        window.append(now)
        self._window = window
        return len(window) <= self.script.requests_per_minute * self.script.window_seconds / 60

    def _content(self, body: dict[str, Any], prompt: str) -> str:
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
        if self._rewrite_fault(body) == "rubbish":
            return "Here you are: leave, holidays { and so on"
        if _rewrites(body):
            return self._rewriting(schema["properties"], prompt)
        if self.script.hostile:
            return '{"questions": ["What is \\u0000 the keeper?", "Who is \\ud800 alone there?"]}'
        if "questions" in schema.get("properties", {}):
            picture = _picture_of(body["messages"][-1])
            written = self._description(picture) if picture else {"questions": self._questions(prompt)}
            if "context" in schema["properties"]:
                written |= self.script.context
            return orjson.dumps(written).decode()
        if schema:
            texts = {"question": self.script.condensed}
            return orjson.dumps({name: texts.get(name, "") for name in schema.get("properties", {})}).decode()
        return self.script.answer

    def _description(self, picture: bytes) -> dict[str, Any]:
        text = f"{self.script.described} {hashlib.sha256(picture).hexdigest()[:8]}"
        questions = [f"How large was the herring catch of {number}?" for number in range(1901, 1904)]
        return {"description": text, "questions": questions}

    def _questions(self, prompt: str) -> list[str]:
        if self.script.questions:
            return questions_of(prompt, self.script.questions)
        return questions_of(prompt.rpartition("<chunk>")[2].removesuffix("</chunk>"), _requested_questions(prompt))

    def _rewrite_fault(self, body: dict[str, Any]) -> str:
        return self.script.rewrite_fault if _rewrites(body) else ""

    def _rewriting(self, fields: dict[str, Any], prompt: str) -> str:
        """Return the requested fields: scripted values, otherwise values composed of the question's words."""
        question = " ".join(_WORD.findall(prompt)[1:-1])
        defaults = {
            "hypothetical_answer": f"It is so: {question}.",
            "queries": [f"{question} {n}?" for n in range(8)],
            "step_back_question": f"What is to be known of {question}?",
            "entities": [],
        }
        return orjson.dumps({name: (defaults | self.script.rewriting)[name] for name in fields}).decode()

    async def rerank(self, request: web.Request) -> web.Response:
        """Score documents by their share of the query's words, best first."""
        body = orjson.loads(await request.read())
        self.stats.reranks.append(body)
        fault = self.script.rerank_fault
        if fault == "hang":
            await asyncio.sleep(3600)
        if fault == "500":
            return _error(500, "out of memory")
        words = set(_WORD.findall(body["query"].lower()))
        scores = [len(words & set(_WORD.findall(d.lower()))) / max(1, len(words)) for d in body["documents"]]
        order = sorted(range(len(scores)), key=lambda index: -scores[index])[: body.get("top_n")]
        shift = 1 if fault == "indexes" else 0
        name = "score" if self.script.rerank_list else "relevance_score"
        results = [{"index": index + shift, name: scores[index]} for index in order]
        if fault == "rubbish":
            return json_reply({"ranking": "documents 3 and 1"})
        if fault == "nan":
            results[0][name] = "NaN"
        return json_reply(results if self.script.rerank_list else {"results": results})

    async def _stream(self, request: web.Request, prompt: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for piece in ("The documents ", "say so ", "[1]."):
            await response.write(
                _event({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
            )
        if finish := self.script.answer_finish:
            await response.write(_event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
            await response.write(_event({"choices": [], "usage": _usage(len(prompt) // 4, 8)}))
            await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def embed(self, request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
        s, stats = self.script, self.stats  # a reset during the latency has other counts
        stats.embeddings += 1
        stats.headers["embeddings"] = {str(name): value for name, value in request.headers.items()}
        if s.embedding_latency_seconds:
            await asyncio.sleep(s.embedding_latency_seconds)
        if s.down:
            return _error(503, "the provider is down")
        if s.embedding_status:
            return self._refusal(s.embedding_status, "scripted status")
        if s.refuse_containing and any(s.refuse_containing in text for text in inputs):
            return self._refusal(s.refuse_status, "an input cannot be embedded")
        stats.embedded_inputs += len(inputs)
        encoded = body.get("encoding_format") == "base64"
        data = []
        for index, text in enumerate(inputs):
            vector = self.vector(text, s.embedding_dimensions or body.get("dimensions") or DIMENSIONS)
            value: object = base64.b64encode(vector.tobytes()).decode() if encoded else vector.tolist()
            data.append({"object": "embedding", "index": index, "embedding": value})
        tokens = sum(map(len, inputs)) // 4
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return json_reply({"object": "list", "data": data, "model": body["model"], "usage": usage})

    def vector(self, text: str, dimensions: int = DIMENSIONS) -> NDArray[np.float32]:
        """Return a bag of hashed words as a unit vector, so that texts with common words are near each other."""
        digests = self._digests
        word_digests = [digests.get(word) or self._digest(word) for word in _WORD.findall(text.lower())]
        if not word_digests:
            return np.eye(1, dimensions, dtype=np.float32)[0]
        bins = np.bincount(np.array(word_digests) % (2 * dimensions), minlength=2 * dimensions)
        values = (bins[:dimensions] - bins[dimensions:]).astype(np.float32)
        norm = float(np.linalg.norm(values))
        return values / np.float32(norm) if norm else np.eye(1, dimensions, dtype=np.float32)[0]

    def _digest(self, word: str) -> int:
        """Return the word's hash, which determines its dimension and sign."""
        digest = self._digests[word] = zlib.crc32(word.encode())
        return digest


def _parts_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the texts of a message, whose content may be one text."""
    content = message["content"]
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if part["type"] == "text"]


def _picture_of(message: dict[str, Any]) -> bytes | None:
    """Return the JPEG file in a message."""
    if isinstance(message["content"], str):
        return None
    urls = [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
    return base64.b64decode(urls[0].removeprefix("data:image/jpeg;base64,"), validate=True) if urls else None


def _text_of(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in _parts_of(message))


def _tokens_of(message: dict[str, Any]) -> int:
    return sum(len(part["text"]) // 4 for part in _parts_of(message))


def _requested_questions(prompt: str) -> int:
    number = re.search(r"Number of questions: (\d+)", prompt)
    return int(number[1]) if number else 5


def questions_of(prompt: str, count: int) -> list[str]:
    """Return deterministic, distinct questions, each composed of words from a different part of the text."""
    words = _WORD.findall(prompt[-1500:]) or ["nothing"]
    step = max(1, len(words) // count)
    return [f"What is said of {' '.join(words[i * step : i * step + 6])}?" for i in range(count)]


def _rewrites(body: dict[str, Any]) -> bool:
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return bool(_REWRITES & schema.get("properties", {}).keys())


def _completion(body: Mapping[str, Any], key: str, content: str, finish: str) -> dict[str, Any]:
    prompt = body["messages"][-1]["content"]
    return {
        "id": f"chatcmpl-{key}",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}],
        "usage": _usage(len(prompt) // 4, len(content) // 4),
    }


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = orjson.dumps({"error": {"message": message, "type": "scripted", "code": None}})
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def _event(value: object) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


async def _drip(request: web.Request, reply: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "application/json"})
    await response.prepare(request)
    for start in range(0, len(reply), max(1, len(reply) // 20)):
        await response.write(reply[start : start + max(1, len(reply) // 20)])
        await asyncio.sleep(0.05)  # a second in all, so that a busy machine exceeds no timeout
    await response.write_eof()
    return response


async def serve(script: Script, host: str, port: int) -> None:
    runner = web.AppRunner(ScriptedEndpoints(script).app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=1024)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", default="{}", help="JSON of the initial behaviour")
    arguments = parser.parse_args()
    script = Script(**orjson.loads(arguments.script))
    with suppress(KeyboardInterrupt):
        uvloop.run(serve(script, arguments.host, arguments.port))


if __name__ == "__main__":
    main()
