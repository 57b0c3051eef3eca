"""A client of the foreask API, with and without asyncio."""

from foreask_client.asynchronous import AsyncClient
from foreask_client.errors import ApiError, NotFoundError
from foreask_client.models import (
    Answer,
    Batch,
    BatchLine,
    Budget,
    Build,
    Chunk,
    Citation,
    Collection,
    DeadLetter,
    Document,
    EntryResult,
    Event,
    Feedback,
    FoundChunk,
    Job,
    Key,
    Me,
    Retrieval,
    Source,
    Sync,
    Withheld,
)
from foreask_client.pushes import PushedEntry, PushReport
from foreask_client.synchronous import Client

__all__ = [
    "Answer",
    "ApiError",
    "AsyncClient",
    "Batch",
    "BatchLine",
    "Budget",
    "Build",
    "Chunk",
    "Citation",
    "Client",
    "Collection",
    "DeadLetter",
    "Document",
    "EntryResult",
    "Event",
    "Feedback",
    "FoundChunk",
    "Job",
    "Key",
    "Me",
    "NotFoundError",
    "PushReport",
    "PushedEntry",
    "Retrieval",
    "Source",
    "Sync",
    "Withheld",
]
