"""A document is outdated if another reader than today's has read it."""

import pytest

from shared.domain.corpus import readers
from shared.domain.states import DocumentState
from shared.ingest.parse import kinds
from tests.support.planted import guards

PDF = "application/pdf"
KINDS = {kind.media_type: kind for kind in vars(kinds).values() if isinstance(kind, kinds.FileKind)}


def test_each_format_with_markup_has_reader():
    assert set(readers.READERS) == {
        name for name, kind in KINDS.items() if kind.route not in ("text", "code", "picture")
    }


def test_each_reader_reads_one_format():
    assert len(set(readers.READERS.values())) == len(readers.READERS)


@guards(
    "shared/domain/corpus/readers.py",
    "state in _READ and",
    "",
    means="documents in progress are counted as outdated, and a second command reads them again",
)
@pytest.mark.parametrize(
    ("state", "reader", "outdated"),
    [
        (DocumentState.READY, readers.reader_of(PDF), False),
        (DocumentState.READY, "pdf 0", True),
        (DocumentState.DEGRADED, "pdf 0", True),
        (DocumentState.READY, None, True),
        (DocumentState.FAILED, readers.FAILED, False),
        (DocumentState.FAILED, "failed 0", True),
        (DocumentState.READY, readers.reader_of("text/markdown"), False),
        (DocumentState.PARSING, "pdf 0", False),
        (DocumentState.SEARCHABLE, None, False),
    ],
)
def test_only_finished_documents_are_outdated(state, reader, outdated):
    assert readers.is_outdated(state, reader) is outdated
