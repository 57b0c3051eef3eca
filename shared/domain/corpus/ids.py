"""The ids of chunks, of users' questions and of the points of both.

A point's id starts with its chunk's id, so that the hits of a search identify the chunks and their versions without any
payload:

    ffffffff-ffff-ffff-ffff-000000000000    a chunk: 80 bits of a hash of its collection, document and text
    ffffffff-ffff-ffff-ffff-000000PPPPPP    a user's question of it: 24 bits, the first one set
    ffffffff-ffff-ffff-ffff-VVVVVVPPPPPP    a point: the version, then 0 for the text, 1 for the first question

The probability that two of a billion chunks have the same id is 1 in 2.4 million. The probability that two users'
questions of a chunk have the same number is 1 in 8 million; the ledger then treats the second question as the first
one, so that no point is overwritten.
"""

from __future__ import annotations

import hashlib
from uuid import UUID

from shared.domain.corpus.questions import plain

# Any fixed one: ids must not change between releases.
_NAMESPACE = UUID("6ba1f1d2-3c0e-4f0e-9d53-0f8a3f6e7a11").bytes
_CHUNK_BYTES, _NUMBER_BYTES = 10, 3
_CHUNK, _VERSION = slice(0, 24), slice(24, 30)  # of an id's text
_CHUNK_ENDS = "0" * 12
_VERSIONS = 1 << 24  # an edit per minute reaches it after 32 years; it then starts again
_NUMBERS = 1 << 24
_OF_USERS = 1 << 23


def chunk_id(collection_id: UUID, document_id: UUID, text: str, occurrence: int) -> UUID:
    """Return the id of the n-th chunk of a document with this text: the same in every version that has it."""
    digest = _digest(_NAMESPACE, f"{collection_id}/{document_id}/{occurrence}/{text}")
    return UUID(bytes=digest[:_CHUNK_BYTES].ljust(16, b"\0"))


def accepted_id(chunk: UUID, question: str) -> UUID:
    """Return the id of a user's question that a chunk accepted; the same in every version and each time."""
    digest = _digest(chunk.bytes, f"user/{plain(question)}")
    return UUID(int=chunk.int | _OF_USERS | int.from_bytes(digest[:_NUMBER_BYTES]))


def chunk_point_id(chunk: UUID, version: int) -> str:
    """Return the id of a chunk's own point in a version."""
    return _point_id(chunk, version, 0)


def question_point_id(chunk: UUID, version: int, ordinal: int) -> str:
    """Return the id of the point of a chunk's n-th question in a version, from 0."""
    return _point_id(chunk, version, 1 + ordinal)


def accepted_point_id(accepted: UUID, version: int) -> str:
    """Return the id of the point of a user's question in a version of its chunk."""
    return _point_id(accepted, version, accepted.int % _NUMBERS)


def chunk_of_point(point_id: str) -> tuple[str, int]:
    """Return the id of the chunk that a point belongs to, and the version."""
    return point_id[_CHUNK] + _CHUNK_ENDS, int(point_id[_VERSION], 16)


def _point_id(owner: UUID, version: int, number: int) -> str:
    return f"{str(owner)[_CHUNK]}{version % _VERSIONS:06x}{number:06x}"


def _digest(namespace: bytes, name: str) -> bytes:
    return hashlib.sha1(namespace + name.encode(), usedforsecurity=False).digest()
