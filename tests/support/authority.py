"""A private certificate authority, and TLS in front of a server, as a company or a managed service has them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
TLS_HELLO = b"\x16\x03"  # the first bytes of an encrypted connection: a handshake record


class Authority:
    """Issues certificates; `file` has its own certificate."""

    def __init__(self, folder: Path, name: str = "company") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} authority")])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _signed(
            self._name, self._name, self._key, self._key, x509.BasicConstraints(ca=True, path_length=None)
        )
        self.file = folder / f"{name}-authority.pem"
        self.file.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def server(self, *hosts: str, until: datetime | None = None) -> ssl.SSLContext:
        """Return the TLS of a server with these names or addresses; default: this machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        names = x509.SubjectAlternativeName([_named(host) for host in hosts or ("localhost", "127.0.0.1")])
        signed = _signed(subject, self._name, key, self._key, names, until=until)
        file = self._folder / f"server-{signed.serial_number}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(signed.public_bytes(Encoding.PEM) + private)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(  # noqa: PLR0917 - parts of a certificate
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
    until: datetime | None = None,
) -> x509.Certificate:
    end = until or datetime.now(UTC) + DAY
    return (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number(), end - 3 * DAY, end)
        .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        .sign(signer, hashes.SHA256())
    )


class Front:
    """A port in front of a server that records the first bytes of each connection.

    Args:
        target: host and port of the server.
        tls: terminates TLS; None: bytes pass unchanged.
    """

    def __init__(self, target: tuple[str, int], tls: ssl.SSLContext | None) -> None:
        self._target = target
        self._tls = tls
        self.firsts: list[bytes] = []
        self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Front]:
        # TLS ends in a second port, so that the first one sees the bytes of the network.
        inner = await asyncio.start_server(self._to_server, "127.0.0.1", 0, ssl=self._tls)
        self._inner_port = inner.sockets[0].getsockname()[1]
        outer = await asyncio.start_server(self._record, "127.0.0.1", 0)
        self.port = outer.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            outer.close()
            inner.close()

    async def _record(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(65_536)
        self.firsts.append(first)
        await _join(reader, writer, ("127.0.0.1", self._inner_port), first)

    async def _to_server(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _join(reader, writer, self._target, b"")


async def _join(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: tuple[str, int], first: bytes
) -> None:
    with suppress(OSError):
        upstream, out = await asyncio.open_connection(*target)
        out.write(first)
        await asyncio.gather(_pipe(reader, out), _pipe(upstream, writer))
    writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
