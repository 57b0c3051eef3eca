"""Pictures in documents: pictures from untrusted files are made small, and a child's replies with them are checked."""

import io
import struct
import zlib
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256

import pytest
from PIL import Image

from shared.confined.process import InvalidReply
from shared.domain.corpus.chunks import ChunkContent
from shared.ingest.generate.bills import highest_usage
from shared.ingest.generate.generator import content_key, requests
from shared.ingest.generate.types import GenerationOptions
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.chunking import divide
from shared.ingest.parse.document import ExtractedText, ParsedDocument
from shared.ingest.parse.extraction import extract
from shared.ingest.parse.illustrations import illustrated
from shared.ingest.parse.isolation.replies import ReplyLimits
from shared.ingest.parse.scans.limits import MAX_ILLUSTRATION_BYTES
from shared.ingest.parse.scans.shrinking import shrunk
from tests.support.illustrated import CHART, MAP, docx, drawing
from tests.support.parser_replies import document_reply, received

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
JPEG = b"\xff\xd8\xff" + b"picture"
LIMITS = ReplyLimits(chunks=10, text_chars=1_000, chunk_chars=200, questions=0, pictures=1)
PICTURE = ChunkContent("", (0, 0), picture=sha256(JPEG).hexdigest())
DOCUMENT = ParsedDocument("Port", 1_000, "application/pdf", (PICTURE,), pictures={PICTURE.picture: JPEG})


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def bomb(width, height):
    """Return a PNG that declares more pixels than it has."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 100)), (b"IEND", b""))
    parts = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_picture_becomes_small_jpeg(kind):
    jpeg = shrunk(saved(drawing(CHART, (2_000, 1_000)), kind))

    assert Image.open(io.BytesIO(jpeg)).size == (1_024, 512)
    assert len(jpeg) <= MAX_ILLUSTRATION_BYTES


def test_transparent_picture_gets_white_ground():
    jpeg = shrunk(saved(Image.new("RGBA", (300, 300), (0, 0, 0, 0)), "PNG"))

    assert Image.open(io.BytesIO(jpeg)).getpixel((150, 150)) == (255, 255, 255)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a picture",
        saved(drawing(CHART, (199, 900)), "PNG"),
        saved(drawing(CHART), "PNG")[:200],
        bomb(60_000, 60_000),
        bomb(400, 300),
        bomb(1, 65_535),
    ],
    ids=["empty", "text", "narrow", "cut", "bomb", "short of data", "line"],
)
def test_useless_or_hostile_picture_is_left_out(content):
    assert shrunk(content) is None


def test_word_picture_follows_text_before_it():
    text = "Harbour.\n\nFerry."
    extracted = ExtractedText(text, None, WORD)
    chunks = (ChunkContent("Harbour.", (0, 8)), ChunkContent("Ferry.", (10, 16)))
    content = docx([("Harbour.", CHART), ("Ferry.", MAP)])

    found, files = illustrated(content, extracted, chunks, shrunk, 10)

    assert [chunk.picture is not None for chunk in found] == [False, True, False, True]
    assert [found[1].picture, found[3].picture] == list(files)


def test_pictures_without_text_are_kept():
    content = docx([("", CHART), ("", MAP)])
    extracted = extract(content, filename="a.docx", media_type=None, max_text_chars=100)

    _found, files = illustrated(content, extracted, divide(extracted, ChunkingOptions()), shrunk, 10)

    assert len(files) == 2
    assert "no text" in extracted.unread[0]


def test_damaged_file_keeps_its_chunks():
    chunks = (ChunkContent("Ferry.", (0, 6)),)
    extracted = ExtractedText("Ferry.", None, WORD)

    assert illustrated(docx([("Ferry.", CHART)])[:300], extracted, chunks, shrunk, 10) == (chunks, {})


def test_reply_with_picture_is_read():
    assert received(document_reply(DOCUMENT), LIMITS) == DOCUMENT


@pytest.mark.parametrize(
    ("picture", "text"),
    [
        ("not Base64!", ""),
        (b64encode(b"GIF89a").decode(), ""),
        (b64encode(JPEG + bytes(MAX_ILLUSTRATION_BYTES)).decode(), ""),
        (b64encode(JPEG).decode(), "A text of the file's author."),
    ],
    ids=["encoding", "format", "size", "text"],
)
def test_reply_with_wrong_picture_is_rejected(picture, text):
    reply = document_reply(DOCUMENT)
    (chunk,) = reply["document"][-1]
    chunk[0], chunk[-1] = text, picture
    with pytest.raises(InvalidReply):
        received(reply, LIMITS)


@pytest.mark.parametrize("most", [0, 1])
def test_reply_with_too_many_pictures_is_rejected(most):
    chunks = (PICTURE,) * (most + 1)
    reply = document_reply(replace(DOCUMENT, chunks=chunks))
    with pytest.raises(InvalidReply):
        received(reply, replace(LIMITS, pictures=most))


def test_key_depends_on_picture_and_language_only():
    def key(content):
        return content_key("default", "model", content, GenerationOptions())

    assert key(PICTURE) == key(replace(PICTURE, title="Port", heading_path=("Ferry",), page=3, text="Picture: a map"))
    assert key(PICTURE) != key(replace(PICTURE, picture="0" * 64))
    assert key(PICTURE) != key(replace(PICTURE, language="de"))


def test_picture_reserves_more_tokens_than_its_text():
    (call,) = requests(PICTURE, GenerationOptions())

    assert highest_usage(call).prompt_tokens - highest_usage(replace(call, picture=None)).prompt_tokens == 4_000


def test_content_without_picture_has_no_new_field():
    assert "picture" not in ChunkContent.whole("Ferry.").as_json()
