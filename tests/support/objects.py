"""An object store on loopback: moto's S3 server, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote
from xml.etree import ElementTree as ET

import httpx

from embedded.ports import free_port

_NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
_ALWAYS = "inf"  # requests that moto lets through without looking at their keys


class S3:
    """The server.

    Args:
        url: its address.
        pid: of its process.
    """

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.pid = pid
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=10)

    def options(self, **other: str) -> dict[str, str]:
        """The options of a store that speaks to it."""
        return {
            "aws_endpoint_url": self.url,
            "aws_region": "us-east-1",
            "aws_access_key_id": "id-of-the-key",
            "aws_secret_access_key": "the-secret-key",
        } | other

    def options_json(self) -> str:
        return json.dumps(self.options())

    def make(self, bucket: str) -> str:
        """Make a bucket, and return the URL of a store in it."""
        self._http.put(f"/{bucket}").raise_for_status()
        return f"s3://{bucket}/below/here"

    def keys(self, bucket: str) -> list[str]:
        return list(self.sizes(bucket))

    def sizes(self, bucket: str) -> dict[str, int]:
        """The bytes of each object, by its key."""
        sizes, after = dict[str, int](), ""
        while True:
            address = f"/{bucket}?list-type=2&max-keys=1000&start-after={quote(after, safe='')}"
            page = ET.fromstring(self._http.get(address).raise_for_status().content).findall(f"{_NAMESPACE}Contents")
            found = {_text(item, "Key"): int(_text(item, "Size")) for item in page}
            if not found:
                return sizes
            sizes |= found
            after = max(found)

    def unfinished(self, bucket: str) -> list[str]:
        """The keys of multipart uploads that were begun and neither finished nor taken back."""
        return self._named(f"/{bucket}?uploads", "Upload")

    @contextmanager
    def forbidding(self) -> Iterator[None]:
        """Refuse every key."""
        self._http.post("/moto-api/reset-auth", content="0").raise_for_status()
        try:
            yield
        finally:
            self._http.post("/moto-api/reset-auth", content=_ALWAYS).raise_for_status()

    def _named(self, address: str, kind: str) -> list[str]:
        reply = self._http.get(address).raise_for_status()
        found = ET.fromstring(reply.content).iter(f"{_NAMESPACE}{kind}")
        return [_text(item, "Key") for item in found]


def _text(item: ET.Element, name: str) -> str:
    return item.findtext(f"{_NAMESPACE}{name}") or ""


@contextmanager
def serving_s3() -> Iterator[S3]:
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield S3(_answering(f"http://127.0.0.1:{port}", process), process.pid)
    finally:
        process.terminate()
        process.wait()


def _answering(url: str, process: subprocess.Popen[bytes]) -> str:
    for _ in range(400):
        assert process.poll() is None, "moto's server ended"
        try:
            httpx.get(f"{url}/moto-api/", trust_env=False)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return url
    raise TimeoutError(url)
