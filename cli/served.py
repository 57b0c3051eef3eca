"""Evaluation of a collection as it stands on a server, through the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median

from cli.client import Client, Json
from evaluation import LabelledSet, Strategy
from evaluation.labelled import LabelField
from evaluation.metrics import CUTOFF, scores
from evaluation.results import EvaluatedSet, StrategyResult, build_results
from evaluation.services import ProgressReport
from shared.domain.errors import InvalidInput, NotFound

_ALL_TOKENS = 100_000  # the most that a query may take, where the server sets no other bound
_NAME_OF: Mapping[LabelField, str] = {"chunk_ids": "chunk_id", "external_ids": "external_id"}


def evaluate(
    client: Client,
    labelled: LabelledSet,
    label_field: LabelField,
    strategies: Sequence[Strategy],
    *,
    baseline: str,
    progress: ProgressReport,
) -> Json:
    """Search a collection for every question with each strategy that its points allow.

    Args:
        client: the server.
        labelled: the questions, named after the collection.
        label_field: which ids the judgements name.
        strategies: to compare; strategies that need other points are left out.
        baseline: the strategy that the others are compared with.
        progress: called after every query.

    Raises:
        NotFound: there is no such collection.
        InvalidInput: no strategy is left.
    """
    collection = next((item for item in client.collections() if item["name"] == labelled.name), None)
    if collection is None:
        raise NotFound(f"There is no collection {labelled.name}.")
    possible = [strategy for strategy in strategies if strategy.layout == "chunks"]
    why = "it needs points of its own, which only a folder is given."
    left_out = [{"strategy": s.name, "why": why} for s in strategies if s not in possible]
    if not possible:
        raise InvalidInput(f"{left_out[0]['strategy']}: {why}", field="strategies")
    measured = [_measure(client, labelled, label_field, strategy, progress) for strategy in possible]
    subject = EvaluatedSet(labelled.name, collection["embedding_model"], len(labelled.queries))
    return build_results(
        subject,
        measured,
        baseline,
        left_out=left_out,
        notes=[*labelled.notes, *(note for result in measured for note in result.notes)],
    )


def _measure(
    client: Client,
    labelled: LabelledSet,
    label_field: LabelField,
    strategy: Strategy,
    progress: ProgressReport,
) -> StrategyResult:
    body = {
        "collection": labelled.name,
        "top_k": CUTOFF,
        "max_tokens": _ALL_TOKENS,
        "channels": strategy.channels,
        "fusion": strategy.fusion,
        "rewrite": asdict(strategy.rewriting) if strategy.rewriting else None,
        "rerank": strategy.rerank,
        "record": False,  # the query log is for users
    }
    rankings: dict[str, list[str]] = {}
    milliseconds = []
    skipped = Counter[str]()
    for query, question in labelled.queries.items():
        reply = client.retrieve(body | {"question": question})
        # A document has the rank of its first chunk.
        rankings[query] = list(dict.fromkeys(name for chunk in reply["chunks"] for name in _names(chunk, label_field)))
        skipped.update(f"{stage}: {reason}" for stage, reason in reply["metadata"]["skipped"].items())
        took = reply["metadata"]["milliseconds"]
        milliseconds.append(took["total"] - took.get("embed", 0.0))
        progress(f"querying {strategy.name}", len(rankings), len(labelled.queries))
    notes = tuple(
        f"{strategy.name}: {n} of {len(rankings)} queries were done without {why}" for why, n in skipped.items()
    )
    return StrategyResult(strategy, scores(labelled.judgements, rankings), median(milliseconds), notes=notes)


def _names(chunk: Json, label_field: LabelField) -> list[str]:
    """The ids that a chunk counts for; a text in several documents counts for each of them."""
    return [chunk[_NAME_OF[label_field]], *(chunk["also_in"] if label_field == "external_ids" else [])]
