"""Read commands and settings from the pages of the documentation, and run them."""

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
    """Return the commands of a page, or of the section under one of its questions."""
    return _indented(page, question, r"foreask .+")


def settings_of(page: str, question: str) -> dict[str, str]:
    """Return the settings in the section under a question of a page."""
    return dict(line.split("=", maxsplit=1) for line in _indented(page, question, r"FOREASK_\w+=.*"))


def _indented(page: str, question: str, pattern: str) -> list[str]:
    text = (HOW_TO / page).read_text()
    if question:
        (text,) = re.findall(rf"^## {re.escape(question)}[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    lines = re.findall(rf"^    ({pattern})$", text, re.MULTILINE)
    assert lines, (page, question)
    return lines


def foreask_with_background(
    background: Callable[[], Awaitable[object]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Foreask:
    """Return a function that runs a command, repeats `background` until it exits, and returns exit code and output.

    The function accepts another `background` for one command.
    """

    async def run(command: str, background: Callable[[], Awaitable[object]] = background) -> tuple[Any, str]:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        running = asyncio.create_task(asyncio.to_thread(_exit_code))
        while not running.done():
            await background()
            await asyncio.sleep(0.05)
        out, err = capsys.readouterr()
        lines = [line for line in (out + err).splitlines(keepends=True) if "[info " not in line]  # the server logs too
        return await running or 0, "".join(lines)

    return run


def _exit_code() -> Any:
    try:
        main.run()
    except SystemExit as exit_:
        return exit_.code
    return 0
