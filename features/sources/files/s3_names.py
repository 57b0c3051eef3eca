"""Pages of a listing of S3 whose names obstore refuses, such as `a//b`: obstore fails with the whole page.

The requests are signed here, because obstore signs requests for objects only.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from pydantic import ValidationError

from features.sources.errors import COMPONENT, unavailable
from features.sources.files import listed
from shared.confined.reading import Reader, as_file
from shared.domain.errors import Misconfigured, Unreadable
from shared.process import network

_PAGE = 1_000
_MOST_BYTES = 16 << 20  # of a reply: 1,000 keys of 1,024 bytes need less
_READER = "features.sources.reading.listings"
_UNPACKED = {"accept-encoding": "identity"}  # a reply of 0.6 MB can have 1.2 GB when it is unpacked
_NO_BODY = hashlib.sha256(b"").hexdigest()
_FORBIDDEN = (401, 403)
_TIMEOUT = httpx.Timeout(15.0)
_TOTAL_SECONDS = 60.0  # a page of a listing has 1,000 names


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """A page of a listing.

    Args:
        objects: its objects in order, with the fields that obstore uses; names are below the prefix.
        is_last: whether no page follows.
    """

    objects: list[dict[str, Any]]
    is_last: bool


@dataclass(frozen=True, slots=True)
class S3Names:
    """The names below a prefix of a bucket.

    Args:
        endpoint: URL of the server.
        region: region of the bucket.
        bucket: name of the bucket.
        prefix: empty, or a prefix that ends with a slash.
        credentials: `access_key_id`, `secret_access_key` and `token`; None: requests are not signed.
        reader: reads the replies in a confined process.
    """

    endpoint: str
    region: str
    bucket: str
    prefix: str
    credentials: Mapping[str, str | None] | None
    reader: Reader

    async def page(self, after: str) -> ObjectPage:
        """Return the objects that follow a name.

        Raises:
            Unavailable: the server cannot be reached, or fails.
            Misconfigured: it refuses the credentials, or its reply is not a listing.
        """
        query = {"list-type": "2", "max-keys": str(_PAGE), "prefix": self.prefix, "encoding-type": "url"}
        if after:
            query["start-after"] = self.prefix + after
        reply = await self._get(query)
        try:
            return await self._page(reply)
        except Unreadable as error:
            raise listed.unlistable(error.message) from error
        except ValidationError as error:
            raise listed.unlistable("its reply crashed the parser") from error

    async def _get(self, query: Mapping[str, str]) -> bytes:
        encoded = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(query.items()))
        url = f"{self.endpoint.rstrip('/')}/{quote(self.bucket)}"
        headers = self.signed(url, encoded, datetime.now(UTC)) if self.credentials else {}
        try:
            proxy, verify = network.proxy_of(url), network.ssl_context()
            client = httpx.AsyncClient(verify=verify, proxy=proxy, trust_env=False, timeout=_TIMEOUT)
            async with (
                asyncio.timeout(_TOTAL_SECONDS),
                client,
                client.stream("GET", f"{url}?{encoded}", headers=headers | _UNPACKED) as reply,
            ):
                content = await _content_of(reply)
        except ValueError as error:  # the environment names a proxy that cannot be used
            raise Misconfigured(str(error), component=COMPONENT) from error
        except (httpx.HTTPError, TimeoutError) as error:
            problem = network.problem_of(error) or "the store does not answer"
            raise unavailable(f"The bucket cannot be read: {problem}.") from error
        if reply.status_code in _FORBIDDEN:
            problem = "The store refuses the credentials, or they may not list and read."
            raise Misconfigured(problem, component=COMPONENT)
        if not reply.is_success:
            raise unavailable(f"The bucket cannot be read: the store answers {reply.status_code}.")
        return content

    def signed(self, url: str, query: str, now: datetime) -> dict[str, str]:
        """Return the headers of a signed GET request.

        Source: "Signature Version 4 signing process", AWS General Reference.
        """
        assert self.credentials is not None
        parts, time = urlsplit(url), f"{now:%Y%m%dT%H%M%SZ}"
        headers = {"host": parts.netloc, "x-amz-content-sha256": _NO_BODY, "x-amz-date": time}
        if token := self.credentials["token"]:
            headers["x-amz-security-token"] = token
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = f"GET\n{parts.path}\n{query}\n{lines}\n{names}\n{_NO_BODY}"
        scope = f"{now:%Y%m%d}/{self.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = f"AWS4{self.credentials['secret_access_key']}".encode()
        for part in scope.split("/"):
            key = _mac(key, part)
        credential = f"Credential={self.credentials['access_key_id']}/{scope}"
        signature = f"{credential}, SignedHeaders={names}, Signature={_mac(key, text).hex()}"
        return {**headers, "authorization": f"AWS4-HMAC-SHA256 {signature}"}

    async def _page(self, reply: bytes) -> ObjectPage:
        """Return the page of a reply.

        Raises:
            Unreadable: the reply is not a listing.
            ValidationError: the reply has taken over its reader.
        """
        objects, is_last = list[dict[str, Any]](), True
        options = {"prefix": self.prefix, "most": _PAGE}
        with as_file(reply) as file:
            async with aclosing(self.reader.read(_READER, "s3", options, [file], subject="its reply")) as messages:
                async for message in messages:
                    read = listed.read(message)
                    if isinstance(read, bool):
                        is_last = read
                    elif isinstance(read, list):
                        objects += read
        return ObjectPage(objects, is_last)


async def _content_of(reply: httpx.Response) -> bytes:
    """Return the body of a reply.

    Raises:
        Misconfigured: it is too large, or packed although this was not requested.
    """
    content = bytearray()
    if reply.headers.get("content-encoding", "identity") != "identity":
        raise listed.unlistable("its reply is compressed")
    async for piece in reply.aiter_raw():
        content += piece
        if len(content) > _MOST_BYTES:
            raise listed.unlistable(f"its reply has more than {_MOST_BYTES:,} bytes")
    return bytes(content)


def is_representable(name: str) -> bool:
    """Return whether obstore can represent the name of an object, or an empty one."""
    segments = name.split("/")
    is_clean = all(character.isprintable() or ord(character) > 127 for character in name)  # noqa: PLR2004 - ASCII
    return not name or (is_clean and not {"", ".", ".."} & set(segments))


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
