import pytest

from shared.ingest.parse.kinds import EML, detect

HEADERS = ("From", "To", "Subject", "Date", "Received", "Return-Path", "Message-ID", "MIME-Version", "Delivered-To")


@pytest.mark.parametrize("first", HEADERS)
def test_mail_is_recognised_by_first_header(first):
    head = f"{first}: value\nMessage-ID: <1@example.org>\n\nThe ferry is late.\n".encode()

    assert detect(head, filename=None, media_type=None) == EML
