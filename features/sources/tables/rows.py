"""Tables as a source: each row of JSON lines or Parquet files is a document, whose key is its id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any

from pydantic import Field

from features.sources.errors import COMPONENT, not_found, too_large
from features.sources.files.file_source import FileSource, OpenFile
from features.sources.options import BucketOptions, ColumnOptions, Texts
from features.sources.reading.documents import WRONG_TABLE
from features.sources.reading.frames import RowReader
from features.sources.source import Entry, Item, Source
from features.sources.tables.formats import JSON_LINES, Columns
from features.sources.tables.spool import Spool, StoredRow
from shared.confined.process import InvalidReply
from shared.confined.reading import Reader
from shared.domain.errors import Misconfigured, Unreadable
from shared.process.threads import OwnThreads
from shared.settings.temporary_bytes import TEMPORARY_BYTES

PARQUET = ".parquet"
_PACKED = (".gz", ".zst")
_BATCH = 1_000  # entries per call of a thread
_LINES, _ARROW = "features.sources.reading.lines", "features.sources.reading.arrow"


class RowOptions(BucketOptions, ColumnOptions):
    """Columns of the documents, which have the same names as for `foreask ingest` by default."""

    id: str | None = Field(None, description="column of the id; default: _id, id or external_id")
    text: str | None = Field(None, description="column of the text; default: text")
    title: str | None = Field(None, description="column of the title; default: title, if it exists")
    url: str | None = Field(None, description="column of the address, which becomes the metadata field url")
    metadata: Texts = Field((), description="columns of the metadata")
    exclude: Texts = Field((), description="patterns; a file whose key or name matches one is not read")

    @property
    def columns(self) -> Columns:
        url = () if self.url is None else (self.url,)
        return Columns(self.id, self.text, self.title, (*self.metadata, *url), readers=self.readers_column)


class RowSource(Source):
    """The rows of files.

    All files are read before the first entry. A row that is not valid but has an id is a refused entry. A row without
    an id may be any document, so the listing yields all entries and then fails: documents are added and changed, and
    none is deleted.

    Args:
        files: the folder of the files.
        options: columns of the documents.
        reader: reads the files in a confined process.
        temporary_bytes: maximum size of the rows on disk.
        name: key of a single file; None: all files of the folder.
    """

    def __init__(
        self,
        files: FileSource,
        options: RowOptions,
        reader: Reader,
        temporary_bytes: int = TEMPORARY_BYTES,
        name: str | None = None,
    ) -> None:
        self._files = files
        self._options = options
        self._reader = reader
        self._temporary_bytes = temporary_bytes
        self._name = name
        self._spool: Spool | None = None
        self._loading = asyncio.Lock()
        self._threads = OwnThreads("rows")
        self._read: list[tuple[str, str]] = []
        self._problem: str | None = None
        self._problems = 0

    async def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        spool = await self._loaded()
        last = after
        while page := await self._call(spool.page, last, _BATCH):
            for entry in page:
                yield entry
            last = page[-1].key
        self._require_complete()

    async def find(self, key: str) -> Entry | None:
        spool = await self._loaded(current=True)
        entry: Entry | None = await self._call(spool.find, key)
        if entry is None:
            self._require_complete()
        return entry

    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        spool = await self._loaded()
        row: StoredRow | None = await self._call(spool.row, entry.key)
        if row is None:
            self._require_complete()
            raise not_found(entry.key)
        if len(row.text) > max_bytes:
            raise too_large(len(row.text), max_bytes)
        return Item(row.text, row.version, title=row.title, metadata=row.metadata)

    async def aclose(self) -> None:
        if self._spool is not None:
            self._spool.close()
        self._threads.close()
        await self._files.aclose()

    async def _loaded(self, *, current: bool = False) -> Spool:
        """Return the rows; `current` reads the files again if one has changed since they were read."""
        async with self._loading:
            if self._spool is None or (current and self._read != [(f.key, f.version) async for f in self._parts()]):
                await self._load()
            assert self._spool is not None
            return self._spool

    async def _load(self) -> None:
        if self._spool is not None:
            self._spool.close()
        self._spool, self._read, self._problem, self._problems = None, [], None, 0
        spool = await self._threads.run(partial(Spool, self._temporary_bytes))
        try:
            await self._fill(spool)
        except Exception:  # a cancelled call's thread may still use it
            spool.close()
            raise
        self._spool = spool

    async def _fill(self, spool: Spool) -> None:
        async for file in self._parts():
            async with self._files.opened(file) as opened:
                await self._add(spool, file.key, opened)
        if not self._read:
            raise _misconfigured("No file has rows: the address must name files of JSON lines or Parquet.")
        await self._threads.run(spool.index)

    async def _parts(self) -> AsyncIterator[Entry]:
        """Yield the files.

        Raises:
            Misconfigured: a file cannot be opened, so its rows are unknown.
        """
        if self._name is not None:
            file = await self._files.find(self._name)
            files = [] if file is None else [file]
        else:
            files = [file async for file in self._files.entries()]
        for file in files:
            if file.refused and file.size_bytes != 0:
                raise _misconfigured(f"{file.key} cannot be read: {file.refused}")
            yield file

    async def _add(self, spool: Spool, name: str, opened: OpenFile) -> None:
        """Add the rows of a file, as far as it can be read.

        Raises:
            Misconfigured: it lacks a column, is not Parquet, or needs a package that is not installed.
        """
        unit = "row" if is_parquet(name) else "line"
        reading = RowReader()
        module, reader = _reader_of(name)
        options = {
            "name": name,
            "suffix": PurePosixPath(name.lower()).suffix,
            "columns": asdict(self._options.columns),
            "url": self._options.url,
            "metadata": self._options.metadata,
        }
        messages = self._reader.read(module, reader, options, [opened.content.fileno()], subject="it")
        try:
            async with aclosing(messages):
                async for message in messages:
                    await self._threads.run(partial(self._store, spool, reading, message, f"{name}, {unit}"))
            reading.require_end()
        except Unreadable as error:
            if error.detail == WRONG_TABLE:
                raise _misconfigured(error.message) from error
            self._note(f"{name} cannot be read after {unit} {reading.last:,}: {error.message}.")
        except InvalidReply as error:
            self._note(f"{name} cannot be read after {unit} {reading.last:,}: it crashed the parser ({error}).")
        self._read.append((name, opened.version))

    def _store(self, spool: Spool, reading: RowReader, message: bytes, label: str) -> None:
        """Store the rows of a message that have an id, and note the others."""
        rows = list(reading.rows(message))
        for row in rows:
            if row.key is None:
                self._note(f"{label} {row.number:,}: {row.problem}")
        spool.add((row for row in rows if row.key is not None), label)

    def _note(self, problem: str) -> None:
        self._problem = self._problem or problem
        self._problems += 1

    def _require_complete(self) -> None:
        """Raise an error if the id of a row is unknown, because its document must not be deleted."""
        if self._problem:
            others = f" {self._problems - 1:,} more have errors." if self._problems > 1 else ""
            raise _misconfigured(f"Not every row has an id, so nothing is deleted. {self._problem}{others}")

    async def _call(self, method: Any, *values: Any) -> Any:
        async with self._loading:
            return await self._threads.run(partial(method, *values))


def is_parquet(name: str) -> bool:
    return name.lower().endswith(PARQUET)


def is_table(name: str) -> bool:
    """Return whether the name of a file, or a pattern of names, ends like a table's."""
    path = PurePosixPath(name.lower())
    return is_parquet(name) or (path.with_suffix("") if path.suffix in _PACKED else path).suffix in JSON_LINES


def _reader_of(name: str) -> tuple[str, str]:
    """Return the module and the name of the reader of a file.

    Raises:
        Misconfigured: it needs a package that is not installed.
    """
    needs_arrow = is_parquet(name) or name.lower().endswith(".zst")
    if needs_arrow and find_spec("pyarrow") is None:
        raise _misconfigured(f"{name} needs a package: install foreask with its extra 'parquet'.")
    return _ARROW if needs_arrow else _LINES, "parquet" if is_parquet(name) else "lines"


def _misconfigured(problem: str) -> Misconfigured:
    return Misconfigured(problem, component=COMPONENT)
