"""The spans of requests to Qdrant, named by operation, without ids."""

from __future__ import annotations

from shared.process.telemetry import traces
from shared.process.telemetry.spans import NOTHING, Span


def request_span(method: str, path: str) -> Span:
    """Create the span of a request.

    Args:
        method: HTTP method.
        path: path of the address, without ids.
    """
    if not traces.is_recording():
        return NOTHING
    name, _, rest = path.partition("/collections/")[2].partition("/")
    operation = f"{method} {rest or 'collections'}"
    attributes = {"db.system.name": "qdrant", "db.operation.name": operation, "db.collection.name": name}
    return traces.span(operation, "client", attributes)
