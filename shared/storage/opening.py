"""The store of uploads that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from shared.storage.folder import UploadFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.storage.uploads import StoreOwner, Uploads


def open_uploads(url: str | None, options: Mapping[str, str], folder: Path, owner: StoreOwner) -> Uploads:
    """Return the store at a URL; nothing is read or written yet.

    Args:
        url: `file:///…`, `s3://…`, `gs://…` or `az://…`; None: the folder.
        options: options of an object store.
        folder: folder of the uploads if there is no URL.
        owner: deployment whose ledger names them.

    Raises:
        InvalidInput: the URL or an option cannot be used.
    """
    if url is None:
        return UploadFolder(folder, owner)
    parts = urlsplit(url)
    if parts.scheme == "file":
        return UploadFolder(Path(unquote(parts.path)), owner)
    from shared.storage.bucket import UploadBucket  # noqa: PLC0415 - a folder needs no obstore

    return UploadBucket(url, options, owner)
