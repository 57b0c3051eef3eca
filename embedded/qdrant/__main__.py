"""`python -m embedded.qdrant --data-dir D --port P`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embedded.asgi import serve
from embedded.qdrant.server import application
from embedded.qdrant.store import InUseError, Store

# The writer thread and the event loop share the interpreter lock; queries should not wait 5 ms for each of its turns.
SWITCH_SECONDS = 0.001


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m embedded.qdrant", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        store = Store(arguments.data_dir)
    except InUseError as error:
        raise SystemExit(str(error)) from error
    serve(application(store), arguments.port)


if __name__ == "__main__":
    main()
