"""A reader that misses words: it replaces the sandbox, and the flow is the product's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shared.domain.corpus.completeness import Completeness, Loss
from shared.ingest.parse.document import PagesToRead, ParsedDocument
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.services.all import AllServices

LOST = b"(lost)"
"""A file that contains this misses words."""

MISSING = Completeness(0.98, (Loss("page 3", 14, ("quay", "tide")),), ("The attachment prices.zip is encrypted.",))


@dataclass
class LossyReader:
    """Parses files by the sandbox, and reports the words that files with `LOST` miss.

    Args:
        sandbox: parses the files.
        missing: the report.
        drops: whether it drops the chunks with `LOST` instead, and reports nothing.
    """

    sandbox: ParsingSandbox
    missing: Completeness = MISSING
    drops: bool = False

    async def parse(self, path: Path, **options: Any) -> ParsedDocument | PagesToRead:
        parsed = await self.sandbox.parse(path, **options)
        if isinstance(parsed, ParsedDocument) and LOST in path.read_bytes():
            if self.drops:
                return replace(parsed, chunks=tuple(c for c in parsed.chunks if LOST.decode() not in c.text))
            return replace(parsed, completeness=self.missing)
        return parsed


def with_losses(services: AllServices) -> tuple[AllServices, LossyReader]:
    """Return services with a reader that misses words, and the reader."""
    reader = LossyReader(services.parser.sandbox)
    return replace(services, parser=replace(services.parser, sandbox=reader)), reader
