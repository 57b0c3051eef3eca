"""Tables as a source: each row of JSON lines or Parquet files is a document, whose key is its id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from pydantic import Field

from shared.domain.errors import InvalidInput, Misconfigured
from shared.sources.files import COMPONENT, FileSource, OpenFile, not_found, too_large
from shared.sources.options import BucketOptions, Texts
from shared.sources.source import Entry, Item, Source
from shared.sources.spool import Spool
from shared.sources.tables import (
    JSON_LINES,
    Columns,
    Row,
    Truncated,
    lines_of,
    names_in,
    open_parquet,
    parquet_rows,
    row_of_line,
    unpacked,
)

PARQUET = ".parquet"
_PACKED = (".gz", ".zst")
_BATCH = 1_000  # rows per call of a thread
_HINT = "Name columns with the options id, text, title, url and metadata."


class RowOptions(BucketOptions):
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
        return Columns(self.id, self.text, self.title, (*self.metadata, *url))


class RowSource(Source):
    """The rows of files.

    All files are read before the first entry. A row that is not valid but has an id is a refused entry. A row without
    an id may be any document, so the listing yields all entries and then fails: documents are added and changed, and
    none is deleted.

    Args:
        files: the folder of the files.
        options: columns of the documents.
        name: key of a single file; None: all files of the folder.
    """

    def __init__(self, files: FileSource, options: RowOptions, name: str | None = None) -> None:
        self._files = files
        self._options = options
        self._name = name
        self._spool: Spool | None = None
        self._loading = asyncio.Lock()
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
        row = await self._call(spool.row, entry.key)
        if row is None:
            self._require_complete()
            raise not_found(entry.key)
        content = row.document["text"].encode()
        if len(content) > max_bytes:
            raise too_large(len(content), max_bytes)
        return Item(content, row.version, title=row.document.get("title"), metadata=row.document.get("metadata", {}))

    async def aclose(self) -> None:
        if self._spool is not None:
            self._spool.close()
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
        spool = await asyncio.to_thread(Spool)
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
        await asyncio.to_thread(spool.index)

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
        unit = "row" if is_parquet(name) else "line"
        rows = self._identified(_rows(opened.content, name, self._options.columns), f"{name}, {unit}")
        try:
            while await asyncio.to_thread(spool.add, islice(rows, _BATCH), f"{name}, {unit}"):
                pass
        except Truncated as error:
            self._note(f"{name} cannot be read after line {error.rows:,}.")
        self._read.append((name, opened.version))

    def _identified(self, rows: Iterator[Row], label: str) -> Iterator[Row]:
        """Yield the rows that have an id, and note the others."""
        for row in rows:
            if row.id is None:
                self._note(f"{label} {row.number:,}: {row.rejection}")
            else:
                yield _with_url(row, self._options)

    def _note(self, problem: str) -> None:
        self._problem = self._problem or problem
        self._problems += 1

    def _require_complete(self) -> None:
        """Raise an error if the id of a row is unknown, because its document must not be deleted."""
        if self._problem:
            others = f" {self._problems - 1:,} more have errors." if self._problems > 1 else ""
            raise _misconfigured(f"A row has no id, so nothing is deleted. {self._problem}{others}")

    async def _call(self, method: Any, *values: Any) -> Any:
        async with self._loading:
            return await asyncio.to_thread(method, *values)


def is_parquet(name: str) -> bool:
    return name.lower().endswith(PARQUET)


def is_table(name: str) -> bool:
    """Return whether the name of a file, or a pattern of names, ends like a table's."""
    path = PurePosixPath(name.lower())
    return is_parquet(name) or (path.with_suffix("") if path.suffix in _PACKED else path).suffix in JSON_LINES


def _rows(file: BinaryIO, name: str, columns: Columns) -> Iterator[Row]:
    """Yield the rows of a file.

    Raises:
        Misconfigured: it lacks a column, is not Parquet, or needs a package that is not installed.
        Truncated: its end cannot be read.
    """
    try:
        yield from (_of_parquet if is_parquet(name) else _of_lines)(file, name, columns)
    except Truncated:
        raise
    except InvalidInput as error:
        raise _misconfigured(error.message) from None
    except ModuleNotFoundError:
        raise _misconfigured(f"{name} needs a package: pip install 'foreask[parquet]'.") from None


def _of_lines(file: BinaryIO, name: str, columns: Columns) -> Iterator[Row]:
    suffix = PurePosixPath(name.lower()).suffix
    found = _among(columns, names_in(unpacked(file, suffix)), name)
    file.seek(0)
    for number, line in lines_of(unpacked(file, suffix), name):
        yield row_of_line(number, line, found, name)


def _of_parquet(file: BinaryIO, name: str, columns: Columns) -> Iterator[Row]:
    try:
        parquet = open_parquet(file, name)
        yield from parquet_rows(parquet, _among(columns, parquet.schema_arrow.names, name), name)
    except (ValueError, OSError) as error:
        raise _misconfigured(f"{name} cannot be read as Parquet: {error}") from None


def _among(columns: Columns, names: Sequence[str], name: str) -> Columns:
    found = columns.among(names, name, _HINT)
    if names and found.id is None:
        raise _misconfigured(f"{name} has no column _id, id or external_id; it has {', '.join(names)}. {_HINT}")
    return found


def _with_url(row: Row, options: RowOptions) -> Row:
    """Return the row with its address in the metadata field `url`."""
    column, document = options.url, row.document
    if column is None or document is None or column not in document.get("metadata", {}):
        return row
    kept = {name: value for name, value in document["metadata"].items() if name in options.metadata}
    return replace(row, document=document | {"metadata": kept | {"url": document["metadata"][column]}})


def _misconfigured(problem: str) -> Misconfigured:
    return Misconfigured(problem, component=COMPONENT)
