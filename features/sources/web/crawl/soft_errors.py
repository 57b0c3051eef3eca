"""Pages that only look as if they existed: a server answers 200 with the text of its error page."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable

from shared.ingest.parse.web.addresses import origin_of, path_of

_SAME = 0.9
_LONGEST_CHARS = 100_000  # no error page is longer, and comparing a longer text would block the event loop
_WORD = re.compile(r"\w+")

Words = Counter[str]
ReadText = Callable[[str], Awaitable[str | None]]
"""Returns the text of the page at an address; None if the server says that it does not exist, or has no text."""


class SoftErrors:
    """The error pages of hosts, each found by one request for an address that cannot exist.

    Args:
        read_text: reads a page.
    """

    def __init__(self, read_text: ReadText) -> None:
        self._read_text = read_text
        self._errors: dict[str, Words] = {}

    async def contains(self, address: str, text: str) -> bool:
        """Return whether a text is the error page of its host.

        Words of the address are not compared, because error pages repeat it.
        """
        error = await self._error_of(address)
        if len(text) > _LONGEST_CHARS:
            return False
        words = _words(text, address)
        total = error.total() + words.total()
        return bool(error) and 2 * (error & words).total() >= _SAME * total

    async def _error_of(self, address: str) -> Words:
        host = origin_of(address)
        if host not in self._errors:
            folder = path_of(address).partition("?")[0].rpartition("/")[0]
            impossible = f"{host}{folder}/{secrets.token_hex(16)}"
            found = await self._read_text(impossible) or ""
            self._errors[host] = _words(found if len(found) <= _LONGEST_CHARS else "", impossible)
        return self._errors[host]


def _words(text: str, address: str) -> Words:
    own = set(_WORD.findall(address.lower()))
    return Counter(word for word in _WORD.findall(text.lower()) if word not in own)
