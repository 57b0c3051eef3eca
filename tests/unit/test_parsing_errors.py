import kreuzberg
import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.extraction import _explaining

PDFIUM = "Metadata extraction failed: Pdfium operation failed (initialize Pdfium)"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (kreuzberg.ParsingError(PDFIUM), "is damaged and cannot be read"),
        (kreuzberg.ParsingError("Invalid duration in the header"), "is damaged and cannot be read"),
        (
            kreuzberg.ParsingError("Security limit exceeded: Failed to read ZIP entry 5: Invalid local file header"),
            "is damaged and cannot be read",
        ),
        (kreuzberg.ParsingError("Extra field content exceeds declared length"), "is damaged and cannot be read"),
        (
            kreuzberg.ParsingError("uncompressed size 120 bytes exceeds limit of 100 bytes"),
            "is too large when unpacked",
        ),
        (
            kreuzberg.ParsingError("Potential ZIP bomb detected: compressed 1B (ratio: 200.0:1)"),
            "is too large when unpacked",
        ),
        (kreuzberg.ParsingError("Archive too large: 9 bytes (max: 8 bytes)"), "is too large when unpacked"),
        (kreuzberg.ParsingError("Too many table cells: 9 (max: 8)"), "is too large when unpacked"),
        (kreuzberg.ParsingError("PDF is password-protected"), "is protected with a password"),
        (kreuzberg.ParsingError("Password-encrypted HWP documents are not supported"), "is protected with a password"),
        (kreuzberg.ParsingError("Compression method not supported"), "is of a form that cannot be read"),
        (kreuzberg.ValidationError("application/x-old"), "is of a form that cannot be read"),
    ],
    ids=str,
)
def test_extractor_error_becomes_sentence_with_detail(error, sentence):
    with pytest.raises(Unreadable) as caught, _explaining("PDF"):
        raise error

    assert caught.value.message.startswith(f"the PDF file {sentence}")
    assert error.message not in caught.value.message
    assert error.message in caught.value.detail


def test_operating_system_error_does_not_blame_file():
    error = kreuzberg.ParsingError("Failed to write 'library.tmp': File too large (os error 27)")
    with pytest.raises(kreuzberg.ParsingError) as caught, _explaining("PDF"):
        raise error

    assert caught.value is error
