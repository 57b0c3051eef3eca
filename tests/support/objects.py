"""An object store on loopback: moto's S3 server in its own process."""

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
from tests.support.waiting import TIMEOUT_SECONDS

_NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
# moto replaces and deletes objects only with a key, whose signature it does not check.
_SIGNED = {
    "authorization": "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request,SignedHeaders=host,Signature=0"
}
_ALWAYS = "inf"  # number of requests that moto accepts without checking their keys


class S3:
    """The server.

    Args:
        url: its address.
        pid: process id.
    """

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.pid = pid
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=TIMEOUT_SECONDS)

    def options(self, **changes: str) -> dict[str, str]:
        """Return the options of a store that uses this server."""
        return {
            "aws_endpoint_url": self.url,
            "aws_region": "us-east-1",
            "aws_access_key_id": "id-of-the-key",
            "aws_secret_access_key": "the-secret-key",
        } | changes

    def options_json(self) -> str:
        return json.dumps(self.options())

    def secret(self, bucket: str) -> dict[str, str]:
        """Return the secret of a source in a bucket of this server."""
        return {
            "uri": f"s3://{bucket}/",
            "endpoint": self.url,
            "access_key_id": "id-of-the-key",
            "secret_access_key": "the-secret-key",
        }

    def answers(self) -> bool:
        """Return whether the server accepts requests."""
        try:
            self._http.get("/moto-api/")
        except httpx.TransportError:
            return False
        return True

    def make(self, bucket: str) -> str:
        """Make a bucket and return the URL of a store in it."""
        self._http.put(f"/{bucket}").raise_for_status()
        return f"s3://{bucket}/below/here"

    def put(self, bucket: str, key: str, content: bytes) -> None:
        self._http.put(f"/{bucket}/{quote(key)}", content=content, headers=_SIGNED).raise_for_status()

    def delete(self, bucket: str, key: str) -> None:
        self._http.delete(f"/{bucket}/{quote(key)}", headers=_SIGNED).raise_for_status()

    def remove(self, bucket: str) -> None:
        """Delete a bucket with its objects."""
        for key in self.keys(bucket):
            self.delete(bucket, key)
        self._http.delete(f"/{bucket}", headers=_SIGNED).raise_for_status()

    def keys(self, bucket: str) -> list[str]:
        return list(self.sizes(bucket))

    def sizes(self, bucket: str) -> dict[str, int]:
        """Return the size of each object in bytes, by key."""
        sizes, after = dict[str, int](), ""
        while True:
            address = f"/{bucket}?list-type=2&max-keys=1000&start-after={quote(after, safe='')}"
            page = ET.fromstring(self._http.get(address).raise_for_status().content).findall(f"{_NAMESPACE}Contents")
            page_sizes = {_text(item, "Key"): int(_text(item, "Size")) for item in page}
            if not page_sizes:
                return sizes
            sizes |= page_sizes
            after = max(page_sizes)

    def unfinished(self, bucket: str) -> list[str]:
        """Return the keys of multipart uploads that were neither completed nor aborted."""
        return self._named(f"/{bucket}?uploads", "Upload")

    @contextmanager
    def forbidding(self) -> Iterator[None]:
        """Reject every access key."""
        self._http.post("/moto-api/reset-auth", content="0").raise_for_status()
        try:
            yield
        finally:
            self._http.post("/moto-api/reset-auth", content=_ALWAYS).raise_for_status()

    def _named(self, address: str, kind: str) -> list[str]:
        reply = self._http.get(address).raise_for_status()
        return [_text(item, "Key") for item in ET.fromstring(reply.content).iter(f"{_NAMESPACE}{kind}")]


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
        assert process.poll() is None, "moto's server exited"
        try:
            httpx.get(f"{url}/moto-api/", trust_env=False, timeout=TIMEOUT_SECONDS)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return url
    raise TimeoutError(url)
