"""Estimates: what a load will cost is said, and asked about, before it begins."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from foreask_client.models import Json

from cli import output
from cli.client import Client
from shared.ingest.parse import kinds

if TYPE_CHECKING:
    from rich.console import Console

    from cli.corpus import Survey

FEW_FILES = 20
"""So many files are handed in at once, without a word."""

CALLS_TO_ASK = 1_000
"""A load with more calls is asked about."""

_SAMPLE_FILES = 200
_SAMPLE_BYTES = 4 * 1024 * 1024


def of_files(files: Mapping[str, Path]) -> tuple[Json | None, int]:
    """Describe files, as far as their texts are known before they are read: those that are texts.

    Returns:
        What POST /v1/estimates takes for `documents`, None where nothing is known; and how many files it leaves out.
    """
    texts = [path for path in files.values() if kinds.is_text_file(path.name)]
    if not texts:
        return None, len(files)
    chance = random.Random(0)  # noqa: S311 - the same sample each time
    sample: list[Json] = []
    room = _SAMPLE_BYTES
    for path in chance.sample(texts, min(_SAMPLE_FILES, len(texts))):
        size = path.stat().st_size
        if 0 < size <= room:
            room -= size
            sample.append({"text": path.read_bytes().decode(errors="replace")})
    size_bytes = sum(path.stat().st_size for path in texts)
    return {"count": len(texts), "bytes": size_bytes, "sample": sample}, len(files) - len(texts)


def of_corpus(survey: Survey) -> Json:
    """Describe a corpus: what POST /v1/estimates takes for `documents`."""
    sample = []
    for document in survey.sample:
        questions = document.get("questions")
        described = {"text": document["text"], "title": document.get("title")}
        sample.append(described | ({} if questions is None else {"questions": len(questions)}))
    size = {} if survey.size_bytes is None else {"bytes": survey.size_bytes}
    return {"count": max(1, survey.rows), "sample": sample} | size


def agreed(client: Client, console: Console, body: Json, question: str, *, yes: bool) -> bool:
    """Say what a load or a rebuild will cost, and whether it may begin: a person is asked about a large one.

    Where nobody can be asked, as in a script, it goes on. An estimate that was agreed to is kept, so that the status
    compares it with what comes.

    Args:
        client: the server.
        console: where it is said.
        body: what POST /v1/estimates takes.
        question: what a person is asked.
        yes: ask nobody.
    """
    import typer

    estimate = client.estimate(body)
    output.say(console, output.estimate_line(estimate))
    ask = estimate["calls"] > CALLS_TO_ASK and not yes and console.is_terminal and sys.stdin.isatty()
    if ask and not typer.confirm(question):
        return False
    client.estimate(body | {"keep": True})
    return True
