"""Errors, CPU and memory of OCR on rendered pages of known text: `python -m bench scans [LANGUAGE...]`.

A page has up to 1,200 characters of 11 points. It is read clean, noisy (blurred, turned by 0.7 degrees, with noise of
60 of 255 levels, and JPEG at quality 35) and noisy at 120 dpi with half the noise, by the code that reads pages. Errors
are the edit distance of the text, without regard to white space, divided by its length. Further rows show layouts in
English. The languages need their data (tesseract-ocr-LANGUAGE) and fonts (fonts-noto-core, fonts-noto-cjk); without
data they are left out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont

from bench.questions import EVALDATA, rows
from shared.domain.errors import Unreadable
from shared.ingest.parse.scans.engine import Engine
from shared.ingest.parse.scans.language_data import available, folder
from shared.ingest.parse.scans.reading import read_page

DPI = 200
SIZE = (1654, 2339)  # A4
_CHARS = 1_200
_MARGIN, _FONT_PIXELS, _LINE_PIXELS = 160, 31, 52
_NOTO = Path("/usr/share/fonts/truetype/noto")
_CJK = Path("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc")
_RIGHTS = {
    "spa": "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como están de razón y"
    " conciencia, deben comportarse fraternalmente los unos con los otros. Todo individuo tiene derecho a la vida, a la"
    " libertad y a la seguridad de su persona. Nadie estará sometido a esclavitud ni a servidumbre.",
    "ell": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι προικισμένοι με"
    " λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα αδελφοσύνης. Κάθε άτομο έχει"
    " δικαίωμα στη ζωή, την ελευθερία και την προσωπική του ασφάλεια.",
    "jpn": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを"
    "授けられており、互いに同胞の精神をもって行動しなければならない。すべて人は、生命、自由及び身体の安全に対する"
    "権利を有する。",
}
"""The Universal Declaration of Human Rights, for languages that the evaluation sets lack."""

_SETS = {
    "eng": "xquad_oracle",
    "deu": "xquad_de",
    "rus": "xquad_ru",
    "ara": "xquad_ar",
    "hin": "xquad_hi",
    "chi_sim": "xquad_zh",
    "tha": "xquad_th",
}
_FONTS = {
    "ara": _NOTO / "NotoSansArabic-Regular.ttf",
    "hin": _NOTO / "NotoSansDevanagari-Regular.ttf",
    "tha": _NOTO / "NotoSansThai-Regular.ttf",
    "chi_sim": _CJK,
    "jpn": _CJK,
}
_DEFAULT_FONT = _NOTO / "NotoSans-Regular.ttf"
_UNSPACED = ("chi_sim", "jpn", "tha")
LANGUAGES = ("eng", "deu", "spa", "rus", "ell", "ara", "hin", "chi_sim", "jpn", "tha")


@dataclass(frozen=True)
class ScanRow:
    """A page that was read: share of wrong characters, mean confidence, CPU seconds, and the process's peak memory."""

    name: str
    errors: float
    confidence: float
    cpu_seconds: float
    peak_bytes: int


def text_of(language: str) -> str:
    if language in _RIGHTS:
        return _RIGHTS[language]
    texts = [row["text"] for row in rows(_SETS[language], "corpus.jsonl")[:4]]
    return " ".join(" ".join(texts).split())[:_CHARS]


def wrapped(text: str, font: ImageFont.FreeTypeFont, width: int, *, spaced: bool) -> Iterator[str]:
    """Yield the lines of a text; without spaces it is cut anywhere."""
    parts, glue = (text.split(), " ") if spaced else (list(text), "")
    line = ""
    for part in parts:
        longer = line + glue + part if line else part
        if line and font.getlength(longer) > width:
            yield line
            longer = part
        line = longer
    yield line


def page_of(text: str, language: str) -> Image.Image:
    return page_of_lines(list(lines_of(text, language)), language)


def lines_of(text: str, language: str) -> Iterator[str]:
    """Yield the lines of a text as wide as a page."""
    return wrapped(text, _font_of(language), SIZE[0] - 2 * _MARGIN, spaced=language not in _UNSPACED)


def page_of_lines(lines: Sequence[str], language: str) -> Image.Image:
    page = Image.new("L", SIZE, 255)
    for number, line in enumerate(lines):
        right = language == "ara"
        at = (SIZE[0] - _MARGIN if right else _MARGIN, _MARGIN + number * _LINE_PIXELS)
        ImageDraw.Draw(page).text(at, line, font=_font_of(language), fill=0, anchor="ra" if right else "la")
    return page


def _font_of(language: str) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(_FONTS.get(language, _DEFAULT_FONT)), _FONT_PIXELS)


def clean(page: Image.Image) -> bytes:
    return _saved(page, "PNG", DPI)


def noisy(page: Image.Image) -> bytes:
    return _saved(_worn(page, 60), "JPEG", DPI)


def noisy_at_120(page: Image.Image) -> bytes:
    small = page.resize((SIZE[0] * 120 // DPI, SIZE[1] * 120 // DPI), Image.Resampling.LANCZOS)
    return _saved(_worn(small, 30), "JPEG", 120)


def _worn(page: Image.Image, noise: float) -> Image.Image:
    turned = page.rotate(0.7, Image.Resampling.BICUBIC, fillcolor=255).filter(ImageFilter.GaussianBlur(0.8))
    return ImageChops.add(turned, Image.effect_noise(page.size, noise), scale=1, offset=-128)


def _saved(page: Image.Image, kind: str, dpi: int) -> bytes:
    content = BytesIO()
    page.save(content, kind, dpi=(dpi, dpi), quality=35)
    return content.getvalue()


CONDITIONS: dict[str, Callable[[Image.Image], bytes]] = {
    "clean": clean,
    "noisy": noisy,
    "noisy, 120 dpi": noisy_at_120,
}


def measure(language: str) -> list[ScanRow]:
    """Read the pages of a language in this process."""
    text = text_of(language)
    page = page_of(text, language)
    engine = Engine(folder(), [language])
    return [_read(name, condition(page), text, engine) for name, condition in CONDITIONS.items()]


def _read(name: str, content: bytes, text: str, engine: Engine) -> ScanRow:
    started = time.process_time()
    try:
        found = read_page(content, 1, DPI, engine)
        errors, confidence = distance(found.text, text), found.confidence
    except Unreadable:
        errors, confidence = 1.0, 0.0
    return ScanRow(name, errors, confidence, time.process_time() - started, _peak_bytes())


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def distance(found: str, text: str) -> float:
    """Return the edit distance of two texts without white space, divided by the length of the second one."""
    first, second = "".join(found.split()), "".join(text.split())
    costs = list(range(len(second) + 1))
    for row, char in enumerate(first, 1):
        diagonal, costs[0] = costs[0], row
        for column, other in enumerate(second, 1):
            cheapest = min(costs[column] + 1, costs[column - 1] + 1, diagonal + (char != other))
            diagonal, costs[column] = costs[column], cheapest
    return costs[-1] / len(second)


def layouts() -> list[str]:
    """Return a line for each layout: the share of its printed words that were found, or the reason."""
    engine = Engine(folder(), ["eng"])
    text = text_of("eng")
    page = page_of(text, "eng")
    columns = _columns(text)
    drawn = {
        "turned by 2 degrees": (_turned(page, 2), text),
        "turned by 5 degrees": (_turned(page, 5), text),
        "turned by 10 degrees": (_turned(page, 10), text),
        "turned by 90 degrees": (page.rotate(90, expand=True), text),
        "upside down": (page.rotate(180), text),
        "white on black": (ImageChops.invert(page), text),
        "two columns": (columns, text),
        "invoice without rules": _invoice(ruled=False),
        "invoice with rules": _invoice(ruled=True),
    }
    return [f"{name:<24} {_words_found(picture, printed, engine)}" for name, (picture, printed) in drawn.items()]


def _words_found(picture: Image.Image, printed: str, engine: Engine) -> str:
    try:
        found = read_page(clean(picture), 1, DPI, engine)
    except Unreadable as error:
        return error.message
    words, left = printed.split(), found.text.split()
    hits = sum(_taken(word, left) for word in words)
    order = distance(found.text, printed)
    return f"{hits / len(words):6.1%} of the words, {order:6.1%} errors in order, confidence {found.confidence:.0f}"


def _taken(word: str, left: list[str]) -> bool:
    if word not in left:
        return False
    left.remove(word)
    return True


def _turned(page: Image.Image, degrees: float) -> Image.Image:
    return page.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=255)


def _columns(text: str) -> Image.Image:
    page = Image.new("L", SIZE, 255)
    font = ImageFont.truetype(str(_DEFAULT_FONT), _FONT_PIXELS)
    lines = list(wrapped(text, font, 600, spaced=True))
    half = (len(lines) + 1) // 2
    for number, line in enumerate(lines):
        at = (_MARGIN + 700 * (number // half), _MARGIN + (number % half) * _LINE_PIXELS)
        ImageDraw.Draw(page).text(at, line, font=font, fill=0)
    return page


def _invoice(*, ruled: bool) -> tuple[Image.Image, str]:
    """Return an invoice with 20 rows of five columns, and its words row by row."""
    page, dice = Image.new("L", SIZE, 255), random.Random(7)
    draw, font = ImageDraw.Draw(page), ImageFont.truetype(str(_DEFAULT_FONT), _FONT_PIXELS)
    edges, height, top = (_MARGIN, 250, 880, 1050, 1250, 1490), 56, 400
    table = [("No", "Article", "Count", "Price", "Total")]
    for number in range(1, 21):
        count, cents = dice.randrange(1, 90), dice.randrange(99, 99_999)
        table.append(
            (str(number), f"Rope {cents % 40} mm", str(count), f"{cents / 100:.2f}", f"{count * cents / 100:.2f}")
        )
    for row, cells in enumerate(table):
        for left, cell in zip(edges, cells, strict=False):
            draw.text((left + 12, top + row * height + 6), cell, font=font, fill=0)
    if ruled:
        bottom = top + len(table) * height
        for row in range(len(table) + 1):
            draw.line((edges[0], top + row * height, edges[-1], top + row * height), fill=0, width=3)
        for left in edges:
            draw.line((left, top, left, bottom), fill=0, width=3)
    return page, " ".join(" ".join(cells) for cells in table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench scans")
    parser.add_argument("languages", nargs="*", default=[*LANGUAGES], help="by default all whose data is installed")
    languages = parser.parse_args().languages
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as process:
        print(f"{'language':<9} {'page':<15} {'errors':>7} {'confidence':>10} {'CPU s':>6} {'peak MB':>8}")
        for language in languages:
            if available([language]) is None or (language in _SETS and not EVALDATA.is_dir()):
                print(f"{language:<9} left out: no data", flush=True)
                continue
            for row in process.submit(measure, language).result():
                peak = row.peak_bytes / 2**20
                print(
                    f"{language:<9} {row.name:<15} {row.errors:7.2%} {row.confidence:10.0f} {row.cpu_seconds:6.2f}"
                    f" {peak:8.0f}",
                    flush=True,
                )
        for line in process.submit(layouts).result():
            print(line, flush=True)


if __name__ == "__main__":
    main()
