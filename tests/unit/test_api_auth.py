"""The key alone determines the tenant; if no keys are set, the API serves only local programs."""

from types import SimpleNamespace

import pytest
from starlette.requests import Request

from api.app import create
from shared.domain.access.keys import Scope
from shared.domain.errors import InvalidInput, Unauthorized
from shared.http.access.auth import TENANT_WITHOUT_KEYS, Needs
from shared.http.access.key_cache import KeyCache
from shared.http.access.quotas import Quotas
from shared.process.peers import ThisProcess
from shared.settings import Settings
from tests.support.api import KEYS, with_keys
from tests.support.planted import guards

NO_KEYS = Settings(_env_file=None)
tenant_of = Needs(Scope.READ)


def request_with(settings, peer=ThisProcess(), **headers):  # noqa: B008 - it has no state
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    quotas = Quotas(settings, use=None, documents=None)  # requests of a tenant without limits are not counted
    state = SimpleNamespace(settings=settings, key_cache=KeyCache(EmptyLedger()), quotas=quotas)
    app = SimpleNamespace(state=SimpleNamespace(api=state))
    scope = {"type": "http", "headers": raw, "app": app, "path": "/v1/status", "server": ("127.0.0.1", 80)}
    return Request({**scope, "state": {"peer": peer}})


class EmptyLedger:
    """A store without keys."""

    async def find(self, hashes):
        return {}


@pytest.mark.parametrize("tenant", KEYS)
@pytest.mark.parametrize("form", ["bearer", "BEARER", "x_api_key"])
async def test_key_identifies_its_tenant(tenant, form):
    header = {"x_api_key": KEYS[tenant]} if form == "x_api_key" else {"authorization": f"{form} {KEYS[tenant]}"}

    assert await tenant_of(request_with(with_keys(NO_KEYS), **header)) == tenant


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": f"Basic {KEYS['alice']}"},
        {"authorization": f"Bearer {KEYS['alice']}x"},
        {"authorization": "Bearer schlüssel"},
        {"x_api_key": ""},
        {"x_api_key": "alice"},
        {"x_tenant": "alice"},
    ],
)
async def test_missing_and_unknown_keys_are_rejected(headers):
    with pytest.raises(Unauthorized):
        await tenant_of(request_with(with_keys(NO_KEYS), **headers))


@pytest.mark.parametrize("host", ["127.0.0.1:8350", "localhost:8350", "localhost", "[::1]:8350", "127.8.8.8"])
async def test_keyless_mode_serves_local_programs(host):
    assert await tenant_of(request_with(NO_KEYS, host=host)) == TENANT_WITHOUT_KEYS


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "rebound.example"},
        {"host": ""},
        {},
        {"host": "127.0.0.1", "origin": "https://evil.example"},
        {"host": "127.0.0.1", "origin": "null"},
        {"host": "127.0.0.1:8350", "origin": "http://127.0.0.1:3000"},
        {"host": "127.0.0.1:8350", "origin": "http://localhost:8350"},
        {"host": "127.0.0.1:8350", "sec_fetch_site": "same-site"},
        {"host": "127.0.0.1:8350", "sec_fetch_site": "cross-site"},
    ],
)
async def test_keyless_mode_refuses_pages_of_other_sites(headers):
    with pytest.raises(Unauthorized):
        await tenant_of(request_with(NO_KEYS, **headers))


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://127.0.0.1:8350"}, {"sec_fetch_site": "same-origin"}, {"sec_fetch_site": "none"}],
)
async def test_keyless_mode_serves_its_own_page(headers):
    assert await tenant_of(request_with(NO_KEYS, host="127.0.0.1:8350", **headers)) == TENANT_WITHOUT_KEYS


@pytest.mark.parametrize(
    "header",
    [
        "forwarded",
        "x_forwarded_for",
        "x_forwarded_proto",
        "x_forwarded_host",
        "via",
        "x_real_ip",
        "cf_connecting_ip",
        "true_client_ip",
        "cdn_loop",
        "x_client_ip",
        "x_original_host",
        "x_original_forwarded_for",
        "x_forwarded",
        "cf_ray",
        "fly_client_ip",
        "fastly_client_ip",
        "tailscale_user_login",
        "x_amz_cf_id",
        "x_azure_ref",
        "x_cluster_client_ip",
        "x_envoy_external_address",
        "x_ngrok_id",
        "x_vercel_id",
        "x_proxyuser_ip",
        "remote_user",
        "proxy_connection",
    ],
)
async def test_keyless_mode_refuses_proxied_requests(header):
    with pytest.raises(Unauthorized, match="through a proxy"):
        await tenant_of(request_with(NO_KEYS, host="127.0.0.1", **{header: "203.0.113.7"}))

    with_key = request_with(with_keys(NO_KEYS), x_api_key=KEYS["bob"], **{header: "203.0.113.7"})
    assert await tenant_of(with_key) == "bob"


@pytest.mark.parametrize(
    "header", ["user_agent", "accept", "x_request_id", "traceparent", "x_stainless_os", "x_requested_with", "referer"]
)
async def test_keyless_mode_serves_headers_of_programs(header):
    assert await tenant_of(request_with(NO_KEYS, host="127.0.0.1", **{header: "any"})) == TENANT_WITHOUT_KEYS


class AnotherUser:
    """The other end of a connection that another user has opened, or an unknown one."""

    is_own_user = False


@guards(
    "shared/http/access/auth.py",
    "if peer is None or not peer.is_own_user:",
    "if peer is None:",
    means="another user of the machine reads every file that the user of `foreask up` can read",
    case="AnotherUser",
)
@pytest.mark.parametrize("peer", [AnotherUser(), None], ids=["AnotherUser", "no connection"])
async def test_keyless_mode_refuses_other_users_with_advice(peer):
    with pytest.raises(Unauthorized, match=r"another user.*foreask keys setting.*FOREASK_API_KEYS"):
        await tenant_of(request_with(NO_KEYS, peer, host="127.0.0.1"))

    assert await tenant_of(request_with(with_keys(NO_KEYS), peer, x_api_key=KEYS["bob"])) == "bob"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com", ""])
def test_keyless_mode_rejects_public_listen_address(host):
    with pytest.raises(InvalidInput, match="FOREASK_API_KEYS"):
        create(Settings(_env_file=None, api_host=host))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_keyless_mode_accepts_loopback_listen_address(host):
    create(Settings(_env_file=None, api_host=host))


def test_keyed_mode_serves_any_origin():
    create(with_keys(Settings(_env_file=None, api_host="0.0.0.0")))
