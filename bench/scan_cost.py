"""CPU that scans cost: `python -m bench scan_cost [--pairs N] [--pages N]`.

First the CPU of parsing a PDF of 50 pages of text in one process, in pairs with OCR on and off: the median difference,
and the CPU of the step that OCR adds, which varies less on a busy machine. Then the user and system CPU of reading a
page of a real scan at 200 dpi: the best and the median of several readings.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

# As in the children of the sandbox, before the engine's library is loaded.
os.environ["OMP_THREAD_LIMIT"] = "1"

from shared.ingest.parse.isolation import child
from shared.ingest.parse.isolation.protocol import ParseRequest
from shared.ingest.parse.scans import finding
from shared.ingest.parse.scans.engine import Engine
from shared.ingest.parse.scans.language_data import folder, lacking
from shared.ingest.parse.scans.reading import read_page

SCANNED = Path(__file__).parents[1] / "tests/files/good/kreuzberg_image_only_german.pdf"
LANGUAGES = ("deu", "eng+deu")
_PAGES, _LINES = 50, 45
_DPI = 200
_SENTENCE = "The harbour opens at six, and ferries leave every hour until the evening of day"


def pdf_of_text() -> bytes:
    """Return a PDF of 50 pages with 45 lines each, about 4,000 characters a page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(_PAGES))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {_PAGES} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    font = "/Resources << /Font << /F1 3 0 R >> >>"
    for page in range(_PAGES):
        lines = " ".join(f"({_SENTENCE} {page * _LINES + line}.) Tj T*" for line in range(_LINES))
        drawing = f"BT /F1 10 Tf 15 TL 40 750 Td {lines} ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * page} 0 R {font} >>",
            f"<< /Length {len(drawing)} >>\nstream\n{drawing}\nendstream",
        ]
    body = "\n".join(f"{number} 0 obj\n{text}\nendobj" for number, text in enumerate(objects, 1))
    return f"%PDF-1.4\n{body}\ntrailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n%%EOF\n".encode()


def _request(*, scans: bool) -> ParseRequest:
    return ParseRequest(
        filename="text.pdf",
        media_type=None,
        max_chars=2_000,
        overlap_chars=200,
        section_max_chars=None,
        max_text_chars=20_000_000,
        max_chunks=50_000,
        cpu_seconds=30,
        web_page=None,
        questions=[],
        read_pages=[] if scans else None,
    )


def _cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


class TimedFinder:
    """Finds pages without text, and records the CPU seconds of each search."""

    pages_of_picture = staticmethod(finding.pages_of_picture)

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def pages_without_text(self, pdf: bytes, texts: Sequence[tuple[int, str]]) -> tuple[int, ...]:
        self.seconds.append(_cpu_seconds(partial(finding.pages_without_text, pdf, texts)))
        return ()


def cost_of_text(pairs: int) -> Iterator[str]:
    """Yield a line of the pairs, and a line of the search for pages without text."""
    content, finder = pdf_of_text(), TimedFinder()
    child.load_extractor()
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(pairs + 1):
        first = number % 2 == 0  # alternately, because the second one finds warm caches
        for scans in (first, not first):
            seconds[scans].append(_cpu_seconds(partial(child.parse, _request(scans=scans), content, finder)))
    off, on = seconds[False][1:], seconds[True][1:]  # libraries are loaded for the first pair only
    usual, least = statistics.median(off), min(off)
    more = statistics.median(after - before for before, after in zip(off, on, strict=True))
    yield f"text PDF of {_PAGES} pages: {usual * 1e3:.0f} ms of CPU; with OCR on {more / usual:+.1%} in {pairs} pairs"
    search = min(finder.seconds)
    yield f"the search for pages without text takes {search * 1e3:.2f} ms, {search / least:.2%}"


def cost_of_page(languages: str, readings: int) -> str:
    content, engine = SCANNED.read_bytes(), Engine(folder(), languages.split("+"))
    seconds = [_cpu_seconds(partial(read_page, content, 1, _DPI, engine)) for _ in range(readings)]
    best, usual = min(seconds), statistics.median(seconds)
    return f"page of {SCANNED.name}, {languages}: {best:.2f} s of CPU at best, {usual:.2f} s median"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30, help="%(default)s by default")
    parser.add_argument("--pages", type=int, default=7, help="readings of the page; %(default)s by default")
    options = parser.parse_args()
    for line in cost_of_text(options.pairs):
        print(line, flush=True)
    for languages in LANGUAGES:
        print(lacking(languages.split("+")) or cost_of_page(languages, options.pages), flush=True)


if __name__ == "__main__":
    main()
