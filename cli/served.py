"""Evaluation of a collection by its server, followed until it has ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from foreask_client.models import Evaluation, Json

from cli.client import Client
from evaluation import LabelledSet, Strategy
from evaluation.labelled import LabelField
from evaluation.services import ProgressReport
from shared.domain.errors import ForeaskError, InvalidInput, Unavailable

_MOST_QUESTIONS = 1_000
_LOOK_SECONDS = 0.5
_MOST_SECONDS = 10.0  # between two looks
_PATIENCE_SECONDS = 120.0  # with a server that does not answer


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

    Who ends this early stops the run; a server that does not answer for a while does not.

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
        while run.state == "running":
            time.sleep(_LOOK_SECONDS)
            run = _looked_at(client, labelled.name, run.id)
            if run.strategy:
                progress(f"querying {run.strategy}", run.done, run.total)
    except KeyboardInterrupt:
        _stop(client, labelled.name, run.id)
        raise
    if run.results is None:
        raise Unavailable(run.error or "The server that evaluated has ended: try again.", component="api")
    return {**run.results, "notes": [*labelled.notes, *run.results["notes"]]}


def _looked_at(client: Client, collection: str, run: str) -> Evaluation:
    """Return the run as it is; where the server cannot say so now, ask again: the run goes on meanwhile."""
    began, pause = time.monotonic(), _LOOK_SECONDS
    while True:
        try:
            return client.evaluation(collection, run)
        except Unavailable as error:
            if time.monotonic() - began > _PATIENCE_SECONDS:
                raise Unavailable(f"{error.message} The evaluation {run} may go on there.", component="api") from error
            asked = error.retry_after.total_seconds() if error.retry_after else 0.0
            pause = min(_MOST_SECONDS, max(2 * pause, asked))
            time.sleep(pause)


def _stop(client: Client, collection: str, run: str) -> None:
    """Delete a run that is under way; one that has ended meanwhile has cost something, and stays."""
    with suppress(ForeaskError):
        if client.evaluation(collection, run).state == "running":
            client.delete_evaluation(collection, run)
