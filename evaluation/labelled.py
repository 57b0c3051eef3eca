"""A labelled set in the form of BEIR: passages, questions of users, and which passage answers which question.

corpus.jsonl      {"_id", "title", "text"}, a passage a line
queries.jsonl     {"_id", "text"}
qrels.tsv         query-id, corpus-id, score under a header line; also as qrels/test.tsv
generated.jsonl   {"passage_id", "questions"}, where questions have been written for passages already
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from shared.domain.errors import InvalidInput

_NAMED = 3  # of what is left out, so many are named
_QRELS = ("qrels.tsv", "qrels/test.tsv")
_COLUMNS = 3

Answers = Literal["chunk_ids", "external_ids"]


@dataclass(frozen=True, slots=True)
class LabelledPassage:
    id: str
    title: str | None
    text: str


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """What is searched, what is asked, and what should be found.

    Args:
        queries: those that have a passage to be found, by id.
        judgements: for each of these queries the scores of its passages; above 0 answers it.
        questions: those written for passages, by the passage's id; None where the set has no file of them.
        notes: sentences about what was left out.
        answers: texts that answer a query, by its id, where they are known.
        unanswerable: questions that no passage answers, by id.
    """

    name: str
    passages: tuple[LabelledPassage, ...]
    queries: Mapping[str, str]
    judgements: Mapping[str, Mapping[str, int]]
    questions: Mapping[str, tuple[str, ...]] | None
    notes: tuple[str, ...] = ()
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unanswerable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _LabelledQuery:
    id: str
    text: str
    answers: tuple[str, ...]
    answerable: bool


def read(folder: Path) -> LabelledSet:
    """Read a set from its folder.

    Raises:
        InvalidInput: a file is missing, or one of its lines is malformed; the message has its number.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder with corpus.jsonl, queries.jsonl and qrels.tsv.", field="folder")
    passages = _passages(folder / "corpus.jsonl")
    asked = _queries(folder / "queries.jsonl")
    texts = {query.id: query.text for query in asked}
    judgements, notes = _judgements(_qrels_file(folder), {passage.id for passage in passages}, texts)
    questions, more_notes = _questions(folder / "generated.jsonl", {passage.id for passage in passages})
    unjudged = [query.id for query in asked if query.id not in judgements and query.answerable]
    if unjudged:
        notes.append(f"{_some('quer', unjudged, 'y', 'ies')} without a passage to be found left out.")
    if not judgements:
        raise InvalidInput(f"No query of {folder} has a passage to be found.", field="folder")
    return LabelledSet(
        name=folder.resolve().name,
        passages=passages,
        queries={query.id: query.text for query in asked if query.id in judgements},
        judgements=judgements,
        questions=questions,
        notes=tuple(notes + more_notes),
        answers={query.id: query.answers for query in asked if query.id in judgements and query.answers},
        unanswerable={q.id: q.text for q in asked if q.id not in judgements and not q.answerable},
    )


def read_questions(path: Path, name: str) -> tuple[LabelledSet, Answers]:
    """Read questions to a collection, in the form that calibration takes.

    A line is `{"question", "external_ids": [...]}` or `{"question", "chunk_ids": [...]}`; a question is its own id.

    Returns:
        The set, without passages, and which of the two its judgements name.

    Raises:
        InvalidInput: the file is missing, or one of its lines is malformed.
    """
    judgements: dict[str, dict[str, int]] = defaultdict(dict)
    kinds: dict[Answers, None] = {}
    for number, row in _rows(path):
        kind: Answers = "chunk_ids" if "chunk_ids" in row else "external_ids"
        kinds[kind] = None
        if len(kinds) > 1:
            raise _malformed(path, number, "names chunks where others name documents, or the other way round")
        question = _text(path, number, row, "question").strip()
        judgements[question] |= dict.fromkeys(_texts(path, number, row, kind), 1)
    if not judgements:
        raise InvalidInput(f"{path} is empty.", field="questions")
    return LabelledSet(name, (), {question: question for question in judgements}, judgements, None), next(iter(kinds))


def _passages(path: Path) -> tuple[LabelledPassage, ...]:
    passages: dict[str, LabelledPassage] = {}
    for number, row in _rows(path):
        name, title, text = _text(path, number, row, "_id"), str(row.get("title") or "").strip(), row.get("text")
        if not isinstance(text, str) or not (text.strip() or title):
            raise _malformed(path, number, "has no text")
        if name in passages:
            raise _malformed(path, number, f"has the _id {name} again")
        passages[name] = LabelledPassage(name, title or None, text if text.strip() else title)
    if not passages:
        raise InvalidInput(f"{path} is empty.", field="folder")
    return tuple(passages.values())


def _queries(path: Path) -> list[_LabelledQuery]:
    queries: dict[str, _LabelledQuery] = {}
    for number, row in _rows(path):
        name = _text(path, number, row, "_id")
        if name in queries:
            raise _malformed(path, number, f"has the _id {name} again")
        answers = _texts(path, number, row, "answers", least=0) if "answers" in row else []
        queries[name] = _LabelledQuery(
            name, _text(path, number, row, "text"), tuple(answers), answerable=row.get("answerable") is not False
        )
    return list(queries.values())


def _qrels_file(folder: Path) -> Path:
    return next((folder / name for name in _QRELS if (folder / name).is_file()), folder / _QRELS[0])


def _judgements(
    path: Path, passages: set[str], queries: Mapping[str, str]
) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Judgements of the queries that have a passage to be found, and what was left out."""
    judgements: dict[str, dict[str, int]] = defaultdict(dict)
    no_passage, no_query = list[str](), list[str]()
    for query, passage, score in _qrels(path):
        if query not in queries:
            no_query.append(query)
        elif passage not in passages:
            no_passage.append(passage)
        else:
            judgements[query][passage] = score
    notes = []
    if no_passage:
        notes.append(f"{_some('judgement', no_passage, '', 's')} of passages that the corpus does not have left out.")
    if no_query:
        notes.append(f"{_some('judgement', no_query, '', 's')} of queries that queries.jsonl does not have left out.")
    return {query: own for query, own in judgements.items() if max(own.values()) > 0}, notes


def _qrels(path: Path) -> Iterator[tuple[str, str, int]]:
    for number, line in _lines(path):
        columns = line.decode(errors="replace").rstrip("\r\n").split("\t")
        if number == 1 and not columns[-1].lstrip("-").isdigit():
            continue  # the header
        if len(columns) != _COLUMNS or not columns[2].lstrip("-").isdigit():
            raise _malformed(path, number, "is not query-id, corpus-id and a whole number, separated by tabs")
        yield columns[0], columns[1], int(columns[2])


def _questions(path: Path, passages: set[str]) -> tuple[dict[str, tuple[str, ...]] | None, list[str]]:
    if not path.exists():
        return None, []
    questions: dict[str, tuple[str, ...]] = {}
    unknown = []
    for number, row in _rows(path):
        name, own = _text(path, number, row, "passage_id"), _texts(path, number, row, "questions", least=0)
        if name in passages:
            questions[name] = questions.get(name, ()) + tuple(q.strip() for q in own if q.strip())
        else:
            unknown.append(name)
    note = f"Questions of {_some('passage', unknown, '', 's')} that the corpus does not have left out."
    return questions, [note] if unknown else []


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in _lines(path):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise _malformed(path, number, f"is not JSON ({error})") from None
        if not isinstance(row, dict):
            raise _malformed(path, number, "is not a JSON object")
        yield number, row


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    if not path.is_file():
        raise InvalidInput(f"{path} is missing.", field="folder")
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line


def _text(path: Path, number: int, row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if isinstance(value, int) and name in ("_id", "passage_id"):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise _malformed(path, number, f"has no {name}")
    return value


def _texts(path: Path, number: int, row: Mapping[str, Any], name: str, *, least: int = 1) -> list[str]:
    values = row.get(name)
    if not isinstance(values, list) or len(values) < least or not all(isinstance(value, str) for value in values):
        raise _malformed(path, number, f"has no list of {name}")
    return values


def _malformed(path: Path, number: int, what: str) -> InvalidInput:
    return InvalidInput(f"{path}, line {number} {what}.", field="folder")


def _some(noun: str, names: list[str], one: str, many: str) -> str:
    """Count things and name the first of them: `4 judgements (a, b, c, …)`."""
    distinct = list(dict.fromkeys(names))
    named = ", ".join(distinct[:_NAMED]) + (", …" if len(distinct) > _NAMED else "")
    return f"{len(names):,} {noun}{one if len(names) == 1 else many} ({named})"
