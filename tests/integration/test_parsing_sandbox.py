"""The sandbox turns files into documents or plain error sentences, and survives every file."""

import asyncio
import io
import os
import re
import resource
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
import uvloop

from shared.confined import process as processes
from shared.domain.errors import Transient, Unreadable
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.document import ParsedDocument
from shared.ingest.parse.isolation import sandbox as sandboxes
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.ingest.parse.isolation.small_files import MOST_TOGETHER
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, eventually

FILES = Path(__file__).parents[1] / "files"
SCANNED = "kreuzberg_image_only_german.pdf"

Parse = Callable[..., "asyncio.Future[ParsedDocument]"]


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[ParsingSandbox]:
    """One child for all files: its start takes 0.2 s, a small file 2 ms. Tests of a child's life have their own."""
    async with ParsingSandbox(max_text_chars=2_000_000) as sandbox:
        yield sandbox


@pytest.fixture
def parse(sandbox, tmp_path) -> Parse:
    async def parse_(content: bytes | str | Path, name: str | None = None, media_type: str | None = None):
        path = tmp_path / "stored"
        if isinstance(content, Path):
            path, name = content, name or content.name
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return await sandbox.parse(path, filename=name, media_type=media_type, options=ChunkingOptions())

    return parse_


def text_of(document: ParsedDocument) -> str:
    return "\n".join(chunk.text for chunk in document.chunks)


W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def docx(body: bytes | str, doctype: str = "") -> bytes:
    document = body if isinstance(body, bytes) else f"<w:document {W}><w:body>{body}</w:body></w:document>".encode()
    return zipped(
        {
            "[Content_Types].xml": b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            b'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            b'<Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml" '
            b'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>',
            "_rels/.rels": b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            b'<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/'
            b'officeDocument" Target="word/document.xml"/></Relationships>',
            "word/document.xml": b'<?xml version="1.0"?>' + doctype.encode() + document,
        }
    )


def zipped(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def pdf(*pages: str, encrypt: bool = False) -> bytes:
    """Return a PDF with a line of text on each page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET" if text else ""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    key = f"/O <{'41' * 32}> /U <{'42' * 32}>"
    locked = f"/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 {key} >> /ID [<{'43' * 16}> <{'43' * 16}>]"
    trailer = (
        f"trailer << /Size {len(objects) + 1} /Root 1 0 R {locked if encrypt else ''} >>\nstartxref\n{len(out)}\n%%EOF"
    )
    return out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


def ole(*streams: str) -> bytes:
    return (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512) + b"".join(f"{name}\0".encode("utf-16-le") for name in streams)
    )


CONTAINER = (
    b"<container xmlns='urn:oasis:names:tc:opendocument:xmlns:container'><rootfiles>"
    b"<rootfile full-path='../../../../etc/passwd'/></rootfiles></container>"
)
NOTEBOOK = orjson.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": ["# Notes\n", "The ferry"]},
            {"cell_type": "code", "metadata": {}, "source": ["print(42)"], "outputs": [], "execution_count": 1},
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
)
PAGE = "<html><head><title>Port</title></head><body><h1>Ferry</h1><p>Late</p></body></html>"
MAIL = (
    "From: Ann <ann@example.org>\nTo: Bob <bob@example.org>\nSubject: Ferry\nMIME-Version: 1.0\n\nThe ferry is late.\n"
)
FEED = (
    '<?xml version="1.0"?><rss version="2.0"><channel><title>Port</title><item><title>Ferry late</title>'
    "<description>&lt;p&gt;By &lt;b&gt;an hour&lt;/b&gt;.&lt;/p&gt;</description></item></channel></rss>"
)


@pytest.mark.parametrize(
    ("content", "name", "media_type", "title", "words"),
    [
        ("# Ferry\n\nIt is late.", "a.md", "text/markdown", "Ferry", "# Ferry\n\nIt is late."),
        ("---\ntitle: Ferry\n---\nIt is late.", "a.md", "text/markdown", "Ferry", "It is late."),
        ("The ferry is late.", "a.txt", "text/plain", None, "The ferry is late."),
        ("The ferry is late.", None, None, None, "The ferry is late."),
        ("The ferry: tr\u00e8s tard".encode("utf-16"), "a.txt", "text/plain", None, "tr\u00e8s tard"),
        ("The ferry: tr\u00e8s tard".encode("latin-1"), "a.txt", "text/plain", None, "tr\u00e8s tard"),
        ("# not a title\nx = 1\n", "a.py", None, None, "# not a title\nx = 1"),
        (PAGE, None, None, "Port", "# Ferry\n\nLate"),
        ("name,time\nFerry,noon\n", "a.csv", "text/csv", None, "| Ferry | noon |"),
        ('{"title": "Port", "ferry": {"time": "noon"}}', "a.json", "application/json", "Port", "ferry.time: noon"),
        (NOTEBOOK, "a.ipynb", None, "Notes", "print(42)"),
        (MAIL, "a.eml", None, "Ferry", "The ferry is late."),
        (FEED, "a.xml", "text/xml", "Port", "By **an hour**."),
        ("<?xml version='1.0'?><port><ferry>late</ferry></port>", "a.xml", None, None, "late"),
        (r"{\rtf1\ansi The ferry is late.\par}", "a.rtf", None, None, "The ferry is late."),
        (docx(paragraph("The ferry is late.")), "a.docx", None, None, "The ferry is late."),
        (pdf("The ferry is late."), "a.pdf", None, None, "The ferry is late."),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("a.") else "",
)
async def test_every_file_kind_yields_text_and_title(parse, content, name, media_type, title, words):  # noqa: PLR0917
    document = await parse(content, name, media_type)

    assert words in text_of(document)
    assert document.title == title


async def test_file_kind_follows_content_before_type_and_name(parse):
    document = await parse(pdf("The ferry is late."), "a.docx", "text/plain")

    assert document.media_type == "application/pdf"


async def test_pdf_chunks_have_page_numbers(parse):
    text = "The ferry leaves the harbour at seven in the morning and at noon. " * 4

    document = await parse(pdf(f"First page. {text}", "", f"Third page. {text}"), "a.pdf")

    pages = {chunk.text.partition(".")[0].strip("# "): chunk.page for chunk in document.chunks}
    assert pages.get("First page") == 1
    assert all(chunk.page in (1, 3) for chunk in document.chunks)


@pytest.mark.parametrize(
    ("content", "name", "sentence"),
    [
        (b"", "a.pdf", "the file is empty"),
        (b" \n \n", "a.txt", "the text file has no text inside"),
        (pdf("", ""), "a.pdf", "the PDF has 2 pages but no text; run OCR on it first"),
        (pdf("x", encrypt=True), "a.pdf", "protected with a password"),
        (ole("EncryptionInfo", "EncryptedPackage"), "a.docx", "protected with a password"),
        (ole("EncryptionInfo", "EncryptedPackage"), "a.xlsx", "protected with a password"),
        (b"no pdf at all", "a.pdf", "is named a PDF but lacks its header"),
        (pdf("The ferry")[:60], "a.pdf", "is damaged"),
        (docx(paragraph("x"))[:300], "a.docx", "is damaged"),
        (zipped({"a.txt": b"x"}), "a.zip", "is a ZIP archive"),
        (b"\x1f\x8b\x08" + bytes(100), "a.gz", "is a gzip archive"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "a.png", "is a picture (PNG); run OCR on it first"),
        (bytes(range(256)) * 40, "a.xyz", "of the kind .xyz and cannot be read"),
        (bytes(range(256)) * 40, None, "of no known kind"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_unreadable_file_is_explained_in_one_sentence(parse, content, name, sentence):
    await is_refused(parse, content, name, sentence)


@pytest.mark.parametrize(
    ("text", "count", "sentence"),
    [
        (" " * 1_200, 100_000, "too large when unpacked"),
        ("<a/>", 15_000_000, "needed more than 1.0 GB of memory"),
    ],
    ids=["unpacked size", "memory"],
)
async def test_expanding_file_is_explained_in_one_sentence(parse, text, count, sentence):
    await is_refused(parse, docx(text * count), "a.docx", sentence)


async def is_refused(parse, content, name, sentence):
    with pytest.raises(Unreadable) as caught:
        await parse(content, name)

    assert sentence in caught.value.message
    assert text_of(await parse("still alive", "b.txt")) == "still alive"


async def test_archive_bomb_is_refused_without_unpacking(parse, tmp_path):
    path = tmp_path / "bomb.docx"
    archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("word/document.xml", "w") as part:
        for _ in range(1024):
            part.write(b" " * 1024 * 1024)

    with pytest.raises(Unreadable, match="too large when unpacked: 1 parts, 1,024 MB"):
        await parse(path)


async def test_excess_text_is_refused(parse):
    with pytest.raises(Unreadable, match="2,500,000 characters of text, more than the 2,000,000 allowed"):
        await parse("word " * 500_000)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (docx(paragraph("&f;"), '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>'), "a.docx"),
        ('<?xml version="1.0"?><!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><a>see &f;</a>', "a.xml"),
        (
            FEED.replace("?>", '?><!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>', 1).replace("By", "&f;"),
            "a.rss",
        ),
        ('<html><body>x<iframe src="file:///etc/passwd"></iframe></body></html>', "a.html"),
        ("``` {include} /etc/passwd\n```\n.. include:: /etc/passwd\n", "a.rst"),
        (r"\documentclass{article}\begin{document}x \input{/etc/passwd}\end{document}", "a.tex"),
        ("#+INCLUDE: /etc/passwd\n* x\n", "a.org"),
        (
            zipped(
                {
                    "mimetype": b"application/epub+zip",
                    "../../../../etc/passwd": b"x",
                    "META-INF/container.xml": CONTAINER,
                }
            ),
            "a.epub",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 9 else "",
)
async def test_file_cannot_include_other_files(parse, content, name):
    try:
        result = text_of(await parse(content, name))
    except Unreadable as error:
        result = error.message

    assert "root:" not in result


@pytest.mark.parametrize(
    "page", ["<div>" * 10_000 + "deep" + "</div>" * 10_000, "<p>above</p>" + "<div>" * 300 + "deep" + "</div>" * 300]
)
async def test_deeply_nested_html_content_is_kept(parse, page):
    assert "deep" in text_of(await parse(f"<html><body>{page}</body></html>", "a.html"))


# The children


def child_of(sandbox: ParsingSandbox) -> int:
    (child,) = sandbox._idle
    return child.process.pid


async def test_child_is_replaced_after_enough_native_reads(tmp_path, monkeypatch):
    text, page = tmp_path / "text", tmp_path / "page.rst"
    text.write_text("text")
    page.write_text("A page.")
    async with ParsingSandbox() as sandbox:

        async def parse(path: Path) -> None:
            await sandbox.parse(path, filename=path.name, media_type=None, options=ChunkingOptions())

        await parse(text)
        first = child_of(sandbox)
        for _ in range(3):
            await parse(text)
        assert child_of(sandbox) == first

        monkeypatch.setattr(sandboxes, "MAX_NATIVE_FILES", 2)
        await parse(page)
        assert child_of(sandbox) == first
        await parse(page)
        assert sandbox._idle == []


async def test_files_are_parsed_concurrently(tmp_path):
    paths = [tmp_path / str(number) for number in range(6)]
    for path in paths:
        path.write_text(f"text of {path.name}")

    async with ParsingSandbox(workers=2) as sandbox:
        documents = await asyncio.gather(
            *(sandbox.parse(path, filename=None, media_type=None, options=ChunkingOptions()) for path in paths)
        )

        assert [text_of(document) for document in documents] == [f"text of {path.name}" for path in paths]
        assert len(sandbox._idle) == 2


async def test_child_killed_between_files_loses_no_file(parse, sandbox):
    await parse("one")
    os.kill(child_of(sandbox), signal.SIGKILL)

    assert text_of(await parse("two")) == "two"


def endless_file(folder: Path) -> Path:
    """Return a FIFO that never delivers bytes, because its writer stays open and writes nothing."""
    fifo = folder / "endless"
    os.mkfifo(fifo)
    os.open(fifo, os.O_RDWR | os.O_CLOEXEC)
    return fifo


async def test_slow_file_is_refused_and_next_file_parsed(tmp_path):
    fifo = endless_file(tmp_path)
    (tmp_path / "next").write_text("next")
    async with ParsingSandbox(timeout=timedelta(seconds=0.3)) as sandbox:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with pytest.raises(Unreadable, match=r"the file took longer than 0\.3 s to read"):
                await sandbox.parse(fifo, filename=None, media_type=None, options=ChunkingOptions())
        assert await sandbox.parse(tmp_path / "next", filename=None, media_type=None, options=ChunkingOptions())


# A library that replaces a reader when it is imported: the reader runs the code in a file instead of reading it.
ODD_DETECTOR = """
import os, signal
from shared.ingest.parse import extraction, kinds

def read(text):
    exec(text)

extraction._CONVERTERS[kinds.RST] = read

class NNetLanguageIdentifier:
    language, probability = "und", 0.0
    def __init__(self, **options):
        pass
    def FindLanguage(self, text):
        return self
"""


@pytest.fixture
def odd_page(tmp_path, monkeypatch) -> Callable[[str], Path]:
    """Return a function that returns a page of a code, which a reader of later children runs."""
    (tmp_path / "gcld3.py").write_text(ODD_DETECTOR)
    monkeypatch.syspath_prepend(tmp_path)

    def page(code: str) -> Path:
        path = tmp_path / "page.rst"
        path.write_text(code)
        return path

    return page


async def test_parser_failures_are_contained(subtests, odd_page, tmp_path):
    (tmp_path / "next").write_text("next")
    async with ParsingSandbox() as sandbox:

        async def parse(path: Path) -> ParsedDocument:
            return await sandbox.parse(path, filename=path.name, media_type=None, options=ChunkingOptions())

        for code, sentence in (
            ("os.kill(os.getpid(), signal.SIGSEGV)", r"the file crashed the parser \(signal 11\)"),
            ("os._exit(3)", r"the file crashed the parser \(status 3\)"),
            ("bytearray(2 << 30)", r"the file needed more than 1\.0 GB of memory to read"),
            (
                "os.write(1, b'noise' * 100); raise ValueError('odd')",
                "could not be parsed; the log of the parse worker says",
            ),
        ):
            with subtests.test(code), pytest.raises(Unreadable, match=sentence):
                await parse(odd_page(code))
        assert text_of(await parse(tmp_path / "next")) == "next"
        with pytest.raises(Unreadable, match=r"status 3"):  # of a used child, and of the child that tries again
            await parse(odd_page("os._exit(3)"))
        assert text_of(await parse(tmp_path / "next")) == "next"


async def test_crash_is_not_blamed_on_worker_memory(odd_page):
    """The kernel includes the worker's peak memory in the child's figure."""
    limit = 150 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > limit
    async with ParsingSandbox(memory_bytes=limit) as sandbox:
        page = odd_page("os._exit(3)")
        with pytest.raises(Unreadable, match=r"the file crashed the parser \(status 3\)"):
            await sandbox.parse(page, filename=page.name, media_type=None, options=ChunkingOptions())


# Small files


async def together(sandbox: ParsingSandbox, files: dict[str, str], tenant: str = "a") -> dict[str, str]:
    """Return the text of each file, or the reason why it has none; all are parsed at the same time."""

    async def text(name: str, content: str) -> str:
        try:
            document = await sandbox.parse(
                content.encode(), filename=name, media_type=None, options=ChunkingOptions(), tenant=tenant
            )
        except Unreadable as error:
            return error.message
        return text_of(document)

    return dict(zip(files, await asyncio.gather(*(text(*file) for file in files.items())), strict=True))


@guards(
    "shared/ingest/parse/isolation/sandbox.py",
    "if len(file) <= SMALL_BYTES and",
    "if False and",
    means="each small file costs a message",
)
async def test_small_files_share_messages(monkeypatch):
    messages, send = [], processes.ConfinedProcess.send

    def counted(process, request, files):
        messages.append(len(orjson.loads(request)["requests"]))
        send(process, request, files)

    monkeypatch.setattr(processes.ConfinedProcess, "send", counted)
    files = {f"{number}.md": f"# File {number}\n\n" + number * "word " for number in range(3 * MOST_TOGETHER)}
    async with ParsingSandbox(workers=2) as sandbox:
        assert await together(sandbox, files) == {name: text.strip() for name, text in files.items()}

    assert sum(messages) == len(files)
    assert max(messages) == MOST_TOGETHER
    assert len(messages) <= 6


@guards(
    "shared/ingest/parse/isolation/small_files.py",
    "one.answer.set_result(None)",
    "one.answer.set_exception(Transient('lost'))",
    means="a file fails because of another one that was sent with it",
    case="kill",
)
@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        pytest.param("os._exit(3)", "the file crashed the parser (status 3)", id="kill"),
        pytest.param("while True: pass", "the file took longer than 1 s to read", id="time"),
        pytest.param("raise ValueError('odd')", "the file could not be parsed", id="error"),
        pytest.param("bytearray(2 << 30)", "the file needed more than 1.0 GB of memory to read", id="memory"),
    ],
)
async def test_failing_file_fails_alone_in_group(odd_page, code, sentence):
    files = {f"{number}.rst": f"{number}" for number in range(12)}
    hostile = {"5.rst": odd_page(code).read_text(), "9.rst": code}
    async with ParsingSandbox(timeout=timedelta(seconds=1)) as sandbox:
        results = await together(sandbox, files | hostile)

        failed = {name for name, text in results.items() if sentence in text}
        assert failed == set(hostile)
        assert all(results[name] == text for name, text in files.items() if name not in hostile)
        assert await together(sandbox, {"next.md": "next"}) == {"next.md": "next"}


@guards(
    "shared/ingest/parse/isolation/sandbox.py",
    'if answer.head.outcome == "memory":',
    "if False:",
    means="a file fails because another one that was sent with it took the memory",
)
async def test_memory_of_earlier_file_fails_no_other(odd_page):
    odd_page("")
    files = {"first.rst": "1", "large.rst": "os.hoard = bytearray(600 << 20)", "next.rst": "bytearray(600 << 20)"}
    async with ParsingSandbox() as sandbox:
        assert await together(sandbox, files) == files


async def test_groups_contain_files_of_one_tenant(monkeypatch):
    seen, ask = [], ParsingSandbox._ask_together

    async def watched(sandbox, child, group, descriptor):
        seen.append({one.file.tenant for one in group})
        await ask(sandbox, child, group, descriptor)
        assert child.tenant in (None, *seen[-1])

    monkeypatch.setattr(ParsingSandbox, "_ask_together", watched)
    pages = {f"{number}.html": f"<html><body><p>Page {number}</p></body></html>" for number in range(20)}
    async with ParsingSandbox() as sandbox:
        results = await asyncio.gather(*(together(sandbox, pages, tenant) for tenant in ("a", "b")))

    assert results == [{name: f"Page {name.removesuffix('.html')}" for name in pages}] * 2
    assert len(seen) >= 2
    assert all(len(tenants) == 1 for tenants in seen)


async def test_cancelled_file_delays_none_of_its_group():
    async with ParsingSandbox() as sandbox:
        parsing = [asyncio.create_task(together(sandbox, {f"{number}.md": f"file {number}"})) for number in range(40)]
        await asyncio.sleep(0)
        for task in parsing[::3]:
            task.cancel()
        results = await asyncio.gather(*parsing, return_exceptions=True)
        assert [isinstance(result, asyncio.CancelledError) for result in results] == [n % 3 == 0 for n in range(40)]

    with pytest.raises(Transient, match="closed"):
        await together(sandbox, {"a.md": "text"})


@pytest.fixture(scope="module")
async def child() -> AsyncIterator[Path]:
    """Return the folder in /proc of a child that has parsed a PDF and whose worker has a secret and an open file."""
    async with ParsingSandbox() as sandbox:
        with pytest.MonkeyPatch.context() as patch, (FILES / "good" / SCANNED).open() as file:
            patch.setenv("FOREASK_LLM_API_KEY", "secret")
            os.set_inheritable(file.fileno(), True)  # noqa: FBT003 - its only parameter
            await parse_at_once(sandbox, 1)
        yield Path("/proc") / str(child_of(sandbox))


def test_child_inherits_no_secret_and_no_file_descriptor(child):
    assert b"secret" not in (child / "environ").read_bytes()
    assert str(FILES / "good" / SCANNED) not in [str(link.readlink()) for link in (child / "fd").iterdir()]


def limit_of(process: Path, name: str) -> tuple[str, str]:
    """Return a soft limit of a process and its hard limit."""
    limits = (process / "limits").read_text()
    soft, hard = re.search(rf"{name} +(\S+) +(\S+)", limits).groups()
    return soft, hard


def test_child_has_kernel_limits(child):
    assert limit_of(child, "Max core file size") == ("0", "0")
    assert limit_of(child, "Max data size") == (str(2**30), str(2**30))
    assert limit_of(child, "Max address space") == (str(3 * 2**30), str(3 * 2**30))
    assert limit_of(child, "Max open files") == ("64", "64")
    seconds, most_seconds = limit_of(child, "Max cpu time")
    assert 30 < int(seconds) < 40
    assert most_seconds == "630"


@guards(
    "shared/process/priority.py",
    '"/proc/self/autogroup"',
    '"/proc/self/no-autogroup"',
    means="parsers have the priority of queries",
)
async def test_low_priority_of_child_counts_among_all_sessions(tmp_path):
    file = tmp_path / "a.md"
    file.write_text("The harbour opens at six.")

    async def priorities() -> tuple[int, int]:
        os.nice(3)  # of this thread only
        async with ParsingSandbox() as sandbox:
            await sandbox.parse(file, filename="a.md", media_type=None, options=ChunkingOptions())
            child = psutil.Process(child_of(sandbox))
            session = Path(f"/proc/{child.pid}/autogroup")
            return child.nice(), int(session.read_text().split()[-1]) if session.exists() else child.nice()

    lowered = min(19, os.nice(0) + 3)
    assert await asyncio.to_thread(asyncio.run, priorities()) == (lowered, lowered)


def test_child_threads_cannot_gain_privileges(child):
    threads = list((child / "task").iterdir())
    assert threads
    assert all("NoNewPrivs:\t1" in (thread / "status").read_text() for thread in threads)


@pytest.mark.parametrize(
    ("status", "peak_bytes", "words", "sentence"),
    [
        (-signal.SIGXCPU, 0, b"", "the file took longer than 30 s to read"),
        (
            -signal.SIGABRT,
            0,
            b"memory allocation of 8 bytes failed",
            "the file needed more than 1.0 GB of memory to read",
        ),
        (-signal.SIGSEGV, 2**30, b"", "the file needed more than 1.0 GB of memory to read"),
        (-signal.SIGSEGV, 2**20, b"", "the file crashed the parser (signal 11)"),
        (-signal.SIGABRT, 2**29 + 2**26, b"", "the file needed more than 1.0 GB of memory to read"),
        (-signal.SIGABRT, 2**28, b"", "the file crashed the parser (signal 6)"),
    ],
)
def test_child_exit_status_is_explained(status, peak_bytes, words, sentence):
    assert processes.cause(processes.ProcessExit(status, peak_bytes, words), timedelta(seconds=30), 2**30) == sentence


async def test_child_dies_with_parent_during_parse(tmp_path):
    fifo = endless_file(tmp_path)
    code = (
        "import asyncio, pathlib; from shared.ingest.parse.isolation.sandbox import *\n"
        "async def main():\n"
        "    sandbox = ParsingSandbox()\n"
        f"    path = pathlib.Path({str(fifo)!r})\n"
        "    await sandbox.parse(path, filename=None, media_type=None, options=ChunkingOptions())\n"
        "asyncio.run(main())"
    )
    folder = tmp_path / "folder"  # a separate folder, because children of other tests start and exit
    folder.mkdir()
    environment = os.environ | {"TMPDIR": str(folder)}
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", code, env=environment)
    child = await wait_until(lambda: children_of(parent.pid) and (Path("/proc") / children_of(parent.pid)[0]))
    await wait_until(lambda: "Max core file size        0 " in (child / "limits").read_text())
    await wait_until(lambda: not list(folder.glob("foreask-*")))  # the child reported that it is ready
    await asyncio.sleep(0.3)
    parent.kill()
    await parent.wait()

    await wait_until(lambda: not (child / "status").exists() or "State:\tZ" in (child / "status").read_text())


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


async def wait_until(condition: Callable[[], object]) -> Any:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not (found := condition()):
            await asyncio.sleep(0.02)
    return found


async def test_file_of_cancelled_parse_is_closed(tmp_path):
    fifo = tmp_path / "slow"
    os.mkfifo(fifo)  # opening it takes until a writer opens it, too
    async with ParsingSandbox() as sandbox:
        parsing = asyncio.create_task(sandbox.parse(fifo, filename=None, media_type=None, options=ChunkingOptions()))
        writer = await wait_until(lambda: opened_to_write(fifo))
        parsing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await parsing
        os.close(writer)

        await wait_until(lambda: opened_to_write(fifo) is None)


def opened_to_write(fifo: Path) -> int | None:
    """Return a descriptor of a FIFO; None if no process reads it."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


async def test_old_parser_folders_are_removed_at_start(temporary):
    old, young, another = (temporary / name for name in ("foreask-parser-old", "foreask-parser-young", "foreask-mine"))
    for folder in (old, young, another):
        folder.mkdir()
        (folder / "library.so").write_bytes(b"library")
    hours_ago = time.time() - 7200
    for folder in (old, another):
        os.utime(folder, (hours_ago, hours_ago))

    async with ParsingSandbox() as sandbox:
        await sandbox.warm()

    assert sorted(temporary.iterdir()) == [another, young]


async def test_failed_start_of_child_is_transient_error(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("text")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    async with ParsingSandbox() as sandbox:
        with pytest.raises(Transient, match="no parser process can be started"):
            await sandbox.parse(path, filename=None, media_type=None, options=ChunkingOptions())

    monkeypatch.setattr(sys, "executable", "/bin/false")
    async with ParsingSandbox() as sandbox:
        with pytest.raises(Transient, match="did not start"):
            await sandbox.parse(path, filename=None, media_type=None, options=ChunkingOptions())


async def test_child_of_cancelled_parse_is_killed(tmp_path):
    fifo = endless_file(tmp_path)
    async with ParsingSandbox() as sandbox:
        task = asyncio.create_task(sandbox.parse(fifo, filename=None, media_type=None, options=ChunkingOptions()))
        await eventually(lambda: sandbox.children)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (sandbox.children, sandbox._idle) == (0, [])


async def test_closed_sandbox_refuses_files(tmp_path):
    sandbox = ParsingSandbox()
    await sandbox.close()
    with pytest.raises(Transient, match="closed"):
        await sandbox.parse(tmp_path, filename=None, media_type=None, options=ChunkingOptions())


def test_sandbox_runs_on_uvloop(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("text")

    async def parse_one() -> ParsedDocument:
        async with ParsingSandbox() as sandbox:
            return await sandbox.parse(path, filename=None, media_type=None, options=ChunkingOptions())

    assert text_of(uvloop.run(parse_one())) == "text"


# Real files


def files_in(folder: str) -> list[Path]:
    paths = sorted(path for path in (FILES / folder).iterdir() if not path.name.endswith(".expected.md"))
    assert paths, f"{folder} contains no file"
    return paths


def test_every_common_kind_has_a_sample_file():
    kinds = ".docx .eml .epub .html .ipynb .md .odt .pdf .pptx .rtf .xlsx .xml"
    assert {path.suffix for path in files_in("good")} == set(kinds.split())


async def test_every_good_file_yields_its_words(parse):
    refused, compared = {}, 0
    for path in files_in("good"):
        try:
            got = text_of(await parse(path))
        except Unreadable as error:
            refused[path.name] = error.message
            continue
        assert got, path.name
        expected = path.with_name(f"{path.name}.expected.md")
        if expected.exists():
            compared += 1
            prose = re.sub(r"\$[^$\n]*\$", "", expected.read_text())  # an equation has several correct forms
            wanted, found = (set(re.findall(r"\w+", text)) for text in (prose, got))
            assert len(wanted & found) >= 0.9 * len(wanted), path.name

    assert refused == {
        SCANNED: "the PDF has 3 pages but no text; run OCR on it first",
        "kreuzberg_image.rtf": "the RTF file has no text inside",
    }
    assert compared


async def test_hostile_files_yield_text_or_plain_errors(parse):
    for path in files_in("hostile"):
        try:
            result = text_of(await parse(path))
        except Unreadable as error:
            result = error.message
        assert "crashed" not in result
        assert "could not be parsed" not in result
        assert "root:" not in result
    assert text_of(await parse("still alive", "b.txt")) == "still alive"


# The temporary folder


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """Return a new, empty temporary folder, and set a new, empty home."""
    folders = {"TMPDIR": tmp_path / "temporary", "HOME": tmp_path / "home"}
    for variable, folder in folders.items():
        folder.mkdir()
        monkeypatch.setenv(variable, str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folders["TMPDIR"]


async def parse_at_once(sandbox: ParsingSandbox, count: int) -> list[str]:
    path = FILES / "good" / "kreuzberg_tiny.pdf"
    documents = await asyncio.gather(
        *(sandbox.parse(path, filename=None, media_type=None, options=ChunkingOptions()) for _ in range(count))
    )
    return [text_of(document) for document in documents]


async def test_unwritable_temporary_folder_reports_remedy(temporary, monkeypatch):
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])
    async with ParsingSandbox() as sandbox:
        with pytest.raises(Transient, match="set TMPDIR to a folder in which this user may write files"):
            await sandbox.warm()
