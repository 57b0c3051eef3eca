"""A labelled set in the form of BEIR: passages, users' questions, and labels that assign passages to questions.

corpus.jsonl {"_id", "title", "text"}, a passage a line
queries.jsonl     {"_id", "text"}
qrels.tsv         query-id, corpus-id, score under a header line; also as qrels/test.tsv
generated.jsonl   {"passage_id", "questions"}, if questions exist for passages
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from shared.domain.errors import InvalidInput

_NAMED = 3  # ids in a note
_QRELS = ("qrels.tsv", "qrels/test.tsv")
_COLUMNS = 3

LabelField = Literal["chunk_ids", "external_ids"]


@dataclass(frozen=True, slots=True)
class LabelledPassage:
    id: str
    title: str | None
    text: str


@dataclass(frozen=True, slots=True)
class LabelledCorpus:
    """Passages, queries, and the passages that answer each query.

    Args:
        queries: the queries with a relevant passage, by id.
        judgements: for each of these queries, the scores of its passages; a score above 0 is relevant.
        questions: questions written for passages, by passage id; None if the set has no such file.
        notes: sentences about skipped rows.
        answers: texts that answer a query, by its id, if the set contains them.
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
class _QueryRow:
    id: str
    text: str
    answers: tuple[str, ...]
    answerable: bool


def read_set(folder: Path) -> LabelledCorpus:
    """Read a set from its folder.

    Raises:
        InvalidInput: a file is missing, or one of its lines is malformed; the message has its number.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder with corpus.jsonl, queries.jsonl and qrels.tsv.", field="folder")
    passages = _passages(folder / "corpus.jsonl")
    passage_ids = {passage.id for passage in passages}
    rows = _queries(folder / "queries.jsonl")
    judgements, judgement_notes = _judgements(_qrels_file(folder), passage_ids, {row.id for row in rows})
    if not judgements:
        raise InvalidInput(f"No query of {folder} has a relevant passage.", field="folder")
    questions, question_notes = _questions(folder / "generated.jsonl", passage_ids)
    judged, unjudged = _split(rows, judgements)
    return LabelledCorpus(
        name=folder.resolve().name,
        passages=passages,
        queries={row.id: row.text for row in judged},
        judgements=judgements,
        questions=questions,
        notes=(*judgement_notes, *_unjudged_notes(unjudged), *question_notes),
        answers={row.id: row.answers for row in judged if row.answers},
        unanswerable={row.id: row.text for row in unjudged if not row.answerable},
    )


def _split(
    rows: Sequence[_QueryRow], judgements: Mapping[str, Mapping[str, int]]
) -> tuple[list[_QueryRow], list[_QueryRow]]:
    """Return the queries with a relevant passage, and the others."""
    return [row for row in rows if row.id in judgements], [row for row in rows if row.id not in judgements]


def _unjudged_notes(rows: Iterable[_QueryRow]) -> list[str]:
    ids = [row.id for row in rows if row.answerable]
    return [f"Skipped {_some('quer', ids, 'y', 'ies')} without a relevant passage."] if ids else []


def read_questions(path: Path, name: str) -> tuple[LabelledCorpus, LabelField]:
    """Read labelled questions for a collection, in the format of `foreask calibrate`.

    A line is `{"question", "external_ids": [...]}` or `{"question", "chunk_ids": [...]}`; the text of a question is its
    id.

    Returns:
        The set, without passages, and the kind of ids in its labels.

    Raises:
        InvalidInput: the file is missing, or one of its lines is malformed.
    """
    judgements: dict[str, dict[str, int]] = defaultdict(dict)
    fields: dict[LabelField, None] = {}
    for number, row in _rows(path):
        label_field: LabelField = "chunk_ids" if "chunk_ids" in row else "external_ids"
        fields[label_field] = None
        if len(fields) > 1:
            raise _malformed(path, number, "names chunks although others name documents, or the reverse")
        question = _text(path, number, row, "question").strip()
        judgements[question] |= dict.fromkeys(_texts(path, number, row, label_field), 1)
    if not judgements:
        raise InvalidInput(f"{path} is empty.", field="questions")
    return LabelledCorpus(name, (), {question: question for question in judgements}, judgements, None), next(
        iter(fields)
    )


def _passages(path: Path) -> tuple[LabelledPassage, ...]:
    passages: dict[str, LabelledPassage] = {}
    for number, row in _rows(path):
        name, title, text = _text(path, number, row, "_id"), str(row.get("title") or "").strip(), row.get("text")
        if not isinstance(text, str) or not (text.strip() or title):
            raise _malformed(path, number, "has no text")
        if name in passages:
            raise _malformed(path, number, f"repeats the _id {name}")
        passages[name] = LabelledPassage(name, title or None, text if text.strip() else title)
    if not passages:
        raise InvalidInput(f"{path} is empty.", field="folder")
    return tuple(passages.values())


def _queries(path: Path) -> list[_QueryRow]:
    queries: dict[str, _QueryRow] = {}
    for number, row in _rows(path):
        name = _text(path, number, row, "_id")
        if name in queries:
            raise _malformed(path, number, f"repeats the _id {name}")
        answers = _texts(path, number, row, "answers", least=0) if "answers" in row else []
        queries[name] = _QueryRow(
            name, _text(path, number, row, "text"), tuple(answers), answerable=row.get("answerable") is not False
        )
    return list(queries.values())


def _qrels_file(folder: Path) -> Path:
    return next((folder / name for name in _QRELS if (folder / name).is_file()), folder / _QRELS[0])


def _judgements(path: Path, passages: set[str], queries: set[str]) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Return the labels of queries with a relevant passage, and notes about skipped labels."""
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
        notes.append(f"Skipped {_some('judgement', no_passage, '', 's')} of passages that are not in the corpus.")
    if no_query:
        notes.append(f"Skipped {_some('judgement', no_query, '', 's')} of queries that are not in queries.jsonl.")
    return {query: scores for query, scores in judgements.items() if max(scores.values()) > 0}, notes


def _qrels(path: Path) -> Iterator[tuple[str, str, int]]:
    for number, line in _lines(path):
        columns = line.decode(errors="replace").rstrip("\r\n").split("\t")
        if number == 1 and not columns[-1].lstrip("-").isdigit():
            continue  # the header
        if len(columns) != _COLUMNS or not columns[2].lstrip("-").isdigit():
            raise _malformed(path, number, "is not query-id, corpus-id and an integer, separated by tabs")
        yield columns[0], columns[1], int(columns[2])


def _questions(path: Path, passages: set[str]) -> tuple[dict[str, tuple[str, ...]] | None, list[str]]:
    if not path.exists():
        return None, []
    questions: dict[str, tuple[str, ...]] = {}
    unknown = []
    for number, row in _rows(path):
        name, texts = _text(path, number, row, "passage_id"), _texts(path, number, row, "questions", least=0)
        if name in passages:
            questions[name] = questions.get(name, ()) + tuple(q.strip() for q in texts if q.strip())
        else:
            unknown.append(name)
    note = f"Skipped questions of {_some('passage', unknown, '', 's')} missing in the corpus."
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


def _malformed(path: Path, number: int, fault: str) -> InvalidInput:
    return InvalidInput(f"{path}, line {number} {fault}.", field="folder")


def _some(noun: str, names: list[str], one: str, many: str) -> str:
    """Describe items by their number and the first of them: `4 judgements (a, b, c, …)`."""
    distinct = list(dict.fromkeys(names))
    named = ", ".join(distinct[:_NAMED]) + (", …" if len(distinct) > _NAMED else "")
    return f"{len(names):,} {noun}{one if len(names) == 1 else many} ({named})"
