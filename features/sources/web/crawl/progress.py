"""The progress of a run: its pages in the memory, so that another process continues an interrupted run.

A page that was visited is stored together with the pages that it added, otherwise a link of it could be forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from features.sources.web.crawl.memory import Note, VisitOutcome

PREFIX = "page "  # of the keys of these notes; no address starts with it


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of a run.

    Args:
        address: its address.
        rank: as in `PageToVisit`.
        hops: as in `PageToVisit`.
        parents: digests of pages that link to it, 16 characters each.
        has_more_parents: whether more pages link to it.
        outcome: outcome of its visit; None if it is visited later, or again, as a page that was refused.
        text_hash: hash of its text.
        size_bytes: size of the document's content, if it was downloaded.
        note: its encoded note, without parents.
    """

    address: str
    rank: int
    hops: int
    parents: str
    has_more_parents: bool
    outcome: str | None
    text_hash: str | None
    size_bytes: int | None
    note: bytes | None

    @property
    def key(self) -> str:
        return PREFIX + self.address

    def encode(self, listing: str) -> bytes:
        """Return the page as a note of a listing, in at most 1,024 bytes."""
        fields = {
            "l": listing,
            "d": self.rank,
            "j": self.hops,
            "p": self.parents,
            "+": bool(self.has_more_parents),
            **(self._visited() if self.outcome not in (None, VisitOutcome.REFUSED) else {}),
        }
        return orjson.dumps({name: value for name, value in fields.items() if value})

    def _visited(self) -> dict[str, Any]:
        note = orjson.Fragment(self.note) if self.note else None
        return {"o": self.outcome, "h": self.text_hash, "s": self.size_bytes, "n": note}

    @classmethod
    def decode(cls, key: str, encoded: bytes, listing: str) -> RunPage | None:
        """Return the page; None if it is of another listing, or was read in another way."""
        fields: dict[str, Any] = orjson.loads(encoded)
        note = orjson.dumps(fields["n"]) if "n" in fields else None
        if fields["l"] != listing or (note is not None and Note.decode(note) is None):
            return None
        return cls(
            address=key.removeprefix(PREFIX),
            rank=fields.get("d", 0),
            hops=fields.get("j", 0),
            parents=fields.get("p", ""),
            has_more_parents=fields.get("+", False),
            outcome=fields.get("o"),
            text_hash=fields.get("h"),
            size_bytes=fields.get("s"),
            note=note,
        )
