"""What an operation asks of the server, apart from how it is sent: both clients send the same descriptions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from foreask_client.models import Json
from foreask_client.uploads import Attachment

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator

    from foreask_client.asynchronous import AsyncClient
    from foreask_client.models import Event
    from foreask_client.synchronous import Client

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One request, and how its reply is read.

    Attributes:
        path: below the server's URL, or a whole URL elsewhere, to which the key is not sent.
        body: sent as JSON.
        content: sent as it is; an attachment piece by piece.
        form: fields of a form beside `file`.
        repeatable: sent again after a broken connection, 429 or 503, because twice is the same as once.
        slow: may take minutes.
        also: statuses of errors that are replies all the same.
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
        body: sent as JSON by POST; None: GET.
        fails: an event `error` ends the stream, and is raised.
    """

    path: str
    body: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    fails: bool = True


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Flow = Generator[Request[Any] | Pause, Any, T]  # several requests in turn; each yield receives what its request read


class operation(Generic[P, T]):  # noqa: N801  a decorator
    """A method of both clients, described once: `Client` returns the reply, `AsyncClient` something to await."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Request[T]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: None, owner: object = None) -> Self: ...
    @overload
    def __get__(self, client: Client, owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object = None) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        return _bound(self, client, "send")


class listing(Generic[P, T]):  # noqa: N801  a decorator
    """As `operation`, for a list: an iterator over its items."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Pages[T]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: None, owner: object = None) -> Self: ...
    @overload
    def __get__(self, client: Client, owner: object = None) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object = None) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        return _bound(self, client, "items")


class streaming(Generic[P]):  # noqa: N801  a decorator
    """As `operation`, for events: an iterator over them as they come."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Stream]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: None, owner: object = None) -> Self: ...
    @overload
    def __get__(self, client: Client, owner: object = None) -> Callable[P, Generator[Event, None, None]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object = None) -> Callable[P, AsyncGenerator[Event, None]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        return _bound(self, client, "events_of")


class flow(Generic[P, T]):  # noqa: N801  a decorator
    """As `operation`, for several requests in turn."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: None, owner: object = None) -> Self: ...
    @overload
    def __get__(self, client: Client, owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object = None) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        return _bound(self, client, "run")


def _bound(method: Any, client: Any, sender: str) -> Any:
    if client is None:
        return method

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(client, sender)(method.describe(client, *args, **kwargs))

    call.__name__, call.__doc__ = method.describe.__name__, method.__doc__
    return call


def as_type(type_: type[T] | Any) -> Callable[[httpx.Response], T]:
    """Read a reply's JSON as a type."""
    adapter: TypeAdapter[T] = TypeAdapter(type_)
    return lambda response: adapter.validate_json(response.content)


def as_items(type_: type[T]) -> Callable[[httpx.Response], list[T]]:
    """Read the `items` of a list that has one page."""
    adapter = TypeAdapter(list[type_])  # type: ignore[valid-type]
    return lambda response: adapter.validate_python(response.json()["items"])


def nothing(_: httpx.Response) -> None:
    """Read a reply that has no content."""


def get(path: str, type_: type[T], **params: Any) -> Request[T]:
    return Request("GET", path, as_type(type_), params=given(params), repeatable=True)


def post(path: str, type_: type[T], body: Any = None, **options: Any) -> Request[T]:
    return Request("POST", path, as_type(type_), body=body, **options)


def delete(path: str) -> Request[None]:
    return Request("DELETE", path, nothing, repeatable=True)


def given(fields: Mapping[str, Any]) -> Json:
    """Leave out what is None."""
    return {name: value for name, value in fields.items() if value is not None}


def segment(name: str) -> str:
    """Return a name as a part of a path."""
    return quote(name, safe="")
