"""Signed tokens of persons: each refusal with its status and sentence, changed keys, and an unreachable issuer."""

import asyncio
import hmac
import time
import unicodedata
import warnings
from contextlib import suppress

import httpx
import jwt
import pytest
import time_machine
from structlog.testing import capture_logs

from shared.http.access.identities.provider import FRESH_SECONDS, LASTING_SECONDS, PAUSE_SECONDS
from shared.settings import ApiKey
from tests.support.api import KEYS, calling, serving, with_keys
from tests.support.issuer import AUDIENCE, Key, curve_key, edwards_key, issuing, joined, rsa_key
from tests.support.planted import guards


@pytest.fixture
async def issuer():
    async with issuing() as issuer:
        yield issuer


def admitting(settings, issuer, **more):
    """Return settings with keys and an issuer."""
    return with_keys(settings).model_copy(update={"oidc_issuer": issuer.url, "oidc_client_id": AUDIENCE, **more})


@pytest.fixture
async def client(services, settings, issuer):
    async with calling(admitting(settings, issuer), services) as client:
        yield client


def provider_of(client):
    return client._transport.app.state.api.identities.provider


def tokens_of(client):
    return client._transport.app.state.api.identities.tokens


def pass_seconds(client, seconds):
    """Advance the clock of the provider's keys."""
    provider = provider_of(client)
    before = provider._now
    provider._now = lambda: before() + seconds


async def me(client, token, **headers):
    return await client.get("/v1/me", headers={"authorization": f"Bearer {token}", **headers})


async def outcome(client, token):
    """Return the status, the state and the sentence of the reply to a token."""
    reply = (await me(client, token)).json()
    return reply.get("status", 200), reply.get("key_state"), reply.get("detail")


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (Key("k"), "RS256"),
        (Key("k"), "PS512"),
        (Key("k", curve_key()), "ES256"),
        (Key("k", edwards_key()), "EdDSA"),
    ],
    ids=["RS256", "PS512", "ES256", "EdDSA"],
)
async def test_token_of_accepted_algorithm_identifies_person(client, issuer, key, algorithm):
    issuer.keys = [key]

    reply = await me(client, issuer.token(key, algorithm, groups=["legal", "board"]))

    assert reply.status_code == 200, reply.text
    assert reply.json()["tenant"] == "default"
    assert reply.json()["scopes"] == ["ask", "feedback", "read"]


NOW = int(time.time())
EXPIRED = "The token has expired: sign in again."
EARLY = "The token is not valid yet: compare the clocks of this server and of the identity provider."
AUDIENCES = f"The token was issued for another audience than {AUDIENCE}."
MALFORMED = "The token is malformed."


def refused_claims():
    yield "expired", {"exp": NOW - 61}, (401, "expired", EXPIRED)
    yield "not valid yet", {"nbf": NOW + 3_600}, (401, "not_valid_yet", EARLY)
    yield "issued later", {"iat": NOW + 3_600}, (401, "not_valid_yet", EARLY)
    yield "other audience", {"aud": "wiki"}, (401, "other_audience", AUDIENCES)
    yield "other audiences", {"aud": ["wiki", "mail"]}, (401, "other_audience", AUDIENCES)
    yield "other issuer", {"iss": "http://127.0.0.1:9"}, (401, "other_issuer", None)
    yield "trailing slash", {"iss": "URL/"}, (401, "other_issuer", None)
    yield "endless", {"exp": None}, (401, "malformed", "The token has no claim 'exp'.")
    yield "without subject", {"sub": None}, (401, "malformed", "The token has no claim 'sub'.")
    yield "empty subject", {"sub": " "}, (401, "malformed", "The token has no claim 'sub'.")
    yield "without audience", {"aud": None}, (401, "malformed", "The token has no claim 'aud'.")
    yield "number as subject", {"sub": 7}, (401, "malformed", MALFORMED)
    yield "text as end", {"exp": "tomorrow"}, (401, "malformed", MALFORMED)
    yield "event", {"events": {}}, (401, "malformed", "The token reports an event and identifies no person.")
    groups = "The token's claim 'groups' is not a list of names."
    yield "numbers as groups", {"groups": [1]}, (401, "identity", groups)
    yield "object as groups", {"groups": {"legal": True}}, (401, "identity", groups)
    name = "The name of a user or a group has 1 to 256 characters, without control characters."
    yield "control character", {"groups": ["le\ngal"]}, (401, "identity", f"The token cannot be used. {name}")
    yield "long group", {"groups": ["x" * 257]}, (401, "identity", f"The token cannot be used. {name}")
    many = (
        "The person has 1,001 groups; at most 1,000 are possible: let the identity provider, or the application, send"
        " only groups that documents name."
    )
    yield "1,001 groups", {"groups": [f"g{n}" for n in range(1_001)]}, (403, None, many)
    left_out = {"_claim_names": {"groups": "src1"}}
    yield "groups left out", left_out, (403, None, None)


@guards(
    "shared/http/access/identities/tokens.py",
    "leeway=self._skew_seconds,",
    "leeway=10**9,",
    means="a token never expires",
    case="expired",
)
@guards(
    "shared/http/access/identities/tokens.py",
    '"require": _REQUIRED,',
    '"verify_exp": False, "require": _REQUIRED,',
    means="the end of a token is not checked",
    case="expired",
)
@guards(
    "shared/http/access/identities/tokens.py",
    '"require": _REQUIRED,',
    '"verify_nbf": False, "require": _REQUIRED,',
    means="the start of a token is not checked",
    case="not valid yet",
)
@guards(
    "shared/http/access/identities/tokens.py",
    '"require": _REQUIRED,',
    '"verify_iat": False, "require": _REQUIRED,',
    means="a token may be issued in the future",
    case="issued later",
)
@guards(
    "shared/http/access/identities/tokens.py",
    '"require": _REQUIRED,',
    '"verify_aud": False, "require": _REQUIRED,',
    means="a token for another application is accepted",
    case="other audience",
)
@guards(
    "shared/http/access/identities/tokens.py",
    '"require": _REQUIRED,',
    '"verify_iss": False, "require": _REQUIRED,',
    means="a token of another issuer is accepted",
    case="other issuer",
)
@guards(
    "shared/http/access/identities/tokens.py",
    '_REQUIRED = ["exp", "iat", "iss", "aud", "sub"]',
    '_REQUIRED = ["iat", "iss", "aud", "sub"]',
    means="a token without an end is accepted",
    case="endless",
)
@guards(
    "shared/http/access/identities/tokens.py",
    'if "events" in claims:',
    'if "event" in claims:',
    means="a message about a sign-out identifies a person",
    case="event",
)
@pytest.mark.parametrize(
    ("claims", "expected"), [case[1:] for case in refused_claims()], ids=[case[0] for case in refused_claims()]
)
async def test_token_with_wrong_claims_is_refused(client, issuer, claims, expected):
    claims = {name: f"{issuer.url}/" if value == "URL/" else value for name, value in claims.items()}

    status, state, sentence = await outcome(client, issuer.token(**claims))

    assert (status, state) == expected[:2]
    assert sentence == (expected[2] or sentence)
    assert (await me(client, issuer.token())).status_code == 200


def forged(issuer):
    """Yield tokens that the issuer has not signed, each with its state."""
    claims, key = issuer.claims(), issuer.keys[0]
    named = {"kid": key.key_id, "typ": "JWT"}
    yield "alg none", joined({**named, "alg": "none"}, claims), "algorithm"
    yield "alg None", joined({**named, "alg": "None"}, claims), "algorithm"
    yield "no alg", joined(named, claims), "algorithm"
    yield "list as alg", joined({**named, "alg": ["RS256"]}, claims), "algorithm"
    yield "HS256 with the public key", with_secret(claims, named, key.public_text), "algorithm"
    yield "key of another type", issuer.token(Key("first", curve_key()), "ES256"), "other_key"
    yield "another key of the same id", issuer.token(Key("first", rsa_key(1))), "signature"
    yield "unknown key", issuer.token(Key("other", rsa_key(1))), "unknown_key"
    yield "empty signature", joined({**named, "alg": "RS256"}, claims), "signature"
    yield "changed claims", changed(issuer.token(), issuer.claims(sub="eve")), "signature"
    yield (
        "key in its header",
        issuer.token(Key("mine", rsa_key(1)), header={"jwk": Key("mine").published}),
        "unknown_key",
    )
    yield "logout token", issuer.token(header={"typ": "logout+jwt"}), "malformed"
    yield "unknown extension", issuer.token(header={"crit": ["tenant"], "tenant": 1}), "malformed"
    yield "number as key", joined({**named, "alg": "RS256", "kid": 1}, claims), "malformed"
    yield "empty parts", "..", "malformed"
    yield "not JSON", joined(b"{", b"{"), "malformed"
    yield "a list", joined([], []), "malformed"
    yield "deep JSON", joined(b"[" * 40_000, claims), "malformed"
    yield "claims are a list", signed_list(issuer), "malformed"


def with_secret(claims, header, secret):
    header = {**header, "alg": "HS256"}
    content = joined(header, claims).rsplit(".", 1)[0]
    signature = hmac.new(secret, content.encode(), "sha256").digest()
    return joined(header, claims, signature)


def changed(token, claims):
    header, _, signature = token.split(".")
    return f"{header}.{joined({}, claims).split('.')[1]}.{signature}"


def signed_list(issuer):
    return jwt.api_jws.encode(b"[]", issuer.keys[0].private, "RS256", {"kid": "first"})


@guards(
    "shared/http/access/identities/keys.py",
    '"RS384": ("RSA", None),',
    '"HS256": ("RSA", None), "none": ("RSA", None),',
    means="the list of algorithms admits `none` and HS256",
)
@guards(
    "shared/http/access/identities/tokens.py",
    '"require": _REQUIRED,',
    '"verify_signature": False, "require": _REQUIRED,',
    means="signatures are not checked",
)
@guards(
    "shared/http/access/identities/tokens.py",
    "not in _TYPES",
    "in {0}",
    means="tokens for other purposes are accepted",
)
async def test_forged_token_is_refused_with_its_reason(client, issuer):
    assert (await me(client, issuer.token())).status_code == 200

    with capture_logs() as lines:
        for name, token, expected in forged(issuer):
            status, state, sentence = await outcome(client, token)
            assert (status, state) == (401, expected), name
            assert sentence.startswith("The token"), name

    assert {line["state"] for line in lines if line["event"] == "token.refused"} > {"algorithm", "signature"}
    assert not any(part in str(line) for line in lines for part in issuer.token().split("."))


ODD = ["a,b", 'say "hi"', "🦊", "Straße", "Zu\u0308rich", "/departments/legal", " spaced ", "<script>"]


async def test_odd_group_names_arrive_unchanged(client, issuer):
    token = issuer.token(groups=ODD, sub="a\u0308da")

    assert (await me(client, token)).status_code == 200

    (identity,) = tokens_of(client)._verified.values()
    assert identity.person.user == "äda"
    assert identity.person.groups == {unicodedata.normalize("NFC", group) for group in ODD}


@pytest.mark.parametrize("groups", [["legal"], "legal", None, []])
async def test_groups_may_be_one_name_or_none(client, issuer, groups):
    assert (await me(client, issuer.token(groups=groups))).status_code == 200

    (identity,) = tokens_of(client)._verified.values()
    assert identity.person.groups == (frozenset(["legal"]) if groups else frozenset())


async def test_token_with_10000_groups_names_limit(client, issuer):
    status, state, sentence = await outcome(client, issuer.token(groups=[f"group-{n}" for n in range(10_000)]))

    assert (status, state) == (401, "malformed")
    assert "at most 60,000 are possible: let the identity provider send only groups" in sentence


async def test_token_of_megabyte_is_refused_by_server(services, settings, issuer):
    async with serving(admitting(settings, issuer), services) as client:
        with suppress(httpx.TransportError):  # the server may close the connection while the client still sends
            assert (await me(client, f"{'a' * 500_000}.{'b' * 500_000}.c")).status_code == 431

        assert (await me(client, issuer.token(groups=["x" * 40 for _ in range(900)]))).status_code == 200


@guards(
    "shared/http/access/identities/tokens.py",
    'if claim == "email" and',
    'if claim == "mail" and',
    means="an unverified address names a user",
)
async def test_unverified_email_names_no_user(services, settings, issuer):
    async with calling(admitting(settings, issuer, oidc_user_claim="email"), services) as client:
        verified = await me(client, issuer.token(email="ada@example.com", email_verified=True))
        assert verified.status_code == 200
        for claims in ({"email_verified": False}, {"email_verified": "true"}, {}):
            refused = await outcome(client, issuer.token(email="ada@example.com", **claims))
            sentence = "The identity provider has not verified the email address of this user."
            assert refused == (401, "identity", sentence)

        missing = await outcome(client, issuer.token())
        assert missing == (401, "identity", "The token has no claim 'email' with the name of the user.")


async def test_dots_lead_to_claims_in_objects(services, settings, issuer):
    nested = admitting(settings, issuer, oidc_groups_claim="realm_access.roles")
    async with calling(nested, services) as client:
        await me(client, issuer.token(realm_access={"roles": ["legal"]}))
        assert [each.person.groups for each in tokens_of(client)._verified.values()] == [{"legal"}]

    whole = admitting(settings, issuer, oidc_groups_claim="https://example.com/groups")
    async with calling(whole, services) as client:
        await me(client, issuer.token(**{"https://example.com/groups": ["board"]}))
        assert [each.person.groups for each in tokens_of(client)._verified.values()] == [{"board"}]


async def test_claim_names_tenant_and_wrong_one_is_refused(services, settings, issuer):
    async with calling(admitting(settings, issuer, oidc_tenant_claim="org"), services) as client:
        assert (await me(client, issuer.token(org="bob"))).json()["tenant"] == "bob"
        for org in (None, "", "Bob!", ["bob"]):
            refused = await outcome(client, issuer.token(org=org))
            assert refused == (401, "identity", "The token's claim 'org' does not name a tenant.")


@guards(
    "shared/http/access/identities/tokens.py",
    "self._administrators in person.groups,",
    "True,",
    means="every person is an administrator",
)
async def test_administrators_have_every_scope(services, settings, issuer):
    async with calling(admitting(settings, issuer, oidc_administrators="Zürich"), services) as client:
        administrator = await me(client, issuer.token(groups=["Zu\u0308rich"]))
        person = await me(client, issuer.token(groups=["Bern", ""], sub="eve"))

        assert {"manage", "write", "read", "ask", "feedback"} <= set(administrator.json()["scopes"])
        assert person.status_code == 401  # an empty name of a group
        assert (await me(client, issuer.token(groups=["Bern"]))).json()["scopes"] == ["ask", "feedback", "read"]


async def test_scopes_of_persons_can_be_fewer(services, settings, issuer):
    async with calling(admitting(settings, issuer, oidc_person_scopes="ask"), services) as client:
        assert (await me(client, issuer.token())).json()["scopes"] == ["ask"]


async def test_keys_work_next_to_tokens(services, settings, issuer):
    dotted = "dotted.key.with-0123456789abcdef"
    key = ApiKey.parse(f"alice:{dotted}")
    keyed = admitting(settings, issuer)
    keyed = keyed.model_copy(update={"api_keys": (*keyed.api_keys, key)})
    async with calling(keyed, services) as client:
        assert (await me(client, KEYS["bob"])).json()["tenant"] == "bob"
        assert (await me(client, dotted)).json()["tenant"] == "alice"
        assert (await me(client, "unknown")).json()["key_state"] == "unknown"
        assert (await client.get("/v1/me", headers={"x-api-key": issuer.token()})).status_code == 200

    async with calling(with_keys(settings), services) as client:
        sentence = "This server accepts no signed tokens: FOREASK_OIDC_ISSUER is not set."
        assert await outcome(client, issuer.token()) == (401, "unknown", sentence)


async def test_issuer_without_keys_requires_tokens(services, settings, issuer):
    admitted = settings.model_copy(update={"oidc_issuer": issuer.url, "oidc_client_id": AUDIENCE})
    async with calling(admitted, services) as client:
        assert (await client.get("/v1/me")).json()["key_state"] == "missing"
        assert (await me(client, issuer.token())).status_code == 200


async def test_rotated_keys_are_accepted_and_refused_at_once(client, issuer):
    old, new = issuer.keys[0], Key("second", rsa_key(1))
    token = issuer.token(old)
    assert (await me(client, token)).status_code == 200

    issuer.keys = [new]
    pass_seconds(client, PAUSE_SECONDS)
    assert (await me(client, issuer.token(new))).status_code == 200
    gone = "The token is signed with a key that the identity provider does not publish."
    assert await outcome(client, token) == (401, "unknown_key", gone)


@guards(
    "shared/http/access/identities/tokens.py",
    "if provider.keys is not self._keys:",
    "if False:",
    means="a verified token is accepted although its key was removed",
)
@guards(
    "shared/http/access/identities/provider.py",
    "self._age_of(self._known) >= FRESH_SECONDS:",
    "False:",
    means="a removed key is never noticed",
)
async def test_removed_key_is_refused_after_five_minutes(client, issuer):
    token = issuer.token()
    assert (await me(client, token)).status_code == 200
    issuer.keys = [Key("second", rsa_key(1))]

    pass_seconds(client, FRESH_SECONDS - 1)
    assert (await me(client, token)).status_code == 200
    pass_seconds(client, 1)
    assert (await outcome(client, token))[:2] == (401, "unknown_key")


@guards(
    "shared/http/access/identities/provider.py",
    "self._now() - self._tried_at < PAUSE_SECONDS:",
    "False:",
    means="each token with an unknown key asks the issuer",
)
async def test_flood_of_unknown_keys_fetches_once(client, issuer):
    await me(client, issuer.token())
    pass_seconds(client, PAUSE_SECONDS)
    tokens = [issuer.token(Key(f"unknown-{n}", rsa_key(1))) for n in range(20)]

    replies = await asyncio.gather(*(me(client, token) for token in tokens))
    later = [await me(client, token) for token in tokens[:3]]

    assert {reply.status_code for reply in (*replies, *later)} == {401}
    assert issuer.fetched == 2


async def test_concurrent_first_tokens_fetch_keys_once(client, issuer):
    issuer.delay_seconds = 0.05
    tokens = [issuer.token(sub=f"user-{n}") for n in range(20)]

    replies = await asyncio.gather(*(me(client, token) for token in tokens))

    assert {reply.status_code for reply in replies} == {200}
    assert issuer.fetched == 1


async def test_thousand_keys_are_searched_by_id(client, issuer):
    issuer.keys = [Key(f"key-{n}", curve_key()) for n in range(1_000)]

    assert (await me(client, issuer.token(issuer.keys[777], "ES256"))).status_code == 200
    assert len(tokens_of(client)._keys._read) == 1


async def test_token_without_key_id_needs_single_key(client, issuer):
    unnamed = issuer.token(header={"kid": None})
    assert (await me(client, unnamed)).status_code == 200

    issuer.keys.append(Key("second", rsa_key(1)))
    pass_seconds(client, FRESH_SECONDS)
    assert (await outcome(client, unnamed))[:2] == (401, "other_key")


@pytest.mark.parametrize(
    "key",
    [
        Key("first", use="enc"),
        Key("first", alg="RS512"),
        Key("first", key_ops=["sign"]),
        Key("first", kty="EC"),
        Key("first", n="AQAB"),
        Key("first", rsa_key(0, 1024)),
    ],
    ids=["encryption", "other algorithm", "signing only", "other type", "damaged", "short"],
)
async def test_unfit_published_key_verifies_nothing(client, issuer, key):
    issuer.keys = [key]

    with warnings.catch_warnings(category=jwt.InsecureKeyLengthWarning, action="ignore"):
        assert (await outcome(client, issuer.token()))[0] == 401


@guards(
    "shared/http/access/identities/tokens.py",
    "identity.expires_at <= self._now():",
    "False:",
    means="a verified token never expires",
)
async def test_verified_token_is_checked_once_until_it_expires(client, issuer):
    token = issuer.token(exp=int(time.time()) + 5)
    assert (await me(client, token)).status_code == (await me(client, token)).status_code == 200
    tokens = tokens_of(client)
    assert len(tokens._verified) == 1

    tokens._now = lambda: time.time() + 5 + 60
    with time_machine.travel(time.time() + 5 + 60):
        assert await outcome(client, token) == (401, "expired", EXPIRED)


async def test_remembered_tokens_are_bounded(client, issuer, monkeypatch):
    monkeypatch.setattr("shared.http.access.identities.tokens._MOST", 3)
    monkeypatch.setattr("shared.http.access.identities.tokens._MOST_GROUPS", 10)
    for n in range(8):
        assert (await me(client, issuer.token(sub=f"user-{n}", groups=["a", "b", "c", "d"]))).status_code == 200
        assert len(tokens_of(client)._verified) <= 3


DOWN = "The identity provider cannot be reached: "


@guards(
    "shared/http/access/identities/provider.py",
    "self._age_of(self._known) >= LASTING_SECONDS:",
    "False:",
    means="keys of an unreachable issuer are used for ever",
)
@guards(
    "shared/http/access/identities/tokens.py",
    "self._provider.require_reached()",
    "",
    means="a token with a new key is called wrong while the issuer is down",
)
async def test_failing_issuer_keeps_known_keys_one_hour(client, issuer):
    token, later = issuer.token(), issuer.token(Key("second", rsa_key(1)))
    assert (await me(client, token)).status_code == 200
    issuer.is_down = True
    pass_seconds(client, FRESH_SECONDS)

    assert (await me(client, token)).status_code == 200
    assert (await me(client, issuer.token(sub="eve"))).status_code == 200
    refused = await me(client, later)
    sentence = f"{DOWN}/.well-known/openid-configuration answers with status 503."
    assert (refused.status_code, refused.json()["detail"]) == (503, sentence)
    assert refused.json()["component"] == "identity provider"
    health = await client.get("/health/ready")
    assert health.status_code == 200
    for_an_hour = "tokens that are signed with known keys are accepted for an hour after the last contact."
    assert health.json()["warnings"] == [f"{sentence.rstrip('.')}; {for_an_hour}"]

    pass_seconds(client, LASTING_SECONDS - FRESH_SECONDS)
    assert (await outcome(client, token))[0] == 503
    assert (await me(client, KEYS["alice"])).status_code == 200

    issuer.is_down = False
    pass_seconds(client, PAUSE_SECONDS)
    assert (await me(client, token)).status_code == 200
    assert provider_of(client).problem is None


async def test_issuer_that_is_down_at_start_refuses_tokens(services, settings, issuer):
    issuer.is_down = True
    async with calling(admitting(settings, issuer), services) as client:
        status, state, sentence = await outcome(client, issuer.token())
        assert (status, state) == (503, None)
        assert sentence.startswith(DOWN)
        assert (await outcome(client, "a.b.c"))[0] == 503
        health = (await client.get("/health/ready")).json()
        assert health["status"] == "ready"
        assert health["warnings"] == [f"{sentence.rstrip('.')}; no token is accepted."]

        issuer.is_down = False
        pass_seconds(client, PAUSE_SECONDS)
        assert (await me(client, issuer.token())).status_code == 200
        client._transport.app.state.api.readiness._polled_at = 0.0  # its reply is remembered for a second
        assert (await client.get("/health/ready")).json()["warnings"] == []


async def test_refused_connection_is_named(services, settings, issuer):
    admitted = admitting(settings, issuer, oidc_issuer="http://127.0.0.1:9")
    async with calling(admitted, services) as client:
        status, _, sentence = await outcome(client, issuer.token())
        assert (status, sentence) == (
            503,
            f"{DOWN}the connection is refused: check that it runs, and its port.",
        )


async def test_slow_issuer_delays_one_attempt(services, settings, issuer, monkeypatch):
    monkeypatch.setattr("shared.http.access.identities.provider._FETCH_SECONDS", 0.2)
    issuer.delay_seconds = 1
    async with calling(admitting(settings, issuer), services) as client:
        started = time.monotonic()
        replies = await asyncio.gather(*(outcome(client, issuer.token(sub=f"user-{n}")) for n in range(10)))
        assert {reply[0] for reply in replies} == {503}
        assert time.monotonic() - started < 1
        assert replies[0][2] == f"{DOWN}it gave no answer within 0.2 s."


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        ({"issuer": "http://127.0.0.1:9"}, "its issuer is 'http://127.0.0.1:9', and FOREASK_OIDC_ISSUER must be"),
        ({"jwks_uri": "http://keys.example.com/"}, "its jwks_uri must start with https://"),
        ({"jwks_uri": None}, "its description names no address of keys"),
        ({"token_endpoint": ["x"]}, "its token_endpoint must start with https://"),
        ({"token_endpoint": "https://[::1"}, "its token_endpoint must start with https://"),
        ({"token_endpoint": "https://"}, "its token_endpoint must start with https://"),
    ],
    ids=["other issuer", "keys without TLS", "no keys", "list", "damaged", "without host"],
)
@guards(
    "shared/http/access/identities/provider.py",
    "if issuer != self._issuer:",
    "if False:",
    means="the description of another issuer is used",
    case="other issuer",
)
@guards(
    "shared/http/access/identities/provider.py",
    "or not is_confidential(value):",
    "or False:",
    means="keys are fetched without TLS",
    case="keys without TLS",
)
async def test_unusable_description_is_named(client, issuer, described, reason):
    issuer.described = described

    status, _, sentence = await outcome(client, issuer.token())

    assert status == 503
    assert sentence.startswith(DOWN + reason)
