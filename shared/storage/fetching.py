"""The bytes of an upload, wherever they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from shared.storage.references import Originals, Reference, is_reference
from shared.storage.uploads import Uploads, size_of_part


def fetched(upload: str, uploads: Uploads, originals: Originals) -> AbstractAsyncContextManager[Path]:
    """Yield the path of a file with the bytes of an upload, which are stored or remain in their source.

    Raises:
        ForeaskError: as `Uploads.fetched` or `Originals.fetched`.
    """
    if is_reference(upload):
        return originals.fetched(Reference.parse(upload))
    return uploads.fetched(upload)


@asynccontextmanager
async def fetched_or_read(upload: str, uploads: Uploads, originals: Originals) -> AsyncIterator[Path | bytes]:
    """Yield a file as `fetched`, or its bytes if it is a part of a pack."""
    if not is_reference(upload) and size_of_part(upload) is not None:
        yield await uploads.part(upload)
        return
    async with fetched(upload, uploads, originals) as path:
        yield path
