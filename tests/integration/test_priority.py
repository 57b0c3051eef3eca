"""The priority of workers and their parsers counts among all processes, also if the kernel groups them by session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio
import os
import threading
from pathlib import Path

import psutil

from shared.ingest.parse.document import ChunkingOptions
from shared.ingest.parse.sandbox import ParsingSandbox
from shared.process import priority


def session_of(pid: int) -> int | None:
    group = Path(f"/proc/{pid}/autogroup")
    return int(group.read_text().split()[-1]) if group.exists() else None


async def main() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    priority.lower(3)
    threads = {os.getpriority(os.PRIO_PROCESS, int(it.name)) for it in Path("/proc/self/task").iterdir()}
    print("threads", sorted(threads))
    print("session", session_of(os.getpid()))
    async with ParsingSandbox(workers=1) as sandbox:
        await sandbox.parse(Path(os.environ["FILE"]), filename="a.md", media_type=None, options=ChunkingOptions())
        (child,) = psutil.Process().children()
        print("child", child.nice(), session_of(child.pid))


asyncio.run(main())
"""


def usual() -> int | None:
    """Return the niceness of this test's session, or None if the kernel does not group processes."""
    group = Path("/proc/self/autogroup")
    return int(group.read_text(encoding="ascii").split()[-1]) if group.exists() else None


@pytest.mark.parametrize("leads_session", [True, False])
def test_session_and_parsers_have_priority_of_worker(tmp_path, leads_session):
    (tmp_path / "a.md").write_text("The harbour opens at six.")
    lowered, groups = min(19, os.nice(0) + 3), usual()

    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "FILE": str(tmp_path / "a.md")},
        start_new_session=leads_session,
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    own = lowered if groups is not None and leads_session else groups  # others' sessions keep their priority
    of_child = None if groups is None else lowered
    assert printed.splitlines() == [f"threads [{lowered}]", f"session {own}", f"child {lowered} {of_child}"]
