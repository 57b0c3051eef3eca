"""Corpora: files whose rows are documents, as JSON lines or Parquet. A corpus may be larger than memory."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar, cast

import orjson

from shared.domain.errors import InvalidInput

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

Json = dict[str, Any]
T = TypeVar("T")

SAMPLE_ROWS = 200
_SAMPLE_BYTES = 4 * 1024 * 1024
_LONGEST_LINE = 64 * 1024 * 1024  # the server rejects documents of this size anyway
_FIRST_LINES = 100
_BLOCK = 1024 * 1024
_PARQUET_BATCH = 500
_SAMPLED_GROUPS = 8
_IDS = ("_id", "id", "external_id")
_JSON_LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a document. None means the column with the usual name, if it exists.

    Args:
        id: column of the external id.
        text: column of the text.
        title: column of the title.
        metadata: columns of the metadata.
        questions: column of the ready-made questions, each row a list of texts or objects.
    """

    id: str | None = None
    text: str | None = None
    title: str | None = None
    metadata: tuple[str, ...] = ()
    questions: str | None = None

    def among(self, names: Sequence[str], where: str) -> Columns:
        """Return the columns of a corpus with these column names; missing columns get their usual names.

        Args:
            names: names of the corpus's columns.
            where: name of the corpus, for the error message.

        Raises:
            InvalidInput: a column does not exist.
        """
        existing = set(names)
        found = replace(
            self,
            id=self.id or next((name for name in _IDS if name in existing), None),
            text=self.text or "text",
            title=self.title or ("title" if "title" in existing else None),
        )
        required = (found.id, found.text, found.title, found.questions, *found.metadata)
        missing = [name for name in required if name is not None and name not in existing]
        if missing and names:
            raise InvalidInput(
                f"{where} has no column {', '.join(missing)}; it has {', '.join(names)}."
                " Name them with --id, --text, --title, --metadata and --questions.",
                field="columns",
            )
        return found


@dataclass(frozen=True, slots=True)
class CorpusRow:
    """A row with its number, from 1: a document in the form of the API, or the reason why it is not valid."""

    number: int
    document: Json | None = None
    rejection: str | None = None


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


class Truncated(InvalidInput):
    """A corpus whose file is truncated; `rows` is the number of rows before the end."""

    def __init__(self, path: Path, rows: int) -> None:
        super().__init__(f"{path} is truncated after line {rows:,}. The lines before the end were uploaded.")


class Corpus(Protocol):
    """A file whose rows are documents."""

    name: str

    def rows(self) -> Iterator[CorpusRow]:
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
        compressed = suffixes[-1:] == [".gz"] and suffixes[0] in _JSON_LINES
        if compressed or (suffixes and suffixes[-1] in _JSON_LINES):
            names = _names(path)
            if compressed or columns != Columns() or {"_id", "text"} <= set(names):
                return JsonLinesCorpus(path, columns.among(names, path.name))
    if columns != Columns():
        raise InvalidInput(
            "--id, --text, --title, --metadata and --questions name columns of one file: JSON lines (.jsonl, .jsonl.gz)"
            " or Parquet.",
            field="columns",
        )
    return None


class JsonLinesCorpus:
    """One JSON object per line. Empty lines are skipped but counted in line numbers."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path = path
        self._columns = columns
        self.name = path.name

    def rows(self) -> Iterator[CorpusRow]:
        for number, line in _lines(self._path):
            yield self._row(number, line)

    def _row(self, number: int, line: bytes | None) -> CorpusRow:
        if line is None:
            return CorpusRow(number, rejection=f"It has more than {_LONGEST_LINE:,} bytes.")
        try:
            values = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            return CorpusRow(number, rejection=f"It is not JSON: {error}.")
        if not isinstance(values, dict):
            return CorpusRow(number, rejection="It is not a JSON object.")
        return _row(number, values, self._columns, self.name)

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
            self._columns = columns.among(file.schema_arrow.names, path.name)

    def rows(self) -> Iterator[CorpusRow]:
        with self._open() as file:
            number = 0
            for batch in file.iter_batches(batch_size=_PARQUET_BATCH, columns=self._names):
                for values in batch.to_pylist():
                    number += 1
                    yield _row(number, values, self._columns, self.name)

    def survey(self) -> CorpusSurvey:
        with self._open() as file:
            groups = file.num_row_groups
            chosen = sorted({groups * n // _SAMPLED_GROUPS for n in range(_SAMPLED_GROUPS)}) if groups else []
            sample: list[Json] = []
            for group in chosen:
                some = SAMPLE_ROWS // len(chosen)
                batches = file.iter_batches(batch_size=some, row_groups=[group], columns=self._names)
                values = next(batches).to_pylist() if file.metadata.row_group(group).num_rows else []
                rows = (_row(0, of_row, self._columns, self.name) for of_row in values)
                sample += [row.document for row in rows if row.document is not None]
            fitting = list(_fitting(sample, lambda document: len(document["text"])))
            return CorpusSurvey(file.metadata.num_rows, None, fitting)

    @property
    def _names(self) -> list[str]:
        c = self._columns
        return [name for name in dict.fromkeys((c.id, c.text, c.title, c.questions, *c.metadata)) if name is not None]

    def _open(self) -> ParquetFile:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile

        try:
            return ParquetFile(self._path)
        except pa.ArrowInvalid as error:
            raise InvalidInput(f"{self._path} cannot be read as Parquet: {error}", field="paths") from error


def _row(number: int, values: Mapping[str, Any], columns: Columns, name: str) -> CorpusRow:
    try:
        return CorpusRow(number, _document(number, values, columns, name))
    except ValueError as error:
        return CorpusRow(number, rejection=str(error))


def _document(number: int, values: Mapping[str, Any], columns: Columns, name: str) -> Json:
    """Return the document of a row.

    Raises:
        ValueError: the row is not a valid document; the message is the reason.
    """
    text = values.get(columns.text or "text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"It has no text in the column {columns.text}.")
    document: Json = {"external_id": _id(values, columns.id) or f"{name}:{number}", "text": text}
    title = values.get(columns.title) if columns.title else None
    if isinstance(title, str) and title.strip():
        document["title"] = title
    metadata = {key: _plain(key, values[key]) for key in columns.metadata if values.get(key) is not None}
    if metadata:
        document["metadata"] = metadata
    questions = values.get(columns.questions) if columns.questions else None
    if questions is not None:
        if not isinstance(questions, list):
            raise ValueError(f"The column {columns.questions} does not contain a list of questions.")
        document["questions"] = questions
    return document


def _id(values: Mapping[str, Any], column: str | None) -> str | None:
    if column is None:
        return None
    value = values.get(column)
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"It has no name in the column {column}.")


def _plain(name: str, value: Any) -> Any:
    """Return a value as JSON."""
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        raise ValueError(f"The column {name} contains bytes, which JSON cannot represent.")  # noqa: TRY004 - the row is rejected
    if isinstance(value, list):
        return [_plain(name, item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(name, item) for key, item in value.items()}
    return value


def _names(path: Path) -> list[str]:
    """Return the names in the first lines, which may have different names."""
    names: dict[str, None] = {}
    with suppress(Truncated):  # raised when its rows are read
        for _, line in islice(_lines(path), _FIRST_LINES):
            with suppress(orjson.JSONDecodeError):
                values = orjson.loads(line or b"")
                names |= dict.fromkeys(values) if isinstance(values, dict) else {}
    return list(names)


def _lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line that is not empty, with its number, and None instead of a line that is too long.

    Raises:
        Truncated: a compressed file is truncated.
    """
    number = 0
    with _opened(path) as file:
        while True:
            try:
                line = file.readline(_LONGEST_LINE + 1)
                whole = len(line) <= _LONGEST_LINE
                if not whole:
                    _skip_line(file, line)
            except (EOFError, zlib.error, gzip.BadGzipFile):
                raise Truncated(path, number) from None
            if not line:
                return
            number += 1
            if not whole:
                yield number, None
            elif line.strip():
                yield number, line


def _skip_line(file: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = file.readline(_BLOCK)


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
