"""Run the commands of the documentation page on backups with the settings of a deployment."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

from embedded.postgres import binary
from shared.settings import Settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "back-up-and-restore.md"


def commands(heading: str, nth: int = 0) -> str:
    """Return the nth block of commands under a heading of the page."""
    section = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    block = re.findall(r"(?:^    .+\n)+", section, re.MULTILINE)[nth]
    return re.sub(r"^    ", "", block, flags=re.MULTILINE)


async def run(script: str, settings: Settings, **more: str) -> str:
    """Run commands of the page; return their output."""
    assert settings.database_url is not None
    path = os.pathsep.join([str(binary("pg_dump").parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {
        "PATH": path,
        "FOREASK_DATABASE_URL": settings.database_url.get_secret_value(),
        "FOREASK_DATA_DIR": str(settings.data_dir),
    }
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", script),
        cwd=settings.data_dir.parent,
        env=environment | more,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()
