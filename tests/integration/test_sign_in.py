"""The sign-in of persons: codes and refresh tokens, the authors and owners that persons are, and clients of MCP."""

import asyncio
import base64
import hashlib
from urllib.parse import urlencode

import pytest
from foreask_client import AsyncClient
from pydantic import SecretStr
from typer.testing import CliRunner

from cli.main import app
from tests.integration.test_conversations import turn
from tests.support.api import KEYS, as_tenant, calling, ready, serving, with_keys
from tests.support.issuer import AUDIENCE, issuing
from tests.support.oidc_provider import providing, signed_in
from tests.support.planted import guards

BACK = "http://127.0.0.1:8350/signed-in"
VERIFIER = "v" * 43
NONCE = "nonce-0123456789"
CODE = {"code": "abc", "code_verifier": VERIFIER, "nonce": NONCE, "redirect_uri": BACK}
ADA = {"sub": "ada", "name": "Ada Lovelace", "email": "ada@example.com", "groups": ["legal"]}


@pytest.fixture
async def issuer():
    async with issuing() as issuer:
        yield issuer


def admitting(settings, url, **more):
    return with_keys(settings).model_copy(update={"oidc_issuer": url, "oidc_client_id": AUDIENCE, **more})


@pytest.fixture
async def client(services, settings, issuer):
    async with calling(admitting(settings, issuer.url), services) as client:
        yield client


def bearer(token):
    return {"authorization": f"Bearer {token}"}


async def test_person_signs_in_at_provider_of_package(services, settings):
    secret = SecretStr("any")  # the package refuses a client without one
    async with providing(ADA) as url, calling(admitting(settings, url, oidc_client_secret=secret), services) as client:
        facts = (await client.get("/v1/sign-in")).json()
        assert (facts["available"], facts["client_id"], facts["scope"]) == (True, AUDIENCE, "openid profile email")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": facts["client_id"],
            "scope": facts["scope"],
            "redirect_uri": BACK,
            "state": "state-1",
            "nonce": NONCE,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        sent = await signed_in(f"{facts['authorization_endpoint']}?{urlencode(query)}", "ada")
        assert sent["state"] == "state-1"

        reply = await client.post("/v1/sign-in/token", json=CODE | {"code": sent["code"]})

        assert reply.status_code == 200, reply.text
        assert reply.headers["cache-control"] == "no-store"
        assert reply.json()["name"] == "Ada Lovelace"
        assert 3_500 < reply.json()["expires_in_seconds"] <= 3_600
        me = (await client.get("/v1/me", headers=bearer(reply.json()["token"]))).json()
        assert (me["tenant"], me["scopes"]) == ("default", ["ask", "feedback", "read"])
        again = await client.post("/v1/sign-in/token", json=CODE | {"code": sent["code"]})
        sentence = "The sign-in has expired: sign in again."
        assert (again.status_code, again.json()["detail"]) == (401, sentence)


async def test_server_without_client_has_no_sign_in(services, settings, issuer):
    without = {"oidc_issuer": issuer.url, "oidc_audience": AUDIENCE}
    for chosen in (with_keys(settings), with_keys(settings).model_copy(update=without)):
        async with calling(chosen, services) as client:
            assert (await client.get("/v1/sign-in")).json()["available"] is False
            assert (await client.post("/v1/sign-in/token", json=CODE)).status_code == 404
            assert (await client.post("/v1/sign-in/refresh", json={"refresh_token": "r"})).status_code == 404


async def test_access_token_for_server_is_preferred(client, issuer):
    access = issuer.token(sub="ada", groups=["legal"])
    issuer.granted = 200, {"access_token": access, "id_token": issuer.token(nonce=NONCE), "refresh_token": "r1"}

    reply = (await client.post("/v1/sign-in/token", json=CODE)).json()

    assert (reply["token"], reply["refresh_token"], reply["name"]) == (access, "r1", "ada")
    (form,) = issuer.redeemed
    assert form == {
        "grant_type": "authorization_code",
        "code": "abc",
        "code_verifier": VERIFIER,
        "redirect_uri": BACK,
        "client_id": AUDIENCE,
    }


@pytest.mark.parametrize("access", ["opaque", "a.b", None, "OTHER"])
async def test_other_access_token_is_replaced_by_id_token(client, issuer, access):
    id_token = issuer.token(nonce=NONCE, preferred_username="ada.l")
    access = issuer.token(aud="account") if access == "OTHER" else access
    issuer.granted = 200, {"access_token": access, "id_token": id_token}

    reply = (await client.post("/v1/sign-in/token", json=CODE)).json()

    assert (reply["token"], reply["refresh_token"], reply["name"]) == (id_token, None, "ada.l")


@guards(
    "shared/http/access/identities/sign_in.py",
    'if claims.get("nonce") != nonce:',
    "if False:",
    means="a stolen code signs a person in on another browser",
)
@pytest.mark.parametrize("nonce", ["another-nonce", None])
async def test_id_token_of_another_sign_in_is_refused(client, issuer, nonce):
    issuer.granted = 200, {"access_token": issuer.token(), "id_token": issuer.token(nonce=nonce)}

    reply = await client.post("/v1/sign-in/token", json=CODE)

    sentence = "The ID token belongs to another sign-in: sign in again."
    assert (reply.status_code, reply.json()["detail"]) == (401, sentence)


async def test_refresh_returns_next_token(client, issuer):
    token = issuer.token(sub="ada")
    issuer.granted = 200, {"access_token": token, "refresh_token": "r2"}

    reply = await client.post("/v1/sign-in/refresh", json={"refresh_token": "r1"})

    assert (reply.json()["token"], reply.json()["refresh_token"]) == (token, "r2")
    assert issuer.redeemed == [{"grant_type": "refresh_token", "refresh_token": "r1", "client_id": AUDIENCE}]


@pytest.mark.parametrize(
    ("granted", "status", "sentence"),
    [
        ((400, {"error": "invalid_grant"}), 401, "The sign-in has expired: sign in again."),
        (
            (401, {"error": "invalid_client"}),
            502,
            "The identity provider refuses the sign-in of this page: invalid_client.",
        ),
        ((400, {"error": "<b>no</b>"}), 502, "The identity provider refuses the sign-in of this page: status 400."),
        (
            (500, {}),
            503,
            "The identity provider cannot be reached: its endpoint of tokens answers with status 500.",
        ),
        ((200, {"access_token": "opaque"}), 502, "The identity provider has sent no signed token."),
    ],
    ids=["expired", "client", "markup", "failure", "opaque"],
)
async def test_refused_sign_in_names_its_reason(client, issuer, granted, status, sentence):
    issuer.granted = granted

    reply = await client.post("/v1/sign-in/refresh", json={"refresh_token": "r1"})

    assert (reply.status_code, reply.json()["detail"]) == (status, sentence)


@pytest.mark.parametrize("methods", [None, ["client_secret_post"]], ids=["basic", "post"])
async def test_secret_of_client_is_sent_as_demanded(services, settings, issuer, methods):
    issuer.described = {"token_endpoint_auth_methods_supported": methods} if methods else {}
    issuer.granted = 200, {"access_token": issuer.token()}
    secret = SecretStr("s:ecret")
    async with calling(admitting(settings, issuer.url, oidc_client_secret=secret), services) as client:
        await client.post("/v1/sign-in/refresh", json={"refresh_token": "r1"})

    basic = f"Basic {base64.b64encode(f'{AUDIENCE}:s%3Aecret'.encode()).decode()}"
    assert issuer.authorizations == [None if methods else basic]
    assert issuer.redeemed[0].get("client_secret") == ("s:ecret" if methods else None)


async def test_page_of_another_site_may_not_sign_in(client, issuer):
    reply = await client.post("/v1/sign-in/token", json=CODE, headers={"origin": "https://evil.example.com"})

    assert reply.status_code == 403
    assert issuer.redeemed == []


async def test_concurrent_sign_ins_are_limited(client, issuer):
    sign_in = client._transport.app.state.api.identities.sign_in
    sign_in._open = 32

    assert (await client.post("/v1/sign-in/token", json=CODE)).status_code == 429
    sign_in._open = 0
    assert (await client.post("/v1/sign-in/token", json=CODE)).status_code == 401
    assert sign_in._open == 0


# Persons as authors and owners


@guards(
    "shared/http/access/auth.py",
    "return Owner(self.tenant, self.identity.owner)",
    'return Owner(self.tenant, f"person:{self.identity.person.user}")',
    means="a person who receives the name of another one receives their conversations",
)
async def test_conversations_belong_to_person_not_to_name(services, settings, issuer, once):
    await once(ready, ("The harbour opens at six.", "harbour.md"))
    stores = admitting(settings, issuer.url, conversation_retention_days=7, oidc_user_claim="name")
    async with calling(stores, services) as client:

        async def names(**claims):
            reply = await client.get("/v1/conversations", headers=bearer(issuer.token(**claims)))
            assert reply.status_code == 200, reply.text
            return [each["name"] for each in reply.json()["items"]]

        body = {"name": "Leave", "turns": [turn()], "changed_at": "2026-10-01T09:30:00Z"}
        ada = issuer.token(sub="ada", name="A")
        stored = await client.put("/v1/conversations/c1", json=body, headers=bearer(ada))
        assert stored.status_code == 200, stored.text

        assert await names(sub="ada", name="Ada") == ["Leave"]
        assert await names(sub="other", name="A") == []
        assert (await client.get("/v1/conversations", headers=as_tenant("alice"))).json()["items"] == []


async def test_audit_log_names_administrator(services, settings, issuer):
    admitted = admitting(settings, issuer.url, oidc_administrators="admins", oidc_user_claim="email")
    token = issuer.token(sub="7", email="ada@example.com", email_verified=True, groups=["admins"])
    async with calling(admitted, services) as client:
        made = await client.post("/v1/keys", json={"name": "app", "scopes": ["ask"]}, headers=bearer(token))
        assert made.status_code == 201, made.text

        (entry, *_) = (await client.get("/v1/audit", headers=bearer(token))).json()["items"]

    assert entry["actor"] == {"kind": "person", "name": "ada@example.com", "key_id": None}


# MCP


async def test_mcp_refusal_leads_to_identity_provider(client, issuer):
    refused = await client.post("/mcp", json={}, headers={"host": "foreask.example.com"})
    metadata = "http://foreask.example.com/.well-known/oauth-protected-resource/mcp"
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{metadata}"'

    for path in ("", "/mcp"):
        reply = await client.get(
            f"/.well-known/oauth-protected-resource{path}", headers={"host": "foreask.example.com"}
        )
        assert reply.json() == {
            "resource": f"http://foreask.example.com{path}",
            "resource_name": "foreask",
            "authorization_servers": [issuer.url],
            "bearer_methods_supported": ["header"],
        }


async def test_server_without_issuer_has_no_metadata(services, settings):
    async with calling(with_keys(settings), services) as client:
        assert (await client.get("/.well-known/oauth-protected-resource/mcp")).status_code == 404
        refused = await client.post("/mcp", json={})
        assert refused.headers["www-authenticate"] == 'Bearer realm="foreask"'


async def test_mcp_tools_are_those_of_person(client, issuer):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accepted = {"accept": "application/json, text/event-stream", **bearer(issuer.token())}

    reply = await client.post("/mcp", json=call, headers=accepted)

    assert reply.status_code == 200, reply.text
    tools = [tool["name"] for tool in reply.json()["result"]["tools"]]
    assert tools == ["search", "fetch", "ask", "list_collections"]


# The command line and the Python client

QUESTION = "When does the harbour open?"


async def closed_document(services):
    """Index a document that only the group `Zürich, legal` reads."""
    (document,) = await ready(services, ("The harbour opens at six.", "harbour.md"), tenant="alice")
    async with calling(with_keys(services.settings), services) as client:
        change = {"readable_by": ["group:Zürich, legal"]}
        reply = await client.patch(f"/v1/documents/{document.id}", json=change, headers=as_tenant("alice"))
        assert reply.status_code == 200, reply.text


@guards(
    "clients/python/foreask_client/transport.py",
    'self._headers["x-foreask-groups"] =',
    'self._headers["x-foreask-group"] =',
    means="the client leaves out the groups of a person",
)
async def test_client_acts_for_person_with_any_names(services, settings, once):
    await once(closed_document)
    async with serving(with_keys(settings), services) as server:
        url = str(server.base_url)
        for groups, found in ((["Zürich, legal"], ["harbour.md"]), (["Zürich", "legal"], []), ([], [])):
            async with AsyncClient(url, KEYS["alice"], user="ada 🦊", groups=groups) as client:
                assert (await client.me()).person.user == "ada 🦊"
                reply = await client.retrieve(QUESTION)
                assert [chunk.external_id for chunk in reply.chunks] == found
    with pytest.raises(ValueError, match="there is no user"):
        AsyncClient(url, groups=["legal"])


@guards(
    "cli/main.py",
    "    given.set(OnBehalf(",
    "    str(OnBehalf(",
    means="commands act for the key although they name a person",
)
@guards(
    "shared/http/access/auth.py",
    "if identity.is_administrator:",
    "if True:",
    means="a person with a token reads every document",
)
async def test_commands_act_for_person_or_with_token(services, settings, once, issuer):
    await once(closed_document)
    admitted = admitting(settings, issuer.url, oidc_tenant="alice")
    async with serving(admitted, services) as server:

        async def asked(*options, **variables):
            arguments = [*options, "ask", QUESTION, "--json", "--url", str(server.base_url)]
            ran = await asyncio.to_thread(CliRunner().invoke, app, arguments, env=variables)
            return ran.output

        key = {"FOREASK_API_KEY": KEYS["alice"]}
        assert "harbour.md" in await asked(**key)
        assert "harbour.md" not in await asked("--as-user", "ada", "--as-groups", "legal", **key)
        token = issuer.token(groups=["legal"])
        assert "harbour.md" not in await asked("--token", token, **key)
        with_group = issuer.token(groups=["Zürich, legal"])
        assert "harbour.md" in await asked(FOREASK_TOKEN=with_group)
