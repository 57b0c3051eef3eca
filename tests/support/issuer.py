"""An OpenID Connect issuer on loopback that signs any token, and publishes any keys."""

from __future__ import annotations

import asyncio
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import jwt
import orjson
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "foreask-page"


class Key:
    """A key of an issuer.

    Args:
        key_id: its id.
        private: the key.
        more: further members of its published form.
    """

    def __init__(self, key_id: str, private: PrivateKeyTypes | None = None, **more: str) -> None:
        self.key_id = key_id
        self.private: Any = private or rsa_key()
        self.more = more

    @property
    def published(self) -> dict[str, Any]:
        public = self.private.public_key()
        form = {rsa.RSAPublicKey: RSAAlgorithm, ec.EllipticCurvePublicKey: ECAlgorithm}
        kind = next((form[each] for each in form if isinstance(public, each)), OKPAlgorithm)
        return {**kind.to_jwk(public, as_dict=True), "kid": self.key_id, "use": "sig", **self.more}

    @property
    def public_text(self) -> bytes:
        return bytes(self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


@cache
def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return one of several keys: to make one takes a tenth of a second."""
    del number
    return rsa.generate_private_key(65_537, bits)


def curve_key(curve: ec.EllipticCurve | None = None) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve or ec.SECP256R1())


def edwards_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


class Issuer:
    """The state of an issuer, which tests change.

    Args:
        port: its port.

    Attributes:
        keys: keys that it publishes.
        described: members that replace members of its description.
        delay_seconds: time that a reply takes.
        is_down: whether it answers with status 503.
        fetched: number of replies with keys.
        redeemed: forms that clients have sent to its endpoint of tokens.
        granted: its reply to them, and the reply's status.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.keys = [Key("first")]
        self.described: dict[str, Any] = {}
        self.delay_seconds = 0.0
        self.is_down = False
        self.fetched = 0
        self.redeemed: list[dict[str, Any]] = []
        self.authorizations: list[str | None] = []
        self.granted: tuple[int, Mapping[str, Any]] = (400, {"error": "invalid_grant"})

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return the claims of a valid token; None removes a claim."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 300, **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key: Key | None = None, algorithm: str = "RS256", *, header: Any = None, **changes: Any) -> str:
        """Return a token that is signed with a key; default: the first published one."""
        key = key or self.keys[0]
        headers = {"kid": key.key_id, **(header or {})}
        named = {name: value for name, value in headers.items() if value is not None}
        return jwt.encode(self.claims(**changes), key.private, algorithm, named)

    async def answer(self, request: web.Request) -> web.Response:
        await asyncio.sleep(self.delay_seconds)
        if self.is_down:
            return web.Response(status=503)
        match request.path:
            case "/.well-known/openid-configuration":
                return web.json_response(self._description())
            case "/keys":
                self.fetched += 1
                return web.json_response({"keys": [key.published for key in self.keys]})
            case "/token":
                self.redeemed.append(dict(await request.post()))
                self.authorizations.append(request.headers.get("authorization"))
                status, reply = self.granted
                return web.json_response(reply, status=status)
        return web.Response(status=404)

    def _description(self) -> dict[str, Any]:
        addresses = {
            "authorization_endpoint": "authorize",
            "token_endpoint": "token",
            "end_session_endpoint": "end",
            "jwks_uri": "keys",
        }
        return {"issuer": self.url} | {name: f"{self.url}/{path}" for name, path in addresses.items()} | self.described


def joined(header: Any, claims: Any, signature: bytes = b"") -> str:
    """Return a token of any parts."""
    parts = (part if isinstance(part, bytes) else orjson.dumps(part) for part in (header, claims, signature))
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@asynccontextmanager
async def issuing(port: int = 0) -> AsyncIterator[Issuer]:
    """Serve an issuer."""
    application = web.Application()
    runner = web.AppRunner(application, access_log=None)
    holder: list[Issuer] = []

    async def answer(request: web.Request) -> web.Response:
        return await holder[0].answer(request)

    application.router.add_route("*", "/{path:.*}", answer)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    try:
        holder.append(Issuer(runner.addresses[0][1]))
        yield holder[0]
    finally:
        await runner.cleanup()
