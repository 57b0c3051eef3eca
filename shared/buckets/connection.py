"""Connections to object stores, and their errors in words that contain no addresses or signed data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store, from_url

Bucket = S3Store | GCSStore | AzureStore

RETRIES = {"max_retries": 3, "retry_timeout": timedelta(seconds=15)}
_STATUS = re.compile(r"status code: (\d{3})")
_NO_BUCKET = 404
_FORBIDDEN = (401, 403)
_OF_VENDORS = ("aws_", "google_", "azure_")
# The limit of the whole request is long, because a document of 100 MB takes time; the limit of a silent connection is
# short. An endpoint with http:// is a deliberate choice.
_CLIENT = {
    "allow_http": True,
    "timeout": timedelta(minutes=10),
    "connect_timeout": timedelta(seconds=3),
    "read_timeout": timedelta(seconds=15),
}


def open_bucket(
    url: str, options: Mapping[str, str], credentials: Callable[[], Mapping[str, Any]] | None = None
) -> Bucket:
    """Return the bucket at a URL; nothing is read or written yet.

    Args:
        url: `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`.
        options: options of the store, by obstore's names; missing ones are read from the vendor's usual variables
            (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
        credentials: returns the credentials, by obstore's names; default: they are options or variables.

    Raises:
        ValueError: the URL or an option cannot be used; the message contains no value, which may be a secret.
    """
    config = {name: value for name, value in options.items() if name.startswith(_OF_VENDORS)}
    client = _CLIENT | {name: value for name, value in options.items() if name not in config}
    own = {} if credentials is None else {"credential_provider": credentials}
    try:
        bucket = from_url(url, config=config, client_options=client, retry_config=RETRIES, **own)  # type: ignore[call-overload]
    except (BaseError, ValueError) as error:
        raise ValueError(type(error).__name__) from None
    assert isinstance(bucket, Bucket)
    return bucket


def status_of(error: Exception) -> int:
    """Return the store's status code; 0 without a reply."""
    status = _STATUS.search(str(error))
    return int(status[1]) if status else 0


def is_missing(error: Exception) -> bool:
    """Return whether the bucket, or the object of a request for one, does not exist."""
    return isinstance(error, FileNotFoundError) or status_of(error) == _NO_BUCKET


def is_refusal(error: Exception) -> bool:
    """Return whether the store refuses the credentials."""
    return isinstance(error, (PermissionDeniedError, UnauthenticatedError)) or status_of(error) in _FORBIDDEN


def reason_of(error: Exception) -> str:
    """Return the problem without the store's own message, which contains addresses and signed data."""
    if isinstance(error, FileNotFoundError):
        return "there is no such bucket"
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
        return "the store refuses the credentials"
    if status := status_of(error):
        return f"the store answers {status}"
    return "the store does not answer" if isinstance(error, BaseError) else type(error).__name__
