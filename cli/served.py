"""Evaluation of a collection by its server, followed until it has ended."""

from __future__ import annotations

import time
from collections.abc import Sequence

from cli.client import Client, Json
from evaluation import LabelledSet, Strategy
from evaluation.labelled import LabelField
from evaluation.services import ProgressReport
from shared.domain.errors import InvalidInput, Unavailable

_MOST_QUESTIONS = 1_000
_LOOK_SECONDS = 0.5


def evaluate(
    client: Client,
    labelled: LabelledSet,
    label_field: LabelField,
    strategies: Sequence[Strategy],
    *,
    baseline: str,
    progress: ProgressReport,
) -> Json:
    """Have a collection searched for every question with each strategy that its points allow.

    Who ends this early stops the run.

    Args:
        client: the server.
        labelled: the questions, named after the collection.
        label_field: which ids the judgements name.
        strategies: to compare; strategies that need other points are left out.
        baseline: the strategy that the others are compared with.
        progress: called as the run goes on.

    Returns:
        The content of `results.json`.

    Raises:
        InvalidInput: there are too many questions, or no strategy is left.
        NotFound: there is no such collection.
        Unavailable: the run failed, or its server ended.
    """
    if len(labelled.queries) > _MOST_QUESTIONS:
        raise InvalidInput(
            f"{len(labelled.queries):,} questions are more than {_MOST_QUESTIONS:,}, which one run takes:"
            " take a sample of them.",
            field="questions",
        )
    judged = labelled.judgements
    questions = [{"question": text, label_field: list(judged[query])} for query, text in labelled.queries.items()]
    names = [strategy.name for strategy in strategies]
    run = client.evaluate(labelled.name, questions=questions, strategies=names, baseline=baseline)
    try:
        while run["state"] == "running":
            time.sleep(_LOOK_SECONDS)
            run = client.evaluation(labelled.name, run["id"])
            if run["strategy"]:
                progress(f"querying {run['strategy']}", run["done"], run["total"])
    except BaseException:
        client.delete_evaluation(labelled.name, run["id"])
        raise
    if run["results"] is None:
        raise Unavailable(run["error"] or "The server that evaluated has ended: try again.", component="api")
    results: Json = run["results"]
    return {**results, "notes": [*labelled.notes, *results["notes"]]}
