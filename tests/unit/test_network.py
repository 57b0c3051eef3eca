"""One reading of the network's configuration for all clients: proxies, certificates, addresses, and reasons."""

import asyncio
import errno
import socket
import ssl
from datetime import timedelta

import aiohttp
import pytest

from shared.process.network import problem_of, proxy_of
from shared.process.network.brokers import read_broker_url
from shared.process.network.certificates import new_ssl_context, own_authorities, trust, unusable_variable
from shared.process.network.timeouts import StreamPace
from tests.support.authority import Authority
from tests.support.clock import in_virtual_time
from tests.support.planted import guards

PROXY = "http://proxy.example:3128"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Remove the variables of the network, and return a function that sets some."""
    names = (*VARIABLES, "ssl_cert_file", "ssl_cert_dir", "requests_ca_bundle", "curl_ca_bundle")
    for name in (*names, *map(str.upper, names)):
        monkeypatch.delenv(name, raising=False)
    yield lambda variables: [monkeypatch.setenv(name, value) for name, value in variables.items()]
    trust(None)


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({}, "https://api.example/v1", None),
        ({"HTTPS_PROXY": PROXY}, "https://api.example/v1", PROXY),
        ({"HTTPS_PROXY": PROXY}, "http://api.example/v1", None),
        ({"https_proxy": "", "HTTPS_PROXY": PROXY}, "https://api.example/v1", None),
        ({"https_proxy": PROXY, "HTTPS_PROXY": "http://other:1"}, "https://api.example/v1", PROXY),
        ({"ALL_PROXY": PROXY}, "http://api.example/v1", PROXY),
        ({"ALL_PROXY": "http://other:1", "HTTP_PROXY": PROXY}, "http://api.example/v1", PROXY),
        ({"HTTP_PROXY": "proxy.example:3128"}, "http://api.example/v1", PROXY),
        ({"HTTP_PROXY": "user:word@proxy.example:1"}, "http://api.example/v1", "http://user:word@proxy.example:1"),
    ],
)
def test_proxy_is_read_from_environment(environment, variables, url, proxy):
    environment(variables)

    assert proxy_of(url) == proxy


@guards(
    "shared/process/network/proxies.py",
    "if is_near(host) or _is_exempt",
    "if _is_exempt",
    means="texts for a model on this machine are sent to a proxy",
)
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "localhost", "a.localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "qdrant"]
)
def test_this_machine_is_never_reached_by_proxy(environment, host):
    environment({"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, "ALL_PROXY": PROXY})

    assert proxy_of(f"http://{host}:8080/v1") is None
    assert proxy_of(f"https://{host}/v1") is None


@pytest.mark.parametrize(
    ("exempt", "url", "direct"),
    [
        ("*", "http://api.example/v1", True),
        ("api.example", "http://api.example/v1", True),
        ("API.example", "http://Api.Example./v1", True),
        ("example", "http://api.example/v1", True),
        (".example", "http://api.example/v1", True),
        ("*.example", "http://api.example/v1", True),
        ("pi.example", "http://api.example/v1", False),
        ("api.example:8080", "http://api.example:8080/v1", True),
        ("api.example:8080", "http://api.example/v1", False),
        ("api.example:443", "https://api.example/v1", True),
        ("other, api.example", "http://api.example/v1", True),
        ("other api.example", "http://api.example/v1", True),
        ("10.0.0.0/8", "http://10.1.2.3:8000/v1", True),
        ("10.0.0.0/8", "http://11.1.2.3:8000/v1", False),
        ("10.1.2.3", "http://10.1.2.3/v1", True),
        ("10.1.2.3:8000", "http://10.1.2.3:8000/v1", True),
        ("10.1.2.3:8000", "http://10.1.2.3:8001/v1", False),
        ("fd00::/8", "http://[fd00::1]:8000/v1", True),
        ("fd00::1", "http://[fd00::1]:8000/v1", True),
        ("[fd00::1]:8000", "http://[fd00::1]:8000/v1", True),
        ("[fd00::1]:8001", "http://[fd00::1]:8000/v1", False),
        ("not/a/range", "http://10.1.2.3/v1", False),
        (",", "http://api.example/v1", False),
    ],
)
@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_exempt_addresses_are_connected_directly(environment, name, exempt, url, direct):
    environment({"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, name: exempt})

    assert (proxy_of(url) is None) is direct


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("socks5://user:word@proxy.example:1080", "HTTPS_PROXY names a SOCKS proxy"),
        ("socks5h://proxy.example", "HTTPS_PROXY names a SOCKS proxy"),
        ("ftp://user:word@proxy.example", "HTTPS_PROXY names no proxy"),
        ("http://", "HTTPS_PROXY names no proxy"),
        ("http://proxy.example:word", "HTTPS_PROXY names no proxy"),
    ],
)
def test_unusable_proxy_is_named_without_password(environment, value, problem):
    environment({"HTTPS_PROXY": value})

    with pytest.raises(ValueError, match=problem) as caught:
        proxy_of("https://api.example/v1")

    assert "word" not in str(caught.value)
    assert proxy_of("http://127.0.0.1:8000/v1") is None  # this machine needs none


@pytest.mark.parametrize(
    ("url", "plain", "check"),
    [
        ("redis://host", "redis://host/0", None),
        ("redis://:p%40ss@host:6380/3", "redis://:p%40ss@host:6380/3", None),
        ("redis://host?db=2", "redis://host/2", None),
        ("valkey://host:6379/1", "redis://host:6379/1", None),
        ("rediss://user:word@host:6380/0", "rediss://user:word@host:6380/0", "required"),
        ("valkeys://host", "rediss://host/0", "required"),
        ("REDISS://host", "rediss://host/0", "required"),
        ("rediss://host/0?ssl_cert_reqs=none", "rediss://host/0", "none"),
        ("rediss://host/0?ssl_cert_reqs=CERT_NONE", "rediss://host/0", "none"),
        ("rediss://host/0?ssl_cert_reqs=CERT_REQUIRED", "rediss://host/0", "required"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0", None),
    ],
)
def test_broker_url_is_read_once_for_all_clients(url, plain, check):
    assert read_broker_url(url)[0] == plain
    assert read_broker_url(url)[1].get("ssl_cert_reqs") == check


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sentinel://:s3cret@host:26379/0", "Sentinel is not supported"),
        ("redis+sentinel://:s3cret@host:26379/mymaster/0", "Sentinel is not supported"),
        ("redis+cluster://:s3cret@host", "Redis Cluster is not supported"),
        ("unix:///run/s3cret.sock", "Unix socket is not supported"),
        ("redis+socket:///run/s3cret.sock", "Unix socket is not supported"),
        ("host:6379", "must have the form redis://"),
        ("http://:s3cret@host", "must have the form redis://"),
        ("redis://:s3cret@one,two/0", "must have the form redis://"),
        ("redis://:s3cret@one:1;redis://:s3cret@two:2", "must have the form redis://"),
        ("redis://:s3cret@host:port", "must have the form redis://"),
        ("redis://", "must have the form redis://"),
        ("redis://:s3cret@host/name", "must be the number of a database"),
        ("redis://:s3cret@host?ssl_cert_reqs=required", "write rediss://"),
        ("rediss://:s3cret@host?ssl_cert_reqs=s3cret", "ssl_cert_reqs must be required, optional or none"),
        ("rediss://:s3cret@host?ssl_check_hostname=s3cret", "ssl_check_hostname must be true or false"),
        ("rediss://:s3cret@host?ssl_ca_certs=/no/s3cret.pem", "the file of its parameter ssl_ca_certs does not exist"),
        ("redis://:s3cret@host?socket_timeout=s3cret", "unknown parameter socket_timeout"),
    ],
)
def test_unusable_broker_url_is_explained_without_password(url, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        read_broker_url(url)

    assert "s3cret" not in str(caught.value)


def test_company_authority_is_added_to_others(tmp_path, environment):
    company, bundle = Authority(tmp_path), Authority(tmp_path, "bundle")
    without = new_ssl_context().cert_store_stats()["x509_ca"]
    trust(company.file)
    environment({"REQUESTS_CA_BUNDLE": str(bundle.file)})

    assert without > 100
    assert new_ssl_context().cert_store_stats()["x509_ca"] == without + 2
    assert own_authorities().endswith(company.file.read_text())
    assert bundle.file.read_text() in own_authorities()


def test_missing_bundle_breaks_no_reading_of_settings(environment):
    environment({"REQUESTS_CA_BUNDLE": "/missing/ca.pem"})

    assert read_broker_url("rediss://host")[0] == "rediss://host/0"
    assert unusable_variable() == "REQUESTS_CA_BUNDLE"


def test_variable_of_openssl_replaces_usual_authorities(tmp_path, environment):
    company, other = Authority(tmp_path), Authority(tmp_path, "other")
    trust(company.file)
    environment({"SSL_CERT_FILE": str(other.file)})

    assert new_ssl_context().cert_store_stats()["x509_ca"] == 2


def caused(error, cause):
    error.__cause__ = cause
    return error


def verification(code):
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    return error


KEY = aiohttp.client_reqrep.ConnectionKey(
    "host", 443, is_ssl=True, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None
)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (verification(19), "set FOREASK_CA_FILE to the file of your company's certificate authority"),
        (verification(20), "set FOREASK_CA_FILE"),
        (verification(10), "its certificate has expired"),
        (verification(62), "its certificate is for another host"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), "the encrypted connection fails"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "its host name is not found"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "the connection is refused"),
        (OSError(f"Multiple exceptions: [Errno {errno.ECONNREFUSED}] one, two"), "the connection is refused"),
        (ConnectionResetError(), "it closed the connection"),
        (TimeoutError(), "it did not answer in time"),
        (OSError(errno.EHOSTUNREACH, "no route"), "its address has no route from this machine"),
        (
            aiohttp.ClientProxyConnectionError(KEY, ConnectionRefusedError(errno.ECONNREFUSED, "refused")),
            "the proxy that the environment names (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) cannot be reached",
        ),
    ],
)
def test_failed_connection_has_a_reason(error, words):
    assert words in problem_of(error)
    assert words in problem_of(caused(RuntimeError("outer"), caused(RuntimeError("redis://:word@host"), error)))


def test_unknown_failure_has_no_reason():
    assert problem_of(ValueError("redis://:word@host")) is None


@in_virtual_time
async def test_stream_pace_counts_events_and_not_bytes():
    async def events(*pauses):
        for pause in pauses:
            await asyncio.sleep(pause)
            yield pause

    loop = asyncio.get_running_loop()

    async def read(*pauses):
        started, count = loop.time(), 0
        pace = StreamPace(timedelta(seconds=8), timedelta(seconds=80))
        try:
            async for _ in pace.each(events(*pauses)):
                count += 1
        except TimeoutError:
            return count, loop.time() - started
        return count, "ended"

    assert await read(7, 7, 7) == (3, "ended")
    assert await read(9) == (0, 8)
    assert await read(7, 9) == (1, 15)
    assert await read(*[7] * 20) == (11, 80)
