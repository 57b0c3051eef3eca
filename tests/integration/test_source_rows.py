"""Tables as a source: a bad row never deletes a document, and an error names its file and line."""

import gzip
import os
from datetime import date, datetime
from decimal import Decimal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.sources.opening import open_source
from shared.domain.errors import Misconfigured
from shared.settings.source_roots import Roots
from shared.settings.temporary_bytes import TEMPORARY_BYTES
from tests.support.planted import guards


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def lines(*rows):
    return b"".join(row if isinstance(row, bytes) else orjson.dumps(row) + b"\n" for row in rows)


@pytest.fixture
async def source_of(readers):
    """Return a function that opens a source of the files in a folder."""
    opened = []

    def make(folder, name="*.jsonl", temporary_bytes=TEMPORARY_BYTES, **options):
        source = open_source(
            "rows",
            f"{folder.as_uri()}/{name}",
            options,
            roots=Roots(["*"]),
            reader=readers.for_tenant("acme"),
            temporary_bytes=temporary_bytes,
        )
        opened.append(source)
        return source

    yield make
    for source in opened:
        await source.aclose()


async def listed(source):
    """Return the entries, and the message of the error that ends the listing; None without an error."""
    entries = []
    try:
        async for entry in source.entries():
            entries.append(entry)  # noqa: PERF401 - an error keeps the entries before it
    except Misconfigured as error:
        return entries, error.message
    return entries, None


async def fetched(source):
    return {entry.key: await source.fetch(entry, max_bytes=1_000) async for entry in source.entries()}


async def test_columns_become_fields_of_documents(folder, source_of):
    row = {"key": 7, "body": "A text.", "head": "A title", "link": "https://example.org/", "lang": "en", "unused": 1}
    (folder / "a.jsonl").write_bytes(lines(row))

    source = source_of(folder, "a.jsonl", id="key", text="body", title="head", url="link", metadata="lang")
    item = (await fetched(source))["7"]

    assert (item.content, item.title) == (b"A text.", "A title")
    assert item.metadata == {"lang": "en", "url": "https://example.org/"}


async def test_unused_column_does_not_change_version(folder, source_of):
    versions = []
    for unused, text in ((1, "A text."), (2, "A text."), (2, "Another text.")):
        (folder / "a.jsonl").write_bytes(lines({"id": "a", "text": text, "unused": unused}))
        ((entry,), _) = await listed(source_of(folder))
        versions.append(entry.version)

    assert versions[0] == versions[1] != versions[2]


async def test_duplicate_id_is_refused_with_both_lines(folder, source_of):
    (folder / "a.jsonl").write_bytes(lines({"id": "x", "text": "One."}, {"id": "y", "text": "Two."}))
    (folder / "b.jsonl").write_bytes(lines(b"\n", {"id": "x", "text": "Three."}))

    (first, second), error = await listed(source_of(folder))

    assert (first.key, second.key, second.refused, error) == ("x", "y", None, None)
    assert first.refused == "b.jsonl, line 2: the id is also the id of a.jsonl, line 1. Ids must be unique."


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"id": "x", "text": " "}, "a.jsonl, line 2: It has no text in the column text."),
        ({"id": "x"}, "a.jsonl, line 2: It has no text in the column text."),
        ({"id": "a\0", "text": "A text."}, "a.jsonl, line 2: Its name contains the character NUL: rename it."),
        ({"id": "x" * 1_025, "text": "A text."}, "a.jsonl, line 2: Its name has 1,025 bytes"),
    ],
)
async def test_invalid_row_with_id_is_refused(folder, row, reason, source_of):
    (folder / "a.jsonl").write_bytes(lines({"id": "a", "text": "A text."}, row, {"id": "z", "text": "A text."}))

    entries, error = await listed(source_of(folder))

    assert error is None
    refused = [entry for entry in entries if entry.refused]
    assert (len(entries), len(refused)) == (3, 1)
    assert refused[0].refused.startswith(reason)
    assert len(refused[0].key.encode()) <= 1_024


@pytest.mark.parametrize("row", [b"{\n", b"[1]\n", {"text": "A text."}, {"id": None, "text": "A text."}])
async def test_row_without_id_ends_listing_with_error(folder, row, source_of):
    (folder / "a.jsonl").write_bytes(lines({"id": "a", "text": "A text."}, row, {"id": "z", "text": "A text."}, row))
    source = source_of(folder)

    entries, error = await listed(source)

    assert [entry.key for entry in entries] == ["a", "z"]
    assert "a.jsonl, line 2:" in error
    assert "1 more" in error
    assert (await source.find("a")).key == "a"
    with pytest.raises(Misconfigured, match="line 2"):
        await source.find("unknown")


async def test_truncated_file_ends_listing_with_error(folder, source_of):
    rows = [{"id": f"{number:05}", "text": f"Text {hash(str(number))}"} for number in range(3_000)]
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(lines(*rows))[:-3_000])

    entries, error = await listed(source_of(folder, "*.jsonl.gz"))

    assert 0 < len(entries) < 3_000
    assert f"a.jsonl.gz cannot be read after line {len(entries):,}" in error


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
async def test_compressed_file_is_read(folder, suffix, source_of):
    content = lines({"id": "a", "text": "One."}, {"id": "b", "text": "Two."})
    packed = gzip.compress(content) if suffix == ".gz" else pa.compress(content, "zstd", asbytes=True)
    (folder / f"a.jsonl{suffix}").write_bytes(packed)

    items = await fetched(source_of(folder, f"*.jsonl{suffix}"))

    assert {key: item.content for key, item in items.items()} == {"a": b"One.", "b": b"Two."}


async def test_missing_column_is_error_with_existing_columns(folder, source_of):
    (folder / "a.jsonl").write_bytes(lines({"id": "a", "text": "One."}))
    (folder / "b.jsonl").write_bytes(lines({"key": "a", "body": "One."}))

    for options, problem in (
        ({}, "b.jsonl has no column text; it has key, body"),
        ({"text": "body"}, "a.jsonl has no column body; it has id, text"),
        ({"exclude": "a*", "text": "body"}, "b.jsonl has no column _id, id or external_id; it has key, body"),
    ):
        entries, error = await listed(source_of(folder, **options))
        assert entries == []
        assert problem in error
        assert "Name columns with the options" in error


async def test_pattern_without_files_is_error_and_not_empty(folder, source_of):
    (folder / "a.txt").write_text("A text.")

    assert "No file has rows" in (await listed(source_of(folder)))[1]
    assert "No file has rows" in (await listed(source_of(folder, "b.jsonl")))[1]


async def test_single_table_is_found_without_walking_its_folder(folder, source_of):
    (folder / "a.jsonl").write_bytes(lines({"id": "a", "text": "One."}))
    (folder / "b.jsonl").write_bytes(b"not read")

    assert list(await fetched(source_of(folder, "a.jsonl"))) == ["a"]


async def test_parts_of_a_dataset_are_read_together(folder, source_of):
    for number in range(3):
        path = folder / "data" / f"train-{number:05}-of-00003.parquet"
        path.parent.mkdir(exist_ok=True)
        rows = [{"_id": f"{n:04}", "title": f"Title {n}", "text": f"Text {n}."} for n in range(number, 30, 3)]
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=4)

    items = await fetched(source_of(folder, "data/*.parquet"))

    assert list(items) == [f"{number:04}" for number in range(30)]
    assert (items["0007"].content, items["0007"].title) == (b"Text 7.", "Title 7")


async def test_invalid_parquet_file_is_error(folder, source_of):
    (folder / "a.parquet").write_bytes(b"no")

    assert "a.parquet cannot be read as Parquet" in (await listed(source_of(folder, "*.parquet")))[1]


async def test_metadata_that_json_cannot_represent_is_refused(folder, source_of):
    pq.write_table(
        pa.table({"id": ["a"], "text": ["A text."], "took": pa.array([5], pa.duration("s"))}), folder / "a.parquet"
    )

    (entry,), error = await listed(source_of(folder, "a.parquet", metadata="took"))

    assert error is None
    assert entry.refused.startswith("a.parquet, row 1: ")


async def test_link_to_outer_table_ends_listing(tmp_path, source_of):
    (tmp_path / "outside.jsonl").write_bytes(lines({"id": "a", "text": "One."}))
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "a.jsonl").symlink_to(tmp_path / "outside.jsonl")

    assert "outside of the folder" in (await listed(source_of(tmp_path / "tables")))[1]


@guards(
    "features/sources/tables/formats.py",
    "        if size == 1:",
    "        if True:",
    means="a file of three kilobytes hides all of its rows",
)
async def test_rows_too_large_for_memory_are_refused_singly(folder, source_of):
    """A file of three kilobytes has 500 texts of 40 MB: twenty times the memory of the process that reads it."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 500, pa.int32()), pa.array(["x" * 40_000_000]))
    bomb = pa.table({"id": [f"b{n:03}" for n in range(500)], "text": texts})
    pq.write_table(bomb, folder / "b.parquet", compression="zstd")
    for name in ("a", "c"):
        pq.write_table(pa.table({"id": [name], "text": ["A text."]}), folder / f"{name}.parquet")

    entries, error = await listed(source_of(folder, "*.parquet"))

    assert (folder / "b.parquet").stat().st_size < 5_000
    assert [entry.key for entry in entries if entry.refused is None] == ["a", "c"]
    assert entries[1].refused == "b.parquet, row 1: Its text has more than 20,971,520 bytes."
    assert "b.parquet cannot be read after row 26: it has more than 1,073,741,824 bytes when it is unpacked." in error


@guards(
    "features/sources/tables/spool.py",
    "PRAGMA max_page_count = {pages};",
    "",
    means="the rows of one source fill the disk of temporary files",
)
async def test_rows_larger_than_temporary_space_are_error(folder, source_of):
    rows = [{"id": str(number), "text": os.urandom(500).hex()} for number in range(1_000)]
    (folder / "a.jsonl").write_bytes(lines(*rows))

    assert (await listed(source_of(folder, temporary_bytes=10_000_000)))[1] is None
    (entries, error) = await listed(source_of(folder, temporary_bytes=300_000))

    assert entries == []
    assert "The rows need more than 300,000 bytes of temporary space" in error


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+02:00", None])
async def test_times_of_any_zone_become_metadata(folder, source_of, zone):
    times = pa.array([datetime(2026, 3, 1, 12)], pa.timestamp("us", zone))  # noqa: DTZ001 - in UTC, or in no zone
    columns = {"id": ["a"], "text": ["A text."], "at": times, "day": [date(2026, 3, 1)], "price": [Decimal("2.50")]}
    pq.write_table(pa.table(columns), folder / "a.parquet")

    items = await fetched(source_of(folder, "a.parquet", metadata="at,day,price"))

    at = {"UTC": "12:00:00+00:00", "Europe/Berlin": "13:00:00+01:00", "+02:00": "14:00:00+02:00", None: "12:00:00"}
    assert items["a"].metadata == {"at": f"2026-03-01T{at[zone]}", "day": "2026-03-01", "price": 2.5}
