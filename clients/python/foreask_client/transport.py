"""How requests are sent, as far as it is the same with and without asyncio."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import httpx
from httpx_sse import ServerSentEvent, SSEError
from pydantic import ValidationError
from tenacity import RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from foreask_client.errors import ApiError, error_of, error_of_problem
from foreask_client.models import Event, Json
from foreask_client.requests import Pages, Request, Stream
from foreask_client.uploads import Attachment, FileBody

T = TypeVar("T")

PAGE = 200

_SLOW_SECONDS = 300.0
_CONNECT_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 30.0
_LONGEST_RETRY_AFTER_SECONDS = 300.0  # a limit of the day is over in hours: attempts before then would be refused too
_BACKOFF = wait_random_exponential(multiplier=0.5, max=_LONGEST_PAUSE_SECONDS)
_TRANSIENT = {408, 429, 502, 503, 504}  # 408: the body stood still on its way
_LOCAL = {"127.0.0.1", "localhost", "::1"}


class Bearer(httpx.Auth):
    """Sends the key to the server's origin, and to no other."""

    def __init__(self, key: str, url: httpx.URL) -> None:
        self._key = key
        self._origin = _origin(url)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if _origin(request.url) == self._origin:
            request.headers["authorization"] = f"Bearer {self._key}"
        yield request


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def http_options(url: str, key: str | None, timeout_seconds: float) -> dict[str, Any]:
    """Return what both of httpx's clients are made with.

    Raises:
        ValueError: the URL is none.
    """
    try:
        base = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(_not_a_url(url)) from error
    if base.scheme not in {"http", "https"} or not base.host:
        raise ValueError(_not_a_url(url))
    return {
        "base_url": base,
        "auth": Bearer(key, base) if key else None,
        "timeout": httpx.Timeout(timeout_seconds, connect=_CONNECT_SECONDS),
        "trust_env": base.host not in _LOCAL,  # a proxy cannot reach this machine
    }


def _not_a_url(url: str) -> str:
    return f"{url} is not a URL: it should be like http://127.0.0.1:8350"


@contextmanager
def built(http: httpx.Client | httpx.AsyncClient, request: Request[Any]) -> Iterator[httpx.Request]:
    """Yield the request as httpx sends it; files are open until the end."""
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
    """Return what the reply says.

    Raises:
        ApiError: it is an error, or not what the API replies.
    """
    if response.is_error and response.status_code not in request.also:
        raise error_of(response)
    try:
        return request.read(response)
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise ApiError(
            f"{response.url.copy_with(query=None)} does not answer like a foreask server of this client's time.",
            request_id=response.headers.get("x-request-id"),
        ) from error


class PageRequests(Generic[T]):
    """The requests for the pages of a list, until the last page."""

    def __init__(self, pages: Pages[T]) -> None:
        self._pages = pages
        self._params: Json | None = {"limit": PAGE} | dict(pages.params)

    def next(self) -> Request[list[T]] | None:
        if self._params is None:
            return None
        return Request("GET", self._pages.path, self._read, params=self._params, repeatable=True)

    def _read(self, response: httpx.Response) -> list[T]:
        """Return the items of a page, and go on to the page after it."""
        page = response.json()
        items, cursor = [self._pages.read(item) for item in page["items"]], page.get("next_cursor")
        self._params = (self._params or {}) | {"cursor": cursor} if cursor else None
        return items


def read_event(stream: Stream, event: ServerSentEvent) -> Event:
    """Return an event of a stream.

    Raises:
        ApiError: the event says that the request failed, or is not JSON.
    """
    try:
        data = event.json()
    except ValueError as error:
        raise ApiError("An event of the server cannot be read.") from error
    if stream.fails and event.event == "error":
        raise error_of_problem(data)
    return Event(name=event.event, data=data)


def server_of(request: httpx.Request, url: str) -> str:
    """Return the server that a request goes to, in the words of who named it; an object store is another one."""
    asked = request.url
    return url if _origin(asked) == _origin(httpx.URL(url)) else f"{asked.scheme}://{asked.netloc.decode()}"


@contextmanager
def connection_errors(url: str) -> Iterator[None]:
    """Turn the errors of httpx into sentences about the server at a URL."""
    try:
        yield
    except SSEError as error:  # one of httpx's errors of transport, too
        raise ApiError(f"{url} does not send events like a foreask server.") from error
    except httpx.ConnectError as error:
        raise ApiError(f"No server at {url}.") from error
    except httpx.TimeoutException as error:
        raise ApiError(f"The server at {url} did not answer in time.") from error
    except httpx.HTTPError as error:
        raise ApiError(f"The connection to {url} broke ({type(error).__name__}).") from error


def retry_rules(attempts: int) -> dict[str, Any]:
    """Return what tenacity's two kinds of retrying are made with."""
    return {
        "retry": retry_if_exception(_is_worth_repeating),
        "stop": stop_after_attempt(attempts),
        "wait": seconds_until_next,
        "reraise": True,
    }


def _is_worth_repeating(error: BaseException) -> bool:
    if not isinstance(error, ApiError):
        return False
    if error.status is None:
        return isinstance(error.__cause__, httpx.TransportError)
    return is_transient(error.status) and (error.retry_after or 0) <= _LONGEST_RETRY_AFTER_SECONDS


def is_transient(status: int) -> bool:
    return status in _TRANSIENT


def seconds_until_next(state: RetryCallState) -> float:
    """Return the seconds until the next attempt: exponential, but not less than the server's Retry-After."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, ApiError) else None
    return max(_BACKOFF(state), asked or 0.0)
