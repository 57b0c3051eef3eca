"""The certificate authorities that every client of this process trusts.

The base is the system's store together with certifi's list, because a small system has no store. `SSL_CERT_FILE` or
`SSL_CERT_DIR` replaces the base, as OpenSSL understands them. `FOREASK_CA_FILE` and `REQUESTS_CA_BUNDLE` are added.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_BASE = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_ADDED = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@dataclass
class _CaFile:
    """The setting FOREASK_CA_FILE of this process."""

    file: Path | None = None


_CA_FILE = _CaFile()


def trust(ca_file: Path | None) -> None:
    """Trust the authorities in a file, in addition to the others, in all connections that this process opens later."""
    _CA_FILE.file = ca_file


def ssl_context() -> ssl.SSLContext:
    """Return the verification of servers, which clients share: loading the certificates takes 30 ms of processor time.

    Raises:
        OSError: a file that a variable names is missing, or contains no certificate.
    """
    return _shared(*_sources())


def new_ssl_context() -> ssl.SSLContext:
    """Return a verification of servers that the caller may change; raises as `ssl_context`."""
    return _context(*_sources())


def own_authorities() -> str:
    """Return the certificates that a client with the system's store needs in addition, as PEM; often none.

    Files that are missing are left out: `unusable_variable` names them at the start.
    """
    base, added = _sources()
    files = map(Path, (*(() if base or _system_has_store() else (_certifi(),)), *added))
    return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())


def authorities_in(file: Path) -> int:
    """Return the number of authorities in a file.

    Raises:
        OSError: the file cannot be read, or contains no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(file)
    return context.cert_store_stats()["x509"]


def unusable_variable() -> str | None:
    """Return the first variable that names a missing file or folder; None if all can be used."""
    names = (name for name in _BASE + _ADDED if os.environ.get(name))
    return next((name for name in names if not Path(os.environ[name]).exists()), None)


def _sources() -> tuple[str, tuple[str, ...]]:
    """Return the variable that replaces the base, or an empty text, with its value, and the files that are added."""
    base = next((f"{name}={os.environ[name]}" for name in _BASE if os.environ.get(name)), "")
    bundles = [os.environ[name] for name in _ADDED if os.environ.get(name)][:1]
    own = [] if _CA_FILE.file is None else [str(_CA_FILE.file)]
    return base, (*bundles, *own)


@lru_cache(maxsize=4)
def _shared(base: str, added: tuple[str, ...]) -> ssl.SSLContext:
    return _context(base, added)


def _context(base: str, added: tuple[str, ...]) -> ssl.SSLContext:
    name, _, value = base.partition("=")
    if name == "SSL_CERT_FILE":
        context = ssl.create_default_context(cafile=value)
    elif name == "SSL_CERT_DIR":
        context = ssl.create_default_context(capath=value)
    else:
        context = ssl.create_default_context()
        context.load_verify_locations(_certifi())
    for file in added:
        path = Path(file)
        context.load_verify_locations(capath=path) if path.is_dir() else context.load_verify_locations(path)
    return context


def _certifi() -> str:
    import certifi  # noqa: PLC0415 - a process without encrypted connections does not need it

    return certifi.where()


def _system_has_store() -> bool:
    paths = ssl.get_default_verify_paths()
    return paths.cafile is not None or (paths.capath is not None and any(Path(paths.capath).iterdir()))
