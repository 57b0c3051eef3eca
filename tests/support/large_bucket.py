"""A bucket with any number of objects, listed as S3 lists them: `python -m tests.support.large_bucket OBJECTS`.

moto sorts all keys of a bucket for each page, so a listing of a million objects would take hours. This server computes
each page from the number of its first object. It counts requests, and `POST /control` changes some of its objects.
"""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from typing import Any, Self
from urllib.parse import quote
from xml.sax.saxutils import escape

import httpx
import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from embedded.ports import free_port
from tests.support.deployment import ROOT
from tests.support.waiting import TIMEOUT_SECONDS

BUCKET = "large"
_PAGE = 1_000
_DATE = "2026-01-02T03:04:05.000Z"


def key_of(number: int) -> str:
    return f"texts/{number:09d}.md"


class Objects:
    """The objects by number: some are changed, and some removed.

    Args:
        count: number of objects before any is removed.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.changed_every = 0  # 0: none
        self.removed_every = 0
        self.requests = {"list": 0, "get": 0, "head": 0}

    def exists(self, number: int) -> bool:
        return 0 <= number < self.count and not (self.removed_every and number % self.removed_every == 1)

    def content(self, number: int) -> bytes:
        edition = 2 if self.changed_every and number % self.changed_every == 0 else 1
        text = f"# Text {number}\n\nThis is edition {edition} of text {number}, about subject {number % 977}.\n"
        return text.encode()

    def etag(self, number: int) -> str:
        return hashlib.md5(self.content(number), usedforsecurity=False).hexdigest()

    def after(self, key: str) -> int:
        """Return the number of the first object whose key follows this one."""
        name = key.removeprefix("texts/").removesuffix(".md")
        if not key.startswith("texts/") or not name[:9].isdigit():
            return 0 if key < "texts/" else self.count
        return int(name[:9]) + (key >= key_of(int(name[:9])))

    def page(self, after: str, most: int) -> tuple[list[int], bool]:
        """Return the numbers of the objects of a page, and whether more follow."""
        found, number = list[int](), self.after(after)
        while number < self.count and len(found) < most:
            if self.exists(number):
                found.append(number)
            number += 1
        return found, any(self.exists(each) for each in range(number, min(number + 2, self.count)))


def application(objects: Objects) -> Starlette:
    async def bucket(request: Request) -> Response:
        objects.requests["list"] += 1
        query = request.query_params
        after = query.get("continuation-token") or query.get("start-after") or ""
        numbers, more = objects.page(after, int(query.get("max-keys", _PAGE)))
        return Response(_listing(objects, numbers, query.get("prefix", ""), more=more), media_type="application/xml")

    async def content(request: Request) -> Response:
        objects.requests["head" if request.method == "HEAD" else "get"] += 1
        number = objects.after(request.path_params["key"]) - 1
        if not objects.exists(number) or request.path_params["key"] != key_of(number):
            return Response(_error("NoSuchKey"), 404, media_type="application/xml")
        etag = f'"{objects.etag(number)}"'
        if request.headers.get("if-match", etag) != etag:
            return Response(_error("PreconditionFailed"), 412, media_type="application/xml")
        headers = {"etag": etag, "last-modified": "Fri, 02 Jan 2026 03:04:05 GMT"}
        return Response(objects.content(number), headers=headers, media_type="text/markdown")

    async def control(request: Request) -> Response:
        for name, value in (await request.json()).items():
            setattr(objects, name, value)
        return JSONResponse(objects.requests)

    return Starlette(
        routes=[
            Route("/control", control, methods=["POST"]),
            Route(f"/{BUCKET}", bucket),
            Route(f"/{BUCKET}/", bucket),
            Route(f"/{BUCKET}/{{key:path}}", content),
        ]
    )


def _listing(objects: Objects, numbers: list[int], prefix: str, *, more: bool) -> str:
    contents = "".join(
        f"<Contents><Key>{key_of(number)}</Key><LastModified>{_DATE}</LastModified>"
        f"<ETag>&quot;{objects.etag(number)}&quot;</ETag><Size>{len(objects.content(number))}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
        for number in numbers
    )
    token = f"<NextContinuationToken>{quote(key_of(numbers[-1]))}</NextContinuationToken>" if more else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(numbers)}</KeyCount>"
        f"<MaxKeys>{_PAGE}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>{token}{contents}</ListBucketResult>"
    )


def _error(code: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'


class LargeBucket:
    """The server as a process.

    Args:
        count: number of objects.
    """

    def __init__(self, count: int) -> None:
        port = free_port()
        self._count = count
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "tests.support.large_bucket", str(count), str(port)]
        self._process = subprocess.Popen(command, cwd=ROOT)
        transport = httpx.HTTPTransport(retries=10)
        self._http = httpx.Client(base_url=self.url, trust_env=False, transport=transport, timeout=TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._process.kill()
        self._process.wait()

    def secret(self) -> str:
        """Return the secret of a source of this bucket."""
        access = {"access_key_id": "id", "secret_access_key": "secret", "region": "us-east-1"}
        return orjson.dumps({"uri": f"s3://{BUCKET}/", "endpoint": self.url, **access}).decode()

    def items(self) -> list[tuple[str, str]]:
        """Return the key and the version of each object, before any is changed."""
        objects = Objects(self._count)
        return [(key_of(number), objects.etag(number)) for number in range(self._count)]

    def change(self, **fields: Any) -> dict[str, int]:
        """Set fields of the objects, and return the numbers of requests so far."""
        return self._http.post("/control", content=orjson.dumps(fields)).raise_for_status().json()


def main() -> None:
    count, port = map(int, sys.argv[1:])
    config = uvicorn.Config(application(Objects(count)), port=port, log_level="warning", access_log=False)
    asyncio.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main()
