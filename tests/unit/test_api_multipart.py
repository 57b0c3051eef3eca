"""Forms are read while they arrive, independently of the network's chunks; a failed form leaves no file."""

import hashlib
from uuid import UUID

import pytest
from starlette.requests import Request

from api.submission.multipart import read_form
from api.submission.upload_guard import UploadGuard
from shared.domain.errors import InvalidInput, TooLarge
from shared.http.problems import MalformedRequest, UnsupportedMedia
from shared.http.request_body import RequestBody
from shared.settings import Settings
from shared.storage.folder import UploadFolder

SETTINGS = Settings(_env_file=None)
CONTENT = b"line\r\n--edg but not the edge\r\n--ed\r\n-\r\r\n" + bytes(range(256)) * 3


def part(name, content, filename=None, media_type=None):
    disposition = f'Content-Disposition: form-data; name="{name}"'
    if filename is not None:
        disposition += f'; filename="{filename}"'
    kind = f"\r\nContent-Type: {media_type}" if media_type else ""
    return f"--edge\r\n{disposition}{kind}\r\n\r\n".encode() + content + b"\r\n"


FILE = part("file", CONTENT, "a.md", "text/markdown")
END = b"--edge--\r\n"


def request_of(body, size=None, content_type="multipart/form-data; boundary=edge", **headers):
    pieces = [body[i : i + size] for i in range(0, len(body), size)] if size else [body]
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive():
        return messages.pop(0)

    named = {"content-type": content_type} | {k.replace("_", "-"): v for k, v in headers.items()}
    headers = [(k.encode(), v.encode()) for k, v in named.items()]
    scope = {"type": "http", "method": "POST", "headers": headers, "state": {}}
    body = scope["state"]["body"] = RequestBody(scope, receive, send=None, settings=SETTINGS)
    return Request(scope, body.receive)


class Owner:
    """A deployment without documents."""

    async def id(self):
        return UUID(int=7)

    async def newest_uploads(self, limit):
        return []


@pytest.fixture
def uploads(tmp_path):
    return UploadFolder(tmp_path, Owner())


def stored(tmp_path):
    return list(tmp_path.glob("??/*"))


async def read(uploads, body, size=None, **more):
    limits = {k: more.pop(k) for k in list(more) if k.startswith("max_")}
    async with UploadGuard(uploads) as guard:
        return await read_form(request_of(body, size, **more), guard, SETTINGS.model_copy(update=limits))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, None])
@pytest.mark.parametrize("file_first", [True, False])
async def test_form_is_independent_of_network_chunks(uploads, size, file_first):
    title = part("title", "Ünïcode".encode())
    parts = [FILE, title] if file_first else [title, FILE]

    form = await read(uploads, b"".join(parts) + part("metadata", b"") + END, size)

    assert form.fields == {"title": "Ünïcode".encode(), "metadata": b""}
    assert (form.filename, form.media_type) == ("a.md", "text/markdown")
    assert form.upload.sha256 == hashlib.sha256(CONTENT).digest()
    assert form.upload.size_bytes == len(CONTENT)
    assert uploads.path(form.upload.name).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (FILE, MalformedRequest),  # no end
        (FILE[:-40], MalformedRequest),  # ends inside the file
        (FILE + b"--edge\r\nContent-Disposition: form-data; na", MalformedRequest),  # ends inside a header
        (b"", MalformedRequest),
        (b"no form at all", MalformedRequest),
        (b"--other\r\n\r\n--other--\r\n", MalformedRequest),
        (FILE + b"--edge\r\nno header\r\n\r\nx\r\n" + END, MalformedRequest),
        (FILE + b"--edge\r\nContent-Disposition: form-data\r\n\r\nx\r\n" + END, MalformedRequest),
        (FILE + b'--edge\r\nContent-Disposition: form-data; name="\xff"\r\n\r\nx\r\n' + END, MalformedRequest),
        (FILE + b"--edge\r\n" + b"A: b\r\n" * 50 + b"\r\nx\r\n" + END, MalformedRequest),
        (FILE + b"--edge\r\nA: " + b"b" * 5_000 + b"\r\n\r\nx\r\n" + END, MalformedRequest),
        (FILE + FILE + END, InvalidInput),
        (FILE + part("title", b"a") + part("title", b"b") + END, InvalidInput),
        (FILE + part("colour", b"red") + END, InvalidInput),
        (FILE + part("file2", b"x", "x.md") + END, InvalidInput),
        (part("title", b"a") + END, InvalidInput),
        (FILE + part("title", b"x" * 2_000) + END, TooLarge),
        (FILE + part("title", b"x" * 900) + part("lane", b"x" * 900) + END, TooLarge),
        (part("file", b"x" * 6_000, "x") + END, TooLarge),
        (FILE + END + b"x" * 50_000, TooLarge),
    ],
)
@pytest.mark.parametrize("size", [100, None])
async def test_rejected_form_stores_no_file(uploads, tmp_path, body, error, size):
    with pytest.raises(error) as raised:
        await read(uploads, body, size, max_upload_bytes=5_000, max_json_bytes=1_500)

    assert type(raised.value) is error
    assert stored(tmp_path) == []


async def test_announced_oversize_is_rejected_before_reading(uploads):
    request = request_of(b"", content_length="100000000000")
    request._receive = None  # fails if it is called

    with pytest.raises(TooLarge):
        await read_form(request, UploadGuard(uploads), Settings(_env_file=None))


@pytest.mark.parametrize("content_type", ["multipart/form-data", "multipart/form-data; boundary=", "multipart/x; b=1"])
async def test_form_without_boundary_is_rejected(uploads, content_type):
    with pytest.raises(MalformedRequest, match="boundary"):
        await read(uploads, FILE + END, content_type=content_type)


async def test_compressed_body_of_unknown_size_is_rejected(uploads):
    with pytest.raises(UnsupportedMedia):
        await read(uploads, FILE + END, content_encoding="gzip")
