"""The readers that need Arrow: Parquet, and JSON lines compressed by `zstd`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from features.sources.reading import lines
from features.sources.reading.documents import columns_of, messages_of, size_of
from features.sources.tables.formats import ByteBudget, TableRow, open_parquet, parquet_rows

pa.set_memory_pool(pa.system_memory_pool())  # the others reserve memory that the limit counts
pa.set_cpu_count(1)
pa.set_io_thread_count(1)

_ZONES = [ZoneInfo(name) for name in available_timezones()]  # times have one, and no file can be opened later


def read(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield the rows of a Parquet file.

    Args:
        options: `name` of the file, and the columns.
        files: the file.
    """
    yield from messages_of(lambda: _rows(files[0], options), options)


def _rows(file: BinaryIO, options: Mapping[str, Any]) -> Iterator[TableRow]:
    name = options["name"]
    parquet = open_parquet(file, name)
    columns = columns_of(parquet.schema_arrow.names, options)
    yield from parquet_rows(parquet, columns, name, ByteBudget(size_of(file)))


READERS = {"lines": lines.read, "parquet": read}
