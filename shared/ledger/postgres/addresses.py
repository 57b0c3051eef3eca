"""The parameters of PostgreSQL's URL, with libpq's names."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from shared.domain.errors import InvalidInput
from shared.process.network.certificates import new_ssl_context

_FILES = {"sslrootcert", "sslcert", "sslkey", "sslcrl"}
_PARAMETERS = _FILES | {"sslmode", "sslpassword", "target_session_attrs", "channel_binding"}
_LAST_PORT = 65_535
_BINDINGS = ("disable", "prefer", "require")
_VERIFYING = ("verify-ca", "verify-full")
_URL = re.compile(
    r"postgres(?:ql)?(?:\+\w+)?://"
    r"(?:(?P<user>[^:/@]*)(?::(?P<password>[^@]*))?@)?"
    r"(?:\[(?P<address>[^/?\]]+)\]|(?P<host>[^/:?\[]*))(?::(?P<port>\d*))?"
    r"(?:/(?P<database>[^?]*))?(?:\?(?P<parameters>.*))?"
)
_SYSTEM = "system"  # value of sslrootcert for the usual authorities, as of libpq 16


def connect_arguments(url: str) -> dict[str, Any]:
    """Return the driver's arguments for a URL.

    The driver verifies certificates with a file only. Without one, the authorities that all clients trust are used.
    It cannot bind the login to the encrypted channel; a URL that requires this gets a verified certificate instead,
    which also excludes a server in between.

    Raises:
        InvalidInput: the URL has another form, or a parameter is unknown, has an unknown value, or is the path of a
            missing file.
    """
    found = _URL.fullmatch(url)
    if found is None or int(found["port"] or 0) > _LAST_PORT:
        raise InvalidInput("FOREASK_DATABASE_URL must have the form postgresql://user:password@host:5432/name.")
    parts = {
        "host": found["address"] or found["host"],
        "port": int(found["port"] or 0),
        "user": unquote(found["user"] or ""),
        "password": unquote(found["password"] or ""),
        "database": unquote(found["database"] or ""),
    }
    named = {name: value for name, value in parts.items() if value}
    return named | _tls_arguments(_checked(dict(parse_qsl(found["parameters"] or "", keep_blank_values=True))))


def _tls_arguments(parameters: dict[str, str]) -> dict[str, Any]:
    binding = parameters.pop("channel_binding", "prefer")
    if binding == "require" and parameters.get("sslmode") not in _VERIFYING:
        parameters["sslmode"] = "verify-full"
    if parameters.get("sslmode") in _VERIFYING and _has_usual_authorities(parameters):
        return {"dsn": _dsn(parameters, without_tls=True), "ssl": _context(parameters)}
    return {"dsn": _dsn(parameters)}


def _checked(parameters: dict[str, str]) -> dict[str, str]:
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
