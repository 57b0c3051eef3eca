"""Signatures by Standard Webhooks (standardwebhooks.com): the receiver verifies the sender and the time."""

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
    """Return the headers with which the receiver verifies a message.

    Args:
        secret: secret from `draw_secret`.
        message_id: id of the message, the same for each attempt.
        timestamp: time of the attempt, in seconds since 1970; receivers reject old ones.
        body: the exact body.
    """
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}
