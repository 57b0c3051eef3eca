"""Rows of a chunk's questions with the results of the filter."""

from __future__ import annotations

from typing import Any

from shared.ledger.postgres.connections import Row

# The questions of `chunk_questions q`, in the order of its `reasons`.
QUESTIONS = "coalesce(q.questions, (SELECT k.questions FROM completions k WHERE k.content_key = q.content_key))"


def filtered_questions(row: Row) -> list[dict[str, Any]]:
    """Return the questions of a chunk as `{"text", "passed", "reason"}`, including dropped ones."""
    results = zip(row["questions"], row["reasons"], strict=True)
    return [{"text": question, "passed": reason is None, "reason": reason} for question, reason in results]


def passed_questions(row: Row) -> list[str]:
    return [question["text"] for question in filtered_questions(row) if question["passed"]]
