"""Opening of a PDF file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pypdfium2
from pypdfium2 import raw

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.pdf import fonts


@contextmanager
def opened(content: bytes) -> Iterator[pypdfium2.PdfDocument]:
    """Open a PDF file.

    Raises:
        Unreadable: it is damaged or protected with a password.
    """
    fonts.use()
    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if raw.FPDF_GetLastError() == raw.FPDF_ERR_PASSWORD:
            raise Unreadable(
                "the PDF file is protected with a password; remove the password and add it again", detail=str(error)
            ) from error
        raise Unreadable(
            "the PDF file is damaged and cannot be read; create or download it again", detail=str(error)
        ) from error
    try:
        yield document
    finally:
        document.close()
