"""What Schemathesis has to be told: how a body of JSON lines is sent. `test_fuzz.py` names this file to it."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    """Send one line; what cannot be JSON goes as it is."""
    return value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n"
