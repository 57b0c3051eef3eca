import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.kinds import DOC, EML, MSG, PPT, XLS, detect
from tests.support.compound import compound_file
from tests.support.planted import guards

HEADERS = ("From", "To", "Subject", "Date", "Received", "Return-Path", "Message-ID", "MIME-Version", "Delivered-To")


@pytest.mark.parametrize("first", HEADERS)
def test_mail_is_recognised_by_first_header(first):
    head = f"{first}: value\nMessage-ID: <1@example.org>\n\nThe ferry is late.\n".encode()

    assert detect(head, filename=None, media_type=None) == EML


STREAMS = {"Workbook": XLS, "PowerPoint Document": PPT, "WordDocument": DOC, "__properties_version1.0": MSG}


@guards(
    "shared/ingest/parse/kinds.py",
    "if kind := _by_streams(streams.__contains__):",
    "if kind := None:",
    means="a workbook with an embedded Word document is refused as a damaged Word document",
)
@pytest.mark.parametrize("inner", [*STREAMS, "EncryptedPackage"])
@pytest.mark.parametrize("outer", STREAMS)
def test_embedded_file_does_not_change_the_kind(outer, inner):
    content = compound_file({outer: bytes(64), "Embedded 1": {inner: bytes(64)}})

    assert detect(content, filename=None, media_type=None) == STREAMS[outer]


def test_old_file_of_unknown_kind_is_refused():
    with pytest.raises(Unreadable, match="Microsoft's old format"):
        detect(compound_file({"Contents": bytes(64)}), filename=None, media_type=None)
