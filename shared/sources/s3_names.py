"""Pages of a listing of S3 whose names obstore refuses, such as `a//b`: obstore fails with the whole page.

The requests are signed here, because obstore signs requests for objects only.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote_plus, urlsplit
from xml.etree import ElementTree as ET

import httpx

from shared.domain.errors import Misconfigured
from shared.process import network
from shared.sources.files import COMPONENT, unavailable

_PAGE = 1_000
_MOST_BYTES = 16 << 20  # of a reply: 1,000 keys of 1,024 bytes need less
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
    """

    endpoint: str
    region: str
    bucket: str
    prefix: str
    credentials: Mapping[str, str | None] | None

    async def page(self, after: str) -> ObjectPage:
        """Return the objects that follow a name.

        Raises:
            Unavailable: the server cannot be reached, or fails.
            Misconfigured: it refuses the credentials.
        """
        query = {"list-type": "2", "max-keys": str(_PAGE), "prefix": self.prefix, "encoding-type": "url"}
        if after:
            query["start-after"] = self.prefix + after
        reply = await self._get(query)
        try:
            return self._page(ET.fromstring(reply))  # noqa: S314 - expat limits the expansion of entities
        except (ET.ParseError, ValueError) as error:
            raise unavailable("The bucket cannot be listed: its reply is not a listing.") from error

    async def _get(self, query: Mapping[str, str]) -> bytes:
        encoded = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(query.items()))
        url = f"{self.endpoint.rstrip('/')}/{quote(self.bucket)}"
        headers = self.signed(url, encoded, datetime.now(UTC)) if self.credentials else {}
        try:
            proxy, verify = network.proxy_of(url), network.ssl_context()
            client = httpx.AsyncClient(verify=verify, proxy=proxy, trust_env=False, timeout=_TIMEOUT)
            async with asyncio.timeout(_TOTAL_SECONDS), client:
                reply = await client.get(f"{url}?{encoded}", headers=headers)
        except ValueError as error:  # the environment names a proxy that cannot be used
            raise Misconfigured(str(error), component=COMPONENT) from error
        except (httpx.HTTPError, TimeoutError) as error:
            problem = network.problem_of(error) or "the store does not answer"
            raise unavailable(f"The bucket cannot be read: {problem}.") from error
        if reply.status_code in _FORBIDDEN:
            problem = "The store refuses the credentials, or they may not list and read."
            raise Misconfigured(problem, component=COMPONENT)
        if not reply.is_success or len(reply.content) > _MOST_BYTES:
            raise unavailable(f"The bucket cannot be read: the store answers {reply.status_code}.")
        return reply.content

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

    def _page(self, root: ET.Element) -> ObjectPage:
        space = root.tag.removesuffix("ListBucketResult")
        # XML cannot contain most control characters. Some servers ignore the request to encode names.
        is_encoded = root.findtext(f"{space}EncodingType") == "url"
        decoded: Callable[[str], str] = unquote_plus if is_encoded else str
        objects = [self._object(each, space, decoded) for each in root.iter(f"{space}Contents")]
        return ObjectPage(objects, is_last=root.findtext(f"{space}IsTruncated") != "true")

    def _object(self, element: ET.Element, space: str, decoded: Callable[[str], str]) -> dict[str, Any]:
        """Return an object of a reply; raise ValueError if a field is missing or malformed."""
        fields = {name: element.findtext(f"{space}{name}") or "" for name in ("Key", "Size", "ETag", "LastModified")}
        return {
            "path": decoded(fields["Key"]).removeprefix(self.prefix),
            "size": int(fields["Size"]),
            "e_tag": fields["ETag"] or None,
            "version": None,
            "last_modified": datetime.fromisoformat(fields["LastModified"]),
        }


def is_representable(name: str) -> bool:
    """Return whether obstore can represent the name of an object, or an empty one."""
    segments = name.split("/")
    is_clean = all(character.isprintable() or ord(character) > 127 for character in name)  # noqa: PLR2004 - ASCII
    return not name or (is_clean and not {"", ".", ".."} & set(segments))


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
