"""The reader of listings through obstore, which has a whole reply of a store in memory, whatever its size."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import obstore
import orjson
from obstore.exceptions import BaseError, InvalidPathError

from features.sources.reading.listings import MESSAGE_OBJECTS
from shared.buckets.connection import RETRIES, is_missing, is_refusal, open_bucket, reason_of
from shared.domain.corpus.document_fields import MOST_KEY_BYTES
from shared.domain.errors import Unreadable


def listed(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield the objects that follow a name, or the problem that ends the listing: see `features.sources.files.listed`.

    Args:
        options: `url`, `options` and `credentials` of the bucket, the variables of its `environment`, `retries`, and
            `after`.
        files: none.

    Raises:
        Unreadable: a name is too long.
    """
    del files
    with _environment(options["environment"]):
        try:
            for page in _pages(options):
                objects = [_fields(found) for found in page]
                if any(max(len(key.encode()), len(tag or "")) > MOST_KEY_BYTES for key, _, tag, *_ in objects):
                    raise Unreadable("its reply has a name that is too long")
                yield orjson.dumps(objects)
        except InvalidPathError as error:
            yield _problem("name", str(error))
        except (BaseError, OSError) as error:
            kind = "missing" if is_missing(error) else "refused" if is_refusal(error) else "failed"
            yield _problem(kind, reason_of(error))


def _pages(options: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    keys = options["credentials"]
    retries = RETRIES | {"max_retries": options["retries"]}
    credentials = None if keys is None else lambda: keys | {"expires_at": None}
    bucket = open_bucket(options["url"], options["options"], credentials, retries)
    return iter(obstore.list(bucket, offset=options["after"] or None, chunk_size=MESSAGE_OBJECTS))


def _fields(found: Any) -> tuple[Any, ...]:
    modified = found["last_modified"].isoformat()
    return found["path"], found["size"], found["e_tag"], found["version"], modified


def _problem(kind: str, text: str) -> bytes:
    return orjson.dumps({"problem": kind, "text": text[:MOST_KEY_BYTES]})


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for one request: the next one may be of another source."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


READERS = {"listed": listed}
