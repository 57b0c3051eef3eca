"""Grouped queries: the engine has none, so they are made of plain ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from embedded.qdrant.errors import malformed, unsupported
from embedded.qdrant.schema import Json

DEFAULT_LIMIT = 10
DEFAULT_GROUP_SIZE = 3
GROWTH = 4
GroupId = int | str
Groups = dict[GroupId, list[Any]]
Search = Callable[[Json], list[Any]]
Count = Callable[[Json], int]


def grouped(request: Json, search: Search, count: Count) -> Groups:
    """The best `limit` groups of at most `group_size` points, in the order of their best points.

    Args:
        request: the body of `points/query/groups`.
        search: runs the body of a plain query.
        count: counts the points that match a filter.
    """
    if request.get("with_lookup") is not None:
        raise unsupported("`with_lookup`")
    limit, size = request.get("limit") or DEFAULT_LIMIT, request.get("group_size") or DEFAULT_GROUP_SIZE
    field = request["group_by"]
    if not isinstance(field, str) or "[" in field:
        raise malformed("`group_by` must be a payload field")
    plain = {name: value for name, value in request.items() if name not in ("group_by", "group_size", "with_vector")}
    plain["with_payload"] = [field]
    groups, exhausted = _leading(plain, field, limit, size, search)
    if exhausted or all(len(hits) >= size for hits in groups.values()):
        return {group: hits[:size] for group, hits in groups.items()}
    if plain.get("prefetch"):
        # A filter would reach into the prefetches and change what is fused, so take everything.
        groups, _ = _leading(plain, field, limit, size, search, fill=True)
    else:
        groups = _filled(plain, field, groups, search, count)
    return {group: hits[:size] for group, hits in groups.items()}


def _leading(
    plain: Json, field: str, limit: int, size: int, search: Search, *, fill: bool = False
) -> tuple[Groups, bool]:
    """The first `limit` groups with the points that were met on the way, and whether those are all there are."""
    fetch = limit * size
    while True:
        hits = search({**plain, "limit": fetch})
        groups = _group(hits, field, limit)
        exhausted = len(hits) < fetch
        full = len(groups) == limit and (not fill or all(len(found) >= size for found in groups.values()))
        if exhausted or full:
            return groups, exhausted
        fetch *= GROWTH


def _filled(plain: Json, field: str, groups: Groups, search: Search, count: Count) -> Groups:
    """The same groups with all their points: a second query, of nothing else."""
    members = {"should": [{"key": field, "match": {"any": values}} for values in _by_type(groups) if values]}
    given = plain.get("filter")
    wanted = {"must": [given, members]} if given else members
    hits = search({**plain, "filter": wanted, "limit": max(1, count(wanted))})
    complete = _group(hits, field, None)
    return {group: complete.get(group, found) for group, found in groups.items()}


def _by_type(groups: Groups) -> tuple[list[GroupId], list[GroupId]]:
    """A match takes strings or numbers, not both."""
    return [group for group in groups if isinstance(group, str)], [group for group in groups if isinstance(group, int)]


def _group(hits: list[Any], field: str, limit: int | None) -> Groups:
    groups: Groups = {}
    for hit in hits:
        for value in _values(hit.payload, field):
            if value in groups:
                groups[value].append(hit)
            elif limit is None or len(groups) < limit:
                groups[value] = [hit]
    return groups


def _values(payload: Any, field: str) -> list[GroupId]:
    """The groups a point belongs to: strings and whole numbers; a list is one group for each item."""
    value = payload
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    values = value if isinstance(value, list) else [value]
    distinct = dict.fromkeys(item for item in values if isinstance(item, (str, int)) and not isinstance(item, bool))
    return list(distinct)
