"""Options of sources to which programs push."""

from __future__ import annotations

from features.sources.options import Options


class PushOptions(Options):
    """The rules of the source name the readers of its documents, or else its entries do."""

    def readers_of(self, key: str, named: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return who reads the document of an entry; None if neither a rule nor the entry decides it."""
        return named if self.readers is None else super().readers_of(key, named)
