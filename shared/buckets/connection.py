"""Connections to object stores, and their errors in words that contain no addresses or signed data."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store, from_url

from shared.process.network import problems, proxy_of
from shared.process.network.certificates import own_authorities
from shared.process.network.proxies import named_proxy

Bucket = S3Store | GCSStore | AzureStore

RETRIES = {"max_retries": 3, "retry_timeout": timedelta(seconds=15)}
_OF_IT = re.compile(r"^its?\b")
_STATUS = re.compile(r"status code: (\d{3})")
_NO_BUCKET = 404
_FORBIDDEN = (401, 403)
_OF_VENDORS = ("aws_", "google_", "azure_")
_ENDPOINTS = {"s3": ("aws_endpoint_url", "aws_endpoint"), "az": ("azure_storage_endpoint", "azure_endpoint")}
_HOSTS = {"s3": "s3.amazonaws.com", "gs": "storage.googleapis.com", "az": "blob.core.windows.net"}
_NOWHERE = "http://127.0.0.1:9"
# Names in the chain of causes that obstore prints; the chain itself contains addresses.
_PROBLEMS = (
    ("NotValidForName", problems.OTHER_HOST),
    ("Expired", problems.EXPIRED),
    ("InvalidCertificate", problems.NOT_TRUSTED),
    ("InvalidContentType", problems.NO_TLS),
    ("ProxyAuthRequired", problems.PROXY_LOGIN),
    ("ConnectFailed", problems.PROXY_LOST),
    ("ConnectionRefused", problems.REFUSED),
    ("dns error", problems.NO_NAME),
)
# The limit of the whole request is long, because a document of 100 MB takes time; the limit of a silent connection is
# short. An endpoint with http:// is a deliberate choice.
_CLIENT = {
    "allow_http": True,
    "timeout": timedelta(minutes=10),
    "connect_timeout": timedelta(seconds=3),
    "read_timeout": timedelta(seconds=15),
}


def open_bucket(
    url: str,
    options: Mapping[str, str],
    credentials: Callable[[], Mapping[str, Any]] | None = None,
    retries: Mapping[str, Any] = RETRIES,
) -> Bucket:
    """Return the bucket at a URL; nothing is read or written yet.

    Args:
        url: `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`.
        options: options of the store, by obstore's names; missing ones are read from the vendor's usual variables
            (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
        credentials: returns the credentials, by obstore's names; default: they are options or variables.
        retries: the retries, by obstore's names.

    Raises:
        ValueError: the URL, an option or a proxy cannot be used; the message contains no value, which may be a secret.
    """
    config = {name: value for name, value in options.items() if name.startswith(_OF_VENDORS)}
    client = _CLIENT | network_of(url, config) | {name: value for name, value in options.items() if name not in config}
    own = {} if credentials is None else {"credential_provider": credentials}
    try:
        bucket = from_url(url, config=config, client_options=client, retry_config=retries, **own)  # type: ignore[call-overload]
    except (BaseError, ValueError) as error:
        raise ValueError(type(error).__name__) from None
    assert isinstance(bucket, Bucket)
    return bucket


def network_of(url: str, config: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the network of a store's clients.

    Raises:
        ValueError: a proxy or the address of the server cannot be used.
    """
    return _network_of(_endpoint(url, config))


def _endpoint(url: str, config: Mapping[str, str]) -> str:
    """Return the address of a store's server, or one like it: its scheme and its domain decide on the proxy."""
    scheme = urlsplit(url).scheme
    for name in _ENDPOINTS.get(scheme, ()):
        if value := config.get(name) or os.environ.get(name.upper()):
            if not value.startswith(("https://", "http://")):
                raise ValueError(f"{name} must start with https:// or http://")
            return value
    return f"https://{_HOSTS[scheme]}"


def _network_of(endpoint: str) -> dict[str, str]:
    """Return the options of the network that all clients share; without them obstore reads the variables itself."""
    authorities = own_authorities()
    trusted = {"root_certificate": authorities} if authorities and endpoint.startswith("https:") else {}
    proxy = proxy_of(endpoint)
    if proxy is not None:
        return trusted | {"proxy_url": proxy}
    parts = urlsplit(endpoint)
    try:
        unused = named_proxy(parts.scheme)
    except ValueError:
        unused = _NOWHERE
    return trusted | ({"proxy_url": unused, "proxy_excludes": parts.hostname or ""} if unused else {})


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
    if not isinstance(error, BaseError):
        return type(error).__name__
    words = str(error)
    problem = next((problem for sign, problem in _PROBLEMS if sign in words), "the store does not answer")
    return _OF_IT.sub(lambda found: "the store's" if found[0] == "its" else "the store", problem)
