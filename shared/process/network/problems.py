"""The reasons of failed connections, in words that a person can act on.

Clients wrap the system's errors in their own; the reason is found in the chain of causes. The words never contain an
address, because a URL may contain a password.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator

from shared.process.full_disk import FULL, is_full

NOT_TRUSTED = "its certificate is not trusted: set FOREASK_CA_FILE to the file of your company's certificate authority"
EXPIRED = "its certificate has expired"
OTHER_HOST = "its certificate is for another host than the one in its address"
_OF_CERTIFICATE = {9: "its certificate is not valid yet", 10: EXPIRED, 62: OTHER_HOST, 64: OTHER_HOST}  # by OpenSSL
NO_TLS = "it does not speak TLS there: check the scheme and the port of its address"
_TLS = "the encrypted connection fails"
_PROXY = "the proxy that the environment names (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) "
PROXY_LOST = f"{_PROXY}cannot be reached"
PROXY_LOGIN = f"{_PROXY}wants a login: write its user name and password into the variable"
NO_NAME = "its host name is not found: check its address"
REFUSED = "the connection is refused: check that it runs, and its port"
_CLOSED = "it closed the connection"
SILENT = "it did not answer in time"
_NO_LOGIN = "it refuses the user name or the password in its URL"
_NO_CONNECTION = "no connection was made in time: check its address and the firewall"
_NO_ROUTE = "its address has no route from this machine"
_PLAIN = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"}
_MOST_CAUSES = 10
_WANTS_LOGIN = 407


def problem_of(error: BaseException) -> str | None:
    """Return the reason of a failed connection as a clause about the server; None if it is unknown."""
    chain = list(_causes(error))[::-1]  # the first cause knows most
    for find in (_of_proxy, _of_tls, _of_connection, _of_system):
        for cause in chain:
            if (problem := find(cause)) is not None:
                return problem
    return None


def is_untrusted(error: BaseException) -> bool:
    """Return whether a connection failed because of the server's certificate."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__


def _of_proxy(error: BaseException) -> str | None:
    # By name: a process that never opens an HTTP connection does not load the libraries of these classes.
    match type(error).__name__:
        case "ClientHttpProxyError":
            status = getattr(error, "status", "an error")
            return PROXY_LOGIN if status == _WANTS_LOGIN else f"{_PROXY}answers {status}"
        case "ClientProxyConnectionError" | "ProxyError":
            return PROXY_LOST
    return None


def _of_connection(error: BaseException) -> str | None:
    match type(error).__name__:  # by name, as above
        case "ConnectionTimeoutError" | "ConnectTimedOut":
            return _NO_CONNECTION
        case "ServerDisconnectedError" | "ClientPayloadError":
            return _CLOSED
        case "AuthenticationError":  # of redis-py
            return _NO_LOGIN
    return None


def _of_tls(error: BaseException) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _OF_CERTIFICATE.get(getattr(error, "verify_code", 0), NOT_TRUSTED)
    if isinstance(error, ssl.SSLError):
        return NO_TLS if getattr(error, "reason", "") in _PLAIN else _TLS
    return None


def _of_system(error: BaseException) -> str | None:
    if isinstance(error, socket.gaierror):
        return NO_NAME
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return REFUSED  # of a host with several addresses there is only a text
    if isinstance(error, (ConnectionResetError, BrokenPipeError, EOFError)):
        return _CLOSED
    if isinstance(error, TimeoutError):
        return SILENT
    if is_full(error):  # while a reply was stored
        return FULL
    is_unreachable = isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH)
    return _NO_ROUTE if is_unreachable else None
