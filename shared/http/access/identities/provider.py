"""The identity provider: its keys and addresses, which are fetched when they are needed, and its endpoint of tokens."""

from __future__ import annotations

import asyncio
import re
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import orjson
import structlog

from shared.domain.errors import Permanent, Unauthorized, Unavailable
from shared.http.access.identities.keys import SigningKeys
from shared.process import network
from shared.process.network.http import Client, Options, Reply
from shared.settings import Settings
from shared.settings.values import is_confidential

COMPONENT = "identity provider"
FRESH_SECONDS = 300.0  # a key that the provider has removed is refused after this time
LASTING_SECONDS = 3_600.0  # tokens of known keys are accepted for this time while the provider cannot be reached
PAUSE_SECONDS = 10.0  # between two fetches, however many tokens name unknown keys
_FETCH_SECONDS = 5.0  # for the description of the provider and its keys together
_TOKEN_SECONDS = 10.0
_OPTIONS = Options(
    connect_seconds=3.0,
    idle_seconds=30.0,
    connections=8,
    largest_reply_bytes=4 << 20,  # a thousand keys with their certificates take 2 MB
)
_OK = 200
_SERVER_ERROR = 500
_CODE = re.compile(r"[a-z_]{1,60}")  # of an error of OAuth

log = structlog.get_logger()


class _UnusableError(Exception):
    """The provider's reply cannot be used; the message is a clause about the provider."""


@dataclass(frozen=True, slots=True)
class ProviderDescription:
    """The provider as it described itself.

    Args:
        keys: its keys; the same object as long as they do not change.
        keys_text: their text.
        fetched_at: time of the reply, in monotonic seconds.
        authorization_endpoint: address at which persons sign in.
        token_endpoint: address at which a client redeems a code.
        end_session_endpoint: address at which persons sign out; None if it has none.
        takes_secret_in_body: whether it accepts a client's secret only in the body of a request.
    """

    keys: SigningKeys
    keys_text: bytes
    fetched_at: float
    authorization_endpoint: str | None
    token_endpoint: str | None
    end_session_endpoint: str | None
    takes_secret_in_body: bool


class IdentityProvider:
    """Fetches the provider's description and keys, at most once per `PAUSE_SECONDS` for any number of callers.

    Args:
        settings: settings with an issuer.
        now: clock in monotonic seconds.
    """

    def __init__(self, settings: Settings, now: Callable[[], float] = time.monotonic) -> None:
        assert settings.oidc_issuer is not None
        self._issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id
        self._secret = settings.oidc_client_secret
        self._now = now
        self._known: ProviderDescription | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._tried_at: float | None = None
        self._clients: dict[str, Client] = {}
        self.problem: str | None = None  # of the last fetch, as a sentence

    async def current(self, *, unknown_key: bool = False) -> ProviderDescription:
        """Return the provider, fetched at most five minutes ago, or at most an hour ago while it cannot be reached.

        Args:
            unknown_key: whether a token names a key that is unknown, so that keys are fetched again.

        Raises:
            Unavailable: it cannot be reached, or its replies cannot be used.
        """
        if self._known is None or unknown_key or self._age_of(self._known) >= FRESH_SECONDS:
            await self._fetch_once()
        if self._known is None or self._age_of(self._known) >= LASTING_SECONDS:
            raise self._unavailable(self.problem)
        return self._known

    def require_reached(self) -> None:
        """Raise `Unavailable` if the last fetch has failed: an unknown key may be a new one."""
        if self.problem is not None:
            raise self._unavailable(self.problem)

    async def redeem(self, form: Mapping[str, str]) -> Mapping[str, Any]:
        """Send a request to the endpoint of tokens (RFC 6749, 4.1.3 and 6) as the page's client; return its reply.

        Args:
            form: fields, without the client's.

        Raises:
            Unauthorized: the code or the refresh token has expired or was used.
            Permanent: the provider refuses the client.
            Unavailable: the provider cannot be reached.
        """
        provider = await self.current()
        if provider.token_endpoint is None or self._client_id is None:
            raise Permanent("The identity provider has no endpoint of tokens.")
        fields, headers = {**form, "client_id": self._client_id}, {"accept": "application/json"}
        if self._secret is not None and provider.takes_secret_in_body:
            fields["client_secret"] = self._secret.get_secret_value()
        elif self._secret is not None:
            pair = f"{quote(self._client_id, safe='')}:{quote(self._secret.get_secret_value(), safe='')}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        headers["content-type"] = "application/x-www-form-urlencoded"
        try:
            reply = await self._send("POST", provider.token_endpoint, _TOKEN_SECONDS, urlencode(fields), headers)
            return _tokens_in(reply)
        except _UnusableError as error:
            raise self._unavailable(_sentence(error)) from error

    async def aclose(self) -> None:
        fetching = self._fetching  # which it removes itself when it has ended
        if fetching is not None:
            fetching.cancel()
            await asyncio.gather(fetching, return_exceptions=True)
        for client in self._clients.values():
            await client.aclose()

    def _age_of(self, provider: ProviderDescription) -> float:
        return self._now() - provider.fetched_at

    async def _fetch_once(self) -> None:
        if self._fetching is None:
            if self._tried_at is not None and self._now() - self._tried_at < PAUSE_SECONDS:
                return
            self._fetching = asyncio.create_task(self._fetch())
        await asyncio.wait({self._fetching})  # cancelling one request must not cancel the shared fetch

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                self._known = await self._read()
            problem = None
        except TimeoutError:
            problem = f"The identity provider cannot be reached: it gave no answer within {_FETCH_SECONDS:g} s."
        except _UnusableError as error:
            problem = _sentence(error)
        finally:
            self._tried_at, self._fetching = self._now(), None
        if problem != self.problem:
            log.warning("identity_provider.failed", reason=problem) if problem else log.info(
                "identity_provider.restored"
            )
        self.problem = problem

    async def _read(self) -> ProviderDescription:
        described = _object(await self._get(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"))
        issuer = described.get("issuer")
        if issuer != self._issuer:
            raise _UnusableError(f"its issuer is {issuer!r:.200}, and FOREASK_OIDC_ISSUER must be exactly that")
        address = partial(_address, described)
        keys_address = address("jwks_uri")
        if keys_address is None:
            raise _UnusableError("its description names no address of keys")
        text = await self._get(keys_address)
        keys = _object(text).get("keys")
        if not isinstance(keys, list):
            raise _UnusableError("its set of keys is malformed")
        known = self._known
        methods = described.get("token_endpoint_auth_methods_supported")
        return ProviderDescription(
            keys=known.keys if known is not None and known.keys_text == text else SigningKeys(keys),
            keys_text=text,
            fetched_at=self._now(),
            authorization_endpoint=address("authorization_endpoint"),
            token_endpoint=address("token_endpoint"),
            end_session_endpoint=address("end_session_endpoint"),
            takes_secret_in_body=isinstance(methods, list) and "client_secret_basic" not in methods,
        )

    async def _get(self, url: str) -> bytes:
        reply = await self._send("GET", url, None, None, {"accept": "application/json"})
        if reply.status != _OK:
            raise _UnusableError(f"{urlsplit(url).path} answers with status {reply.status}")
        return reply.content

    async def _send(
        self, method: str, url: str, seconds: float | None, body: str | None, headers: Mapping[str, str]
    ) -> Reply:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._clients:
            self._clients[origin] = Client(origin, {}, _OPTIONS, partial(network.proxy_of, origin))
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        content = None if body is None else body.encode()
        try:
            return await self._clients[origin].send(method, target or "/", content, headers=headers, seconds=seconds)
        except (OSError, ValueError) as error:  # a ValueError is about the proxy that the environment names
            raise _UnusableError(network.problem_of(error) or str(error) or type(error).__name__) from error

    def _unavailable(self, sentence: str | None) -> Unavailable:
        return Unavailable(sentence or "The identity provider cannot be reached.", component=COMPONENT)


def _sentence(error: _UnusableError) -> str:
    return f"The identity provider cannot be reached: {str(error).rstrip('.')}."


def _object(text: bytes) -> Mapping[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise _UnusableError("its reply is not a JSON object")
    return value


def _address(described: Mapping[str, Any], name: str) -> str | None:
    """Return an address in the provider's description; None if there is none."""
    value = described.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.isascii() or not is_confidential(value):
        raise _UnusableError(f"its {name} must start with https://")
    return value


def _tokens_in(reply: Reply) -> Mapping[str, Any]:
    """Return the tokens in a reply of the endpoint of tokens.

    Raises:
        Unauthorized: the code or the refresh token has expired or was used.
        Permanent: the provider refuses the client.
        _UnusableError: the provider fails.
    """
    if reply.status >= _SERVER_ERROR:
        raise _UnusableError(f"its endpoint of tokens answers with status {reply.status}")
    fields = _object(reply.content)
    if reply.status == _OK:
        return fields
    code = fields.get("error")
    if code == "invalid_grant":
        raise Unauthorized("The sign-in has expired: sign in again.", key_state="expired")
    shown = code if isinstance(code, str) and _CODE.fullmatch(code) else f"status {reply.status}"
    raise Permanent(f"The identity provider refuses the sign-in of this page: {shown}.")
