"""Administration of Qdrant by an operator, through its own client: collections, aliases, shards and snapshots.

Requests of the product itself do not use the client (`docs/decisions/0006-below-the-typed-sdks.md`). Its import takes
up to a second of processor time, so only a command of the operator imports this module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import SecretStr
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from shared.domain.errors import Permanent, Unavailable
from shared.process.network.certificates import ssl_context

ResultT = TypeVar("ResultT")

_SECONDS = 600  # for a snapshot of a large collection
_UNKNOWN = frozenset({404, 501})  # this server does not have the function
_MOST_CHARS = 300


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """A collection of Qdrant.

    Args:
        name: its name.
        status: `green`, `yellow` while indexes are built, `grey` if they wait for a start, or `red`.
        points: approximate number of points.
        segments: number of segments of the asked node.
        aliases: its aliases; None if the server has none.
        shards: number of shards on all nodes; None if the server does not say.
        snapshots: names of the snapshots of the asked node; None if the server has none.
    """

    name: str
    status: str
    points: int
    segments: int
    aliases: Sequence[str] | None
    shards: int | None
    snapshots: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot that was made; `size_bytes` is its size."""

    name: str
    size_bytes: int


class QdrantNode:
    """A node of Qdrant.

    Args:
        url: its address.
        api_key: its key.
    """

    def __init__(self, url: str, api_key: SecretStr | None) -> None:
        self.url = url
        is_encrypted = url.startswith("https://")
        options: dict[str, Any] = {
            "verify": ssl_context() if is_encrypted else False,
            "trust_env": is_encrypted,  # a proxy of the environment is for other networks
            # As `api_key` the client would print a warning without TLS, which an internal network does not need.
            "headers": {"api-key": api_key.get_secret_value()} if api_key else {},
        }
        self._client = AsyncQdrantClient(url=url, timeout=_SECONDS, check_compatibility=False, **options)

    async def aclose(self) -> None:
        await self._client.close()

    async def collections(self, prefix: str) -> list[StoredCollection]:
        """Return the collections whose names start with a deployment's prefix, by name.

        Raises:
            Unavailable: the node does not answer.
            Permanent: it refuses the request.
        """
        with self._errors():
            found = (await self._client.get_collections()).collections
            return [await self._described(name) for name in sorted(c.name for c in found) if name.startswith(prefix)]

    async def snapshot(self, name: str) -> Snapshot:
        """Make a snapshot of the part of a collection that this node stores.

        Raises:
            Unavailable: the node does not answer.
            Permanent: it refuses the request.
        """
        with self._errors():
            made = await self._client.create_snapshot(name)
        if made is None:
            raise Permanent(f"Qdrant at {self.url} made no snapshot of {name}.")
        return Snapshot(made.name, made.size)

    async def _described(self, name: str) -> StoredCollection:
        about = await self._client.get_collection(name)
        aliases = await _if_known(self._client.get_collection_aliases(name))
        cluster = await _if_known(self._client.collection_cluster_info(name))
        snapshots = await _if_known(self._client.list_snapshots(name))
        return StoredCollection(
            name,
            about.status.value,
            about.points_count or 0,
            about.segments_count,
            None if aliases is None else [each.alias_name for each in aliases.aliases],
            None if cluster is None else cluster.shard_count,
            None if snapshots is None else [each.name for each in snapshots],
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ResponseHandlingException as error:
            raise Unavailable(f"Qdrant does not answer at {self.url}: {error}.", component="qdrant") from error
        except UnexpectedResponse as error:
            words = error.content.decode(errors="replace")[:_MOST_CHARS]
            raise Permanent(f"Qdrant at {self.url} refused with {error.status_code}: {words}") from error


async def _if_known(request: Awaitable[ResultT]) -> ResultT | None:
    """Return the result of a request; None if the server does not have this function."""
    try:
        return await request
    except UnexpectedResponse as error:
        if error.status_code in _UNKNOWN:
            return None
        raise
