"""Corpora: files whose rows are documents, as JSON lines or Parquet. A corpus may be larger than memory."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar, cast

from features.sources.tables.formats import (
    JSON_LINES,
    READABLE_BY,
    Columns,
    Json,
    TableRow,
    Truncated,
    lines_of,
    names_in,
    open_parquet,
    parquet_rows,
    row_of,
    row_of_line,
)
from shared.domain.errors import InvalidInput

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

T = TypeVar("T")

SAMPLE_ROWS = 200
_SAMPLE_BYTES = 4 * 1024 * 1024
_BLOCK = 1024 * 1024
_SAMPLED_GROUPS = 8
_HINT = "Name them with --id, --text, --title, --metadata, --questions and --readers-column."


@dataclass(frozen=True, slots=True)
class CorpusSurvey:
    """Size and sample of a corpus.

    Args:
        rows: number of rows.
        size_bytes: total size of the texts, estimated from the sample; None: unknown.
        sample: documents from all parts of the corpus.
    """

    rows: int
    size_bytes: int | None
    sample: Sequence[Json]


class Corpus(Protocol):
    """A file whose rows are documents."""

    name: str

    def rows(self) -> Iterator[TableRow]:
        """Yield the rows, in order.

        Raises:
            Truncated: the file is truncated; raised after its last row.
        """
        ...

    def survey(self) -> CorpusSurvey:
        """Read the file once and return its size and a sample."""
        ...


def corpus_in(paths: Sequence[str], columns: Columns) -> Corpus | None:
    """Return the corpus at the paths, or None if they are not one file that is a corpus.

    A Parquet file is a corpus. A file of JSON lines is a corpus if a column is named, if it is compressed, or if it has
    the columns `_id` and `text`, as in BEIR. Otherwise it is a document like any other.

    Raises:
        InvalidInput: columns are named but the paths are not a corpus, or a column does not exist.
    """
    path = Path(paths[0]).expanduser()
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if len(paths) == 1 and path.is_file():
        if suffixes[-1:] == [".parquet"]:
            return ParquetCorpus(path, columns)
        compressed = suffixes[-1:] == [".gz"] and suffixes[0] in JSON_LINES
        if compressed or (suffixes and suffixes[-1] in JSON_LINES):
            names = _names(path)
            if compressed or columns != Columns() or {"_id", "text"} <= set(names):
                columns = replace(columns.among(names, path.name, _HINT), usual_readers=True)
                return JsonLinesCorpus(path, columns)
    if columns != Columns():
        raise InvalidInput(
            "--id, --text, --title, --metadata, --questions and --readers-column name columns of one file: JSON lines"
            " (.jsonl, .jsonl.gz) or Parquet.",
            field="columns",
        )
    return None


class JsonLinesCorpus:
    """One JSON object per line. Empty lines are skipped but counted in line numbers."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path = path
        self._columns = columns
        self.name = path.name

    def rows(self) -> Iterator[TableRow]:
        for number, line in _lines(self._path):
            yield self._row(number, line)

    def _row(self, number: int, line: bytes | None) -> TableRow:
        return row_of_line(number, line, self._columns, self.name)

    def survey(self) -> CorpusSurvey:
        rows = size = seen = 0
        generator = random.Random(0)  # noqa: S311 - the same sample each time
        sample: list[tuple[int, bytes]] = []
        with suppress(Truncated):  # raised when its rows are read
            for number, line in _lines(self._path):
                rows += 1
                size += len(line or b"")
                if line is None or len(line) > _SAMPLE_BYTES // 4:
                    continue
                seen += 1
                if len(sample) < SAMPLE_ROWS:
                    sample.append((number, line))
                elif (index := generator.randrange(seen)) < SAMPLE_ROWS:
                    sample[index] = number, line
        sample = list(_fitting(sample, lambda item: len(item[1])))
        documents = [row.document for row in (self._row(*item) for item in sample) if row.document is not None]
        sample_size = sum(len(line) for _, line in sample)
        texts = sum(len(document["text"].encode()) for document in documents)
        return CorpusSurvey(rows, round(texts * size / sample_size) if sample_size else None, documents)


class ParquetCorpus:
    """A Parquet file, whose row groups are read one after another.

    Raises:
        InvalidInput: the file is not Parquet or lacks a column.
    """

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path = path
        self.name = path.name
        with self._open() as file:
            names = file.schema_arrow.names
            usual = READABLE_BY if READABLE_BY in names else None
            self._columns = replace(columns, readers=columns.readers or usual).among(names, path.name, _HINT)

    def rows(self) -> Iterator[TableRow]:
        with self._open() as file:
            yield from parquet_rows(file, self._columns, self.name)

    def survey(self) -> CorpusSurvey:
        with self._open() as file:
            groups = file.num_row_groups
            chosen = sorted({groups * n // _SAMPLED_GROUPS for n in range(_SAMPLED_GROUPS)}) if groups else []
            sample: list[Json] = []
            for group in chosen:
                some = SAMPLE_ROWS // len(chosen)
                batches = file.iter_batches(batch_size=some, row_groups=[group], columns=self._columns.names)
                values = next(batches).to_pylist() if file.metadata.row_group(group).num_rows else []
                rows = (row_of(0, of_row, self._columns, self.name) for of_row in values)
                sample += [row.document for row in rows if row.document is not None]
            fitting = list(_fitting(sample, lambda document: len(document["text"])))
            return CorpusSurvey(file.metadata.num_rows, None, fitting)

    def _open(self) -> ParquetFile:
        return open_parquet(self._path, self._path)


def _names(path: Path) -> list[str]:
    with _opened(path) as file:
        return names_in(file)


def _lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    with _opened(path) as file:
        yield from lines_of(file, path)


def _opened(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb", buffering=_BLOCK)


def _fitting(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[T]:
    """Yield items up to the size of one request."""
    remaining = _SAMPLE_BYTES
    for item in items:
        remaining -= size_of(item)
        if remaining < 0:
            return
        yield item
