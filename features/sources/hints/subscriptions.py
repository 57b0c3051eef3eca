"""Subscriptions of Amazon SNS, which start with a message that names an address: a request to it confirms them.

The message needs a key of the tenant, but its address is untrusted. Only an address of SNS is requested, so that no
sender can direct the server elsewhere.
"""

from __future__ import annotations

import asyncio
import re
from urllib.parse import parse_qs

import httpx

from features.sources.errors import unavailable
from shared.domain.errors import InvalidInput
from shared.outside import addresses
from shared.outside.addresses import ForbiddenAddress
from shared.outside.requests import pinned
from shared.process.network import problem_of

CONFIRM_SECONDS = 10.0  # SNS waits 15 s for the reply to its message
_HOST = re.compile(r"sns\.[a-z0-9-]{1,40}\.amazonaws\.com(?:\.cn)?")
_USER = re.compile(r"//[^/]*@")
_SHOWN_CHARS = 200
_PURPOSE = addresses.Purpose(
    name="a subscription",
    example="https://sns.REGION.amazonaws.com/?Action=ConfirmSubscription",
    credentials="remove it",
    setting="a subscription",
    field="SubscribeURL",
)


def is_of_amazon(url: str) -> bool:
    """Return whether an address confirms a subscription of Amazon SNS."""
    try:
        parts = addresses.parse(url, _PURPOSE)
    except InvalidInput:
        return False
    actions = parse_qs(parts.query).get("Action")
    return (
        parts.scheme == "https"
        and _HOST.fullmatch(parts.netloc) is not None
        and parts.path in ("", "/")
        and actions == ["ConfirmSubscription"]
    )


def shown(url: str) -> str:
    """Return an address for the log: short, and without its query, which has the token of the subscription."""
    return _USER.sub("//", re.split(r"[?#]", url, maxsplit=1)[0][:_SHOWN_CHARS])


async def confirm(url: str, client: httpx.AsyncClient) -> None:
    """Confirm a subscription.

    Args:
        url: an address for which `is_of_amazon` is true.
        client: client of `new_client`, which follows no redirects.

    Raises:
        Unavailable: SNS cannot be reached, or does not confirm it.
    """
    parts = addresses.parse(url, _PURPOSE)
    try:
        async with asyncio.timeout(CONFIRM_SECONDS):
            address = await addresses.resolve(parts, _PURPOSE, private=False)
            reply = await client.send(pinned(client, "GET", parts, address, headers={"user-agent": "foreask"}))
    except ForbiddenAddress as error:
        raise unavailable(f"The subscription cannot be confirmed: {error}.") from error
    except (httpx.HTTPError, OSError) as error:  # TimeoutError is an OSError
        problem = problem_of(error) or "SNS does not answer"
        raise unavailable(f"The subscription cannot be confirmed: {problem}.") from error
    if not reply.is_success:
        raise unavailable(f"The subscription cannot be confirmed: SNS answers with status {reply.status_code}.")
