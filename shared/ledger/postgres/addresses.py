"""The parameters of PostgreSQL's URL, with libpq's names."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sqlalchemy.engine import URL

from shared.domain.errors import InvalidInput
from shared.process.network.certificates import new_ssl_context

_FILES = {"sslrootcert", "sslcert", "sslkey", "sslcrl"}
_PARAMETERS = _FILES | {"sslmode", "sslpassword", "target_session_attrs", "channel_binding"}
_BINDINGS = ("disable", "prefer", "require")
_VERIFYING = ("verify-ca", "verify-full")
_SYSTEM = "system"  # value of sslrootcert for the usual authorities, as of libpq 16


def connect_arguments(address: URL) -> dict[str, Any]:
    """Return the driver's arguments for the parameters of a URL.

    The driver verifies certificates with a file only. Without one, the authorities that all clients trust are used.
    It cannot bind the login to the encrypted channel; a URL that requires this gets a verified certificate instead,
    which also excludes a server in between.

    Raises:
        InvalidInput: a parameter is unknown or has an unknown value, or is the path of a missing file.
    """
    parameters = _checked(address)
    binding = parameters.pop("channel_binding", "prefer")
    if binding == "require" and parameters.get("sslmode") not in _VERIFYING:
        parameters["sslmode"] = "verify-full"
    if parameters.get("sslmode") in _VERIFYING and _has_usual_authorities(parameters):
        return {"dsn": _dsn(parameters, without_tls=True), "ssl": _context(parameters)}
    return {"dsn": _dsn(parameters)}


def _checked(address: URL) -> dict[str, str]:
    parameters = {name: value if isinstance(value, str) else value[-1] for name, value in address.query.items()}
    if unknown := sorted(parameters.keys() - _PARAMETERS):
        known = ", ".join(sorted(_PARAMETERS))
        raise InvalidInput(f"FOREASK_DATABASE_URL has the unknown parameter {unknown[0]}. It may have: {known}.")
    if parameters.get("channel_binding", "prefer") not in _BINDINGS:
        raise InvalidInput(f"FOREASK_DATABASE_URL: channel_binding must be {', '.join(_BINDINGS[:-1])} or require.")
    for name in sorted(_FILES & parameters.keys()):
        is_system = name == "sslrootcert" and parameters[name] == _SYSTEM
        if not is_system and not Path(parameters[name]).is_file():
            raise InvalidInput(f"FOREASK_DATABASE_URL: the file of {name} does not exist: {parameters[name]}")
    return parameters


def _has_usual_authorities(parameters: Mapping[str, str]) -> bool:
    """Return whether neither the URL nor libpq's usual places name a file of authorities."""
    if "sslrootcert" in parameters:
        return parameters["sslrootcert"] == _SYSTEM
    return not os.environ.get("PGSSLROOTCERT") and not Path("~/.postgresql/root.crt").expanduser().is_file()


def _context(parameters: Mapping[str, str]) -> ssl.SSLContext:
    context = new_ssl_context()
    context.check_hostname = parameters["sslmode"] == "verify-full"
    if "sslcrl" in parameters:
        context.load_verify_locations(parameters["sslcrl"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    if "sslcert" in parameters:
        password = parameters.get("sslpassword", "")
        context.load_cert_chain(parameters["sslcert"], parameters.get("sslkey"), password)
    return context


def _dsn(parameters: Mapping[str, str], *, without_tls: bool = False) -> str:
    """Return a URL with the parameters alone; the other arguments of the driver precede it."""
    kept = {name: value for name, value in parameters.items() if not (without_tls and name.startswith("ssl"))}
    return f"postgresql:///?{urlencode(kept)}"
