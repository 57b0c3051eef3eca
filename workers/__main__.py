"""`python -m workers parse|read|generate|index|ingest|scheduler`: one worker process, or the scheduler."""

from __future__ import annotations

from shared.process import start

if __name__ == "__main__":
    with start.imports():
        from workers.process import run

    run()
