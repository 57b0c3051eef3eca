"""Hostile pictures and scans end within their time and memory, with a text or a sentence, and harm no other file.

The suite reads a sample; `--faults full` reads all files of `tests/support/hostile` and of `tests/files/hostile`.
"""

import asyncio
import re
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import psutil

from shared.domain.errors import Unreadable
from shared.domain.stages.pages import PageText
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.document import PagesToRead, ParsedDocument, Reading
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from tests.integration.test_parsing_sandbox import files_in
from tests.support import hostile
from tests.support.hostile.samples import TEXT, valid

MEMORY_BYTES = 1 << 30
LIBRARY_BYTES = 64 << 20  # of mapped files, which the limit does not count
SAMPLE, ALL = 40, 600
MOST_PAGES = 2  # that are read of a file
MORE_SECONDS = 30  # for the start of children on a busy machine
UNCLEAR = re.compile("crashed the parser|could not be parsed")  # says nothing that a person can do


@dataclass(frozen=True)
class Ending:
    """The end of a file: its sentences, or none if every part had a text; its time, and the largest child's memory."""

    name: str
    sentences: tuple[str, ...]
    seconds: float
    peak_bytes: int

    @property
    def is_unclear(self) -> bool:
        return any(map(UNCLEAR.search, self.sentences))


@dataclass(frozen=True)
class Workers:
    """A parse worker and a read worker, by the sandboxes of their children; `before` are children of other tests."""

    parsing: ParsingSandbox
    reading: ParsingSandbox
    before: frozenset[psutil.Process]

    async def ingest(self, path: Path, filename: str | None) -> tuple[ParsedDocument | None, tuple[str, ...]]:
        """Find the pages of a file, read some of them, and parse it with their texts; return why parts have no text."""
        sentences: list[str] = []
        try:
            found = await self._parse(path, filename, {})
            if isinstance(found, PagesToRead):
                texts = dict.fromkeys(found.numbers, PageText("", 0, 0.0))
                for number in found.numbers[:MOST_PAGES]:
                    texts[number] = await self._page(path, number, sentences)
                found = await self._parse(path, filename, texts)
        except Unreadable as error:
            return None, (*sentences, error.message)
        assert isinstance(found, ParsedDocument)
        return found, tuple(sentences)

    async def _parse(self, path, filename, texts):
        options = ChunkingOptions()
        return await self.parsing.parse(
            path, filename=filename, media_type=None, options=options, tenant="a", reading=Reading(texts)
        )

    async def _page(self, path, number, sentences):
        try:
            return await self.reading.read_page(path, number, languages=("eng",), tenant="a")
        except Unreadable as error:
            sentences.append(error.message)
            return PageText("", 0, 0.0)

    @property
    def most_seconds(self) -> float:
        """The limit of time of a file: it is parsed twice, and its pages are read between."""
        return 2 * 30 + MOST_PAGES * 6 * 20 + MORE_SECONDS

    def peak_bytes(self) -> int:
        """Return the largest resident memory that a running child has had."""
        lines = [line for child in children() - self.before for line in status_of(child) if line.startswith("VmHWM")]
        return max((int(line.split()[1]) * 1024 for line in lines), default=0)


@asynccontextmanager
async def started_workers():
    before = children()
    async with ParsingSandbox(scans=True) as parsing, ParsingSandbox() as reading:
        yield Workers(parsing, reading, before)


def children():
    """Return the parsers' processes of this one."""
    running = psutil.Process().children(recursive=True)
    return frozenset(child for child in running if is_parser(child))


def is_parser(process):
    with suppress(psutil.Error):  # it has ended
        return "shared.ingest.parse.isolation.child" in process.cmdline()
    return False


def status_of(process):
    with suppress(OSError):
        return Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return []


def hostile_files(seed, *, full):
    """Yield the files of a run, each once."""
    made = hostile.files(seed)
    if not full:
        return islice(made, SAMPLE)
    stored = (hostile.HostileFile(path.name, path.read_bytes(), path.name) for path in files_in("hostile"))
    return chain(made, stored)


async def endings_of(files, workers, path):
    for file in files:
        path.write_bytes(file.content)
        started, peaks = time.monotonic(), [0]
        watch = asyncio.create_task(watched(workers, peaks))
        _, sentences = await workers.ingest(path, file.filename)
        watch.cancel()
        ending = Ending(file.name, sentences, time.monotonic() - started, max(*peaks, workers.peak_bytes()))
        print(f"{ending.seconds:6.2f} s {ending.peak_bytes >> 20:5} MB {file.name}: {'; '.join(sentences) or 'text'}")
        yield ending


async def watched(workers, peaks):
    """Append the memory of running children, because a child that ends takes its number with it."""
    while True:
        peaks.append(workers.peak_bytes())
        await asyncio.sleep(0.1)


def summary(endings):
    counts = Counter("unclear" if e.is_unclear else "sentence" if e.sentences else "text" for e in endings)
    slowest = max(endings, key=lambda ending: ending.seconds)
    largest = max(ending.peak_bytes for ending in endings)
    return (
        f"{len(endings)} hostile files: {counts['text']} with text, {counts['sentence']} with a sentence,"
        f" {counts['unclear']} with an unclear one; the longest took {slowest.seconds:.1f} s ({slowest.name}), the"
        f" largest child had {largest >> 20} MB"
    )


async def test_hostile_scans_end_with_text_or_sentence(request, tmp_path):
    full = request.config.getoption("--faults") != "short"
    files = hostile_files(request.config.getoption("--seed"), full=full)
    path, good = tmp_path / "stored", tmp_path / "good"
    good.write_bytes(valid()["PNG"])
    async with started_workers() as workers:
        endings = [ending async for ending in endings_of(files, workers, path)]
        document, _ = await workers.ingest(good, "good.png")
    print(summary(endings))

    assert len(endings) >= (ALL if full else SAMPLE)
    assert [ending for ending in endings if ending.is_unclear] == []
    assert [ending for ending in endings if ending.seconds > workers.most_seconds] == []
    assert [chunk.text for chunk in document.chunks] == [TEXT]
    assert max(ending.peak_bytes for ending in endings) <= MEMORY_BYTES + LIBRARY_BYTES
    assert children() <= workers.before
