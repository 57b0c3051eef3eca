"""Whether the words of a file arrived, and which parts were not read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.domain.stored import known_fields

MOST_LOSSES = 20
MOST_UNREAD = 20
MOST_SAMPLE_WORDS = 8
LOCATION_CHARS, SAMPLE_WORD_CHARS, UNREAD_CHARS = 100, 30, 300
"""The bounds of a stored `Completeness`: any number of parts of a file can lose words."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Words that a part of a file lost.

    Args:
        location: name of the part for people; empty for the whole file.
        missing: number of missing words.
        sample: some of them.
    """

    location: str
    missing: int
    sample: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Completeness:
    """How completely a file was read.

    Args:
        coverage: share of the words of the file that are in its text; None if they were not counted.
        losses: parts of the file that miss words.
        unread: sentences that name unread parts, each with the reason.
    """

    coverage: float | None = None
    losses: tuple[Loss, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.losses and not self.unread

    def bounded(self) -> Completeness:
        """Return this with at most 20 losses and sentences, in short texts without line breaks.

        The last loss or sentence counts the others, so that nothing is lost silently.
        """
        losses = [_bounded_loss(loss) for loss in self.losses]
        if len(others := losses[MOST_LOSSES - 1 :]) > 1:
            rest = Loss(f"{len(others):,} other parts", sum(loss.missing for loss in others), ())
            losses[MOST_LOSSES - 1 :] = [rest]
        unread = [_bounded(sentence, UNREAD_CHARS) for sentence in self.unread]
        if len(omitted := unread[MOST_UNREAD - 1 :]) > 1:
            unread[MOST_UNREAD - 1 :] = [f"{len(omitted):,} other parts of the file were not read."]
        return Completeness(self.coverage, tuple(losses), tuple(unread))

    def missing_as_json(self) -> dict[str, Any] | None:
        """Return the losses and the sentences as they are stored; None if nothing is missing."""
        if self.is_complete:
            return None
        losses = [{"location": loss.location, "missing": loss.missing, "sample": loss.sample} for loss in self.losses]
        return {"losses": losses, "unread": self.unread}


def stored_completeness(coverage: float | None, missing: Mapping[str, Any] | None) -> Completeness:
    """Return the completeness of a version from its columns."""
    if missing is None:
        return Completeness(coverage)
    losses = tuple(_loss(known_fields(loss, Loss.__dataclass_fields__)) for loss in missing.get("losses", ()))
    return Completeness(coverage, losses, tuple(missing.get("unread", ())))


def _loss(fields: Mapping[str, Any]) -> Loss:
    return Loss(fields["location"], fields["missing"], tuple(fields["sample"]))


def _bounded_loss(loss: Loss) -> Loss:
    sample = tuple(_bounded(word, SAMPLE_WORD_CHARS) for word in loss.sample[:MOST_SAMPLE_WORDS])
    return Loss(_bounded(loss.location, LOCATION_CHARS), loss.missing, sample)


def _bounded(text: str, chars: int) -> str:
    """Return a text as one line of printable characters that is not longer than allowed."""
    valid = text.encode("utf-8", "replace").decode()
    line = " ".join("".join(char if char.isprintable() else " " for char in valid).split())
    return line if len(line) <= chars else f"{line[: chars - 1]}…"
