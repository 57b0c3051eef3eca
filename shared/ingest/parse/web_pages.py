"""The text of downloaded pages, read in the sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shared.domain.errors import Transient, Unavailable
from shared.ingest.parse.sandbox import ParsingSandbox
from shared.sources.pages.extraction import WebPageText


@dataclass(frozen=True, slots=True)
class SandboxExtractor:
    """An extractor for the pages of one tenant."""

    sandbox: ParsingSandbox
    tenant: str

    async def __call__(self, path: Path, *, filename: str | None, media_type: str | None) -> WebPageText:
        try:
            page = await self.sandbox.text_of_page(path, filename=filename, media_type=media_type, tenant=self.tenant)
        except Transient as error:
            raise Unavailable(error.message, component="parser") from error
        return WebPageText(page.text, page.title, page.media_type)
