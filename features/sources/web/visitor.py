"""Polite requests: one at a time per host, with pauses, within robots.txt, and only to checked addresses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import httpx

from features.sources.errors import COMPONENT
from features.sources.hosts import PRIVATE_SETTING
from features.sources.web.bodies import ENCODINGS, BadBody, BodyTooLarge, read_body
from features.sources.web.reading.contents import RobotsRules, read_robots
from features.sources.web.reading.robots import ROBOT
from shared.confined.reading import Reader
from shared.domain.errors import Misconfigured, Transient, Unavailable, Unreadable
from shared.domain.retry_after import retry_after
from shared.ingest.parse.web.addresses import normal, origin_of
from shared.outside import addresses
from shared.outside.requests import new_client, pinned
from shared.process.network import problem_of

NOT_PERMITTED = "Its address is not below a root of this tenant: ask the operator to add it to FOREASK_SOURCE_ROOTS."
_ROBOTS_AGE = timedelta(days=1)  # the longest that RFC 9309 allows
_ROBOTS_REDIRECTS = 5
_TRIES = 3
_BUSY = (429, 503)
_OK, _REDIRECTS, _CLIENT_ERRORS = 200, range(300, 400), range(400, 500)
_PURPOSE = addresses.Purpose(
    name="a page",
    example="https://example.org/page",
    credentials="write it without them",
    setting=PRIVATE_SETTING,
    field="uri",
)


@dataclass(frozen=True, slots=True)
class Politeness:
    """Behaviour towards servers.

    Args:
        user_agent: such as `foreask/0.1 (+https://example.org/robot)`.
        private: whether private addresses are allowed.
        pause: pause between two requests to a host, unless its robots.txt has a `Crawl-delay`.
        longest_pause: upper bound of pauses that a server requests.
        failed_robots: time after which a robots.txt that could not be read is requested again.
        timeout: timeout of a request, from the first byte to the last.
        max_bytes: size of a body.
    """

    user_agent: str = ROBOT
    private: bool = False
    pause: timedelta = timedelta(seconds=1)
    longest_pause: timedelta = timedelta(minutes=5)
    failed_robots: timedelta = timedelta(minutes=1)
    timeout: timedelta = timedelta(seconds=30)
    max_bytes: int = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WebReply:
    """A server's reply.

    Args:
        status: status code.
        headers: with names in lower case.
        body: empty unless the status is 200 and the reply was wanted.
        wanted: whether its body was read.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    wanted: bool = False

    def redirect_from(self, address: str) -> str | None:
        """Return the normal address to which this reply redirects; None if there is none."""
        if self.status not in _REDIRECTS or "location" not in self.headers:
            return None
        return normal(self.headers["location"], address)


Fault = Literal["server", "address", "size", "body"]


class PageError(Exception):
    """A page cannot be read now; the message is a sentence.

    Args:
        fault: `server`: it did not answer, so its other pages may fail, too; `address`: its address is not allowed;
            `size`: the page is larger than allowed; `body`: its body cannot be read.
    """

    def __init__(self, message: str, fault: Fault) -> None:
        super().__init__(message)
        self.fault = fault


@dataclass(slots=True)
class _Host:
    """State of a host: `due` is the time of the next request, by the monotonic clock, in seconds."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    due: float = 0.0
    pause: float = 0.0
    robots: RobotsRules | Unavailable | None = None
    robots_until: float = 0.0


class Visitor:
    """Reads pages. A visitor is used by one source.

    Args:
        politeness: behaviour towards servers.
        reader: reads robots.txt.
        permits: whether the operator allows an address; the callers check it for pages, and the visitor for redirects
            of robots.txt.
    """

    def __init__(self, politeness: Politeness, reader: Reader, permits: Callable[[str], bool] = lambda _: True) -> None:
        self.reader = reader
        self.permits = permits
        self._politeness = politeness
        self._client = new_client(politeness.timeout.total_seconds())
        self._hosts: dict[str, _Host] = {}
        self._going = asyncio.Event()
        self._going.set()
        self._sending = 0
        self._sleeping: dict[object, float] = {}  # the time of the next request, by each waiting call

    async def aclose(self) -> None:
        await self._client.aclose()

    @property
    def waiting_seconds(self) -> float:
        """The time until a request may be sent; 0 if one is being sent, or none is wanted."""
        if self._sending or not self._sleeping:
            return 0.0
        return max(0.0, min(self._sleeping.values()) - time.monotonic())

    def rest(self) -> None:
        """Send no further request until `resume`."""
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    async def allows(self, address: str) -> bool:
        """Return whether robots.txt of the address's host allows to read it.

        Raises:
            Unavailable: the server cannot answer, so it is unknown.
        """
        return (await self._robots(address)).robots.allows(address)

    async def sitemaps(self, address: str) -> list[str]:
        """Return the normal addresses of sitemaps in robots.txt of a host; raises as `allows`."""
        return list((await self._robots(address)).sitemaps)

    async def get(
        self,
        address: str,
        headers: Mapping[str, str] | None = None,
        *,
        wants: Callable[[WebReply], bool] = lambda _: True,
        max_bytes: int | None = None,
    ) -> WebReply:
        """Return the reply to a GET of a normal address, which robots.txt allows. Redirects are not followed.

        Args:
            address: address of the page.
            headers: more headers, such as `if-none-match`.
            wants: whether the body of a reply with status 200 is read, decided by its headers.
            max_bytes: size of the body; default: as in the politeness.

        Raises:
            PageError: there is no reply, or its body cannot be used.
        """
        limit = max_bytes or self._politeness.max_bytes
        for tries_left in reversed(range(_TRIES)):
            reply = await self._once(address, headers or {}, wants, limit)
            if reply.status not in _BUSY or not tries_left:
                return reply
            self._host(address).due = time.monotonic() + self._requested_pause(reply).total_seconds()
        raise AssertionError

    async def _once(
        self, address: str, headers: Mapping[str, str], wants: Callable[[WebReply], bool], limit: int
    ) -> WebReply:
        try:
            async with self._turn(address), asyncio.timeout(self._politeness.timeout.total_seconds()):
                return await self._exchange(address, headers, wants, limit)
        except TimeoutError as error:
            message = f"The server did not answer within {self._politeness.timeout.total_seconds():g} s."
            raise PageError(message, "server") from error
        except addresses.UnknownHost as error:
            raise PageError(f"{origin_of(address)}: {error}.", "server") from error
        except addresses.ForbiddenAddress as error:
            raise PageError(f"{origin_of(address)}: {error}.", "address") from error
        except BodyTooLarge as error:
            raise PageError(f"The page has more than {limit:,} bytes.", "size") from error
        except BadBody as error:
            raise PageError(f"The page cannot be read: {error}.", "body") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            problem = problem_of(error) or type(error).__name__
            raise PageError(f"The server did not answer: {problem}.", "server") from error

    @asynccontextmanager
    async def _turn(self, address: str) -> AsyncIterator[None]:
        """Wait until the next request to a host may be sent; the pause starts at the end of the request."""
        host = self._host(address)
        async with host.lock:
            await self._sleep(host.due)
            self._sending += 1
            try:
                yield
            finally:
                self._sending -= 1
                host.due = time.monotonic() + (host.pause or self._politeness.pause.total_seconds())

    async def _sleep(self, until: float) -> None:
        call = object()
        self._sleeping[call] = until
        try:
            await asyncio.sleep(until - time.monotonic())
            await self._going.wait()
        finally:
            del self._sleeping[call]

    async def _exchange(
        self, address: str, headers: Mapping[str, str], wants: Callable[[WebReply], bool], limit: int
    ) -> WebReply:
        parts = addresses.parse(address, _PURPOSE)
        checked = await addresses.resolve(parts, _PURPOSE, private=self._politeness.private)
        sent = {"user-agent": self._politeness.user_agent, "accept-encoding": ENCODINGS, "accept": "*/*", **headers}
        request = pinned(self._client, "GET", parts, checked, headers=sent)
        response = await self._client.send(request, stream=True)
        try:
            reply = WebReply(response.status_code, {name.lower(): value for name, value in response.headers.items()})
            if reply.status != _OK or not wants(reply):
                return reply
            return WebReply(reply.status, reply.headers, await read_body(response, limit), wanted=True)
        finally:
            await response.aclose()

    def _host(self, address: str) -> _Host:
        return self._hosts.setdefault(origin_of(address), _Host())

    async def _robots(self, address: str) -> RobotsRules:
        host = self._host(address)
        if host.robots is None or time.monotonic() > host.robots_until:
            try:
                host.robots = await self._robots_rules(f"{origin_of(address)}/robots.txt")
                host.pause = min(host.robots.delay, self._politeness.longest_pause.total_seconds())
                host.robots_until = time.monotonic() + _ROBOTS_AGE.total_seconds()
            except Unavailable as error:  # the host's other pages must not wait for it again
                host.robots = error
                host.robots_until = time.monotonic() + self._politeness.failed_robots.total_seconds()
        if isinstance(host.robots, Unavailable):
            raise host.robots
        return host.robots

    async def _robots_rules(self, address: str) -> RobotsRules:
        content = await self._robots_content(address)
        try:
            return await read_robots(self.reader, content, address)
        except Unreadable as error:
            raise Misconfigured(f"{error.message}.", component=COMPONENT) from error
        except Transient as error:
            raise Unavailable(error.message, component="parser") from error

    async def _robots_content(self, address: str) -> bytes:
        """Return robots.txt, which is empty if there is none.

        Raises:
            Unavailable: the server answers 429 or 5xx, or not at all. RFC 9309 forbids all requests then.
        """
        reply = await self._robots_reply(address)
        for _ in range(_ROBOTS_REDIRECTS):
            if (target := reply.redirect_from(address)) is None:
                break
            if not self.permits(target) or (found := await self._redirected_robots(target)) is None:
                return b""
            address, reply = target, found
        if reply.status == _OK:
            return reply.body
        if reply.status in _CLIENT_ERRORS or reply.status in _REDIRECTS:
            return b""
        raise Unavailable(f"{address} answers with status {reply.status}.", component=COMPONENT)

    async def _redirected_robots(self, address: str) -> WebReply | None:
        """Return the reply of an address to which robots.txt redirects; None if it may not be visited."""
        try:
            return await self._robots_reply(address)
        except Misconfigured:
            return None

    async def _robots_reply(self, address: str) -> WebReply:
        try:
            reply = await self._once(address, {}, lambda _: True, self._politeness.max_bytes)
        except PageError as error:
            kind = Misconfigured if error.fault == "address" else Unavailable
            raise kind(f"{address} cannot be read: {error}", component=COMPONENT) from error
        if reply.status == _BUSY[0]:
            pause = self._requested_pause(reply)
            raise Unavailable(f"{address} answers with status 429.", component=COMPONENT, retry_after=pause)
        return reply

    def _requested_pause(self, reply: WebReply) -> timedelta:
        return retry_after(reply.headers, most=self._politeness.longest_pause) or timedelta()
