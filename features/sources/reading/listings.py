"""The reader of a listing of S3."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from typing import Any, BinaryIO
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET

import orjson

from shared.domain.corpus.document_fields import MOST_KEY_BYTES
from shared.domain.errors import Unreadable

MOST_SIZE = 2**63 - 1

MESSAGE_OBJECTS = 100


def s3(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield the objects of a page of a listing, and in the last message whether it is the last page.

    Args:
        options: `prefix` of the names, and `most`, the maximum number of objects.
        files: the reply of the server.
    """
    try:
        root = ET.parse(files[0]).getroot()  # noqa: S314 - expat limits the expansion of entities
        space = root.tag.removesuffix("ListBucketResult")
        # XML cannot contain most control characters. Some servers ignore the request to encode names.
        is_encoded = root.findtext(f"{space}EncodingType") == "url"
        decoded: Callable[[str], str] = unquote_plus if is_encoded else str
        objects = [_object(each, space, decoded, options["prefix"]) for each in root.iter(f"{space}Contents")]
    except (ET.ParseError, ValueError) as error:
        raise Unreadable("its reply is not a listing") from error
    if len(objects) > options["most"]:
        raise Unreadable(f"its reply has more than {options['most']:,} names")
    for start in range(0, len(objects), MESSAGE_OBJECTS):
        yield orjson.dumps(objects[start : start + MESSAGE_OBJECTS])
    yield orjson.dumps(root.findtext(f"{space}IsTruncated") != "true")


def _object(element: ET.Element, space: str, decoded: Callable[[str], str], prefix: str) -> tuple[Any, ...]:
    """Return name, size, tag, version and time of an object; raise ValueError if a field is missing or malformed."""
    fields = {name: element.findtext(f"{space}{name}") or "" for name in ("Key", "Size", "ETag", "LastModified")}
    key = decoded(fields["Key"])
    if max(map(len, (key.encode(), fields["ETag"]))) > MOST_KEY_BYTES:
        raise ValueError("a long name")
    size, modified = int(fields["Size"]), datetime.fromisoformat(fields["LastModified"])
    if not 0 <= size <= MOST_SIZE:
        raise ValueError("an impossible size")
    return key.removeprefix(prefix), size, fields["ETag"] or None, None, modified.isoformat()


READERS = {"s3": s3}
