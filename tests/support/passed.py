"""Contents that passed a check: `make check` checks only new contents, and everything if a check itself has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Passed:
    """The digests of contents that have passed a check.

    Args:
        name: name of the check.
        check: code, rules and versions of tools, on which the result also depends.
        root: repository; `make clean` and `.ci/run` delete its folder `build/passed`.
    """

    def __init__(self, name: str, check: Iterable[str | bytes], root: Path = ROOT) -> None:
        self._file = root / "build" / "passed" / f"{name}.json"
        self._check = digest(check)
        stored = json.loads(self._file.read_text()) if self._file.is_file() else {}
        self._earlier = set(stored.get("contents", ())) if stored.get("check") == self._check else set[str]()
        self._contents = set[str]()

    def has(self, content: Iterable[str | bytes]) -> bool:
        """Return whether a content passed earlier; only such contents, and new ones, are kept by `save`."""
        key = digest(content)
        if key in self._earlier:
            self._contents.add(key)
        return key in self._contents

    def add(self, content: Iterable[str | bytes]) -> None:
        self._contents.add(digest(content))

    def save(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps({"check": self._check, "contents": sorted(self._contents)}))


def digest(parts: Iterable[str | bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(b"%d:" % len(data) + data)
    return total.hexdigest()
