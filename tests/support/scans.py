"""Scans without an engine: files whose pages have no text until a reader returns it, and a reader that counts.

A scan is a file that starts with `SCAN` and a form feed; its pages are separated by form feeds. A reader that
replaces the sandbox is the argument of the stages: the flow is the product's.
"""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.errors import Permanent, Unreadable
from shared.domain.stages.pages import OcrData, PageText
from shared.ingest.parse.document import PagesToRead, ParsedDocument, Reading
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.services.all import AllServices

_MARK = b"SCAN\f"
PICTURE = b"RIFF\x04\0\0\0WEBP"  # of every page
LANGUAGES = ("deu", "eng")  # whose data is installed
BLANK, SMEARED = "(blank)", "(smeared)"  # a page without words, and a page that cannot be read
FAINT = "(faint)"  # in a page whose words are uncertain


def scan(*pages: str) -> str:
    """Return the content of a scan with these pages."""
    return _MARK.decode() + "\f".join(pages)


def _pages_of(path: Path) -> list[str]:
    return path.read_bytes().removeprefix(_MARK).decode().split("\f")


@dataclass
class ScanReader:
    """Finds and reads the pages of scans; other files are parsed by the sandbox.

    Args:
        sandbox: parses other files.
        reads: number of reads by tenant and text of a page.
        before: called before each read, with the text of the page; may raise, or wait.
        clear: whether smeared pages can be read after all.
    """

    sandbox: ParsingSandbox
    reads: Counter[tuple[str | None, str]] = field(default_factory=Counter)
    before: Callable[[str], Any] = lambda _: None
    clear: bool = False
    parses: int = 0

    async def parse(
        self, path: Path, *, reading: Reading | None = None, **options: Any
    ) -> ParsedDocument | PagesToRead:
        if not path.read_bytes().startswith(_MARK):
            return await self.sandbox.parse(path, **options, reading=reading)
        self.parses += 1
        if reading is None:
            raise Unreadable("The document has no text. If it is a scan, run OCR on it first.")
        pages = _pages_of(path)
        missing = tuple(number for number in range(1, len(pages) + 1) if number not in reading.texts)
        if missing:
            return PagesToRead(len(pages), missing, "application/pdf")
        texts = {number: page.text for number, page in sorted(reading.texts.items()) if page.text}
        chunks = tuple(
            replace(ChunkContent.whole(text), page=number, confidence=round(reading.texts[number].confidence))
            for number, text in texts.items()
        )
        return ParsedDocument(None, sum(map(len, texts.values())), "application/pdf", chunks)

    async def read_page(
        self, path: Path, number: int, *, languages: tuple[str, ...], dpi: int, tenant: str | None
    ) -> PageText:
        text = _pages_of(path)[number - 1]
        self.reads[tenant, text] += 1
        waiting = self.before(text)
        if asyncio.iscoroutine(waiting):
            await waiting
        if text == SMEARED and not self.clear:
            raise Unreadable(f"Page {number} has ink, but no words.")
        if text == BLANK:
            return PageText("", 0, 0.0)
        return PageText(text, len(text.split()), 40.0 if FAINT in text else 90.0, PICTURE)


def ocr(option: str | None) -> OcrData:
    """Return an engine with the languages of an option; data of Klingon is missing."""
    languages = tuple((option or "eng").split("+"))
    if "tlh" in languages:
        raise Permanent("The pages cannot be read by OCR: install tesseract-ocr-tlh.")
    return OcrData("scripted 1", "1", languages)


def with_reader(services: AllServices) -> tuple[AllServices, ScanReader]:
    """Return services with a reader that replaces the sandbox, and the reader."""
    reader = ScanReader(services.parser.sandbox)
    parser = replace(services.parser, sandbox=reader, ocr=ocr)
    reading = replace(services.reader, engine=reader, languages=lambda: LANGUAGES)
    return replace(services, parser=parser, reader=reading), reader


def picture(*lines: str) -> bytes:
    """Return a PNG with these lines of text, as a scanner makes it at 200 dpi."""
    image = Image.new("L", (1_000, 120 + 70 * len(lines)), 255)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((60, 60 + 70 * number), line, fill=0, font=ImageFont.load_default(40))
    file = io.BytesIO()
    image.save(file, "PNG", dpi=(200, 200))
    return file.getvalue()
