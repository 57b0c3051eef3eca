"""Corpora: each row of a JSON Lines or Parquet file is a document; an invalid row is reported by its number."""

from __future__ import annotations

import gzip
from datetime import date
from decimal import Decimal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli import corpus as corpora
from cli.corpus import corpus_in
from features.sources.tables import formats as tables
from features.sources.tables.formats import Columns, Truncated
from shared.domain.errors import InvalidInput
from tests.support.planted import guards

ROWS = [{"_id": f"doc-{n}", "title": f"Title {n}", "text": f"Text number {n}.", "lang": "en"} for n in range(50)]


def lines(*rows):
    return b"".join(row if isinstance(row, bytes) else orjson.dumps(row) + b"\n" for row in rows)


@pytest.fixture
def write(tmp_path):
    def _write(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return _write


def read(path, **columns):
    corpus = corpus_in([path], Columns(**columns))
    assert corpus is not None
    return list(corpus.rows())


def documents(path, **columns):
    return [row.document for row in read(path, **columns)]


def test_beir_columns_are_detected(write):
    assert documents(write("corpus.jsonl", lines(*ROWS[:2]))) == [
        {"external_id": "doc-0", "text": "Text number 0.", "title": "Title 0"},
        {"external_id": "doc-1", "text": "Text number 1.", "title": "Title 1"},
    ]


def test_columns_are_selectable_by_name(write):
    row = {
        "key": 7,
        "body": "A text.",
        "head": "A title",
        "year": 2026,
        "none": None,
        "asked": ["Why?", {"text": "How?"}],
    }
    path = write("corpus.jsonl", lines(row))
    assert documents(path, id="key", text="body", title="head", metadata=("year", "none"), questions="asked") == [
        {
            "external_id": "7",
            "text": "A text.",
            "title": "A title",
            "metadata": {"year": 2026},
            "questions": ["Why?", {"text": "How?"}],
        }
    ]


def test_rows_without_id_use_their_number(write):
    path = write("corpus.jsonl", lines({"body": "One."}, b"\n", {"body": "Two."}))
    assert [d["external_id"] for d in documents(path, text="body")] == ["corpus.jsonl:1", "corpus.jsonl:3"]


@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson"])
def test_json_lines_without_standard_columns_are_one_document(write, name):
    assert corpus_in([write(name, lines({"time": 1, "text": "a"}))], Columns()) is None


def test_folder_or_several_files_are_not_corpus(write, tmp_path):
    path = write("corpus.jsonl", lines(*ROWS))
    assert corpus_in([str(tmp_path)], Columns()) is None
    assert corpus_in([path, path], Columns()) is None
    with pytest.raises(InvalidInput, match="one file"):
        corpus_in([path, path], Columns(text="text"))


def test_missing_column_is_named_with_existing_ones(write):
    with pytest.raises(InvalidInput, match="has no column body; it has _id, title, text, lang"):
        corpus_in([write("corpus.jsonl", lines(*ROWS))], Columns(text="body"))


def test_column_may_first_appear_in_later_row(write):
    path = write("corpus.jsonl", lines(ROWS[0], ROWS[1] | {"year": 2026}))
    assert [d.get("metadata") for d in documents(path, metadata=("year",))] == [None, {"year": 2026}]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"{\n", "It is not JSON"),
        (b"[1]\n", "not a JSON object"),
        ({"_id": "a", "text": " "}, "no text in the column text"),
        ({"_id": "a", "text": 7}, "no text in the column text"),
        ({"_id": None, "text": "a"}, "no name in the column _id"),
        ({"_id": True, "text": "a"}, "no name in the column _id"),
        ({"_id": "a", "text": "b", "asked": "Why?"}, "column asked does not contain a list"),
        (b"x" * 300 + b"\n", "more than 200 bytes"),
    ],
)
def test_invalid_row_is_rejected_by_number(write, monkeypatch, bad, why):
    monkeypatch.setattr(tables, "LONGEST_LINE", 200)
    path = write("corpus.jsonl", lines(ROWS[0], bad, ROWS[1] | {"asked": []}))
    first, second, third = read(path, questions="asked")
    assert (first.number, second.number, third.number) == (1, 2, 3)
    assert second.document is None
    assert why in second.rejection
    assert third.document["external_id"] == "doc-1"


def test_compressed_json_lines_are_read(write):
    path = write("corpus.jsonl.gz", gzip.compress(lines({"id": "a", "text": "One."})))
    assert documents(path) == [{"external_id": "a", "text": "One."}]


def test_truncated_file_is_error_at_its_row(write):
    many = lines(*({"id": n, "text": f"{n} {hash(str(n))}"} for n in range(5_000)))
    path = write("corpus.jsonl.gz", gzip.compress(many)[:-2_000])
    corpus = corpus_in([path], Columns())
    numbers = []
    with pytest.raises(Truncated, match=r"is truncated after line [1-9]") as error:
        numbers.extend(row.number for row in corpus.rows())
    assert numbers == list(range(1, len(numbers) + 1))
    assert f"{len(numbers):,}" in error.value.message
    assert corpus.survey().rows == len(numbers) < 5_000


def test_survey_counts_rows_and_samples_everywhere(write):
    rows = [{"_id": f"{n}", "text": f"Text {n}. " * 10} for n in range(2_000)]
    survey = corpus_in([write("corpus.jsonl", lines(*rows))], Columns()).survey()
    assert (survey.rows, len(survey.sample)) == (2_000, corpora.SAMPLE_ROWS)
    numbers = [int(document["external_id"]) for document in survey.sample]
    assert 800 < sum(numbers) / len(numbers) < 1_200
    assert survey.size_bytes == pytest.approx(sum(len(row["text"]) for row in rows), rel=0.02)


def parquet(tmp_path, rows, **options):
    path = tmp_path / "corpus.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, **options)
    return str(path)


def test_parquet_is_read_by_row_groups(tmp_path):
    path = parquet(tmp_path, ROWS, row_group_size=20)
    assert documents(path, metadata=("lang",)) == [
        {"external_id": row["_id"], "text": row["text"], "title": row["title"], "metadata": {"lang": "en"}}
        for row in ROWS
    ]
    survey = corpus_in([path], Columns()).survey()
    assert (survey.rows, survey.size_bytes) == (50, None)
    assert {d["external_id"] for d in survey.sample} > {"doc-0", "doc-20", "doc-40"}


def test_parquet_values_become_json(tmp_path):
    row = {
        "id": 3,
        "text": "A text.",
        "day": date(2026, 11, 22),
        "price": Decimal("2.50"),
        "tags": ["a", "b"],
        "blob": b"\0",
        "asked": ["Why?"],
    }
    path = parquet(tmp_path, [row])
    (document,) = documents(path, metadata=("day", "price", "tags"), questions="asked")
    assert document["metadata"] == {"day": "2026-11-22", "price": 2.5, "tags": ["a", "b"]}
    assert document["questions"] == ["Why?"]
    (rejected,) = read(path, metadata=("blob",))
    assert "blob contains bytes" in rejected.rejection


def test_invalid_parquet_prints_one_sentence(write):
    with pytest.raises(InvalidInput, match="cannot be read as Parquet"):
        corpus_in([write("corpus.parquet", b"no")], Columns())


def test_empty_corpus_has_no_rows(write, tmp_path):
    assert read(write("corpus.jsonl", b""), text="text") == []


@guards(
    "features/sources/tables/formats.py",
    "READABLE_BY if columns.usual_readers and READABLE_BY in values else None",
    "None",
    means="a row that names its readers is uploaded as a public document",
)
@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_rows_name_their_readers(write, name):
    values = [["group:b", "everyone"], "user:a, group:b", "", None, "legal"]
    rows = [{"_id": str(n), "text": "The harbour."} for n in range(150)]  # names are taken from the first hundred lines
    for row, value in zip(rows[-5:], values, strict=True):
        row["readable_by"] = value
    if name == "a.parquet":
        values[0] = '["group:b", "everyone"]'
        rows = [row | {"readable_by": value} for row, value in zip(rows[-5:], values, strict=True)]
        path = write(name, b"")
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path = write(name, lines(*rows))

    *named, malformed = read(path)[-5:]

    assert [row.document["readable_by"] for row in named] == [["everyone", "group:b"], ["group:b", "user:a"], [], []]
    assert (malformed.document, malformed.id) == (None, "149")
    assert malformed.rejection.startswith("The column readable_by does not name readers: A reader is `everyone`")
    if name == "a.jsonl":
        assert "readable_by" not in documents(path)[0]


def test_column_of_readers_has_any_name(write):
    path = write("a.jsonl", lines({"_id": "a", "text": "A text.", "acl": "user:a", "readable_by": ["everyone"]}))

    assert documents(path, readers="acl")[0]["readable_by"] == ["user:a"]
