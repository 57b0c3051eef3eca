"""Signed addresses of S3 that accept a body of one size only.

obstore signs the host alone. With access keys the same signature can be computed here, and then a second signature,
which covers `content-length` as well: the store refuses a body of another size before it reads it. Without access keys,
as with the role of a machine, the secret is unknown, and the address keeps its signature; the size is checked later.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from hmac import compare_digest
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

_SECRETS = ("aws_secret_access_key", "secret_access_key")
_SIGNATURE, _SIGNED = "X-Amz-Signature", "X-Amz-SignedHeaders"


def secret_of(options: Mapping[str, str]) -> str | None:
    """Return the secret access key of a store's options or of the environment; None if there is none."""
    given = next((options[name] for name in _SECRETS if name in options), None)
    return given or os.environ.get("AWS_SECRET_ACCESS_KEY")


def with_length(url: str, secret: str, size_bytes: int) -> str | None:
    """Return a presigned address for a PUT that accepts a body of this size only.

    Args:
        url: address as obstore has signed it.
        secret: secret access key, which may belong to other credentials.
        size_bytes: size of the body.

    Returns:
        The address; None if the secret does not give the signature of `url`.
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    signature = query.pop(_SIGNATURE, "")
    if not compare_digest(_signature(parts, query, {"host": parts.netloc}, secret), signature):
        return None
    headers = {"content-length": str(size_bytes), "host": parts.netloc}
    query[_SIGNED] = ";".join(headers)
    query[_SIGNATURE] = _signature(parts, query, headers, secret)
    return parts._replace(query=urlencode(query, quote_via=quote, safe="-_.~")).geturl()


def _signature(parts: SplitResult, query: Mapping[str, str], headers: Mapping[str, str], secret: str) -> str:
    """Return Amazon's signature of version 4 for a PUT whose body is not signed."""
    encoded = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    request = "\n".join(
        (
            "PUT",
            parts.path,
            "&".join(f"{name}={value}" for name, value in encoded),
            *(f"{name}:{value}" for name, value in headers.items()),
            "",
            ";".join(headers),
            "UNSIGNED-PAYLOAD",
        )
    )
    scope = query.get("X-Amz-Credential", "").partition("/")[2]
    text = "\n".join(
        (
            query.get("X-Amz-Algorithm", ""),
            query.get("X-Amz-Date", ""),
            scope,
            hashlib.sha256(request.encode()).hexdigest(),
        )
    )
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, text.encode(), "sha256").hexdigest()
