"""Evaluation of a collection on its server: start it and wait for its result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from foreask_client.models import Evaluation, Json

from cli.client import CliClient
from features.evaluation.strategies import Strategy
from foreask_evaluation.labelled import LabelField, LabelledCorpus
from foreask_evaluation.services import ProgressReport
from shared.domain.errors import ForeaskError, InvalidInput, Unavailable

_OPEN = ("queued", "running")
_MOST_QUESTIONS = 1_000
_POLL_SECONDS = 0.5
_LONGEST_POLL_SECONDS = 10.0
_UNAVAILABLE_SECONDS = 120.0  # longest time without a reply of the server


def evaluate(
    client: CliClient,
    labelled: LabelledCorpus,
    label_field: LabelField,
    strategies: Sequence[Strategy],
    *,
    baseline: str,
    progress: ProgressReport,
) -> Json:
    """Query a collection with every question and each strategy that its points allow.

    Ctrl-C stops the run. A server that is unavailable for up to two minutes does not.

    Args:
        client: client of the server.
        labelled: labelled questions; the name of the set is the collection's name.
        label_field: kind of the ids in the labels.
        strategies: strategies to compare; those with other points are skipped.
        baseline: name of the strategy with which the others are compared.
        progress: function that receives the stage and the numbers of finished and of all queries.

    Returns:
        The content of `results.json`.

    Raises:
        InvalidInput: there are too many questions, or all strategies were skipped.
        NotFound: the collection does not exist.
        Unavailable: the run failed.
    """
    if len(labelled.queries) > _MOST_QUESTIONS:
        raise InvalidInput(
            f"A run accepts at most {_MOST_QUESTIONS:,} questions, and there are {len(labelled.queries):,}:"
            " use a sample of them.",
            field="questions",
        )
    labels = labelled.judgements
    questions = [{"question": text, label_field: list(labels[query])} for query, text in labelled.queries.items()]
    names = [strategy.name for strategy in strategies]
    run = client.evaluate(labelled.name, questions=questions, strategies=names, baseline=baseline)
    try:
        while run.state in _OPEN:
            time.sleep(_POLL_SECONDS)
            run = _poll(client, labelled.name, run.id)
            if run.state == "queued":
                progress("queued", 0, 1)
            elif run.strategy:
                progress(f"querying {run.strategy}", run.done, run.total)
    except KeyboardInterrupt:
        _stop(client, labelled.name, run.id)
        raise
    if run.results is None:
        raise Unavailable(run.error or "The evaluation failed.", component="api")
    return {**run.results, "notes": [*labelled.notes, *run.results["notes"]]}


def _poll(client: CliClient, collection: str, run: str) -> Evaluation:
    """Return the state of the run. A server that is unavailable is asked again, because the run may continue."""
    started, pause = time.monotonic(), _POLL_SECONDS
    while True:
        try:
            return client.evaluation(collection, run)
        except Unavailable as error:
            if time.monotonic() - started > _UNAVAILABLE_SECONDS:
                raise Unavailable(
                    f"{error.message} The evaluation {run} may still be running there.", component="api"
                ) from error
            retry_after = error.retry_after.total_seconds() if error.retry_after else 0.0
            pause = min(_LONGEST_POLL_SECONDS, max(2 * pause, retry_after))
            time.sleep(pause)


def _stop(client: CliClient, collection: str, run: str) -> None:
    """Delete an open evaluation. A finished one is kept, because it has cost time and money."""
    with suppress(ForeaskError):
        if client.evaluation(collection, run).state in _OPEN:
            client.delete_evaluation(collection, run)
