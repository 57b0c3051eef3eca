"""The entry point of `foreask` and of `python -m cli`."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command line.

    `foreask health ROLE` is repeated by supervisors, so it starts without the imports of the command line if a process
    answers.
    """
    command, *role = sys.argv[1:] or [""]
    if command == "health" and len(role) == 1:
        from shared.process.liveness import local_processes

        if any(process.is_live for process in local_processes(role[0])):
            return
    from cli.main import run as run_command

    run_command()


if __name__ == "__main__":
    run()
