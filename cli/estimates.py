"""Estimates: print the cost of a load before it starts, and ask for confirmation of a large one."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from foreask_client.models import Json

from cli import output
from cli.client import CliClient
from shared.domain.errors import Unreadable
from shared.ingest.parse import kinds

if TYPE_CHECKING:
    from rich.console import Console

    from cli.corpus import CorpusSurvey

FEW_FILES = 20
"""Largest number of files that are uploaded without an estimate."""

CALLS_TO_ASK = 1_000
"""Largest number of model calls that needs no confirmation."""

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp", ".gif")
"""Files that are scanned pages: one, or several in a TIFF file, whose number is unknown before parsing."""

_SAMPLE_FILES = 200
_SAMPLE_BYTES = 4 * 1024 * 1024


def of_files(files: Mapping[str, Path], *, most_bytes: int) -> tuple[Json | None, int]:
    """Describe texts and pictures among the files, because the text of other formats is unknown before parsing.

    Args:
        files: the files by name.
        most_bytes: largest file that the server accepts; the uploads of larger ones report it, and they cost nothing.

    Returns:
        The field `documents` of POST /v1/estimates, or None without such a file; and the number of other files.
    """
    accepted = [path for path in files.values() if _size(path) <= most_bytes]
    texts = [path for path in accepted if kinds.is_text_file(path.name)]
    pages = sum(path.name.lower().endswith(PICTURES) for path in accepted)
    estimated = len(texts) + pages
    if not estimated:
        return None, len(accepted)
    generator = random.Random(0)  # noqa: S311 - the same sample each time
    sample: list[Json] = []
    room = _SAMPLE_BYTES
    for path in generator.sample(texts, min(_SAMPLE_FILES, len(texts))):
        size = _size(path)
        if 0 < size <= room and (text := _text(path)):
            room -= size
            sample.append({"text": text})
    size_bytes = sum(map(_size, texts))
    return {"count": estimated, "bytes": size_bytes, "sample": sample, "pages": pages}, len(accepted) - estimated


def _size(path: Path) -> int:
    """Return the size of a file; 0 if it is deleted, which its upload will report."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _text(path: Path) -> str | None:
    """Return the text of a file as the parser reads it; None if it cannot be read, which its upload will report."""
    from shared.ingest.parse.text import decode

    try:
        return decode(path.read_bytes())
    except (OSError, Unreadable):
        return None


def of_corpus(survey: CorpusSurvey) -> Json:
    """Describe a corpus, as the field `documents` of POST /v1/estimates."""
    sample = []
    for document in survey.sample:
        questions = document.get("questions")
        described = {"text": document["text"], "title": document.get("title")}
        sample.append(described | ({} if questions is None else {"questions": len(questions)}))
    size = {} if survey.size_bytes is None else {"bytes": survey.size_bytes}
    return {"count": max(1, survey.rows), "sample": sample} | size


def is_confirmed(client: CliClient, console: Console, body: Json, question: str, *, yes: bool) -> bool:
    """Print the cost of a load or a rebuild, ask for confirmation of a large one, and return whether to start it.

    Without a terminal, as in a script, no confirmation is needed. The server keeps a confirmed estimate, so that the
    status compares it with the actual cost.

    Args:
        client: client of the server.
        console: console for the estimate.
        body: body of POST /v1/estimates.
        question: text of the question.
        yes: whether to skip the question.
    """
    import typer

    estimate = client.estimate(body)
    output.say(console, output.estimate_line(estimate))
    ask = estimate["calls"] > CALLS_TO_ASK and not yes and console.is_terminal and sys.stdin.isatty()
    if ask and not typer.confirm(question):
        return False
    client.estimate(body | {"store": True})
    return True
