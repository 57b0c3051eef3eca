"""`python -m api`: serve the HTTP API with the configured settings."""

from __future__ import annotations

from shared.process import start

if __name__ == "__main__":
    with start.imports():
        from api.server import run

    run()
