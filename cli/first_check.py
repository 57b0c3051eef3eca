"""`foreask check` as a child of `foreask up`: its lines appear on the console while the programs start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from threading import Thread

from rich.console import Console


class FirstCheck:
    """A running check, whose result changes nothing.

    It is a process of its own, because `up` would otherwise keep the memory of the imports of all engines' clients.

    Args:
        environment: settings with the URLs of the started engines.
        console: receives the lines.
    """

    def __init__(self, environment: Mapping[str, str], console: Console) -> None:
        self._console = console
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cli", "check"],
            env={**os.environ, **environment, "PYTHONUTF8": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl-C stops it with the programs
        )
        self._reader = Thread(target=self._print_lines, name="first check", daemon=True)
        self._reader.start()

    def stop(self) -> None:
        """End the check, if it still runs."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _print_lines(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                colour = "red" if line.startswith("failed") else "dim"
                self._console.print(f"    {line.rstrip()}", style=colour, markup=False, highlight=False, soft_wrap=True)
        self._process.wait()  # otherwise it would remain as a zombie until the server stops
