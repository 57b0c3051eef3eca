"""Replies of the API for tests of its clients: the examples in the API's description, with changes."""

from typing import Any

from api.schemas.batches import BatchView
from api.schemas.dead_letters import DeadLetterView
from api.schemas.documents import DocumentView
from api.schemas.me import MeView
from api.schemas.status import StatusView
from features.builds.schemas import BuildView
from features.feedback.schemas import AcceptedQuestionView
from features.gaps.schemas import GapView
from shared.http.schemas.collections import CollectionView
from shared.http.schemas.common import example_of
from shared.http.schemas.jobs import JobView
from shared.http.schemas.queries import QueryReply


def document(**changes: Any) -> dict[str, Any]:
    return example_of(DocumentView) | changes


def collection(**changes: Any) -> dict[str, Any]:
    return example_of(CollectionView) | changes


def build(**changes: Any) -> dict[str, Any]:
    return example_of(BuildView) | changes


def job(**changes: Any) -> dict[str, Any]:
    return example_of(JobView) | changes


def dead_letter(**changes: Any) -> dict[str, Any]:
    return example_of(DeadLetterView) | changes


def accepted_question(**changes: Any) -> dict[str, Any]:
    return example_of(AcceptedQuestionView) | changes


def gap(**changes: Any) -> dict[str, Any]:
    return example_of(GapView) | changes


def answer(**changes: Any) -> dict[str, Any]:
    return example_of(QueryReply) | changes


def batch(**changes: Any) -> dict[str, Any]:
    return example_of(BatchView) | changes


def me(**changes: Any) -> dict[str, Any]:
    return example_of(MeView) | changes


def status(**changes: Any) -> dict[str, Any]:
    return example_of(StatusView) | changes


def page(*items: dict[str, Any], next_cursor: str | None = None) -> dict[str, Any]:
    return {"items": list(items), "next_cursor": next_cursor}
