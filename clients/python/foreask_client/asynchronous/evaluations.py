"""Labelled sets and evaluations."""

from __future__ import annotations

from collections.abc import Sequence

from foreask_client.asynchronous.connection import Connection
from foreask_client.models import Evaluation, Json, LabelledSet, LabelledSetSize
from foreask_client.requests import Request, as_type, collection_path, delete, get, get_items, given, post, segment


class EvaluationsApi(Connection):
    """Methods for labelled sets and evaluations of a collection."""

    async def labelled_sets(self, collection: str) -> list[LabelledSetSize]:
        """List the labelled sets of a collection. They contain questions whose answers are known."""
        return await self.send(get_items(f"{collection_path(collection)}/labelled-sets", LabelledSetSize))

    async def labelled_set(self, collection: str, name: str) -> LabelledSet:
        return await self.send(get(_set_path(collection, name), LabelledSet))

    async def put_labelled_set(self, collection: str, name: str, questions: Sequence[Json]) -> LabelledSet:
        """Write a labelled set. Questions are `{"question", "external_ids"}` or `{"question", "chunk_ids"}`."""
        path, body = _set_path(collection, name), {"questions": list(questions)}
        return await self.send(Request("PUT", path, as_type(LabelledSet), body=body, repeatable=True))

    async def add_labelled_questions(self, collection: str, name: str, questions: Sequence[Json]) -> LabelledSet:
        """Add questions to a labelled set, or replace their labels. The set is created if it does not exist."""
        path = f"{_set_path(collection, name)}/questions"
        return await self.send(post(path, LabelledSet, {"questions": list(questions)}, repeatable=True))

    async def delete_labelled_set(self, collection: str, name: str) -> None:
        await self.send(delete(_set_path(collection, name)))

    async def evaluate(
        self,
        collection: str,
        *,
        labelled_set: str | None = None,
        questions: Sequence[Json] | None = None,
        strategies: Sequence[str] | None = None,
        baseline: str | None = None,
        build: int | None = None,
    ) -> Evaluation:
        """Start an evaluation, which asks each labelled question with several strategies.

        It is queued until a worker has a free slot. `evaluation` returns its progress and its results.

        Args:
            collection: name of the collection, which is queried in its current state.
            labelled_set: name of a labelled set of the collection; required unless `questions` are given.
            questions: questions in the form of a labelled set.
            strategies: names from `foreask eval`; default: all strategies that call no model for a question.
            baseline: strategy with which the others are compared; default: `text`.
            build: number of the build to search; default: the live build.
        """
        body = {
            "labelled_set": labelled_set,
            "questions": questions,
            "strategies": strategies,
            "baseline": baseline,
            "build": build,
        }
        return await self.send(post(_path(collection), Evaluation, given(body)))

    async def evaluations(self, collection: str) -> list[Evaluation]:
        """List the last evaluations of a collection, newest first. Their results contain only `rows`."""
        return await self.send(get_items(_path(collection), Evaluation))

    async def evaluation(self, collection: str, evaluation_id: str) -> Evaluation:
        return await self.send(get(f"{_path(collection)}/{segment(evaluation_id)}", Evaluation))

    async def delete_evaluation(self, collection: str, evaluation_id: str) -> None:
        """Delete an evaluation. A queued evaluation does not start, and a running one stops."""
        await self.send(delete(f"{_path(collection)}/{segment(evaluation_id)}"))


def _path(collection: str) -> str:
    return f"{collection_path(collection)}/evaluations"


def _set_path(collection: str, name: str) -> str:
    return f"{collection_path(collection)}/labelled-sets/{segment(name)}"
