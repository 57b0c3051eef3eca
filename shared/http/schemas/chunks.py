"""Parts of chunks in several replies."""

from __future__ import annotations

from pydantic import Field

from shared.http.schemas.common import ReplyModel


class ChunkContextView(ReplyModel):
    """Context that the model wrote for a chunk, next to its questions."""

    line: str = Field(description="Line about the setting of the text; empty if the model wrote none")
    terms: list[str] = Field(description="Search terms that the text lacks")
