"""A row that is too large, and a file that expands, are left out with a reason; the rows around them are read."""

import gzip
import io
from dataclasses import asdict

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.sources.reading import lines
from features.sources.reading.documents import WRONG_TABLE, messages_of
from features.sources.reading.frames import MOST_TEXT_BYTES, ReadRow, RowReader, RowWriter
from features.sources.tables import formats as tables
from features.sources.tables.formats import ByteBudget, Columns, open_parquet, parquet_rows
from shared.confined.process import InvalidReply
from shared.domain.corpus.document_fields import MOST_TITLE_CHARS
from shared.domain.errors import Unreadable
from tests.support.planted import guards

GOOD = {"id": "a", "text": "A text."}
OTHER = {"id": "z", "text": "Another text."}


def options(suffix=".jsonl", **columns):
    return {"name": "t", "suffix": suffix, "columns": asdict(Columns(**columns)), "url": None, "metadata": ()}


def line(row):
    return row if isinstance(row, bytes) else orjson.dumps(row) + b"\n"


def rows_in(messages):
    """Return the rows of messages, and the reason why the rest is missing."""
    reader, rows = RowReader(), []
    try:
        for message in messages:
            rows += reader.rows(message)
    except Unreadable as error:
        return rows, error.message
    reader.require_end()
    return rows, None


def read_lines(content, suffix=".jsonl", **columns):
    return rows_in(lines.read(options(suffix, **columns), [as_file(content, suffix)]))


def as_file(content, suffix):
    return io.BytesIO(gzip.compress(content) if suffix == ".gz" else content)


@guards(
    "features/sources/tables/formats.py",
    "if has_too_many_values(line):",
    "if False:",
    means="a line of 46 KB takes gigabytes",
    case="values",
)
@pytest.mark.parametrize(
    ("row", "key", "problem"),
    [
        pytest.param(b"[" + b"[]," * 200_000 + b"1]\n", None, "It has more than 100,000 values.", id="values"),
        pytest.param(b"[" * 90_000 + b"\n", None, "It is not JSON: ", id="nesting"),
        pytest.param(b" " * (20 * 2**20) + b"1\n", None, "It has more than 20,971,520 bytes.", id="length"),
        pytest.param({"id": "x" * 2_000_000, "text": "A text."}, "x", "Its name has 2,000,000 bytes", id="id"),
        pytest.param({"id": "b", "text": "", "title": "A title"}, "b", "It has no text", id="text"),
        pytest.param(
            {"id": "b", "text": "A text.", "m": "x" * 40_000}, "b", "Metadata may have at most", id="metadata"
        ),
        pytest.param(
            {"id": "b", "text": "A text.", "m": [[[[[[[[[1]]]]]]]]]}, "b", "Metadata may be nested", id="depth"
        ),
    ],
)
def test_hostile_line_is_left_out_with_reason(row, key, problem):
    rows, rest = read_lines(b"".join(map(line, (GOOD | {"m": 1}, row, OTHER))), metadata=("m",))

    assert [(each.key, each.problem) for each in (rows[0], rows[2])] == [("a", None), ("z", None)]
    assert rest is None
    assert rows[1].problem.startswith(problem)
    assert (rows[1].number, rows[1].text) == (2, b"")
    assert rows[1].key is key is None or rows[1].key.startswith(key)


def test_long_title_of_row_is_cut():
    (row,), _ = read_lines(line(GOOD | {"title": "t" * 3_000_000}))

    assert row.title == "t" * (MOST_TITLE_CHARS - 1) + "\u2026"


@guards(
    "features/sources/tables/formats.py",
    "            spend(len(line), 1 if line.strip() else _BLANK_ROWS)",
    "            pass",
    means="a file of a megabyte is read for hours",
    case="empty",
)
@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"\n" * 40_000, id="empty"),
        pytest.param(b" " * 3_000_000, id="spaces"),
        pytest.param(b"1\n" * 40_000, id="numbers"),
    ],
)
def test_expanding_file_is_read_up_to_its_budget(tail, monkeypatch):
    monkeypatch.setattr(tables, "_LEAST_BYTES", 1_000_000)

    rows, rest = read_lines(line(GOOD) + tail + line(OTHER), ".gz")

    assert rows[0].key == "a"
    assert "z" not in {row.key for row in rows}
    assert rest == "it has more than 1,000,000 bytes when it is unpacked"


def test_names_of_endless_columns_are_cut_in_errors():
    with pytest.raises(Unreadable) as error:
        list(lines.read(options(), [io.BytesIO(line({"c" * 5_000 + str(n): 1 for n in range(1_000)}))]))

    assert error.value.detail == WRONG_TABLE
    assert "and 970 more" in error.value.message
    assert len(error.value.message) < 4_000


def parquet(table, **settings):
    file = io.BytesIO()
    pq.write_table(table, file, **settings)
    file.seek(0)
    return file


def parquet_messages(file, **columns):
    found = Columns(**{"id": "id", "text": "text"} | columns)
    return messages_of(lambda: parquet_rows(open_parquet(file, "t"), found, "t", ByteBudget(1)), options())


def shared_value(value, rows):
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))


def test_rows_sharing_a_value_end_at_budget(monkeypatch):
    monkeypatch.setattr(tables, "_LEAST_BYTES", 50_000_000)
    table = pa.table({"id": [str(n) for n in range(100)], "text": shared_value("x" * 1_000_000, 100)})
    file = parquet(table, row_group_size=20, compression="zstd")

    rows, rest = rows_in(parquet_messages(file))

    assert file.getbuffer().nbytes < 20_000
    assert [row.problem for row in rows] == [None] * 40
    assert rest == "it has more than 50,000,000 bytes when it is unpacked"


def test_text_longer_than_the_limit_is_refused():
    table = pa.table({"id": ["a", "b", "c"], "text": ["A text.", "x" * (MOST_TEXT_BYTES + 1), "A text."]})

    rows, rest = rows_in(parquet_messages(parquet(table)))

    assert [row.key for row in rows] == ["a", "b", "c"]
    assert [row.problem is None for row in rows] == [True, False, True]
    assert rows[1].problem == "Its text has more than 20,971,520 bytes."
    assert rest is None


def test_text_in_another_encoding_omits_its_row():
    texts = pa.array([b"A text.", b"\xff", b"A text."]).view(pa.string())

    rows, rest = rows_in(parquet_messages(parquet(pa.table({"id": ["a", "b", "c"], "text": texts}))))

    assert [row.key for row in rows] == ["a", None, "c"]
    assert rows[1].problem == "It needs too much memory, or has a text that is not UTF-8."
    assert rest is None


def test_nested_column_with_many_values_is_refused():
    nested = pa.ListArray.from_arrays([0, 0, 1_000_000, 1_000_000], pa.nulls(1_000_000, pa.bool_()))
    table = pa.table({"id": ["a", "b", "c"], "text": ["A text."] * 3, "m": nested})

    rows, _ = rows_in(parquet_messages(parquet(table), metadata=("m",)))

    assert [row.problem for row in rows] == [None, "Metadata may have at most 32,768 bytes as JSON.", None]


def test_damaged_parquet_keeps_rows_before_the_damage():
    table = pa.table({"id": [str(n) for n in range(1_000)], "text": [f"Text {n}" for n in range(1_000)]})
    content = bytearray(parquet(table, row_group_size=500, compression="none", use_dictionary=False).getvalue())
    content[len(content) // 2 : len(content) // 2 + 3_000] = b"\xff" * 3_000

    rows, rest = rows_in(parquet_messages(io.BytesIO(content)))

    assert len(rows) >= 500
    assert rest.startswith("it is damaged after row ")


def message(*fields, text=b""):
    head = orjson.dumps(fields)
    return len(head).to_bytes(4) + head + text


VALID = (1, "a", "v", 7, None, "A title", {"a": 1}, ["group:a"], 7)


@guards(
    "features/sources/reading/frames.py",
    "    if not valid:",
    "    if False:",
    means="a file that takes over its process writes any key and size",
)
@pytest.mark.parametrize(
    "fields",
    [
        *(
            (*VALID[:n], wrong, *VALID[n + 1 :])
            for n, wrong in enumerate((None, "a\0", "v" * 65, "7", "p" * 2_001, 5, [], "everyone"))
        ),
        *((*VALID[:7], readers, 7) for readers in (["legal"], [7], ["unset"], ["user:b", "group:a"], {})),
        (*VALID[:8], MOST_TEXT_BYTES + 1),
        (*VALID[:8], -1),
        (*VALID[:1], "x" * 1025, *VALID[2:]),
        (*VALID[:1], None, *VALID[2:]),
        VALID[:8],
        (VALID,),
    ],
)
def test_invalid_row_of_reader_is_refused(fields):
    assert len(list(RowReader().rows(message(*VALID, text=b"A text.")))) == 1

    with pytest.raises(InvalidReply):
        list(RowReader().rows(message(*fields, text=b"A text.")))


@pytest.mark.parametrize("content", [b"\xff" * 8, (3).to_bytes(4) + b"not", (300_000).to_bytes(4)])
def test_reply_without_frames_is_refused(content):
    with pytest.raises(InvalidReply):
        list(RowReader().rows(content))


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_rows_arrive_whole_in_messages_of_any_size(size):
    writer = RowWriter()
    rows = [ReadRow(n, str(n), "v", n * 100, None, None, {}, b"x" * n * 100, ["everyone"]) for n in range(1, 5)]
    for row in rows:
        writer.add(row)
    content = b"".join(writer.messages(least=1))
    reader = RowReader()

    read = [row for at in range(0, len(content), size) for row in reader.rows(content[at : at + size])]

    assert read == rows
    assert reader.last == 4
    reader.require_end()
    assert list(reader.rows(b"\0")) == []
    with pytest.raises(InvalidReply):
        reader.require_end()
