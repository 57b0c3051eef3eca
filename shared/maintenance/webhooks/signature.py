"""Signatures by Standard Webhooks (standardwebhooks.com): who has the secret knows who sent a message, and when."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

_PREFIX = "whsec_"
_BYTES = 32


def draw_secret() -> str:
    """Draw a secret of 256 random bits."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def signed_headers(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers by which the receiver checks a message.

    Args:
        secret: as `draw_secret` gave it.
        message_id: the same for each attempt.
        timestamp: of the attempt, in seconds since 1970; receivers refuse old ones.
        body: exactly what is sent.
    """
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}
