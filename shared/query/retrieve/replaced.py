"""Recently replaced versions, whose points stay for a while: a search that excludes them need not be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from shared.domain.corpus.documents import ShownVersion
from shared.domain.stages.sweeps import POINTS_STAY
from shared.process.clock import elapsed_seconds

_DELETED_AFTER_SECONDS = POINTS_STAY.total_seconds() + 10  # the scheduler may be late
_MOST_DOCUMENTS = 50  # of a collection: each is two conditions of every search


class ReplacedVersions:
    """The documents of each collection whose older versions may still have points."""

    def __init__(self) -> None:
        self._by_collection: dict[UUID, dict[UUID, tuple[int, float]]] = {}

    def remember(self, collection_id: UUID, shown: Mapping[UUID, ShownVersion]) -> None:
        """Remember the versions that queries see of documents that have replaced others, until these are deleted."""
        now = elapsed_seconds()
        remembered = {
            document: (each.version, now + _DELETED_AFTER_SECONDS - each.age_seconds)
            for document, each in shown.items()
            if each.version is not None and each.age_seconds is not None
        }
        if remembered:
            self._by_collection = {
                other: documents for other in self._by_collection if (documents := self._current(other, now))
            }
            documents = self._by_collection.get(collection_id, {}) | remembered
            newest = sorted(documents, key=lambda document: documents[document][1])[-_MOST_DOCUMENTS:]
            self._by_collection[collection_id] = {document: documents[document] for document in newest}

    def min_versions(self, collection_id: UUID) -> dict[UUID, int]:
        """Return the versions, by document, below which the points of a collection's documents are to be excluded."""
        documents = self._current(collection_id, elapsed_seconds())
        return {document: version for document, (version, _) in documents.items()}

    def _current(self, collection_id: UUID, now: float) -> dict[UUID, tuple[int, float]]:
        return {
            document: each for document, each in self._by_collection.get(collection_id, {}).items() if each[1] > now
        }
