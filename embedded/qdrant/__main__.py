"""`python -m embedded.qdrant --data-dir D --port P --key-file F`."""

from __future__ import annotations

import argparse
from pathlib import Path

from embedded.asgi import serve
from embedded.qdrant.server import application
from embedded.qdrant.store import InUseError, Store


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m embedded.qdrant", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key-file", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        store = Store(arguments.data_dir)
    except InUseError as error:
        raise SystemExit(str(error)) from error
    serve(application(store, arguments.key_file), arguments.port)


if __name__ == "__main__":
    main()
