"""Pages without text are found and read in confined children, and no page is empty without a reason."""

import io
import re
import struct
import zlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pypdfium2
import pytest
from PIL import Image, ImageChops, ImageDraw, ImageFont, ImageStat

from shared.domain.errors import Unreadable
from shared.domain.stages.pages import MAX_PICTURE_BYTES, PageText
from shared.ingest.parse import scans
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.document import PagesToRead, ParsedDocument, Reading
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from tests.integration.test_parsing_sandbox import limit_of, pdf
from tests.support.pictures import picture, saved, scribble
from tests.support.planted import guards

HARBOUR = "The harbour opens at six.\nFerries leave every hour."
TICKETS = "A ticket costs four euros.\nChildren pay half of it."
OWN_TEXT = "This page has its own text, so it is not a picture."
ENGLISH = ("eng",)
BLANK = Image.new("L", (1165, 1654), 255)
SCANNED = Path(__file__).parents[1] / "files/good/kreuzberg_image_only_german.pdf"


def strip(text: str) -> Image.Image:
    """Return the part of a page that has two lines of text: the engine reads it in half the time."""
    return picture(text).crop((0, 100, 1165, 420))


class Sandboxes:
    """A sandbox for files and another one for pages, as a parse worker and a read worker have them.

    A single sandbox would start a child, which takes 0.2 to 0.3 s, for each change between files and pages.
    """

    def __init__(self, files: ParsingSandbox, pages: ParsingSandbox) -> None:
        self.parse = files.parse
        self.read_page = pages.read_page


@pytest.fixture(scope="module")
async def pages() -> AsyncIterator[ParsingSandbox]:
    async with ParsingSandbox() as pages:
        yield pages


@pytest.fixture(scope="module")
async def sandbox(pages) -> AsyncIterator[Sandboxes]:
    async with ParsingSandbox(scans=True) as files:
        yield Sandboxes(files, pages)


@pytest.fixture
def stored(tmp_path):
    def store(content: bytes) -> Path:
        path = tmp_path / "stored"
        path.write_bytes(content)
        return path

    return store


async def parsed(sandbox: Sandboxes, path: Path, texts: dict[int, PageText] | None) -> ParsedDocument | PagesToRead:
    reading = None if texts is None else Reading(texts)
    return await sandbox.parse(path, filename=None, media_type=None, options=ChunkingOptions(), reading=reading)


async def read(sandbox: Sandboxes, path: Path) -> ParsedDocument:
    """Return a file's document after all its pages without text have been read."""
    found = await parsed(sandbox, path, {})
    assert isinstance(found, PagesToRead)
    texts = {number: await sandbox.read_page(path, number, languages=ENGLISH) for number in found.numbers}
    document = await parsed(sandbox, path, texts)
    assert isinstance(document, ParsedDocument)
    return document


def text_of(document: ParsedDocument) -> str:
    return " ".join(" ".join(chunk.text for chunk in document.chunks).split())


def one_line(text: str) -> str:
    return " ".join(text.split())


def together(*files: bytes) -> bytes:
    """Return a PDF file with the pages of other ones."""
    document = pypdfium2.PdfDocument.new()
    for file in files:
        document.import_pages(pypdfium2.PdfDocument(file))
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF", "PDF"])
async def test_picture_of_each_kind_is_read(sandbox, stored, kind):
    document = await read(sandbox, stored(saved([picture(HARBOUR)], kind)))

    assert text_of(document) == one_line(HARBOUR)
    assert [chunk.page for chunk in document.chunks] == [1]
    assert all(chunk.confidence >= 80 for chunk in document.chunks)


async def test_each_page_of_tiff_has_its_number(sandbox, stored):
    path = stored(saved([picture(HARBOUR).convert("1"), BLANK.convert("1"), picture(TICKETS).convert("1")], "TIFF"))
    options = ChunkingOptions(max_chars=60, overlap_chars=0)
    texts = {number: await sandbox.read_page(path, number, languages=ENGLISH) for number in (1, 2, 3)}
    document = await sandbox.parse(path, filename="a.tif", media_type=None, options=options, reading=Reading(texts))

    assert texts[2] == PageText("", 0, 0)
    assert {chunk.page: one_line(chunk.text) for chunk in document.chunks} == {
        1: one_line(HARBOUR),
        3: one_line(TICKETS),
    }


async def test_only_scanned_pages_of_mixed_pdf_are_read(sandbox, stored):
    scan = saved([picture(HARBOUR)], "PDF")
    path = stored(together(pdf(OWN_TEXT), scan, pdf(f"{OWN_TEXT} Again.", "")))
    found = await parsed(sandbox, path, {})
    assert found == PagesToRead(4, (2,), "application/pdf")

    document = await read(sandbox, path)

    assert text_of(document) == f"{OWN_TEXT} {one_line(HARBOUR)} {OWN_TEXT} Again."


async def test_chunks_of_mixed_pdf_have_page_and_confidence(sandbox, stored):
    path = stored(together(pdf(OWN_TEXT), saved([picture(HARBOUR)], "PDF"), pdf(f"{OWN_TEXT} Again.")))
    options = ChunkingOptions(max_chars=60, overlap_chars=0)
    reading = Reading({2: PageText(HARBOUR, 9, 41.4)})
    document = await sandbox.parse(path, filename=None, media_type=None, options=options, reading=reading)

    of_scan = [chunk for chunk in document.chunks if "harbour" in chunk.text]
    assert [(chunk.page, chunk.confidence, chunk.uncertain) for chunk in of_scan] == [(2, 41, True)]
    others = [chunk for chunk in document.chunks if "harbour" not in chunk.text]
    assert [(chunk.page, chunk.confidence) for chunk in others] == [(1, None), (3, None)]


async def test_damaged_text_layer_is_replaced(sandbox, stored):
    damaged = "".join(f"\\{code:o}" for code in range(129, 160)) * 3
    path = stored(together(pdf(OWN_TEXT), pdf(damaged)))
    found = await parsed(sandbox, path, {})
    assert found == PagesToRead(2, (2,), "application/pdf")

    document = await parsed(sandbox, path, {2: PageText(HARBOUR, 9, 90.0)})

    assert text_of(document) == f"{OWN_TEXT} {one_line(HARBOUR)}"


async def test_pdf_with_text_has_no_page_to_read(sandbox, stored):
    document = await parsed(sandbox, stored(pdf(OWN_TEXT, "", OWN_TEXT)), {})

    assert isinstance(document, ParsedDocument)
    assert all(chunk.confidence is None for chunk in document.chunks)


async def test_scan_stays_rejected_without_reading(sandbox, stored):
    for content, reason in (
        (saved([picture(HARBOUR)], "PDF"), "the PDF has 1 page but no text; run OCR on it first"),
        (saved([picture(HARBOUR)], "PNG"), r"the file is a picture \(PNG\); run OCR on it first"),
        (saved([picture(HARBOUR)], "WEBP"), r"the file is a picture \(WebP\); run OCR on it first"),
    ):
        with pytest.raises(Unreadable, match=reason):
            await parsed(sandbox, stored(content), None)


@pytest.mark.parametrize("kind", ["PDF", "TIFF"])
async def test_page_has_small_grey_picture(sandbox, stored, kind):
    page = await sandbox.read_page(stored(saved([picture(HARBOUR)], kind)), 1, languages=ENGLISH)

    with Image.open(io.BytesIO(page.picture)) as shown:
        assert shown.format == "WEBP"
        assert abs(shown.width - 582) < 3  # an A5 page at 100 dpi
        original = picture(HARBOUR).resize(shown.size)
        assert max(ImageStat.Stat(ImageChops.difference(shown.convert("L"), original)).mean) < 3
    assert len(page.picture) < 20_000


async def test_noisy_page_has_bounded_picture(sandbox, stored):
    page = Image.blend(picture(HARBOUR), Image.effect_noise(picture(HARBOUR).size, 200), 0.3).resize((2330, 3308))
    read = await sandbox.read_page(stored(saved([page], "PNG")), 1, languages=ENGLISH)

    assert len(read.picture) <= MAX_PICTURE_BYTES


async def test_page_upside_down_is_turned(sandbox, stored):
    path = stored(saved([strip(HARBOUR).rotate(180)], "PNG"))

    assert one_line((await sandbox.read_page(path, 1, languages=ENGLISH)).text) == one_line(HARBOUR)


@guards(
    "shared/ingest/parse/scans/reading.py",
    ".filter(ImageFilter.GaussianBlur(FILTER_PIXELS))",
    "",
    means="a page is read without the filter",
)
async def test_noisy_page_is_read_through_filter(sandbox, stored):
    clean = strip(HARBOUR)
    page = ImageChops.add(clean, Image.effect_noise(clean.size, 60), offset=-128)

    text = (await sandbox.read_page(stored(saved([page], "PNG")), 1, languages=ENGLISH)).text

    assert one_line(text) == one_line(HARBOUR)


async def test_small_text_is_enlarged(sandbox, stored):
    page = strip(HARBOUR).resize((408, 112), Image.Resampling.LANCZOS)  # 70 dpi
    content = io.BytesIO()
    page.save(content, "PNG", dpi=(70, 70))

    text = (await sandbox.read_page(stored(content.getvalue()), 1, languages=ENGLISH)).text

    assert one_line(text) == one_line(HARBOUR)


@guards(
    "shared/ingest/parse/scans/reading.py",
    "if not attempts[0].is_sure:",
    "if False:",
    means="a page is not read again at 300 dpi",
)
@pytest.mark.parametrize("size", [18, 20, 22])  # 4.3 points: no word is found at 200 dpi; 5.3: wrong ones
async def test_small_letters_are_read_at_300_dpi(sandbox, stored, size):
    page, lines = Image.new("L", (1748, 600), 255), f"{HARBOUR}\n{TICKETS}"
    ImageDraw.Draw(page).multiline_text((100, 100), lines, fill=0, font=ImageFont.load_default(size), spacing=18)
    content = io.BytesIO()
    page.save(content, "PNG", dpi=(300, 300))

    text = (await sandbox.read_page(stored(content.getvalue()), 1, languages=ENGLISH)).text

    assert one_line(HARBOUR) in one_line(text)


async def test_damaged_orientation_does_not_prevent_reading(sandbox, stored):
    content = io.BytesIO()
    strip(HARBOUR).save(content, "JPEG", dpi=(200, 200), exif=b"Exif\0\0" + b"\xff" * 900)

    text = (await sandbox.read_page(stored(content.getvalue()), 1, languages=ENGLISH)).text

    assert one_line(text) == one_line(HARBOUR)


async def test_rules_and_photographs_are_not_unread_ink(sandbox, stored):
    page = picture(HARBOUR)
    for height in range(600, 1600, 60):
        ImageDraw.Draw(page).line((60, height, 1100, height), fill=0, width=6)

    assert one_line((await sandbox.read_page(stored(saved([page], "PNG")), 1, languages=ENGLISH)).text) == one_line(
        HARBOUR
    )


SILENT = {
    "ink without words": (
        scribble().crop((0, 0, 400, 400)),
        "page 1 cannot be read: it has ink, but no words were found",
    ),
    "text that leans": (strip(HARBOUR).rotate(30, fillcolor=255), "page 1 cannot be read: "),
}


@guards(
    "shared/ingest/parse/scans/reading.py",
    "return self.found is not None and not self.failure",
    "return self.found is not None",
    means="a page with ink but without words is empty without an error",
)
@pytest.mark.parametrize(("page", "reason"), SILENT.values(), ids=SILENT)
async def test_ink_without_words_is_an_error(sandbox, stored, page, reason):
    with pytest.raises(Unreadable, match=f"^{re.escape(reason)}"):
        await sandbox.read_page(stored(saved([page], "PNG")), 1, languages=ENGLISH)


async def test_document_of_unread_pages_is_rejected(sandbox, stored):
    path = stored(saved([picture(HARBOUR), picture(TICKETS)], "PDF"))

    with pytest.raises(Unreadable, match="the PDF has 2 pages, but no words were found on them"):
        await parsed(sandbox, path, dict.fromkeys((1, 2), PageText("", 0, 0)))


async def test_missing_language_names_its_package(sandbox, stored):
    path = stored(saved([picture(HARBOUR)], "PNG"))

    assert scans.available(("eng", "chi_tra")) is None
    with pytest.raises(Unreadable, match="apt install tesseract-ocr-chi-tra"):
        await sandbox.read_page(path, 1, languages=("eng", "chi_tra"))


def test_available_data_changes_with_languages():
    german, english = scans.available(("deu",)), scans.available(ENGLISH)

    assert german is not None
    assert english is not None
    assert german.data != english.data
    assert scans.available(()).languages == ("eng", "deu")


def png_of(width: int, height: int) -> bytes:
    """Return a PNG that declares a size and has the pixels of one row."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = zlib.compress(bytes(width + 1))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def tiff_chain(next_directory: int, count: int = 1) -> bytes:
    """Return a TIFF of one pixel whose directory refers to another one."""
    entries = [(256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 8), (277, 1), (278, 1), (279, 1)]
    directory = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", tag, 4, 1, v) for tag, v in entries)
    return b"II*\0" + struct.pack("<I", 10) + b"\0\0" + directory + struct.pack("<I", next_directory)


HOSTILE = {
    "a bomb of 60,000 by 60,000 pixels": (png_of(60_000, 60_000), "too many to be read"),
    "one column of 65,535 pixels": (png_of(1, 65_535), "too few for a letter"),
    "one row of 65,535 pixels": (png_of(65_535, 1), "too few for a letter"),
    "a strip of 9 by 2,000,000 pixels": (png_of(9, 2_000_000), "too few for a letter"),
    "a PNG that ends after its head": (png_of(900, 900)[:40], "is damaged"),
    "a JPEG that ends after its head": (saved([BLANK], "JPEG")[:300], "is damaged"),
    "a TIFF whose chain leads outside": (tiff_chain(4_000_000_000), "is damaged"),
    "a TIFF whose chain is a loop": (tiff_chain(10), "page 1 cannot be read"),
    "an animation": (saved([picture(HARBOUR), BLANK], "GIF"), "is an animation"),
    "a page without area": (
        re.sub(rb"(/MediaBox \[[^]]*\])", rb"\1 /CropBox [ 9000 9000 9001 9001 ]", saved([picture(HARBOUR)], "PDF")),
        "points, too few for a letter",
    ),
    "a page as long as a street": (
        re.sub(rb"/MediaBox \[[^]]*\]", b"/MediaBox [ 0 0 9 30000 ]", saved([picture(HARBOUR)], "PDF")),
        "points, too many to be read",
    ),
    "a page as large as a field": (
        re.sub(rb"/MediaBox \[[^]]*\]", b"/MediaBox [ 0 0 99999 99999 ]", saved([picture(HARBOUR)], "PDF")),
        "points, too many to be read",
    ),
}


@guards(
    "shared/ingest/parse/scans/pictures.py",
    'if image.format in ("GIF", "WEBP", "PNG") and',
    'if image.format == "" and',
    means="the first frame of an animation is read as a page",
)
@guards(
    "shared/ingest/parse/scans/pictures.py",
    "width * height > MAX_DECODED",
    "width * height < 0",
    means="a picture may have any number of pixels",
)
@guards(
    "shared/ingest/parse/scans/pdf_pages.py",
    "if min(width, height) * scale < LEAST_SIDE:",
    "if False:",
    means="a page of a PDF without area is drawn",
)
async def test_hostile_picture_fails_with_reason(subtests, sandbox, stored):
    for name, (content, reason) in HOSTILE.items():
        with subtests.test(name), pytest.raises(Unreadable, match=reason):
            await read(sandbox, stored(content))

    assert text_of(await read(sandbox, stored(saved([strip(HARBOUR)], "PNG")))) == one_line(HARBOUR)


async def test_too_many_pages_are_rejected(sandbox, stored):
    page = saved([Image.new("1", (8, 8))], "PDF")

    with pytest.raises(Unreadable, match="2,001 pages without text, more than 2,000"):
        await parsed(sandbox, stored(together(*[page] * 2_001)), {})


@guards(
    "shared/ingest/parse/isolation/sandbox.py",
    "timeout=self._page_timeout,",
    "timeout=self._timeout,",
    means="a page has the time of a file",
)
async def test_slow_page_ends_at_its_clock(stored):
    page = Image.new("L", (5600, 7000), 255)  # 6 s of processor time
    ImageDraw.Draw(page).multiline_text((80, 80), f"{HARBOUR}\n{TICKETS}\n" * 26, font_size=44, spacing=20)
    for left in range(1000, 5600, 1000):
        page.paste(page.crop((80, 0, 1000, 7000)), (left, 0))
    path = stored(saved([page], "PNG"))
    async with ParsingSandbox(page_timeout=timedelta(seconds=1)) as sandbox:
        with pytest.raises(Unreadable, match="page 1 took longer than 1 s to read"):
            await sandbox.read_page(path, 1, languages=ENGLISH)


async def test_reader_has_limits_and_nothing_open(pages, stored):
    path = stored(saved([strip(HARBOUR)], "PNG"))
    await pages.read_page(path, 1, languages=ENGLISH)
    (child,) = pages._idle
    process = Path(f"/proc/{child.process.pid}")

    assert limit_of(process, "Max data size") == (str(2**30), str(2**30))
    assert limit_of(process, "Max address space") == (str(3 * 2**30), str(3 * 2**30))
    assert limit_of(process, "Max file size") == (str(2**20), str(2**20))
    assert limit_of(process, "Max open files") == ("64", "64")
    seconds, most_seconds = limit_of(process, "Max cpu time")
    assert (20 < int(seconds) < 60, most_seconds) == (True, "630")  # 20 after the pages that it has read
    assert all("NoNewPrivs:\t1" in (thread / "status").read_text() for thread in (process / "task").iterdir())
    opened = {str(link.readlink()) for link in (process / "fd").iterdir()}
    assert not [name for name in opened if name.endswith((".traineddata", "stored"))]
    (folder,) = (part for part in (process / "cmdline").read_text().split("\0") if "/foreask-parser-" in part)
    assert not Path(folder).exists()  # it had the copies of the language data


@guards(
    "shared/ingest/parse/isolation/sandbox.py",
    "self.tenant in (None, task.tenant)",
    "task.tenant is not None",
    means="a process that has read a page of one tenant reads a page of another one",
)
async def test_reader_of_one_tenant_serves_no_other(stored):
    path = stored(saved([picture(HARBOUR)], "PNG"))
    async with ParsingSandbox() as sandbox:

        async def child_reading(tenant: str, languages: tuple[str, ...]) -> int:
            await sandbox.read_page(path, 1, languages=languages, tenant=tenant)
            (child,) = sandbox._idle
            return child.process.pid

        first = await child_reading("acme", ENGLISH)
        assert await child_reading("acme", ENGLISH) == first
        german = await child_reading("acme", ("deu",))
        assert german != first
        assert await child_reading("beta", ("deu",)) != german


async def test_real_scan_is_read(sandbox):
    text = await sandbox.read_page(SCANNED, 1, languages=("deu",))

    assert "Stellungnahme Archivgesetz; Verbändeanhörung" in text.text
    assert text.confidence > 90
