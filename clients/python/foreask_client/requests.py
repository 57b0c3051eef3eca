"""Requests, paged lists and event streams as data. Both clients send the same descriptions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from foreask_client.models import Event, Json
from foreask_client.uploads import Attachment

T = TypeVar("T")

AsyncEvents = AsyncGenerator[Event, None]
Events = Generator[Event, None, None]


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One request and the function that reads its reply.

    Attributes:
        path: path below the server's URL, or a complete URL of another server, which does not receive the key.
        body: JSON body.
        content: raw body; an attachment is sent in pieces.
        form: form fields next to `file`.
        repeatable: whether repeating the request has no further effect; such a request is repeated after a broken
            connection, 429 or 503.
        slow: whether the reply may take minutes.
        also: error statuses that are read as replies.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    content: bytes | Attachment | None = None
    form: Mapping[str, str] | None = None
    file: Attachment | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    slow: bool = False
    also: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A list that is read page by page."""

    path: str
    params: Mapping[str, Any]
    read: Callable[[Any], T]


@dataclass(frozen=True, slots=True)
class Stream:
    """A reply of server-sent events.

    Attributes:
        body: JSON body of a POST; None: GET.
        fails: whether the event `error` ends the stream with an exception.
    """

    path: str
    body: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    fails: bool = True


def as_type(type_: type[T] | Any) -> Callable[[httpx.Response], T]:
    """Return a reader of a JSON reply as a type."""
    adapter: TypeAdapter[T] = TypeAdapter(type_)
    return lambda response: adapter.validate_json(response.content)


def as_items(type_: type[T]) -> Callable[[httpx.Response], list[T]]:
    """Return a reader of the `items` of a list with one page."""
    adapter = TypeAdapter(list[type_])  # type: ignore[valid-type]
    return lambda response: adapter.validate_python(response.json()["items"])


def nothing(_: httpx.Response) -> None:
    """Read a reply without content."""


def get(path: str, type_: type[T], **params: Any) -> Request[T]:
    return Request("GET", path, as_type(type_), params=given(params), repeatable=True)


def get_items(path: str, type_: type[T], **params: Any) -> Request[list[T]]:
    return Request("GET", path, as_items(type_), params=given(params), repeatable=True)


def post(path: str, type_: type[T], body: Any = None, **options: Any) -> Request[T]:
    return Request("POST", path, as_type(type_), body=body, **options)


def delete(path: str) -> Request[None]:
    return Request("DELETE", path, nothing, repeatable=True)


def given(fields: Mapping[str, Any]) -> Json:
    """Return the fields whose value is not None."""
    return {name: value for name, value in fields.items() if value is not None}


def segment(name: str) -> str:
    """Return a name as one segment of a path."""
    return quote(name, safe="")


def collection_path(name: str) -> str:
    return f"/v1/collections/{segment(name)}"
