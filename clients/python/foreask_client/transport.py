"""Building requests, reading replies and deciding on retries: the parts that both clients share."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from httpx_sse import ServerSentEvent, SSEError
from pydantic import ValidationError

from foreask_client.errors import ApiError, error_of, error_of_problem
from foreask_client.models import Event, Json
from foreask_client.requests import Pages, Request, Stream
from foreask_client.uploads import Attachment, FileBody

T = TypeVar("T")

PAGE = 200

_SLOW_SECONDS = 300.0
_CONNECT_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 30.0
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_RETRY_AFTER_SECONDS = 300.0  # a daily limit ends hours later: earlier attempts would be rejected too
_TRANSIENT = {408, 429, 502, 503, 504}  # 408: the transfer of the body stalled
_PLAIN = "@/:"  # characters of names that need no encoding in a header, next to letters, digits and `_.-~`
_LOCAL = {"127.0.0.1", "localhost", "::1"}


AsyncHttp = httpx.AsyncClient  # it cannot be closed when it is garbage collected: its loop may be closed


class Http(httpx.Client):
    """Closes its connections when it is garbage collected: frameworks never close the clients of their retrievers."""

    def __del__(self) -> None:
        with suppress(Exception):  # the interpreter may have ended, or the constructor has failed
            self.close()


class Bearer(httpx.Auth):
    """Sends the key, and the person for whom it acts, to the server's origin only.

    Raises:
        ValueError: there are groups without a user.
    """

    def __init__(self, url: httpx.URL, key: str | None, user: str | None, groups: Sequence[str]) -> None:
        if groups and user is None:
            raise ValueError("groups are the groups of a user, and there is no user")
        self._url = url
        self._key = key
        self._origin = _origin(url)
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        if user is not None:
            self._headers["x-foreask-user"] = quote(user, safe=_PLAIN)
            self._headers["x-foreask-groups"] = ",".join(quote(group, safe=_PLAIN) for group in groups)

    def acting_for(self, user: str | None, groups: Sequence[str]) -> Bearer:
        """Return the same key, acting for a person."""
        return Bearer(self._url, self._key, user, groups)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if _origin(request.url) == self._origin:
            request.headers.update(self._headers)
        yield request


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def http_options(url: str, timeout_seconds: float) -> dict[str, Any]:
    """Return the options of both httpx clients, without the key: each request names it, and the person.

    Raises:
        ValueError: the URL is not a valid HTTP URL.
    """
    try:
        base = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(_not_a_url(url)) from error
    if base.scheme not in {"http", "https"} or not base.host:
        raise ValueError(_not_a_url(url))
    return {
        "base_url": base,
        "timeout": httpx.Timeout(timeout_seconds, connect=_CONNECT_SECONDS),
        "trust_env": base.host not in _LOCAL,  # a proxy cannot reach this machine
    }


def _not_a_url(url: str) -> str:
    return f"{url} is not a URL: it should be like http://127.0.0.1:8350"


@contextmanager
def built(http: httpx.Client | httpx.AsyncClient, request: Request[Any]) -> Iterator[httpx.Request]:
    """Yield the httpx request. Its files stay open inside the context."""
    if isinstance(request.content, Attachment):
        with request.content.opened() as file:
            headers = {"content-length": str(request.content.size_bytes)} | dict(request.headers)
            yield httpx.Request(
                request.method, request.path, headers=headers, stream=FileBody(file), extensions=_slow_timeout()
            )
        return
    options: dict[str, Any] = {"params": request.params or None, "headers": request.headers}
    options |= {"timeout": httpx.Timeout(_SLOW_SECONDS, connect=_CONNECT_SECONDS)} if request.slow else {}
    if request.file is not None:
        with request.file.opened() as file:
            options |= {"data": request.form, "files": {"file": (request.file.filename, file)}}
            yield http.build_request(request.method, request.path, **options)
        return
    if request.body is not None:
        options["json"] = request.body
    yield http.build_request(request.method, request.path, content=request.content, **options)


def _slow_timeout() -> dict[str, Any]:
    return {"timeout": httpx.Timeout(_SLOW_SECONDS, connect=_CONNECT_SECONDS).as_dict()}


def built_stream(http: httpx.Client | httpx.AsyncClient, stream: Stream) -> httpx.Request:
    return http.build_request(
        "GET" if stream.body is None else "POST",
        stream.path,
        params=stream.params or None,
        json=stream.body,
        headers={"accept": "text/event-stream", "cache-control": "no-store"},
        timeout=httpx.Timeout(_SLOW_SECONDS, connect=_CONNECT_SECONDS),
    )


def read(request: Request[T], response: httpx.Response) -> T:
    """Return the parsed reply.

    Raises:
        ApiError: the reply is an error, or not a reply of the API.
    """
    if response.is_error and response.status_code not in request.also:
        raise error_of(response)
    try:
        return request.read(response)
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise ApiError(
            f"{response.url.copy_with(query=None)} does not answer like a foreask server of a compatible version.",
            request_id=response.headers.get("x-request-id"),
        ) from error


class PageRequests(Generic[T]):
    """The requests of a list, one for each page."""

    def __init__(self, pages: Pages[T]) -> None:
        self._pages = pages
        self._params: Json | None = {"limit": PAGE} | dict(pages.params)

    def next(self) -> Request[list[T]] | None:
        if self._params is None:
            return None
        return Request("GET", self._pages.path, self._read, params=self._params, repeatable=True)

    def _read(self, response: httpx.Response) -> list[T]:
        """Return the items of a page and remember the cursor of the next one."""
        page = response.json()
        items, cursor = [self._pages.read(item) for item in page["items"]], page.get("next_cursor")
        self._params = (self._params or {}) | {"cursor": cursor} if cursor else None
        return items


def read_event(stream: Stream, event: ServerSentEvent) -> Event:
    """Return an event of a stream.

    Raises:
        ApiError: the event reports a failure, or is not JSON.
    """
    try:
        data = event.json()
    except ValueError as error:
        raise ApiError("The server sent an event that is not JSON.") from error
    if stream.fails and event.event == "error":
        raise error_of_problem(data)
    return Event(name=event.event, data=data)


def server_of(request: httpx.Request, url: str) -> str:
    """Return the URL of the server that receives a request: the configured one, or an object store's."""
    target = request.url
    return url if _origin(target) == _origin(httpx.URL(url)) else f"{target.scheme}://{target.netloc.decode()}"


@contextmanager
def connection_errors(url: str) -> Iterator[None]:
    """Convert httpx errors into `ApiError` with a sentence about the server at a URL."""
    try:
        yield
    except SSEError as error:  # a subclass of an httpx error
        raise ApiError(f"{url} does not send events like a foreask server.") from error
    except httpx.ConnectError as error:
        raise ApiError(f"No server at {url}.") from error
    except httpx.TimeoutException as error:
        raise ApiError(f"The server at {url} did not answer in time.") from error
    except httpx.HTTPError as error:
        raise ApiError(f"The connection to {url} broke ({type(error).__name__}).") from error


def is_worth_repeating(error: ApiError) -> bool:
    """Return whether the error is transient and the server does not ask for a pause of more than five minutes."""
    if error.status is None:
        return isinstance(error.__cause__, httpx.TransportError)
    return is_transient(error.status) and (error.retry_after or 0) <= _LONGEST_RETRY_AFTER_SECONDS


def is_transient(status: int) -> bool:
    return status in _TRANSIENT


def seconds_until_next(error: ApiError, attempt: int) -> float:
    """Return the pause before the next attempt: full jitter under an exponential ceiling, at least Retry-After.

    Args:
        error: the error of the last attempt.
        attempt: number of failed attempts.
    """
    ceiling = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
    jitter = random.uniform(0, ceiling)  # noqa: S311  spreads clients; not a secret
    return max(jitter, error.retry_after or 0.0)
