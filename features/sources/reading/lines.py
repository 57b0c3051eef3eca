"""The reader of JSON lines, plain or compressed by `gzip`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from features.sources.reading.documents import columns_of, messages_of, size_of
from features.sources.tables.formats import ByteBudget, TableRow, lines_of, names_in, row_of_line, unpacked

_FIRST_BYTES = 64 * 1024 * 1024  # in which the names of the columns are


def read(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield the rows of a file of JSON lines.

    Args:
        options: `name` and `suffix` of the file, and the columns.
        files: the file.
    """
    yield from messages_of(lambda: _rows(files[0], options), options)


def _rows(file: BinaryIO, options: Mapping[str, Any]) -> Iterator[TableRow]:
    name, suffix = options["name"], options["suffix"]
    size_bytes = size_of(file)
    columns = columns_of(names_in(unpacked(file, suffix), ByteBudget(0, _FIRST_BYTES)), options)
    file.seek(0)
    for number, line in lines_of(unpacked(file, suffix), name, ByteBudget(size_bytes)):
        yield row_of_line(number, line, columns, name)


READERS = {"lines": read}
