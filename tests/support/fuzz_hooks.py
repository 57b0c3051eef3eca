"""A serializer of JSON lines for Schemathesis, which `test_fuzz.py` loads from this file."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    """Return the body of one line; a value of bytes is sent unchanged."""
    return value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n"
