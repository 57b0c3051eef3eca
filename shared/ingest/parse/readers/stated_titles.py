"""Titles that a file states in its properties."""

from __future__ import annotations

import re

from shared.ingest.parse.readers.markdown import one_line

_MADE_BY_PROGRAM = re.compile(
    r"(?i)(microsoft )?"
    r"(powerpoint[- ]?(presentation|präsentation|presentatie|演示文稿|プレゼンテーション|프레젠테이션|簡報|)"
    r"|(présentation|presentación de|presentazione( standard)? di|apresentação do|prezentace aplikace"
    r"|prezentacja programu|презентация) powerpoint"
    r"|(slide|folie|diapositive|diapositiva|dia|snímek|slajd|bild|presentation|präsentation|présentation|document"
    r"|untitled|unbenannt|sans nom|sin título|no slide title|kein folientitel)[ \d.]*)"
    r"|microsoft powerpoint - .*"
)


def stated_title(text: str | None) -> str | None:
    """Return a title in one line; None if it is empty, or made up by a program, such as `PowerPoint Presentation`."""
    title = one_line(text or "")
    return title if title and not _MADE_BY_PROGRAM.fullmatch(title) else None
