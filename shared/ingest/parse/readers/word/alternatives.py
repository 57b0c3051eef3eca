"""Parts of a Word file in other formats."""

from __future__ import annotations

from shared.ingest.parse.readers import html, rtf
from shared.ingest.parse.readers.mail import mime
from shared.ingest.parse.text import decode


def markdown_of(data: bytes) -> str:
    """Return the Markdown of HTML, of a saved web page (MHT), of RTF or of plain text.

    Raises:
        Unreadable: it has another format.
    """
    head = data[:4096].lower()
    if head.startswith(b"{\\rtf"):
        return "\n\n".join(part.markdown for part in rtf.read(data).parts)
    if b"mime-version:" in head or head.startswith(b"content-type:"):
        return _saved_page(data)
    text = decode(data)
    return html.markdown_of(text) if "<" in text[:4096] else text.strip()


def _saved_page(data: bytes) -> str:
    """Return the first part that is text; the others are pictures and styles."""
    waiting = [mime.parse(data)[0]]
    while waiting:
        part = waiting.pop()
        if part.kind == "text/html":
            return html.markdown_of(part.text)
        if part.kind == "text/plain" and not part.parts:
            return part.text.strip()
        waiting += reversed(part.parts)
    return ""
