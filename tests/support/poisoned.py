"""A real worker that a file or chunk with a given text kills: `python -m tests.support.poisoned ROLE TEXT`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import shared.ingest.generate.stage
from shared.domain.corpus.chunks import ChunkContent
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from workers.process import main


def poison(text: str) -> None:
    """Make this process kill itself when it parses a file or generates questions of a chunk with the text."""
    parse, generate_questions = ParsingSandbox.parse, shared.ingest.generate.stage.generate_questions

    async def parse_or_die(sandbox: ParsingSandbox, path: Path, **named: Any) -> Any:
        if text in path.read_text(errors="replace"):
            os.kill(os.getpid(), signal.SIGKILL)
        return await parse(sandbox, path, **named)

    async def generate_or_die(model: Any, content: ChunkContent, *others: Any) -> Any:
        if text in content.text:
            os.kill(os.getpid(), signal.SIGKILL)
        return await generate_questions(model, content, *others)

    ParsingSandbox.parse = parse_or_die  # type: ignore[method-assign]
    shared.ingest.generate.stage.generate_questions = generate_or_die


if __name__ == "__main__":
    poison(sys.argv[2])
    main(sys.argv[1])
