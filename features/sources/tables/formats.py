"""Tables: files of JSON lines or Parquet whose rows are documents. A table may be larger than memory."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import orjson

from features.sources.named_readers import readers_in
from shared.domain.corpus.document_fields import short_title, stored_metadata
from shared.domain.errors import InvalidInput
from shared.domain.json_values import MOST_VALUES, has_too_many_values

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

Json = dict[str, Any]

JSON_LINES = (".jsonl", ".ndjson")
READABLE_BY = "readable_by"
LONGEST_LINE = 20 * 1024 * 1024
_FIRST_LINES = 100
_BLOCK = 1024 * 1024
_BATCH_ROWS = 500
_BATCH_BYTES = 16 * 1024 * 1024
_SHOWN_NAMES, _SHOWN_CHARS = 30, 100  # of columns in a message
_SHOWN_ERROR = 300
_LEAST_BYTES = 1024 * 1024 * 1024
_MOST_EXPANSION = 100  # compressed lines and columns seldom have a tenth of this
_BLANK_ROWS = 16  # whose cost a blank line has: a megabyte can have a billion of them
_LINE_BYTES = 64  # that reading a line costs in addition to its own
_IDS = ("_id", "id", "external_id")


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a document. None means the column with the usual name, if it exists.

    Args:
        id: column of the external id.
        text: column of the text.
        title: column of the title.
        metadata: columns of the metadata.
        questions: column of the ready-made questions, each row a list of texts or objects.
        readers: column of the readers, each row a list of texts, a text with commas, or JSON.
        usual_readers: whether a row without a column of the readers may name them as `readable_by`.
    """

    id: str | None = None
    text: str | None = None
    title: str | None = None
    metadata: tuple[str, ...] = ()
    questions: str | None = None
    readers: str | None = None
    usual_readers: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the columns that are read."""
        given = (self.id, self.text, self.title, self.questions, self.readers, *self.metadata)
        return [name for name in dict.fromkeys(given) if name is not None]

    def among(self, names: Sequence[str], where: str, hint: str) -> Columns:
        """Return the columns of a table with these column names; missing columns get their usual names.

        Args:
            names: names of the table's columns.
            where: name of the table, for the error message.
            hint: sentence that says how columns are named, for the error message.

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
        missing = [name for name in found.names if name not in existing]
        if missing and names:
            message = f"{where} has no column {', '.join(missing)}; it has {shown(names)}. {hint}"
            raise InvalidInput(message, field="columns")
        return found


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table: a document in the form of the API, or the reason why it is not valid.

    Args:
        number: its number, from 1; of JSON lines, the number of its line.
        document: its document; None if it is not valid.
        rejection: the reason, as a sentence; None if it is valid.
        id: its id; None if it has no valid one.
    """

    number: int
    document: Json | None = None
    rejection: str | None = None
    id: str | None = None


class Truncated(InvalidInput):
    """A file that is truncated; `rows` is the number of rows before the end."""

    def __init__(self, name: str | Path, rows: int) -> None:
        super().__init__(f"{name} is truncated after line {rows:,}. The lines before the end were uploaded.")
        self.rows = rows


class Unfinished(InvalidInput):
    """A file whose further rows cannot be read; the message is the reason."""


class ByteBudget:
    """The bytes that the rows of a file may have when they are unpacked: a file of a kilobyte can have terabytes.

    Args:
        size_bytes: size of the file.
        least_bytes: the bytes of a small file; None: 1 GiB.
    """

    def __init__(self, size_bytes: int, least_bytes: int | None = None) -> None:
        self._most = max(least_bytes or _LEAST_BYTES, size_bytes * _MOST_EXPANSION)
        self._rest = self._most

    def spend(self, size_bytes: int, rows: int = 1) -> None:
        """Count the bytes of lines or rows.

        Raises:
            Unfinished: there are too many.
        """
        self._rest -= size_bytes + rows * _LINE_BYTES
        if self._rest < 0:
            raise Unfinished(f"it has more than {self._most:,} bytes when it is unpacked")


def shown(names: Sequence[str]) -> str:
    """Return the first names of columns, for a message."""
    more = f" and {len(names) - _SHOWN_NAMES:,} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(name[:_SHOWN_CHARS] for name in names[:_SHOWN_NAMES]) + more


def row_of_line(number: int, line: bytes | None, columns: Columns, name: str) -> TableRow:
    """Return the row of a line.

    Args:
        number: number of the line.
        line: the line; None if it is too long.
        columns: columns of the table.
        name: name of the table, from which a row without an id column gets its id.
    """
    if line is None:
        return TableRow(number, rejection=f"It has more than {LONGEST_LINE:,} bytes.")
    if has_too_many_values(line):
        return TableRow(number, rejection=f"It has more than {MOST_VALUES:,} values.")
    try:
        values = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return TableRow(number, rejection=f"It is not JSON: {error}.")
    if not isinstance(values, dict):
        return TableRow(number, rejection="It is not a JSON object.")
    return row_of(number, values, columns, name)


def row_of(number: int, values: Mapping[str, Any], columns: Columns, name: str) -> TableRow:
    """Return the row with these values, as `row_of_line`."""
    key = None
    try:
        key = _id(values, columns.id) or f"{name}:{number}"
        return TableRow(number, _document(key, values, columns), id=key)
    except InvalidInput as error:
        return TableRow(number, rejection=error.message, id=key)
    except ValueError as error:
        return TableRow(number, rejection=str(error), id=key)


def names_in(file: BinaryIO, budget: ByteBudget | None = None) -> list[str]:
    """Return the names in the first lines, which may have different names."""
    names: dict[str, None] = {}
    try:
        for _, line in islice(lines_of(file, "", budget), _FIRST_LINES):
            if line is None or has_too_many_values(line):
                continue
            with suppress(orjson.JSONDecodeError):
                values = orjson.loads(line)
                names |= dict.fromkeys(values) if isinstance(values, dict) else {}
    except Truncated:  # raised again when its rows are read
        pass
    except Unfinished:
        if not names:
            raise
    return list(names)


def lines_of(file: BinaryIO, name: str | Path, budget: ByteBudget | None = None) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line that is not empty, with its number, and None instead of a line that is too long.

    Args:
        file: the lines.
        name: name of the file, for the error message.
        budget: counts the bytes of all lines, also of empty ones; None: they are not limited.

    Raises:
        Truncated: a compressed file is truncated.
        Unfinished: the budget is used up.
    """
    spend = _spend_nothing if budget is None else budget.spend
    number = 0
    while True:
        try:
            line = file.readline(LONGEST_LINE + 1)
            whole = len(line) <= LONGEST_LINE
            spend(len(line), 1 if line.strip() else _BLANK_ROWS)
            if not whole:
                _skip_line(file, line, spend)
        except (EOFError, OSError, zlib.error):
            raise Truncated(name, number) from None
        if not line:
            return
        number += 1
        if not whole:
            yield number, None
        elif line.strip():
            yield number, line


def unpacked(file: BinaryIO, suffix: str) -> BinaryIO:
    """Return a reader of the bytes of a file that may be compressed.

    Args:
        file: the file, at its start.
        suffix: last suffix of its name; `.gz` and `.zst` are compressed.

    Raises:
        ModuleNotFoundError: pyarrow, which reads `.zst`, is not installed.
    """
    if suffix == ".gz":
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    if suffix == ".zst":
        from pyarrow import CompressedInputStream, PythonFile  # noqa: PLC0415 - an optional package

        stream = CompressedInputStream(PythonFile(_Kept(file), mode="r"), "zstd")
        return cast("BinaryIO", io.BufferedReader(stream, _BLOCK))
    return file


def open_parquet(file: Path | BinaryIO, name: str | Path) -> ParquetFile:
    """Return a Parquet file.

    Raises:
        InvalidInput: it is not Parquet.
        ModuleNotFoundError: pyarrow is not installed.
    """
    import pyarrow as pa  # noqa: PLC0415 - an optional package
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    try:
        return ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(f"{name} cannot be read as Parquet: {str(error)[:_SHOWN_ERROR]}", field="paths") from error


def parquet_rows(
    file: ParquetFile, columns: Columns, name: str, budget: ByteBudget | None = None
) -> Iterator[TableRow]:
    """Yield the rows of a Parquet file, whose row groups are read one after another.

    Raises:
        MemoryError: a single row needs too much memory.
        Unfinished: the rest is damaged, or the budget is used up.
    """
    number = 0
    try:
        for batch in _batches(file, columns.names):
            if budget is not None:
                budget.spend(batch.nbytes, batch.num_rows)
            for values in _values(batch):
                number += 1
                if values is None:
                    yield TableRow(number, rejection="It needs too much memory, or has a text that is not UTF-8.")
                else:
                    yield row_of(number, values, columns, name)
    except (ValueError, OSError) as error:
        raise Unfinished(f"it is damaged after row {number:,}: {str(error)[:_SHOWN_ERROR]}") from error


def _batches(file: ParquetFile, names: Sequence[str]) -> Iterator[RecordBatch]:
    """Yield batches of rows, or single rows if a batch needs too much memory.

    A file cannot say how large its rows are: 500 rows may share one value in a dictionary, and each becomes a copy.
    """
    done, metadata = 0, file.metadata
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    largest = max((group.total_byte_size // max(1, group.num_rows) for group in groups), default=0)
    size = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, largest)))
    try:
        for batch in file.iter_batches(batch_size=size, columns=names, use_threads=False):
            yield _expanded(batch)
            done += batch.num_rows
    except MemoryError:
        if size == 1:
            raise
    else:
        return
    single = islice(file.iter_batches(batch_size=1, columns=names, use_threads=False), done, None)
    yield from map(_expanded, single)


def _expanded(batch: RecordBatch) -> RecordBatch:
    """Return the batch with the values of its dictionaries, whose number of bytes is then known."""
    import pyarrow as pa  # noqa: PLC0415 - an optional package

    plain = pa.schema([field.with_type(_plain_type(field.type)) for field in batch.schema])
    return batch if plain == batch.schema else batch.cast(plain)


def _plain_type(kind: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an optional package

    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_plain_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind.fields])
    return kind


def _values(batch: RecordBatch) -> Iterator[Json | None]:
    """Yield the values of each row; None for a row whose values cannot be represented."""
    step = max(1, batch.num_rows * _BATCH_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, step):
        part = batch.slice(start, step)
        try:
            yield from part.to_pylist()
        except (MemoryError, UnicodeDecodeError):
            for index in range(part.num_rows):
                yield _row_values(part.slice(index, 1))


def _row_values(row: RecordBatch) -> Json | None:
    try:
        values: Json = row.to_pylist()[0]
    except (MemoryError, UnicodeDecodeError):
        return None
    return values


class _Kept(io.RawIOBase):
    """Reads a file, and leaves it open when the reader is closed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


def _spend_nothing(_: int, __: int = 1) -> None:
    """Count nothing."""


def _skip_line(file: BinaryIO, line: bytes, spend: Callable[[int], None]) -> None:
    while line and not line.endswith(b"\n"):
        line = file.readline(_BLOCK)
        spend(len(line))


def _document(key: str, values: Mapping[str, Any], columns: Columns) -> Json:
    """Return the document of a row.

    Raises:
        ValueError: the row is not a valid document; the message is the reason.
    """
    text = values.get(columns.text or "text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"It has no text in the column {columns.text}.")
    document: Json = {"external_id": key, "text": text}
    title = values.get(columns.title) if columns.title else None
    if isinstance(title, str) and (short := short_title(title)):
        document["title"] = short
    metadata = {key: _plain(key, values[key]) for key in columns.metadata if values.get(key) is not None}
    if metadata:
        stored_metadata(metadata)  # only a check: options still name the columns as the file does
        document["metadata"] = metadata
    questions = values.get(columns.questions) if columns.questions else None
    if questions is not None:
        if not isinstance(questions, list):
            raise ValueError(f"The column {columns.questions} does not contain a list of questions.")
        document["questions"] = questions
    readers = columns.readers or (READABLE_BY if columns.usual_readers and READABLE_BY in values else None)
    if readers is not None:
        document[READABLE_BY] = _readers(readers, values.get(readers))
    return document


def _readers(column: str, value: object) -> list[str]:
    """Return the readers of a row; raise ValueError if they are malformed. An empty column names no person."""
    try:
        return list(readers_in(value))
    except InvalidInput as error:
        raise ValueError(f"The column {column} does not name readers: {error.message}") from None


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
