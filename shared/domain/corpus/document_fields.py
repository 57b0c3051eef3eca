"""Fields of a document as they are stored: the limits are the same for an upload, a line of a batch and a source.

Every path of a document uses `described`, and every path of a name `problem_of_id`. A source also has versions, which
foreask only compares.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from shared.domain.errors import InvalidInput
from shared.domain.text.unicode_form import composed

MOST_ID_BYTES = 1_100
"""A document of a source has the name of the source, a slash, and the key of an entry."""
MOST_KEY_BYTES = 1_024
MOST_TITLE_CHARS = 1_000
MOST_VERSION_BYTES = 1_000
MOST_METADATA_BYTES = 32 * 1024
"""Every point of the document repeats its metadata."""

_METADATA_DEPTH = 8
_NAME_MAX = 255
_CUT = "\u2026"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}", re.ASCII)
_ANY_BYTES = "application/octet-stream"  # clients send this when they do not know the media type


@dataclass(frozen=True, slots=True)
class CheckedFields:
    """The descriptive fields of a document, which can be stored."""

    filename: str | None
    media_type: str | None
    title: str | None
    metadata: Mapping[str, Any]


def described(
    *, filename: str | None, media_type: str | None, title: str | None, metadata: Mapping[str, Any]
) -> CheckedFields:
    """Return the fields of a document as they are stored.

    The filename loses its folders, a title that is too long its end, and metadata have the composed form of Unicode.

    Raises:
        InvalidInput: a field cannot be stored.
    """
    stored = stored_metadata(metadata)
    short = short_title(title)
    if short is not None and not is_text(short):
        raise InvalidInput("The title has the character NUL, or is not valid text.", field="title")
    return CheckedFields(filename_of(filename), media_type_of(media_type), short, stored)


def short_title(title: str | None) -> str | None:
    """Return a title without white space at its ends, cut with a mark if it is too long; None if it is empty."""
    short = (title or "").strip()
    if len(short) > MOST_TITLE_CHARS:
        short = short[: MOST_TITLE_CHARS - 1].rstrip() + _CUT
    return short or None


def short_version(version: str) -> str:
    """Return the version of an entry, or the hash of a version that is too long: versions are only compared."""
    if len(version) * 4 <= MOST_VERSION_BYTES:
        return version
    encoded = version.encode(errors="surrogatepass")
    return version if len(encoded) <= MOST_VERSION_BYTES else f"sha256-{hashlib.sha256(encoded).hexdigest()}"


def problem_of_id(name: str, most_bytes: int = MOST_ID_BYTES) -> str | None:
    """Return why a text cannot be the id of a document, as a sentence; None if it can."""
    if not name:
        return "Its name is empty: rename it."
    if problem := problem_of_key(name, most_bytes):
        return problem
    return "Its name contains a control character: rename it." if _CONTROL.search(name) else None


def problem_of_key(name: str, most_bytes: int) -> str | None:
    """Return why a text cannot be the key of an entry, as a sentence; None if it can."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "Its name is not UTF-8: rename it."
    if "\0" in name:
        return "Its name contains the character NUL: rename it."
    return problem_of_size(size, most_bytes)


def problem_of_size(size_bytes: int, most_bytes: int) -> str | None:
    if size_bytes > most_bytes:
        return f"Its name has {size_bytes:,} bytes, and a name may have {most_bytes:,}: shorten it."
    return None


def stored_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as they are stored: their texts and names have the composed form of Unicode.

    Raises:
        InvalidInput: the metadata cannot be stored.
    """
    if _is_deeper(metadata, _METADATA_DEPTH):
        raise InvalidInput(f"Metadata may be nested at most {_METADATA_DEPTH} deep.", field="metadata")
    stored: dict[str, Any] = composed(metadata)
    _require_storable(stored)
    return stored


def _require_storable(metadata: Mapping[str, Any]) -> None:
    try:
        size = len(orjson.dumps(metadata))
    except orjson.JSONEncodeError as error:
        raise InvalidInput(f"The metadata cannot be JSON: {error}.", field="metadata") from error
    if size > MOST_METADATA_BYTES:
        raise InvalidInput(f"Metadata may have at most {MOST_METADATA_BYTES:,} bytes as JSON.", field="metadata")
    if has_nul(metadata):
        raise InvalidInput("The metadata has the character NUL, which cannot be stored.", field="metadata")


def is_text(value: str) -> bool:
    """Return whether PostgreSQL can store a text."""
    try:
        value.encode()
    except UnicodeEncodeError:  # a surrogate
        return False
    return "\0" not in value


def has_nul(value: object) -> bool:
    """Return whether a text in a value of JSON has the character NUL."""
    unchecked = [value]
    while unchecked:
        item = unchecked.pop()
        if isinstance(item, str):
            if "\0" in item:
                return True
        elif isinstance(item, Mapping):
            unchecked += [*item, *item.values()]
        elif isinstance(item, list):
            unchecked += item
    return False


def _is_deeper(value: object, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        groups = (v.values() if isinstance(v, Mapping) else v for v in level if isinstance(v, (Mapping, list)))
        level = [child for group in groups for child in group]
    return bool(level)


def content_hash(parts: Mapping[str, object]) -> bytes:
    """Hash everything that affects the index; a new hash starts the next version of the document."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).digest()


def filename_of(name: str | None) -> str | None:
    """Return the last component of a filename; None if it is empty.

    Raises:
        InvalidInput: the name is not UTF-8, has control characters, is too long, or names a folder.
    """
    if name is None:
        return None
    if _CONTROL.search(name):
        raise InvalidInput("The filename has control characters.", field="filename")
    name = re.split(r"[/\\]", name)[-1].strip()
    if name in {".", ".."}:
        raise InvalidInput("The filename names a folder.", field="filename")
    if not is_text(name):
        raise InvalidInput("The filename is not UTF-8.", field="filename")
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
