"""The fields of a document have the same limits, whichever way it takes."""

import pytest

from api.schemas.documents import BatchLine, DocumentBody
from features.sources.source import Entry, Item, Source
from features.sources.syncing.merge import refusal
from features.sources.syncing.watched_source import WatchedSource
from shared.domain.corpus.document_fields import (
    MOST_ID_BYTES,
    MOST_METADATA_BYTES,
    MOST_TITLE_CHARS,
    MOST_VERSION_BYTES,
    described,
    problem_of_id,
    short_title,
    short_version,
)
from shared.domain.errors import InvalidInput
from tests.support.planted import guards


def nested(depth):
    value = "x"
    for _ in range(depth):
        value = [value]
    return {"a": value}


def description(**fields):
    return described(**{"filename": None, "media_type": None, "title": None, "metadata": {}} | fields)


@guards(
    "shared/domain/corpus/document_fields.py",
    "    if len(short) > MOST_TITLE_CHARS:",
    "    if False:",
    means="a title of 3 MB is stored, and is in each reply that has its document",
)
@pytest.mark.parametrize(
    ("title", "stored"),
    [
        ("x" * MOST_TITLE_CHARS, "x" * MOST_TITLE_CHARS),
        ("x" * (MOST_TITLE_CHARS + 1), "x" * (MOST_TITLE_CHARS - 1) + "\u2026"),
        ("a b" + " " * 3_000_000 + "c", "a b\u2026"),
        (" \n ", None),
        (None, None),
    ],
)
def test_long_title_is_cut_with_a_mark(title, stored):
    assert short_title(title) == stored
    assert description(title=title).title == stored


def test_long_version_is_replaced_by_its_hash():
    one, other = "a" * 9_600_000, "a" * 9_600_001

    assert len(short_version(one)) < MOST_VERSION_BYTES
    assert short_version(one) == short_version(one) != short_version(other)
    assert short_version("ü" * (MOST_VERSION_BYTES // 2)) == "ü" * (MOST_VERSION_BYTES // 2)
    assert short_version("\ud800" * MOST_VERSION_BYTES).startswith("sha256-")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"title": "a\0"}, "The title has the character NUL, or is not valid text."),
        ({"title": "\ud800"}, "The title has the character NUL, or is not valid text."),
        ({"filename": "a" * 256}, "The filename has more than 255 bytes."),
        ({"filename": "a\n"}, "The filename has control characters."),
        ({"filename": "\ud800"}, "The filename is not UTF-8."),
        ({"media_type": "x" * 300}, "The media type must have the form `type/subtype`."),
        ({"metadata": {"a": "x" * MOST_METADATA_BYTES}}, "Metadata may have at most 32,768 bytes as JSON."),
        ({"metadata": nested(8)}, "Metadata may be nested at most 8 deep."),
        ({"metadata": nested(100_000)}, "Metadata may be nested at most 8 deep."),
        ({"metadata": {"a": ["\0"]}}, "The metadata has the character NUL, which cannot be stored."),
        ({"metadata": {"\0": 1}}, "The metadata has the character NUL, which cannot be stored."),
        ({"metadata": {"a": object()}}, "The metadata cannot be JSON: Type is not JSON serializable: object."),
    ],
)
def test_field_that_cannot_be_stored_is_refused(fields, reason):
    with pytest.raises(InvalidInput) as error:
        description(**fields)

    assert error.value.message == reason


def test_written_escape_in_metadata_is_accepted():
    assert description(metadata={"path": r"C:\u0000"}).metadata == {"path": r"C:\u0000"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x" * MOST_ID_BYTES, None),
        ("ü" * MOST_ID_BYTES, "Its name has 2,200 bytes, and a name may have 1,100: shorten it."),
        ("", "Its name is empty: rename it."),
        ("a\x1b[2J", "Its name contains a control character: rename it."),
        ("a\0", "Its name contains the character NUL: rename it."),
        ("\ud800", "Its name is not UTF-8: rename it."),
    ],
)
def test_id_that_is_too_long_is_rejected(name, reason):
    assert problem_of_id(name) == reason


def test_uploads_and_entries_have_the_same_limits():
    for model in (DocumentBody, BatchLine):
        model(text="A text.", external_id="x" * MOST_ID_BYTES, title="x" * MOST_TITLE_CHARS)
        for fields in (
            {"external_id": "ü" * MOST_ID_BYTES},
            {"external_id": "a\x1b"},
            {"title": "x" * (MOST_TITLE_CHARS + 1)},
            {"metadata": nested(8)},
            {"metadata": {"a": "x" * MOST_METADATA_BYTES}},
        ):
            with pytest.raises(ValueError, match="validation error"):
                model(text="A text.", **fields)
    assert refusal(Entry("x" * 1_024, "1")) is None
    assert refusal(Entry("x" * 1_025, "1")) == "Its name has 1,025 bytes, and a name may have 1,024: shorten it."
    assert refusal(Entry("a\x1b[2J", "1")) == "Its name contains a control character: rename it."


class LongVersions(Source):
    async def entries(self, after=""):
        yield Entry("a", "v" * 5_000)

    async def find(self, key):
        return Entry(key, "v" * 5_000)

    async def fetch(self, entry, *, max_bytes):
        return Item(b"A text.", "v" * 5_000)


@guards(
    "features/sources/syncing/watched_source.py",
    "replace(found, version=version)",
    "found",
    means="versions of a table fill foreask's own database",
)
async def test_versions_of_every_call_are_short():
    source = WatchedSource(LongVersions(), lambda: None)
    entries = [entry async for entry in source.entries()]
    found, item = await source.find("a"), await source.fetch(entries[0], max_bytes=1_000)

    assert {entry.version for entry in (*entries, found, item)} == {short_version("v" * 5_000)}
