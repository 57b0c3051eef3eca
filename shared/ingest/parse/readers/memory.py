"""Memory of the XML library, which stops without an error when it has none left."""

from __future__ import annotations

from lxml import etree


def require_memory(parser: etree.XMLParser | etree.HTMLParser) -> None:
    """Check after a parse that memory did not end it, because the rest of the file would be missing without a word.

    Raises:
        MemoryError: it did.
    """
    if any(error.type == etree.ErrorTypes.ERR_NO_MEMORY for error in parser.error_log):
        raise MemoryError
