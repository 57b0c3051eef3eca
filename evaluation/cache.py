"""What an evaluation has paid for, kept in a file: vectors by model and text, written questions and answers."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import orjson

from shared.domain.usage import Usage
from shared.domain.vectors import Vectors
from shared.ingest.generate import GeneratedQuestions
from shared.query.answer import Answer

_TABLES = """
CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS questions (key BLOB PRIMARY KEY, asked BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer BLOB NOT NULL) WITHOUT ROWID;
"""


class EvaluationCache:
    """The file, for one process; what a method has kept outlives the process."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path)
        self._database.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._database.close()

    def vectors(self, model: str, texts: Iterable[str]) -> dict[str, Vectors]:
        """The vectors of texts by text; those that are not kept are missing."""
        found = {}
        with closing(self._database.cursor()) as cursor:
            for text in texts:
                row = cursor.execute("SELECT vector FROM vectors WHERE key = ?", (_key(model, text),)).fetchone()
                if row is not None:
                    found[text] = np.frombuffer(row[0], dtype="<f4")
        return found

    def missing(self, model: str, texts: Iterable[str]) -> list[str]:
        """The distinct texts that have no vector yet, in order."""
        with closing(self._database.cursor()) as cursor:
            sql = "SELECT 1 FROM vectors WHERE key = ?"
            return [t for t in dict.fromkeys(texts) if cursor.execute(sql, (_key(model, t),)).fetchone() is None]

    def keep_vectors(self, model: str, vectors: Mapping[str, Vectors]) -> None:
        rows = [(_key(model, text), vector.astype("<f4").tobytes()) for text, vector in vectors.items()]
        with self._database:
            self._database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def asked(self, key: bytes) -> GeneratedQuestions | None:
        """What a model wrote under this content key, if it was asked before."""
        row = self._database.execute("SELECT asked FROM questions WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        kept = orjson.loads(row[0])
        return GeneratedQuestions(
            tuple(kept["questions"]), Usage(kept["prompt_tokens"], kept["completion_tokens"]), kept["calls"]
        )

    def keep_asked(self, key: bytes, asked: GeneratedQuestions) -> None:
        kept = {
            "questions": asked.questions,
            "prompt_tokens": asked.usage.prompt_tokens,
            "completion_tokens": asked.usage.completion_tokens,
            "calls": asked.calls,
        }
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO questions VALUES (?, ?)", (key, orjson.dumps(kept)))

    def answer(self, key: bytes) -> Answer | None:
        row = self._database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        kept = orjson.loads(row[0])
        numbers = {name: tuple(kept[name]) for name in ("cited", "removed_citations")}
        return Answer(**kept | numbers | {"usage": Usage(**kept["usage"])})

    def keep_answer(self, key: bytes, answer: Answer) -> None:
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, orjson.dumps(answer)))


def _key(model: str, text: str) -> bytes:
    return hashlib.sha256(orjson.dumps([model, text])).digest()
