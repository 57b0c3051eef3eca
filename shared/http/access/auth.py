"""Authentication: the key determines the tenant and the permissions."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hmac import compare_digest
from ipaddress import ip_address
from typing import Annotated, Any, Protocol
from urllib.parse import unquote, urlsplit
from uuid import UUID, uuid5

import structlog
from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from shared.domain.access.actors import Actor, ActorKind
from shared.domain.access.key_texts import OPERATOR, hash_of
from shared.domain.access.keys import PERSON_SCOPES, TENANT_SCOPES, UNLIMITED, KeyLimits, Owner, Scope
from shared.domain.access.persons import Person, person_of
from shared.domain.access.restriction import Restriction
from shared.domain.errors import Forbidden, InvalidInput, Unauthorized, Unavailable
from shared.http.access.identities import Identities, Identity, is_token
from shared.http.access.key_cache import KeyCache
from shared.http.access.person_log import PersonLog
from shared.http.access.query_budgets import QueryBudgets
from shared.http.access.quotas import Quotas
from shared.http.concurrency import Slot
from shared.http.problems import NoBasicKey, TooManyRequests, route_of
from shared.http.strict_route import BeforeBody
from shared.ledger.postgres import actors
from shared.process import peers
from shared.process.telemetry import traces
from shared.settings import Settings

TENANT_WITHOUT_KEYS = "default"
_MAKE_A_KEY = (
    "Make a key with `foreask keys setting`, start the server with the printed FOREASK_API_KEYS, and send the key."
)
_SEND_A_KEY = "Send a key: `Authorization: Bearer KEY` or `X-API-Key: KEY`."
# Scopes of routes whose changes are recorded in the audit log. Uploads and queries are too frequent.
_RECORDED = {Scope.MANAGE, Scope.OPERATOR}
# Headers that proxies, tunnels, delivery networks and load balancers add to requests, or the beginnings of their names.
_OF_PROXIES = (
    "cdn-loop",
    "cf-",  # Cloudflare
    "client-ip",
    "cloudfront-",
    "fastly-",
    "fly-",
    "forwarded",
    "front-end-https",
    "proxy-",
    "remote-",
    "tailscale-",
    "true-client-ip",
    "via",
    "wl-proxy-",  # WebLogic
    "x-akamai-",
    "x-amz-cf-",
    "x-appengine-",
    "x-arr-",  # Azure and IIS
    "x-auth-request-",  # oauth2-proxy
    "x-azure-",
    "x-bluecoat-",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-",
    "x-forwarded",
    "x-goog-authenticated-",
    "x-goog-iap-",
    "x-host",
    "x-http-host-override",
    "x-ngrok-",
    "x-original-",
    "x-originating-",
    "x-pomerium-",
    "x-proxy",
    "x-real-ip",
    "x-remote-",
    "x-rewrite-url",
    "x-scheme",
    "x-varnish",
    "x-vercel-",
)

PERSON_HEADERS = _USER, _GROUPS = "x-foreask-user", "x-foreask-groups"
_PERSONS = UUID("6f1a6c0e-58f4-4b0c-9a0c-0d6a3f0f2a54")  # the namespace of the ids of persons

log = structlog.get_logger()


class _AccessState(Protocol):
    """The part of `HttpState` that authentication uses."""

    @property
    def settings(self) -> Settings: ...
    @property
    def key_cache(self) -> KeyCache: ...
    @property
    def identities(self) -> Identities | None: ...
    @property
    def quotas(self) -> Quotas: ...
    @property
    def query_budgets(self) -> QueryBudgets: ...
    @property
    def person_log(self) -> PersonLog: ...


def require_safe(settings: Settings) -> None:
    """Refuse to serve other machines without keys.

    Raises:
        InvalidInput: no keys are set, and the API would listen on more than loopback.
    """
    if settings.is_keyless and not _is_loopback(settings.api_host):
        raise InvalidInput(
            f"Without keys, the API serves only this machine, but {settings.api_host} accepts other machines: set"
            " FOREASK_API_KEYS=tenant:key, or FOREASK_API_HOST=127.0.0.1.",
            field="api_host",
        )


def require_keys_for_pages(settings: Settings) -> None:
    """Refuse to serve pages of other sites without keys: any program could pose as such a page.

    Raises:
        InvalidInput: no keys are set, and origins are.
    """
    if settings.is_keyless and settings.api_origins:
        raise InvalidInput(
            "Pages of other sites (FOREASK_API_ORIGINS) need a key: set FOREASK_API_KEYS=tenant:key, or"
            " FOREASK_OIDC_ISSUER.",
            field="api_origins",
        )


def require_known_users(settings: Settings) -> None:
    """Refuse to serve without keys if this system does not report which user opens a connection.

    Raises:
        InvalidInput: no keys are set, and every request would be refused.
    """
    if settings.is_keyless and not peers.are_known():
        raise InvalidInput(
            "Without keys, the API serves only the user who started it, but this system does not report the user of a"
            " connection: set FOREASK_API_KEYS=tenant:key.",
            field="api_keys",
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request; `request.state.caller` has it once a route's scope was checked.

    Args:
        tenant: tenant of the key; `OPERATOR`, which is empty, for operators.
        key_name: name of the key in logs; None if the API has no keys.
        key_id: id of the key in the ledger; None for a key of the settings, or without keys.
        limits: limits of the key, in addition to the tenant's limits.
        digest: a digest of a key of the settings; None for another key, or without keys.
        scopes: permissions of the key.
        filter: metadata filter added to each of the key's queries.
        person: the person on whose behalf the request is sent; None: the key itself, which reads every document.
        principals: the readers that the person matches; see `shared.domain.access.persons`.
        identity: the holder of a signed token; None for a key.
    """

    tenant: str
    key_name: str | None
    scopes: frozenset[Scope]
    filter: Mapping[str, Any] | None = None
    key_id: UUID | None = None
    limits: KeyLimits = UNLIMITED
    digest: str | None = None
    person: Person | None = None
    principals: tuple[str, ...] | None = None
    identity: Identity | None = None

    @property
    def restriction(self) -> Restriction:
        """The part of the tenant's documents that the request can find."""
        return Restriction(self.filter, self.principals)

    @property
    def author_id(self) -> UUID | None:
        """The author of queries in the log: a person, by a digest of the name, or the key."""
        if self.person is None:
            return self.key_id
        return person_id(self.tenant, self.person) if self.identity is None else self.identity.id

    @property
    def feedback_key(self) -> UUID | None:
        """The author whose queries and accepted questions the feedback may change; None: an editor may change all."""
        return None if Scope.MANAGE in self.scopes else self.author_id

    @property
    def actor(self) -> Actor:
        """The author of the request's changes in the audit log."""
        if self.identity is not None:
            return Actor(ActorKind.PERSON, self.identity.person.user)
        if self.key_name is None:
            return Actor(ActorKind.LOCAL)
        return Actor(ActorKind.KEY if self.tenant else ActorKind.OPERATOR, self.key_name, self.key_id)

    @property
    def owner(self) -> Owner:
        """The person or the key as an owner; without keys there is one."""
        if self.identity is not None:
            return Owner(self.tenant, self.identity.owner)
        if self.person is not None:
            return Owner(self.tenant, f"person:{person_id(self.tenant, self.person)}")
        if self.key_id is not None:
            return Owner(self.tenant, f"key:{self.key_id}", self.key_id)
        return Owner(self.tenant, "local" if self.digest is None else f"settings:{self.digest}")

    @property
    def reads_users_questions(self) -> bool:
        """Whether replies to queries contain questions that were accepted from other users."""
        return Scope.READ in self.scopes and self.person is None


@dataclass(frozen=True, slots=True)
class Needs(BeforeBody):
    """The dependency of a route that declares its scope.

    Args:
        scope: the scope; None accepts any valid key.
        basic: whether a key may be the password of HTTP Basic authentication. Browsers store such passwords and send
            them with requests of other sites, so only a route for programs accepts them.
        live: whether a key that asks without a filter may send `version=live`. Its questions find every passage of
            that version, and the filter of another key might exclude the document.
        persons: whether the route serves persons. It then replies only with documents that `Caller.restriction` admits.
            A route that says nothing refuses them.
    """

    scope: Scope | None
    basic: bool = False
    live: bool = False
    persons: bool = False

    async def __call__(self, request: Request) -> str:
        """Return the tenant of the request's key; empty for operators.

        Raises:
            Unauthorized: the key is missing, unknown, revoked or expired, or the token is refused. If no keys are
                configured: the connection is not of this process's user, or the request came through a proxy or from a
                page of another site.
            Forbidden: the key lacks the scope, or the route does not serve persons.
            TooManyRequests: the tenant or the key exceeds its rate, or the tenant or its concurrent requests.
            Unavailable: the key is not in the settings, and the ledger is unavailable; or the identity provider is.
        """
        admitted: str | None = getattr(request.state, "tenant", None)
        if admitted is not None:
            return admitted
        caller = await self._identify(request)
        if self.scope is not None and not self._admits(caller, request):
            log.warning("key.refused", status=403, scope=self.scope.value, route=route_of(request.scope))
            raise Forbidden(f"This request needs a key with the scope '{self.scope}', which this key lacks.")
        if caller.person is not None and not self.persons:
            log.warning("key.refused", status=403, route=route_of(request.scope))
            raise Forbidden("This request does not serve persons, because its reply is about all documents.")
        if self.scope in _RECORDED:
            actors.record()
        await count(request, caller)
        request.state.tenant = caller.tenant
        return caller.tenant

    def _admits(self, caller: Caller, request: Request) -> bool:
        if self.scope in caller.scopes:
            return True
        asks_freely = Scope.ASK in caller.scopes and caller.filter is None
        return self.live and asks_freely and request.query_params.getlist("version") == ["live"]

    async def _identify(self, request: Request) -> Caller:
        if not self.basic:
            return await identify(request)
        try:
            return await identify(request, _password(request))
        except Unauthorized as error:
            raise NoBasicKey(error.message, key_state=error.key_state) from error


# The tenant of a request whose key has the scope.
Reader = Annotated[str, Depends(Needs(Scope.READ))]
Asker = Annotated[str, Depends(Needs(Scope.ASK, persons=True))]
Writer = Annotated[str, Depends(Needs(Scope.WRITE))]
Manager = Annotated[str, Depends(Needs(Scope.MANAGE))]
Notifier = Annotated[str, Depends(Needs(Scope.WRITE, basic=True))]
Operator = Depends(Needs(Scope.OPERATOR))


async def _spending_caller(request: Request) -> Caller:
    """Admit the caller of a route that calls models; the calls of the request are charged to the budgets of queries.

    Raises:
        TooManyRequests: a budget is used up.
        Conflict: a budget in money cannot be kept, because a model has no price.
    """
    caller: Caller = request.state.caller
    await _state(request).query_budgets.admit(caller.tenant, caller.key_id, caller.limits)
    return caller


async def admit_another_query(request: Request) -> None:
    """Admit another query of a request that has several: it counts towards the rates, and needs a budget.

    Raises:
        TooManyRequests: a limit is reached, or a budget is used up.
        Conflict: as `_spending_caller`.
    """
    await count(request, await _spending_caller(request))


async def _asking_caller(request: Request, _: Asker) -> Caller:
    return await _spending_caller(request)


async def _trying_caller(request: Request, _: Writer) -> Caller:
    return await _spending_caller(request)


async def _spending_manager(request: Request, _: Manager) -> Caller:
    return await _spending_caller(request)


# The caller, because queries use the filter and the limits of the key; a used-up budget of queries rejects the request.
AskingCaller = Annotated[Caller, Depends(_asking_caller)]
TryingCaller = Annotated[Caller, Depends(_trying_caller)]
SpendingManager = Annotated[Caller, Depends(_spending_manager)]


async def _rating_caller(request: Request, _: Annotated[str, Depends(Needs(Scope.FEEDBACK, persons=True))]) -> Caller:
    caller: Caller = request.state.caller
    return caller


# The caller, because feedback changes the accepted questions of the key.
RatingCaller = Annotated[Caller, Depends(_rating_caller)]


async def _reading_caller(request: Request, _: Annotated[str, Depends(Needs(Scope.READ, persons=True))]) -> Caller:
    caller: Caller = request.state.caller
    return caller


async def _live_reading_caller(
    request: Request, _: Annotated[str, Depends(Needs(Scope.READ, live=True, persons=True))]
) -> Caller:
    caller: Caller = request.state.caller
    return caller


# The caller, because lists and contents show only the documents that a person reads.
ReadingCaller = Annotated[Caller, Depends(_reading_caller)]
LiveReadingCaller = Annotated[Caller, Depends(_live_reading_caller)]


async def _any_caller(request: Request, _: Annotated[str, Depends(Needs(None, persons=True))]) -> Caller:
    caller: Caller = request.state.caller
    return caller


# Any caller with a valid key.
AnyCaller = Annotated[Caller, Depends(_any_caller)]


def person_id(tenant: str, person: Person) -> UUID:
    """Return the id of a person in a tenant: the same name has the same id, and the id does not contain it."""
    return uuid5(_PERSONS, f"{tenant}\n{person.user}")


async def identify(request: Request, password: str | None = None) -> Caller:
    """Identify the sender of a request, for its log lines, its span and `request.state`.

    Args:
        request: the request.
        password: a key that is used if the request has no other.

    Raises:
        Unauthorized, Unavailable: as `Needs`.
    """
    caller = await _authenticate(request, password)
    structlog.contextvars.bind_contextvars(tenant=caller.tenant or None, key=caller.key_name)
    traces.note("foreask.tenant", caller.tenant)
    actors.identify(caller.actor)
    request.state.caller = caller
    return caller


async def require_still_valid(request: Request) -> None:
    """Check the key of a long request again; an unavailable ledger is not an error here.

    Raises:
        Unauthorized: the key was revoked or has expired since.
    """
    with suppress(Unavailable):
        await _authenticate(request)


async def _authenticate(request: Request, password: str | None = None) -> Caller:
    return await _on_behalf(request, await _holder(request, password))


async def _on_behalf(request: Request, holder: Caller) -> Caller:
    """Return the person whom the holder of a key names, with the rights of both.

    Raises:
        Forbidden: the key may not name a person, or has to.
        InvalidInput: the person's names are malformed.
        Unavailable: the ledger cannot record that a manager views documents as a person.
    """
    users, groups = (request.headers.getlist(header) for header in (_USER, _GROUPS))
    may_delegate = Scope.DELEGATE in holder.scopes
    if not users and not groups:
        if may_delegate and Scope.MANAGE not in holder.scopes:
            raise Forbidden("This key acts for persons: name one with the header X-Foreask-User.")
        return holder
    if not may_delegate:
        raise Forbidden(f"Only a key with the scope '{Scope.DELEGATE}' may name a person with X-Foreask-User.")
    if len(users) != 1 or len(groups) > 1:
        raise InvalidInput("Send X-Foreask-User once, and X-Foreask-Groups at most once, with commas between groups.")
    person = person_of(_decoded(users[0]), [_decoded(group) for group in "".join(groups).split(",") if group.strip()])
    principals = person.principals(reads_unset=_state(request).settings.readable_by_default == "everyone")
    person_log = _state(request).person_log
    person_log.see(holder.tenant, person)
    if Scope.MANAGE in holder.scopes:
        await person_log.view(holder.actor, holder.tenant, person)
    return replace(holder, scopes=holder.scopes & PERSON_SCOPES, person=person, principals=principals)


def _decoded(name: str) -> str:
    """Return a name from a header, in which other characters than ASCII are percent-encoded UTF-8.

    Raises:
        InvalidInput: it is not UTF-8.
    """
    try:
        return unquote(name.strip(), errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput("Names in X-Foreask-User and X-Foreask-Groups are percent-encoded UTF-8.") from None


async def _holder(request: Request, password: str | None) -> Caller:
    settings = _state(request).settings
    if settings.is_keyless:
        _require_own_user(request)
        return Caller(TENANT_WITHOUT_KEYS, None, frozenset(Scope))
    key = _key(request) or password
    if key is None:
        raise _unauthorized(request, _SEND_A_KEY, "missing")
    sha256 = hash_of(key)
    caller = _of_settings(settings, sha256)  # a key of the settings may have dots
    if caller is None and is_token(key):
        return await _of_token(request, key)
    return caller or await _of_ledger(request, sha256)


def _state(request: Request) -> _AccessState:
    state: _AccessState = request.app.state.api
    return state


async def count(request: Request, caller: Caller) -> None:
    """Count the request towards the concurrent requests of its tenant, and the rates of its key and tenant.

    A request that the application sends to itself (see `within_counted_request`) does not count towards the rates.

    Raises:
        TooManyRequests: a limit is reached.
    """
    if not caller.tenant:  # an operator has no limits
        return
    _hold_slot(request, caller)
    if not getattr(request.state, "is_counted", False):
        quotas = _state(request).quotas
        request.state.headers = await quotas.count_request(caller.tenant, caller.key_id, caller.limits)


def within_counted_request(app: ASGIApp) -> ASGIApp:
    """Return the application for the requests that it sends to itself while it serves a counted request."""

    async def serve(scope: AsgiScope, receive: Receive, send: Send) -> None:
        # The state of a request is set by the server, never by the client.
        await app({**scope, "state": {"is_counted": True, "peer": peers.ThisProcess()}}, receive, send)

    return serve


def _hold_slot(request: Request, caller: Caller) -> None:
    slot: Slot | None = getattr(request.state, "slot", None)  # listeners to events have no slot
    has_key = caller.key_name is not None  # without keys there is only one tenant
    if slot is not None and has_key and not slot.assign(caller.tenant):
        raise TooManyRequests("This tenant has too many concurrent requests: wait for their replies.")


def _of_settings(settings: Settings, sha256: bytes) -> Caller | None:
    caller = None
    # Every key is compared, so that the duration does not reveal which one matches.
    for api_key in (*settings.api_keys, *settings.operator_keys):
        if compare_digest(api_key.sha256, sha256):
            scopes = frozenset({Scope.OPERATOR}) if api_key.tenant == OPERATOR else TENANT_SCOPES
            digest = hash_of(f"owner {sha256.hex()}").hex()  # the hash itself is a value of the settings
            caller = Caller(api_key.tenant, settings_name(sha256), scopes, digest=digest)
    return caller


async def _of_ledger(request: Request, sha256: bytes) -> Caller:
    key_cache = _state(request).key_cache
    # The duration of this lookup reveals nothing about keys, because it uses the hash of the sent key.
    key = await key_cache.find(sha256)
    if key is None:
        raise _unauthorized(request, "The key is unknown.", "unknown", _short(sha256))
    if why := key.ended:  # by the ledger's clock, at most four seconds ago
        state = "expired" if key.revoked_at is None else "revoked"
        raise _unauthorized(request, f"The key '{key.name}' {why}.", state, key.name)
    key_cache.record_use(key)
    return Caller(key.tenant, key.name, key.scopes, key.filter, key.id, key.limits)


async def _of_token(request: Request, token: str) -> Caller:
    """Return the person who holds a signed token.

    Raises:
        Unauthorized: the token is not valid; `key_state` says why.
        Forbidden: the person has too many groups.
        Unavailable: the identity provider cannot be reached.
    """
    identities = _state(request).identities
    if identities is None:
        raise _unauthorized(request, "This server accepts no signed tokens: FOREASK_OIDC_ISSUER is not set.", "unknown")
    try:
        identity = await identities.tokens.identify(token)
    except (Unauthorized, Forbidden) as error:
        state = error.key_state if isinstance(error, Unauthorized) else None
        log.warning("token.refused", status=403 if state is None else 401, state=state, route=route_of(request.scope))
        raise
    caller = Caller(identity.tenant, identity.log_name, TENANT_SCOPES, identity=identity)
    if identity.is_administrator:
        return caller
    scopes = _state(request).settings.scopes_of_persons
    return replace(caller, scopes=scopes, person=identity.person, principals=identity.principals)


def _unauthorized(
    request: Request, message: str, key_state: str | None = None, key_name: str | None = None
) -> Unauthorized:
    log.warning("key.refused", status=401, key=key_name, route=route_of(request.scope))
    return Unauthorized(message, key_state=key_state)


def settings_name(sha256: bytes) -> str:
    """Return the name of a key of the settings, which has no other."""
    return f"settings:{_short(sha256)}"


def _short(sha256: bytes) -> str:
    return sha256.hex()[:8]


def _key(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return request.headers.get("x-api-key") or None


def _password(request: Request) -> str | None:
    """Return the password of HTTP Basic authentication, whose user name does not matter."""
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return b64decode(encoded.strip(), validate=True).decode().partition(":")[2] or None
    except ValueError:  # neither Base64 nor UTF-8
        return None


def _require_own_user(request: Request) -> None:
    peer: peers.Peer | None = getattr(request.state, "peer", None)
    if peer is None or not peer.is_own_user:
        raise _unauthorized(
            request,
            "Without keys, only programs of the user who started this server are served. This connection belongs to"
            f" another user, or came through a proxy or a container. {_MAKE_A_KEY}",
        )
    # A proxy on this machine would admit other machines: its address is loopback, and its Host header may be, too.
    if any(name.startswith(_OF_PROXIES) for name in request.headers):
        raise _unauthorized(
            request,
            "Without keys, only programs of the user who started this server are served. This request came through a"
            f" proxy. {_MAKE_A_KEY}",
        )
    # A web page could reach this server by a name that resolves to loopback, by a form that posts to it, or by an
    # element that loads from it. A page on another port of this machine is another program, too.
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname
    if not (host and _is_loopback(host)) or is_of_foreign_page(request):
        raise _unauthorized(
            request, "Without keys, only local programs are served: call 127.0.0.1, or set FOREASK_API_KEYS."
        )


def is_of_foreign_page(request: Request) -> bool:
    """Return whether a browser sent the request for a page of another origin, such as another port."""
    origin = request.headers.get("origin")
    if origin is not None:
        return urlsplit(origin).netloc != request.headers.get("host")
    return request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
