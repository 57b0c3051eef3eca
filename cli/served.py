"""Evaluation of a collection as it stands on a server, through the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from statistics import median

from cli.client import Client, Json
from evaluation import LabelledSet, Strategy
from evaluation.labelled import Answers
from evaluation.metrics import CUTOFF, scores
from evaluation.results import EvaluatedSet, StrategyResult, results
from shared.domain.errors import InvalidInput, NotFound

_ALL_TOKENS = 1_000_000  # the most that a query may take
_NAME_OF: Mapping[Answers, str] = {"chunk_ids": "chunk_id", "external_ids": "external_id"}

Progress = Callable[[str, int, int], None]


def evaluate(
    client: Client,
    labelled: LabelledSet,
    kind: Answers,
    strategies: Sequence[Strategy],
    *,
    baseline: str,
    progress: Progress,
) -> Json:
    """Ask every question of a collection with each strategy that its points allow.

    Args:
        client: the server.
        labelled: the questions, named after the collection.
        kind: what the judgements name.
        strategies: what is compared; those that need points of their own are left out.
        baseline: the one that the others are compared with.
        progress: told what is being done.

    Raises:
        NotFound: there is no such collection.
        InvalidInput: no strategy is left.
    """
    known = next((one for one in client.collections() if one["name"] == labelled.name), None)
    if known is None:
        raise NotFound(f"There is no collection {labelled.name}.")
    possible = [strategy for strategy in strategies if strategy.layout == "chunks"]
    why = "it needs points of its own, which only a folder is given."
    left_out = [{"strategy": s.name, "why": why} for s in strategies if s not in possible]
    if not possible:
        raise InvalidInput(f"{left_out[0]['strategy']}: {why}", field="strategies")
    measured = [_measure(client, labelled, kind, strategy, progress) for strategy in possible]
    subject = EvaluatedSet(labelled.name, known["embedding_model"], len(labelled.queries))
    return results(
        subject,
        measured,
        baseline,
        left_out=left_out,
        notes=[*labelled.notes, *(note for one in measured for note in one.notes)],
    )


def _measure(
    client: Client,
    labelled: LabelledSet,
    kind: Answers,
    strategy: Strategy,
    progress: Progress,
) -> StrategyResult:
    body = {
        "collection": labelled.name,
        "top_k": CUTOFF,
        "max_tokens": _ALL_TOKENS,
        "channels": strategy.channels,
        "fusion": strategy.fusion,
        "rewrite": asdict(strategy.rewriting) if strategy.rewriting else None,
        "rerank": strategy.rerank,
        "record": False,  # no user asks it
    }
    rankings: dict[str, list[str]] = {}
    milliseconds = []
    skipped = Counter[str]()
    for query, question in labelled.queries.items():
        reply = client.retrieve(body | {"question": question})
        # A document stands where the first of its chunks stands.
        rankings[query] = list(dict.fromkeys(name for chunk in reply["chunks"] for name in _names(chunk, kind)))
        skipped.update(f"{stage}: {reason}" for stage, reason in reply["metadata"]["skipped"].items())
        took = reply["metadata"]["milliseconds"]
        milliseconds.append(took["total"] - took.get("embed", 0.0))
        progress(f"querying {strategy.name}", len(rankings), len(labelled.queries))
    notes = tuple(
        f"{strategy.name}: {n} of {len(rankings)} queries were done without {why}" for why, n in skipped.items()
    )
    return StrategyResult(strategy, scores(labelled.judgements, rankings), median(milliseconds), notes=notes)


def _names(chunk: Json, kind: Answers) -> list[str]:
    """What a chunk counts as; a text that stands in several documents is found in each."""
    return [chunk[_NAME_OF[kind]], *(chunk["also_in"] if kind == "external_ids" else [])]
