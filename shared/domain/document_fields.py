"""Fields of a document as they are stored, from an upload, a line of a batch, or an entry of a source."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping

import orjson

from shared.domain.errors import InvalidInput

_NAME_MAX = 255
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}", re.ASCII)
_ANY_BYTES = "application/octet-stream"  # clients send this when they do not know the media type


def content_hash(parts: Mapping[str, object]) -> bytes:
    """Hash everything that affects the index; a new hash starts the next version of the document."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).digest()


def filename_of(name: str | None) -> str | None:
    """Return the last component of a filename; None if it is empty.

    Raises:
        InvalidInput: the name has control characters, is too long, or names a folder.
    """
    if name is None:
        return None
    if any(unicodedata.category(c) == "Cc" for c in name):
        raise InvalidInput("The filename has control characters.", field="filename")
    name = re.split(r"[/\\]", name)[-1].strip()
    if name in {".", ".."}:
        raise InvalidInput("The filename names a folder.", field="filename")
    if len(name.encode()) > _NAME_MAX:
        raise InvalidInput(f"The filename has more than {_NAME_MAX} bytes.", field="filename")
    return name or None


def media_type_of(value: str | None) -> str | None:
    """Return a media type without its parameters; None if it is unspecific.

    Raises:
        InvalidInput: the value is not a media type.
    """
    kind = (value or "").partition(";")[0].strip().lower()
    if not kind or kind == _ANY_BYTES:
        return None
    if not _MEDIA_TYPE.fullmatch(kind):
        raise InvalidInput("The media type must have the form `type/subtype`.", field="media_type")
    return kind
