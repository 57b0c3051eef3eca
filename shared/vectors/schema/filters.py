"""Filters of points: visible points, a document's points, and a caller's filter over metadata.

Tenants share a collection in Qdrant. Every filter is created from a location, so that it selects in the groups of one
tenant's collection only; filters are created here and nowhere else.

A caller's filter is checked and becomes Qdrant's conditions:

{"department": "legal"}                         equal to
{"tags": {"any": ["a", "b"]}}                   one of
{"tags": {"none": ["c"]}}                       none of
{"year": {"gte": 2020, "lt": 2025}}             a range of numbers
{"published": {"gte": "2024-01-01"}}            a range of dates (ISO 8601)
{"title": {"text": "annual report"}}            every word occurs
{"year": null}, {"year": {"exists": false}}     has no value: absent, null or an empty list
{"year": {"exists": true}}                      has a value
{"all": [...]}, {"any": [...]}, {"not": {...}}  every filter, one of the filters, not the filter

Names and texts of a filter have the composed form of Unicode, as the metadata of documents do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import repeat
from typing import Any
from uuid import UUID

from shared.domain.access.restriction import UNRESTRICTED, Restriction
from shared.domain.corpus.filterable import FilterableField
from shared.domain.corpus.index_location import IndexLocation, index_location_of
from shared.domain.errors import InvalidInput
from shared.domain.text.unicode_form import composed
from shared.vectors.schema.fields import BOUNDS, READERS, indexed_condition, reader_numbers
from shared.vectors.schema.groups import KINDS, PointKind, group

_FORMS = "a value, {any: [...]}, {none: [...]}, {gt, gte, lt, lte: number or date}, {text: '...'} or {exists: true}"
_PLAIN = re.compile(r"[\w-]+(\[\d{0,9}\])*", re.ASCII)
_WORD = re.compile(r"\w+")
_MAX_CONDITIONS = 64  # of a whole filter
_MAX_DEPTH = 8  # of filters within each other
_METADATA = "metadata."
_LISTS = {"all": "must", "any": "should"}
_CLAUSES = frozenset({"must", "should", "must_not"})
_MAX_VALUES = 1000
# Qdrant reads a field without an index from each candidate, in about 6 us for each condition and point: 100,000
# conditions times chunks take one or two seconds. A few conditions are always possible, so that no filter fails because
# its collection has grown; a slow search is stopped.
_MAX_WORK = 100_000
_FREE_CONDITIONS = 4
_SHOWN_FIELDS = 3

Filter = Mapping[str, Any]
"""A filter as Qdrant's REST API takes it."""
Condition = Mapping[str, Any]
"""A condition of a filter; a filter is one, too."""


@dataclass(frozen=True, slots=True)
class VisiblePoints:
    """The points of a collection that queries may see.

    Args:
        location: location of the collection.
        questions: filter for its points of questions.
        texts: filter for its points of texts.
        corpus: filter for all its texts, including hidden ones, which determine the rarity of words.
    """

    location: IndexLocation
    questions: Filter
    texts: Filter
    corpus: Filter


def visible_points(location: IndexLocation, conditions: Sequence[Condition] = ()) -> VisiblePoints:
    """Select the visible points of a collection: points of complete versions, under further conditions."""

    def visible(kind: PointKind) -> Filter:
        return {"must": [*_of_kind(location, kind), *conditions], "must_not": [_equals("hidden", value=True)]}

    corpus = {"must": [_equals("group", group(location, "t"))]}
    return VisiblePoints(location, visible("q"), visible("t"), corpus)


def without_older_versions(where: VisiblePoints, versions: Mapping[UUID, int]) -> VisiblePoints:
    """Exclude the versions of documents below these from the visible points."""
    return _without(where, [_is_below(document_id, version) for document_id, version in versions.items()])


def only_versions(where: VisiblePoints, shown: Mapping[UUID, int | None]) -> VisiblePoints:
    """Exclude all versions of these documents but one from the visible points; None excludes this one, too."""
    excluded = [str(document_id) for document_id, version in shown.items() if version is None]
    others = [
        condition
        for document_id, version in shown.items()
        if version is not None
        for condition in _others(document_id, version)
    ]
    # Thousands of documents are one condition: Qdrant checks conditions one after the other.
    return _without(where, [*([_any_of("document_id", excluded)] if excluded else []), *others])


def _without(where: VisiblePoints, excluded: Sequence[Condition]) -> VisiblePoints:
    questions, texts = (
        {**selected, "must_not": [*selected["must_not"], *excluded]} for selected in (where.questions, where.texts)
    )
    return replace(where, questions=questions, texts=texts)


def _others(document_id: UUID, version: int) -> list[Condition]:
    above = {"key": "version", "range": {"gt": version}}
    return [_is_below(document_id, version), {"must": [_equals("document_id", str(document_id)), above]}]


def _is_below(document_id: UUID, version: int) -> Condition:
    return {"must": [_equals("document_id", str(document_id)), _below("version", version)]}


def caller_conditions(
    metadata: object | None,
    document_ids: Sequence[UUID] | None,
    fields: tuple[FilterableField, ...] = (),
    restriction: Restriction = UNRESTRICTED,
) -> list[Condition]:
    """Check a caller's filter and list of documents, and convert them to conditions that must all hold.

    Args:
        metadata: the filter.
        document_ids: allowed documents; None for all.
        fields: fields declared by the collection.
        restriction: the part of the documents that the caller can find.

    Raises:
        InvalidInput: a filter is malformed; `field` names the part to change.
    """
    given = (each for each in (restriction.filter, metadata) if each is not None)
    conditions = [condition for each in given for condition in metadata_conditions(each, fields)]
    if document_ids is not None:
        ids = [str(document_id) for document_id in document_ids]
        conditions.append(_any_of("document_id", ids))
    if restriction.principals is not None:
        conditions.append(_any_of(READERS, reader_numbers(restriction.principals)))
    return conditions


def require_affordable(conditions: Sequence[Condition], chunks: int | None) -> None:
    """Check that few enough fields without an index are read: conditions on them times chunks of the collection.

    Each word of a `text` condition counts. Without `chunks`, because the caller must not learn the size of the
    collection, a few conditions are possible, as in a collection of any size.

    Raises:
        InvalidInput: the filter is too expensive for the collection.
    """
    fields = [field for condition in conditions for field in _unindexed_fields(condition)]
    most = _FREE_CONDITIONS if chunks is None else max(_FREE_CONDITIONS, _MAX_WORK // max(1, chunks))
    if len(fields) <= most:
        return
    names = list(dict.fromkeys(fields))
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN_FIELDS])
    more = f" and {len(names) - _SHOWN_FIELDS} more" if len(names) > _SHOWN_FIELDS else ""
    allowing = "a person may send" if chunks is None else f"a collection of {chunks:,} chunks allows"
    raise InvalidInput(
        f"The filter has {len(fields):,} conditions, or words of `text`, without an index, and {allowing} {most:,}:"
        " send fewer, or declare the field with `filterable` when you create the"
        f" collection, which gives it an index ({shown}{more}).",
        field="filter",
    )


def costs_work(conditions: Sequence[Condition]) -> bool:
    """Return whether the number of chunks decides if conditions are affordable."""
    return sum(1 for condition in conditions for _ in _unindexed_fields(condition)) > _FREE_CONDITIONS


def _unindexed_fields(condition: Condition) -> Iterator[str]:
    """Yield the metadata field of each condition without an index, once for each word of a `text` condition."""
    if condition.keys() <= _CLAUSES:
        for nested in condition.values():
            for each in nested if isinstance(nested, list) else [nested]:
                yield from _unindexed_fields(each)
        return
    key = str(condition.get("key") or condition.get("is_empty", {}).get("key", ""))
    if key.startswith(_METADATA):
        words = _WORD.findall(str(condition.get("match", {}).get("text", "")))
        yield from repeat(key.removeprefix(_METADATA), max(1, len(words)))


def of_chunks(chunk_ids: Sequence[str]) -> Condition:
    """Select the points of some chunks."""
    return _any_of("chunk_id", chunk_ids)


def held_out(point_ids: Sequence[str]) -> Condition:
    """Exclude these points and all users' questions: a question must not find itself."""
    of_users = _equals("source", "user")
    return {"must_not": [{"has_id": list(point_ids)}, of_users]}


def collection_points(location: IndexLocation) -> Filter:
    """Select a collection's points, hidden ones too."""
    return {"must": [*_of(location)]}


def named_points(field: str, value: str) -> Filter:
    """Select the points with a field value, in any group."""
    return {"must": [_equals(field, value)]}


def points_of_ids(collection_ids: Sequence[UUID], document_ids: Sequence[UUID]) -> Filter:
    """Select the points of collections and documents in any group. Their ids are unique, so no owner is needed."""
    groups = [group(index_location_of("", "", each), kind) for each in collection_ids for kind in KINDS]
    documents = [str(each) for each in document_ids]
    return {"should": [_any_of("group", groups), _any_of("document_id", documents)]}


def points_by_id(location: IndexLocation, ids: Sequence[str]) -> Filter:
    """Select the points among these ids that belong to a collection, including hidden ones."""
    return {"must": [*_of(location), {"has_id": list(ids)}]}


def document_points(location: IndexLocation, document_id: UUID, *, version: int | None = None) -> Filter:
    """Select a document's points, including hidden ones: of all versions or of one."""
    must = [*_of(location), _equals("document_id", str(document_id))]
    if version is not None:
        must.append(_equals("version", version))
    return {"must": [*must]}


def document_texts(location: IndexLocation, document_id: UUID, version: int) -> Filter:
    """Select the texts of a document's version, hidden ones too."""
    must = [*_of_kind(location, "t"), _equals("document_id", str(document_id)), _equals("version", version)]
    return {"must": [*must]}


def disabled_questions(location: IndexLocation, document_id: UUID, version: int, without: Sequence[str]) -> Filter:
    """Select the disabled questions of a document's version, `without` these."""
    must = [*_of_kind(location, "d"), _equals("document_id", str(document_id)), _equals("version", version)]
    return {"must": must} | ({"must_not": [{"has_id": list(without)}]} if without else {})


def enabled_questions(location: IndexLocation, ids: Sequence[str]) -> Filter:
    """Select the questions among these ids that searches find."""
    return {"must": [*_of_kind(location, "q"), {"has_id": list(ids)}]}


def earlier_points(location: IndexLocation, ids: Sequence[str], token: int) -> Filter:
    """Select the points among these ids that claims before `token` have written."""
    return {"must": [*_of(location), {"has_id": list(ids)}, _below("token", token)]}


def hidden_points(location: IndexLocation, document_id: UUID, *, version: int) -> Filter:
    """Select the hidden points of a document's version."""
    of_document = document_points(location, document_id, version=version)
    return {"must": [*of_document["must"], _equals("hidden", value=True)]}


def leftover_points(
    location: IndexLocation, chunk_ids: Sequence[str], version: int, token: int, kept: Sequence[str] = ()
) -> Filter:
    """Select the points of chunks in one version that claims before `token` have written, except `kept` ones."""
    must = [*_of(location), of_chunks(chunk_ids), _equals("version", version), _below("token", token)]
    return {"must": must} | ({"must_not": [{"has_id": list(kept)}]} if kept else {})


def replaceable_points(token: int) -> Filter:
    """Select points that a writer may replace: points of claims up to its own.

    It is the condition of an upsert, which names its points: their ids contain the writer's version.
    """
    return {"must": [_up_to("token", token)]}


def renewable_texts(location: IndexLocation, ids: Sequence[str], token: int) -> Filter:
    """Select the texts among these ids that claims up to `token` have written."""
    return {"must": [*_of_kind(location, "t"), {"has_id": list(ids)}, _up_to("token", token)]}


def section_points(location: IndexLocation, document_id: str, version: int, start: int, end: int) -> Filter:
    """Select the texts of one section of a document's version, hidden ones too."""
    values: dict[str, str | int] = {
        "document_id": document_id,
        "version": version,
        "section.start": start,
        "section.end": end,
    }
    return {"must": [*_of_kind(location, "t"), *(_equals(key, value) for key, value in values.items())]}


def text_points(location: IndexLocation) -> Filter:
    """Select one point of each chunk in each version, hidden ones too."""
    return {"must": [*_of_kind(location, "t")]}


def nothing() -> Filter:
    """Select no point of any tenant."""
    return {"must": [_equals("group", "")]}


def _of(location: IndexLocation) -> list[Condition]:
    """Return the conditions of every filter: the collection's groups, and its owner as a second safeguard."""
    groups = [group(location, kind) for kind in KINDS]
    return [
        _any_of("group", groups),
        _equals("tenant", location.tenant),
    ]


def _of_kind(location: IndexLocation, kind: PointKind) -> list[Condition]:
    """Return the conditions of `_of` for one group, so that a search uses the graph of the group."""
    return [_equals("group", group(location, kind)), _equals("tenant", location.tenant)]


def _below(key: str, value: int) -> Condition:
    return {"key": key, "range": {"lt": value}}


def _up_to(key: str, value: int) -> Condition:
    return {"key": key, "range": {"lte": value}}


def _equals(key: str, value: str | bool | int) -> Condition:
    return {"key": key, "match": {"value": value}}


def _any_of(key: str, values: Sequence[Any]) -> Condition:
    return {"key": key, "match": {"any": list(values)}}


def metadata_conditions(filter_: object, fields: tuple[FilterableField, ...] = ()) -> list[Condition]:
    """Convert a caller's filter over metadata to conditions that must all hold.

    Conditions on declared `fields` use an index.

    Raises:
        InvalidInput: the filter is malformed; `field` names the part to change.
    """
    parts = _conditions(filter_, fields, _MAX_DEPTH)
    if _count(parts) > _MAX_CONDITIONS:
        raise InvalidInput(f"A filter may have at most {_MAX_CONDITIONS} conditions.", field="filter")
    return parts


def _conditions(filter_: object, fields: tuple[FilterableField, ...], depth: int) -> list[Condition]:
    if not isinstance(filter_, Mapping):
        raise InvalidInput("A filter is an object of metadata fields, `all`, `any` and `not`.", field="filter")
    if not depth:
        raise InvalidInput(f"Filters may be nested at most {_MAX_DEPTH - 1} deep.", field="filter")
    parts: list[Condition] = []
    for name, value in filter_.items():
        if name == "not":
            parts.append({"must_not": [_nested(value, fields, depth, "not")]})
        elif name in _LISTS:
            if not isinstance(value, list) or not value:
                raise InvalidInput(f"`{name}` takes a list of filters, at least one.", field=f"filter.{name}")
            nested = [_nested(each, fields, depth, f"{name}.{location}") for location, each in enumerate(value)]
            parts.append({_LISTS[name]: nested})
        else:
            parts.append(_condition(str(name), value, fields))
    return parts


def _nested(filter_: object, fields: tuple[FilterableField, ...], depth: int, location: str) -> Condition:
    """Convert a nested filter to one condition; an error names its path."""
    try:
        parts = _conditions(filter_, fields, depth - 1)
        if not parts:
            raise InvalidInput("A nested filter needs a condition.", field="filter")
    except InvalidInput as error:
        inside = (error.field or "filter").removeprefix("filter")
        raise InvalidInput(error.message, field=f"filter.{location}{inside}") from None
    return parts[0] if len(parts) == 1 else {"must": parts}


def _count(parts: Sequence[Condition]) -> int:
    """Return the number of conditions on fields."""
    nested = [each for each in parts if each.keys() <= _CLAUSES]
    return len(parts) - len(nested) + sum(_count(clause) for each in nested for clause in each.values())


def fields_of(filter_: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name of the field of each condition in a valid filter."""
    for name, value in filter_.items():
        if name == "not":
            yield from fields_of(value)
        elif name in _LISTS:
            for each in value:
                yield from fields_of(each)
        else:
            yield composed(name)


def _condition(name: str, value: object, fields: tuple[FilterableField, ...]) -> Condition:
    name, value = composed(name), _composed_texts(value)
    key, value = indexed_condition(fields, name, value) or (_key(name), value)
    if value is None:
        return _is_empty(key)
    if isinstance(value, Mapping):
        return _operator(name, key, value)
    if isinstance(value, (bool, int, str)):
        return _equals(key, value)
    if isinstance(value, float):
        return {"key": key, "range": {"gte": value, "lte": value}}
    raise _not_a_condition(name)


def _composed_texts(value: object) -> object:
    """Return a condition with its texts in the composed form: a value, or an operator with a value or a list.

    Values that are nested deeper are invalid, and stay as they are: they may be nested without end.
    """
    if isinstance(value, Mapping):
        return {operator: _composed_list(each) for operator, each in value.items()}
    return composed(value) if isinstance(value, str) else value


def _composed_list(value: object) -> object:
    if isinstance(value, list):
        return [composed(each) if isinstance(each, str) else each for each in value]
    return composed(value) if isinstance(value, str) else value


def _key(name: str) -> str:
    """Return Qdrant's path to a field of the metadata; dots lead into objects, and unusual names are quoted."""
    parts = name.split(".")
    if not all(parts) or any(c in name for c in '"\\'):
        raise InvalidInput("A filter's fields are names; dots join the names of nested fields.", field="filter")
    return _METADATA + ".".join(part if _PLAIN.fullmatch(part) else f'"{part}"' for part in parts)


def _operator(name: str, key: str, value: Mapping[str, Any]) -> Condition:
    operators = set(value)
    if operators == {"any"}:
        return _any_of(key, _values(name, value["any"]))
    if operators == {"none"}:
        # Not `except`: it matches a list with any other value, and nothing if the field is missing.
        any_of = _any_of(key, _values(name, value["none"]))
        return {"must_not": [any_of]}
    if operators == {"text"} and isinstance(value["text"], str) and value["text"].strip():
        return {"key": key, "match": {"text": value["text"]}}
    if operators == {"exists"} and isinstance(value["exists"], bool):
        return {"must_not": [_is_empty(key)]} if value["exists"] else _is_empty(key)
    if operators and operators <= BOUNDS:
        return _range(name, key, value)
    raise _not_a_condition(name)


def _is_empty(key: str) -> Condition:
    return {"is_empty": {"key": key}}


def _values(name: str, values: object) -> list[Any]:
    usable = isinstance(values, Sequence) and not isinstance(values, str) and 0 < len(values) <= _MAX_VALUES
    if usable and (all(isinstance(v, str) for v in values) or all(type(v) is int for v in values)):  # type: ignore[attr-defined]
        return list(values)  # type: ignore[call-overload, no-any-return]
    raise InvalidInput(
        f"The filter on '{name}' takes a list of 1 to {_MAX_VALUES} texts or integers.", field=f"filter.{name}"
    )


def _range(name: str, key: str, bounds: Mapping[str, Any]) -> Condition:
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in bounds.values()):
        return {"key": key, "range": {k: float(v) for k, v in bounds.items()}}
    if all(isinstance(v, str) for v in bounds.values()):
        try:
            dates = {k: datetime.fromisoformat(v).isoformat() for k, v in bounds.items()}
        except ValueError:
            raise InvalidInput(
                f"The filter on '{name}' has a bound that is neither a number nor an ISO 8601 date.",
                field=f"filter.{name}",
            ) from None
        return {"key": key, "range": dates}
    raise _not_a_condition(name)


def _not_a_condition(name: str) -> InvalidInput:
    return InvalidInput(f"The filter on '{name}' must be {_FORMS}.", field=f"filter.{name}")
