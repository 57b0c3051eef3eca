"""Parts of a Word file in other formats."""

from __future__ import annotations

import email
import email.policy

from shared.ingest.parse.markup import page_text
from shared.ingest.parse.text import decode


def text_of(data: bytes) -> str:
    """Return the text of HTML, of a saved web page (MHT) or of plain text."""
    head = data[:4096].lower()
    if b"mime-version:" in head or head.startswith(b"content-type:"):
        return _saved_page(data)
    text = decode(data)
    return page_text(text) if "<" in text[:4096] else text.strip()


def _saved_page(data: bytes) -> str:
    message = email.message_from_bytes(data, policy=email.policy.default)
    part = message.get_body(("html", "plain"))
    if part is None:
        return ""
    content = part.get_content()
    return page_text(content) if part.get_content_subtype() == "html" else content.strip()
