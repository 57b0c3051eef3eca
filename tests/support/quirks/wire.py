"""Requests and replies of the quirk server, and how their bytes are sent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

_MARKER = re.compile(r"quirk\(([a-z0-9-]+)\)")
_CHUNK = re.compile(r"<chunk>\n(.*)\n</chunk>", re.DOTALL)
_LONG_WORD = re.compile(r"[a-z]{5,}")
OK = 200
ANSWER = "The harbour opens at seven [1], and the lamp is lit at dusk [2]."


def marked(name: str, text: str = "") -> str:
    """Return a text whose requests get a quirk."""
    return f"{text} quirk({name})".strip()


@dataclass(frozen=True, slots=True)
class Call:
    """A request that arrived.

    Args:
        path: path of the request, with the query.
        headers: header fields with names in lower case.
        body: its JSON.
        quirk: its quirk; "" for none.
        everywhere: whether all requests have this quirk.
    """

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    quirk: str = ""
    everywhere: bool = False

    @property
    def is_chat(self) -> bool:
        return self.path.partition("?")[0].endswith("/chat/completions")

    @property
    def texts(self) -> list[str]:
        """The texts to embed, or the last message."""
        if not self.is_chat:
            texts = self.body.get("input", [])
            return texts if isinstance(texts, list) else [texts]
        content = self.body["messages"][-1]["content"]
        return [content if isinstance(content, str) else orjson.dumps(content).decode()]

    @property
    def markers(self) -> list[str]:
        """The quirks that its texts choose."""
        return [found[1] for text in self.texts if (found := _MARKER.search(text))]

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def answer(self) -> str:
        """The correct content of the reply: questions as JSON, or an answer."""
        wants_questions = "response_format" in self.body or _CHUNK.search(self.texts[0])
        return orjson.dumps({"questions": self.questions}).decode() if wants_questions else ANSWER

    @property
    def questions(self) -> list[str]:
        text = self.texts[0]
        inner = _CHUNK.search(text)
        words = _LONG_WORD.findall((inner[1] if inner else text).lower())
        return [f"What is known about {word}?" for word in [*dict.fromkeys(words), "harbours"][:2]]

    def is_affected(self, text: str) -> bool:
        """Return whether the quirk of this request belongs to one of its texts."""
        return self.everywhere or f"quirk({self.quirk})" in text


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply.

    Args:
        status: HTTP status.
        body: a JSON value, or text.
        headers: more header fields.
        kind: content type; "" omits the field.
        pieces: the body in chunks, if it has no length in advance.
        ends: `complete`; `half`: the connection closes after half of the body; `closed`: it closes without a reply;
            `reset`: it closes after the pieces, without the last chunk; `hung`: it stays open without a reply;
            `dripping`: blank lines arrive for ever.
    """

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    pieces: Sequence[bytes] = ()
    ends: Literal["complete", "half", "closed", "reset", "hung", "dripping"] = "complete"

    @property
    def content(self) -> bytes:
        match self.body:
            case bytes():
                return self.body
            case str():
                return self.body.encode()
            case _:
                return orjson.dumps(self.body)

    @property
    def head(self) -> bytes:
        length = {"transfer-encoding": "chunked"} if self.pieces else {"content-length": str(len(self.content))}
        fields = ({"content-type": self.kind} if self.kind else {}) | length | dict(self.headers)
        lines = [f"HTTP/1.1 {self.status} Status", *(f"{name}: {value}" for name, value in fields.items())]
        return "\r\n".join([*lines, "", ""]).encode()

    @property
    def is_billed(self) -> bool:
        """Whether a provider would charge for the reply: the model has written, whatever arrives."""
        is_error = isinstance(self.body, dict) and "error" in self.body
        return self.status == OK and self.ends != "closed" and not is_error


def page(title: str, status: int = 200) -> Reply:
    """Return an HTML page, as proxies, firewalls and login portals send."""
    text = f"<!DOCTYPE html>\n<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
    return Reply(status, text, kind="text/html; charset=utf-8")


def error(status: int, message: object, headers: Mapping[str, str] | None = None, **fields: object) -> Reply:
    """Return an error in OpenAI's form."""
    described = {"message": message, "type": "invalid_request_error", "param": None, "code": None} | fields
    return Reply(status, {"error": described}, headers or {})


def completion(content: object, finish: str | None = "stop", **message: object) -> dict[str, Any]:
    """Return a chat completion whose message has a content and more fields."""
    return completion_of({"role": "assistant", "content": content} | message, finish)


def completion_of(message: object, finish: str | None = "stop") -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "quirky",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 300, "completion_tokens": 40, "total_tokens": 340},
    }


def event(data: object, line_end: str = "\n") -> bytes:
    """Return one event of a stream."""
    text = data if isinstance(data, str) else orjson.dumps(data).decode()
    return f"data: {text}{line_end}{line_end}".encode()


def chunk(finish: str | None = None, **delta: object) -> dict[str, Any]:
    """Return one chunk of a streamed completion."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "quirky",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


USAGE = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1_700_000_000,
    "model": "quirky",
    "choices": [],
    "usage": {"prompt_tokens": 300, "completion_tokens": 40, "total_tokens": 340},
}
DONE = "[DONE]"


def stream(*events: object, ends: Literal["complete", "reset", "hung"] = "complete", line_end: str = "\n") -> Reply:
    pieces = tuple(e if isinstance(e, bytes) else event(e, line_end) for e in events)
    return Reply(pieces=pieces, kind="text/event-stream", ends=ends)


def words(text: str) -> list[str]:
    """Return a text in pieces of one word."""
    return re.findall(r"\S+\s*", text)


def said(call: Call, content: str, finish: str | None = "stop", **message: object) -> Reply:
    """Return a reply with this content: a stream if the request asks for one."""
    if not call.streams:
        return Reply(body=completion(content, finish, **message))
    thought = [chunk(**{name: value}) for name, value in message.items()]
    pieces = [chunk(content=word) for word in words(content)]
    return stream(chunk(role="assistant", content=""), *thought, *pieces, chunk(finish), USAGE, DONE)
