"""The cache of an evaluation in a file: vectors by model and text, generated questions, and answers."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import orjson

from shared.domain.spending.usage import Usage
from shared.domain.vectors import Vectors
from shared.ingest.generate.types import GeneratedQuestions
from shared.providers.embedding import Input
from shared.query.answer import Answer, Support

_TABLES = """
CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS questions (key BLOB PRIMARY KEY, questions BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer BLOB NOT NULL) WITHOUT ROWID;
"""


class EvaluationCache:
    """The file, for one process at a time; saved values outlive the process."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path)
        self._database.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._database.close()

    def load_vectors(self, model: str, texts: Iterable[Input]) -> dict[Input, Vectors]:
        """Return the vectors of texts by text, each of shape `(dimensions,)`; texts that were not saved are missing."""
        vectors = {}
        with closing(self._database.cursor()) as cursor:
            for text in texts:
                row = cursor.execute("SELECT vector FROM vectors WHERE key = ?", (_key(model, text),)).fetchone()
                if row is not None:
                    vectors[text] = np.frombuffer(row[0], dtype="<f4")
        return vectors

    def missing_vectors(self, model: str, texts: Iterable[Input]) -> list[Input]:
        """Return the distinct texts without a saved vector, in order."""
        with closing(self._database.cursor()) as cursor:
            sql = "SELECT 1 FROM vectors WHERE key = ?"
            return [t for t in dict.fromkeys(texts) if cursor.execute(sql, (_key(model, t),)).fetchone() is None]

    def save_vectors(self, model: str, vectors: Mapping[Input, Vectors]) -> None:
        """Save vectors by text, each of shape `(dimensions,)`."""
        rows = [(_key(model, text), vector.astype("<f4").tobytes()) for text, vector in vectors.items()]
        with self._database:
            self._database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def load_questions(self, key: bytes) -> GeneratedQuestions | None:
        """Return the questions that a model wrote under this content key; None if it was not called."""
        row = self._database.execute("SELECT questions FROM questions WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        saved = orjson.loads(row[0])
        return GeneratedQuestions(
            tuple(saved["questions"]), Usage(saved["prompt_tokens"], saved["completion_tokens"]), saved["calls"]
        )

    def save_questions(self, key: bytes, generated: GeneratedQuestions) -> None:
        row = {
            "questions": generated.questions,
            "prompt_tokens": generated.usage.prompt_tokens,
            "completion_tokens": generated.usage.completion_tokens,
            "calls": generated.calls,
        }
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO questions VALUES (?, ?)", (key, orjson.dumps(row)))

    def load_answer(self, key: bytes) -> Answer | None:
        row = self._database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        saved = orjson.loads(row[0])
        sequences: dict[str, Any] = {name: tuple(saved[name]) for name in ("cited", "removed_citations")}
        sequences["support"] = tuple(Support(**each) for each in saved.get("support", ()))
        return Answer(**saved | sequences | {"usage": Usage(**saved["usage"])})

    def save_answer(self, key: bytes, answer: Answer) -> None:
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, orjson.dumps(answer)))


def _key(model: str, text: str) -> bytes:
    return hashlib.sha256(orjson.dumps([model, text])).digest()
