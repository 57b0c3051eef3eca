"""The bytes of an upload, wherever they are."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from shared.storage.references import Originals, Reference, is_reference
from shared.storage.uploads import Uploads


def fetched(upload: str, uploads: Uploads, originals: Originals) -> AbstractAsyncContextManager[Path]:
    """Yield the path of a file with the bytes of an upload, which are stored or remain in their source.

    Raises:
        ForeaskError: as `Uploads.fetched` or `Originals.fetched`.
    """
    if is_reference(upload):
        return originals.fetched(Reference.parse(upload))
    return uploads.fetched(upload)
