"""Pages of the documentation, followed: their commands and settings, as a reader takes them."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cli import main

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
Foreask = Callable[..., Awaitable[tuple[Any, str]]]


def commands_of(page: str, question: str = "") -> list[str]:
    """The commands of a page, or of what stands under one of its questions."""
    return _indented(page, question, r"foreask .+")


def settings_of(page: str, question: str) -> dict[str, str]:
    """The settings under a question of a page."""
    return dict(line.split("=", maxsplit=1) for line in _indented(page, question, r"FOREASK_\w+=.*"))


def _indented(page: str, question: str, pattern: str) -> list[str]:
    text = (HOW_TO / page).read_text()
    if question:
        (text,) = re.findall(rf"^## {re.escape(question)}[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    lines = re.findall(rf"^    ({pattern})$", text, re.MULTILINE)
    assert lines, (page, question)
    return lines


def foreask_beside(
    meanwhile: Callable[[], Awaitable[object]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Foreask:
    """Return what runs a command, while something else is done again and again, and returns its exit code and words.

    Another `meanwhile` may be named for one command.
    """

    async def run(command: str, meanwhile: Callable[[], Awaitable[object]] = meanwhile) -> tuple[Any, str]:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        running = asyncio.create_task(asyncio.to_thread(_exit_code))
        while not running.done():
            await meanwhile()
            await asyncio.sleep(0.05)
        out, err = capsys.readouterr()
        said = [line for line in (out + err).splitlines(keepends=True) if " [info " not in line]  # the server logs too
        return await running or 0, "".join(said)

    return run


def _exit_code() -> Any:
    try:
        main.run()
    except SystemExit as ended:
        return ended.code
    return 0
