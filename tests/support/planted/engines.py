"""Engines that serve the tests of many bugs, so that a run saves the processor second that their start takes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

from tests.support.forkserver import Forked, ForkServer

_POLL_SECONDS = 0.02


class Engines:
    """PostgreSQL, Valkey and Qdrant of a tree, started when they are needed.

    Args:
        folder: parent of the engines' folders.
        server: fork server of the tree, in which no bug is planted when `variables` is called.
    """

    def __init__(self, folder: Path, server: ForkServer) -> None:
        self._parent = folder
        self._server = server
        self._numbers = count()
        self._process: Forked | None = None
        self._folder = folder

    def variables(self) -> dict[str, str]:
        """Return the environment variables that name the engines (`tests.support.engines`), and start them if needed.

        Raises:
            RuntimeError: the engines did not start.
        """
        ready = self._folder / "variables.json"
        if self._process is None:
            self._folder = self._parent / f"engines-{next(self._numbers)}"
            self._folder.mkdir()
            command = [sys.executable, "-m", __name__, str(self._folder)]
            self._process = self._server.launch(command, os.environ, self._folder / "output")
            ready = self._folder / "variables.json"
            while not ready.exists():
                if self._process.poll() is not None:
                    raise RuntimeError((self._folder / "output").read_text(errors="replace"))
                time.sleep(_POLL_SECONDS)
        return dict(json.loads(ready.read_text()))

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None
            shutil.rmtree(self._folder, ignore_errors=True)


def main(folder: Path) -> None:
    """Run the engines until a SIGINT, and write the variables to a file when they are ready."""
    from embedded.stack import Stack
    from shared.settings import Settings

    settings, engines = Settings(_env_file=None), ("postgres", "valkey", "qdrant")
    with suppress(KeyboardInterrupt), Stack(settings, folder / "data", engines=engines, durable=False) as stack:
        given = stack.settings.environment()
        variables = {
            "DATABASE_URL": given["FOREASK_DATABASE_URL"],
            "REDIS_URL": given["FOREASK_REDIS_URL"],
            "QDRANT_URL": given["FOREASK_QDRANT_URL"],
            "QDRANT_API_KEY": given["FOREASK_QDRANT_API_KEY"],
        }
        (folder / "writing").write_text(json.dumps(variables))
        (folder / "writing").rename(folder / "variables.json")
        signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
