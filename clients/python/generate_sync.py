"""Generate `foreask_client/synchronous` from `foreask_client/asynchronous`, or check that it is current.

`python clients/python/generate_sync.py` writes the files. With `--check` it writes nothing, lists the files that differ
and exits with 1 if there are any.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import unasync

PACKAGE = Path(__file__).parent / "foreask_client"
SOURCE, TARGET = "asynchronous", "synchronous"
REPLACEMENTS = {
    SOURCE: TARGET,
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "AsyncEvents": "Events",
    "AsyncHttp": "Http",
    "aclose": "close",
    "aiter_sse": "iter_sse",
    "aread": "read",
    "asyncio": "time",  # for sleep()
}
_DOCSTRING = '"""The client for programs that use asyncio. The synchronous client is generated from this package."""'
_GENERATED = '"""The client for programs without asyncio, generated from `foreask_client.asynchronous`: do not edit."""'


def generated() -> dict[Path, str]:
    """Return the content of the synchronous package by file."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / PACKAGE.name
        (sources := package / SOURCE).mkdir(parents=True)
        (package / "__init__.py").touch()  # the imports of a package are sorted by its name
        for path in (PACKAGE / SOURCE).glob("*.py"):
            (sources / path.name).write_text(path.read_text().replace(_DOCSTRING, _GENERATED))
        rule = unasync.Rule(f"/{SOURCE}/", f"/{TARGET}/", REPLACEMENTS)
        unasync.unasync_files([str(path) for path in sources.glob("*.py")], [rule])
        results = package / TARGET
        config = PACKAGE.parents[2] / "pyproject.toml"
        for command in (["check", "--select", "I", "--fix"], ["format"]):
            subprocess.run([sys.executable, "-m", "ruff", *command, "--quiet", "--config", config, results], check=True)
        return {PACKAGE / TARGET / path.name: path.read_text() for path in sorted(results.glob("*.py"))}


def stale() -> list[Path]:
    """Return the synchronous files that differ from the generated ones, are missing, or have no source."""
    expected = generated()
    existing = {path: path.read_text() for path in (PACKAGE / TARGET).glob("*.py")}
    return sorted(path for path in expected.keys() | existing.keys() if expected.get(path) != existing.get(path))


def main() -> None:
    if "--check" in sys.argv:
        paths = stale()
        for path in paths:
            print(f"{path.relative_to(PACKAGE.parents[2])} is not current: run `make client`")
        sys.exit(bool(paths))
    (PACKAGE / TARGET).mkdir(exist_ok=True)
    for path in stale():
        path.unlink(missing_ok=True)
    for path, text in generated().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
