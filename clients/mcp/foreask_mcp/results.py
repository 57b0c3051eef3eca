"""The results of the tools, in the form that ChatGPT requires of `search` and `fetch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from foreask_client import Answer, FoundChunk, Retrieval
from foreask_client.models import Chunk, ChunkInContext, Json
from pydantic import BaseModel, Field

NEIGHBOURS = 20  # chunks on each side of a passage, the most that the API returns
_MAX_CHARS = 40_000  # of a text around a passage: about 10,000 tokens, above which Claude Code warns


class ToolResult(BaseModel):
    """The structured content of a result. Fields without a value are left out."""


class FoundPassage(ToolResult):
    id: str = Field(description="opaque id, which fetch accepts")
    title: str = Field(description="title of the document and headings of the passage")
    url: str = Field(description="address of the passage, for citations")
    text: str
    metadata: dict[str, Any] = Field(description="metadata of the document, its name `external_id`, and the page")


class SearchResult(ToolResult):
    results: list[FoundPassage] = Field(description="passages, best first")
    notice: str | None = Field(None, description="why nothing was found, or which field of the filter is unknown")


class DocumentPart(FoundPassage):
    text: str = Field(description="text of the document, or of the part around the passage if the document is long")
    previous_id: str | None = Field(None, description="id to fetch for the text before this part; absent at the start")
    next_id: str | None = Field(None, description="id to fetch for the text after this part; absent at the end")


class CitedPassage(FoundPassage):
    number: int = Field(description="number of the citation in the answer, as in [1]")


class AnswerResult(ToolResult):
    answer: str
    found: bool = Field(description="whether the documents answer the question")
    certain: bool = Field(description="false if the evidence is weak")
    incomplete: str | None = Field(None, description="why the answer is incomplete")
    citations: list[CitedPassage] = Field(description="cited passages, in order of appearance")
    notice: str | None = Field(None, description="why nothing was found, or which field of the filter is unknown")


class CollectionNames(ToolResult):
    collections: list[str]
    more: int = Field(description="number of further collections")


class AddedDocument(ToolResult):
    document_id: str
    external_id: str
    state: str = Field(description="queries find the document when it is `searchable` or `ready`")


def passages_of(found: Retrieval, address: str) -> SearchResult:
    """Return the result of a search.

    Args:
        found: reply of the API.
        address: URL of the server, as its users open it.
    """
    results = [_passage(chunk, chunk.chunk_id, address) for chunk in found.chunks]
    return SearchResult(results=results, notice=found.metadata.notice)


def answered(answer: Answer, address: str) -> AnswerResult:
    """Return an answer with its cited passages."""
    chunks = {chunk.chunk_id: chunk for chunk in answer.chunks}  # a citation has no metadata
    return AnswerResult(
        answer=answer.answer,
        found=answer.found,
        certain=answer.certain,
        incomplete=answer.why_incomplete,
        citations=[
            CitedPassage(number=each.number, **_passage(chunks[each.chunk_id], each.chunk_id, address).model_dump())
            for each in answer.citations
        ],
        notice=answer.metadata.notice,
    )


def fetched(found: ChunkInContext, address: str) -> DocumentPart:
    """Return a passage with as much text around it as a model reads at once."""
    chunks = [*found.before, found.chunk, *found.after]
    start, end = _window([len(chunk.text) for chunk in chunks], len(found.before))
    return DocumentPart(
        id=found.chunk.id,
        title=_title(found.chunk.title, [], found.document.external_id),
        url=_url(found.document.metadata or {}, found.document.id, found.chunk.id, address),
        text=_joined(chunks[start:end]),
        metadata=_metadata(found.document.metadata or {}, found.document.external_id, found.chunk.page),
        previous_id=chunks[max(start - 1, 0)].id if start or len(found.before) == NEIGHBOURS else None,
        next_id=chunks[min(end, len(chunks) - 1)].id if end < len(chunks) or len(found.after) == NEIGHBOURS else None,
    )


def _passage(chunk: FoundChunk, chunk_id: str, address: str) -> FoundPassage:
    return FoundPassage(
        id=chunk_id,
        title=_title(chunk.title, chunk.heading_path, chunk.external_id),
        url=_url(chunk.metadata, chunk.document_id, chunk_id, address),
        text=chunk.text,
        metadata=_metadata(chunk.metadata, chunk.external_id, chunk.page),
    )


def _title(title: str | None, headings: Sequence[str], external_id: str) -> str:
    return " > ".join(dict.fromkeys(part for part in (title, *headings) if part)) or external_id


def _metadata(metadata: Json, external_id: str, page: int | None) -> Json:
    return metadata | {"external_id": external_id} | ({} if page is None else {"page": page})


def _url(metadata: Json, document_id: str, chunk_id: str, address: str) -> str:
    """Return the address of a passage: the address of its document at the source, else a page of the server.

    Each passage has its own, because clients distinguish sources by it. An empty one would not be cited.
    """
    given = metadata.get("url")
    if isinstance(given, str) and urlsplit(given).scheme in {"http", "https"}:
        return given if "#" in given else f"{given}#{chunk_id}"
    return f"{address}/documents/{document_id}?chunk={chunk_id}"


def _window(lengths: Sequence[int], middle: int) -> tuple[int, int]:
    """Return the start and end of the chunks around one, which together have at most `_MAX_CHARS`.

    Args:
        lengths: characters of each chunk, in document order.
        middle: index of the chunk, which is always inside.
    """
    start, end, rest = middle, middle + 1, _MAX_CHARS - lengths[middle]
    grows = True
    while grows:
        grows = False
        if end < len(lengths) and lengths[end] <= rest:
            rest -= lengths[end]
            end, grows = end + 1, True
        if start and lengths[start - 1] <= rest:
            rest -= lengths[start - 1]
            start, grows = start - 1, True
    return start, end


def _joined(chunks: Sequence[Chunk]) -> str:
    """Return the text of consecutive chunks; a chunk may repeat the end of the one before it."""
    text, at = chunks[0].text, chunks[0].span[1]
    for chunk in chunks[1:]:
        start, end = chunk.span
        text += f"\n\n{chunk.text}" if start >= at else chunk.text[len(chunk.text) - max(0, end - at) :]
        at = max(at, end)
    return text
