"""Downloaded pages, read in the sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shared.domain.errors import Transient, Unavailable
from shared.ingest.parse.isolation.protocol import WebPage
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.ingest.parse.web.reading import WebPageReading


@dataclass(frozen=True, slots=True)
class SandboxExtractor:
    """Reads downloaded pages of one tenant."""

    sandbox: ParsingSandbox
    tenant: str

    async def __call__(
        self, path: Path, *, address: str, filename: str | None, media_type: str | None, robots: str, is_html: bool
    ) -> WebPageReading:
        """Return the facts and the text of a page.

        Args:
            path: the downloaded file.
            address: its address, to which links are relative.
            filename: last part of its path.
            media_type: type of the reply.
            robots: its header `X-Robots-Tag`.
            is_html: whether it may have links, and rules for robots.

        Raises:
            Unreadable: reading it took too much time or memory, or crashed.
            Unavailable: it cannot be read now.
        """
        page = WebPage(address=address, robots=robots, is_html=is_html)
        try:
            return await self.sandbox.read_web_page(
                path, page, filename=filename, media_type=media_type, tenant=self.tenant
            )
        except Transient as error:
            raise Unavailable(error.message, component="parser") from error
