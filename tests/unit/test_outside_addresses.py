"""Addresses that can return credentials of the machine are never visited, in any form that leads to them."""

import asyncio

import pytest

from shared.outside.addresses import ForbiddenAddress, is_never_visited, resolve_host, resolve_host_in_thread
from tests.support.names import resolving
from tests.support.planted import guards


@guards(
    "shared/outside/addresses.py",
    "for each in (parsed, *_translated(parsed))",
    "for each in (parsed,)",
    means="a tenant reads the cloud's credentials by an address that the network translates",
)
@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "169.254.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fe80::1", "fe80::1%eth0",
        "febf::1", "fd00:ec2::254", "fd20:ce::254", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::169.254.169.254",
        "::ffff:0:169.254.169.254", "64:ff9b::169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::169.254.169.254",
        "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1:0:a9:fea9:fe00::", "2002:a9fe:a9fe::1",
        "64:ff9b::100.100.100.200",
    ],
)  # fmt: skip
def test_address_of_credentials_is_never_visited(address):
    assert is_never_visited(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.9.9.9", "192.168.1.1", "100.64.0.1", "172.16.0.1", "::1", "fd12:3456::1", "2001:db8::1",
        "93.184.216.34", "::ffff:10.0.0.1", "64:ff9b::93.184.216.34", "2606:2800:220:1::1",
    ],
)  # fmt: skip
def test_other_private_address_may_be_allowed(address):
    assert not is_never_visited(address)


@pytest.mark.parametrize("lookup", [resolve_host, resolve_host_in_thread])
@pytest.mark.parametrize(
    ("found", "private", "problem"),
    [
        (["10.9.9.9"], True, None),
        (["10.9.9.9"], False, "has a private address, which SETTING does not allow"),
        (["93.184.216.34", "127.0.0.1"], False, "has a private address, which SETTING does not allow"),
        (["169.254.169.254"], False, "has a private address, which SETTING does not allow"),
        (["10.9.9.9", "169.254.169.254"], True, "which is never visited"),
        (["fe80::1"], True, "which is never visited"),
    ],
)
async def test_every_address_of_host_must_be_allowed(monkeypatch, lookup, found, private, problem):
    resolving(monkeypatch, {"host.test": found})

    async def look_up():
        if lookup is resolve_host:
            return await lookup("host.test", 80, private=private, setting="SETTING")
        return await asyncio.to_thread(lookup, "host.test", 80, private=private, setting="SETTING")

    if problem is None:
        assert await look_up() == found
    else:
        with pytest.raises(ForbiddenAddress, match=problem):
            await look_up()
