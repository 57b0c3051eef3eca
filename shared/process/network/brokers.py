"""Addresses of Redis and Valkey: one reading for redis-py and for Kombu, which understand different URLs.

With `rediss://` or `valkeys://` every connection is encrypted and the certificate is verified, unless the URL says
otherwise. The messages never contain the URL, because it may contain a password.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

from shared.process.network.certificates import own_authorities

_SCHEMES = {"redis": "redis", "valkey": "redis", "rediss": "rediss", "valkeys": "rediss"}
_FORM = "it must have the form redis://user:password@host:6379/0, or rediss:// for TLS"
_UNSUPPORTED = {
    "sentinel": "Sentinel is not supported: give the address of the primary, or of a proxy that follows it",
    "cluster": "a Redis Cluster is not supported: give the address of a server without cluster mode",
    "unix": "a Unix socket is not supported: give a host and a port",
    "socket": "a Unix socket is not supported: give a host and a port",
}
_CHECKS = {
    "none": "none",
    "cert_none": "none",
    "optional": "optional",
    "cert_optional": "optional",
    "required": "required",
    "cert_required": "required",
}
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_PARAMETERS = ("db", "ssl_cert_reqs", "ssl_check_hostname", *_FILES)


def read_broker_url(url: str) -> tuple[str, dict[str, Any]]:
    """Return the URL that redis-py and Kombu both understand, and the options of TLS with redis-py's names.

    Raises:
        ValueError: the URL cannot be used, or a file that it names is missing; the message is a clause without values.
    """
    parts = _parts(url)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(given.keys() - set(_PARAMETERS)):
        raise ValueError(f"it has the unknown parameter {unknown[0]}; it may have: {', '.join(_PARAMETERS)}")
    scheme = _SCHEMES[parts.scheme]
    if scheme == "redis" and any(name.startswith("ssl_") for name in given):
        raise ValueError("it has parameters of TLS but no encryption: write rediss://")
    path = f"/{_database(given.pop('db', parts.path.strip('/')))}"
    plain = parts._replace(scheme=scheme, path=path, query="").geturl()
    return plain, _tls(given) if scheme == "rediss" else {}


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if usable or "://" in url:
        scheme = url.strip().partition("://")[0].lower()
        for word, problem in _UNSUPPORTED.items():
            if word in scheme:
                raise ValueError(problem)
    if not usable or parts.scheme not in _SCHEMES or "," in parts.netloc or ";" in url or parts.fragment:
        raise ValueError(_FORM)
    return parts


def _database(text: str) -> int:
    if text and not text.isdecimal():
        raise ValueError("its path must be the number of a database, such as /0")
    return int(text or 0)


def _tls(given: dict[str, str]) -> dict[str, Any]:
    check = _CHECKS.get(given.pop("ssl_cert_reqs", "required").lower())
    if check is None:
        raise ValueError("its parameter ssl_cert_reqs must be required, optional or none")
    options: dict[str, Any] = {"ssl_cert_reqs": check}
    if (flag := given.pop("ssl_check_hostname", None)) is not None:
        if flag.lower() not in _FLAGS:
            raise ValueError("its parameter ssl_check_hostname must be true or false")
        options["ssl_check_hostname"] = _FLAGS[flag.lower()]
    for name, file in given.items():
        if not Path(file).is_file():
            raise ValueError(f"the file of its parameter {name} does not exist")
    if authorities := own_authorities():
        options["ssl_ca_data"] = authorities
    return options | given
