import pytest

from shared.ingest.parse.kinds import EML, detect

HEADERS = ("From", "To", "Subject", "Date", "Received", "Return-Path", "Message-ID", "MIME-Version", "Delivered-To")


@pytest.mark.parametrize("first", HEADERS)
def test_a_mail_is_known_by_its_first_header_whichever_it_is(first):
    head = f"{first}: value\nMessage-ID: <1@example.org>\n\nThe ferry is late.\n".encode()

    assert detect(head, filename=None, media_type=None) == EML
