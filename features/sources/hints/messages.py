"""Hints: messages of object stores that an object has changed, read as names of objects.

A hint is only a reason to look. Stores send messages at least once and in any order, so the type of an event is
ignored: each object is looked up in the source itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

import orjson

from features.sources.keys import problem_of
from shared.domain.errors import InvalidInput, TooLarge
from shared.settings.source_addresses import BUCKETS, Address

MOST_KEYS = 1_000
_SEAWEED_BUCKETS = "/buckets/"  # folder of the buckets in SeaweedFS's filer
_UNKNOWN = (
    'Send {"keys": [...]}, or the body of an event: of S3 through EventBridge or SNS, of MinIO or SeaweedFS, or of'
    " Google Cloud Storage through a push subscription."
)


@dataclass(frozen=True, slots=True)
class HintedName:
    """The name in a hint.

    Args:
        key: key of an entry, or name of an object within its bucket.
        bucket: name of the bucket; None for the key of an entry.
    """

    key: str
    bucket: str | None = None


@dataclass(frozen=True, slots=True)
class Hint:
    """A read message.

    Args:
        names: its names, without repetitions.
        confirm_url: address that confirms a subscription of SNS; None for other messages.
    """

    names: Sequence[HintedName]
    confirm_url: str | None = None


def read_hint(body: Any) -> Hint:
    """Read the JSON body of a message.

    Raises:
        InvalidInput: the body has an unknown form.
        TooLarge: it has more than 1,000 names.
    """
    if not isinstance(body, Mapping):
        raise InvalidInput(_UNKNOWN)
    if body.get("Type") == "SubscriptionConfirmation":
        return Hint((), confirm_url=_text(body, "SubscribeURL"))
    if body.get("Type") == "UnsubscribeConfirmation":  # its SubscribeURL would subscribe again
        return Hint(())
    names = tuple(dict.fromkeys(_names(_unwrapped(body))))
    if len(names) > MOST_KEYS:
        raise TooLarge(f"A hint has at most {MOST_KEYS:,} keys, and this one has {len(names):,}: start a sync instead.")
    return Hint(names)


def keys_within(names: Iterable[HintedName], uri: str) -> list[str]:
    """Return the keys of names within a source, without names outside it and names that cannot be keys.

    Raises:
        InvalidInput: the address of the source is malformed.
    """
    address = Address.parse(uri)
    keys = dict.fromkeys(_key_within(name, address) for name in names)
    return [key for key in keys if key is not None and problem_of(key) is None]


def _key_within(name: HintedName, address: Address) -> str | None:
    """Return the key of a name; None if the object is in another bucket, or outside the folder of the source."""
    if name.bucket is None:
        return name.key
    folder = f"{address.path}/" if address.segments else ""
    is_within = address.scheme in BUCKETS and name.bucket == address.host and name.key.startswith(folder)
    return name.key.removeprefix(folder) if is_within and name.key != folder else None


def _unwrapped(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the event in a message of SNS, and any other body unchanged."""
    if body.get("Type") != "Notification":
        return body
    try:
        event = orjson.loads(_text(body, "Message"))  # it refuses deep nesting
    except ValueError:
        event = None
    if not isinstance(event, Mapping):
        raise InvalidInput("The Message of this notification is not an event of S3.")
    return event


def _names(event: Mapping[str, Any]) -> Iterable[HintedName]:
    for form, read in _FORMS.items():
        if form in event:
            return read(event)
    raise InvalidInput(_UNKNOWN)


def _of_keys(event: Mapping[str, Any]) -> Iterator[HintedName]:
    if set(event) != {"keys"}:
        raise InvalidInput("A hint with `keys` has no other fields.")
    for key in _list(event, "keys"):
        if not isinstance(key, str) or not key:
            raise InvalidInput("Each of the keys is a text that is not empty.", field="keys")
        yield HintedName(key)


def _of_records(event: Mapping[str, Any]) -> Iterator[HintedName]:
    """Read an event of S3 or MinIO, whose names are encoded as in a form."""
    for record in _list(event, "Records"):
        s3 = _object(record, "s3")
        yield HintedName(unquote_plus(_text(_object(s3, "object"), "key")), _text(_object(s3, "bucket"), "name"))


def _of_eventbridge(event: Mapping[str, Any]) -> Iterator[HintedName]:
    """Read an event of S3 through EventBridge, whose name is not encoded."""
    detail = _object(event, "detail")
    yield HintedName(_text(_object(detail, "object"), "key"), _text(_object(detail, "bucket"), "name"))


def _of_pubsub(event: Mapping[str, Any]) -> Iterator[HintedName]:
    attributes = _object(_object(event, "message"), "attributes")
    yield HintedName(_text(attributes, "objectId"), _text(attributes, "bucketId"))


def _of_seaweed(event: Mapping[str, Any]) -> Iterator[HintedName]:
    """Read a message of SeaweedFS's filer, with the old and the new path of a renamed file."""
    message = event.get("message")
    paths = [_text(event, "key")]
    if isinstance(message, Mapping) and message.get("new_parent_path"):
        paths.append(f"{_text(message, 'new_parent_path')}/{_text(_object(message, 'new_entry'), 'name')}")
    for path in paths:
        bucket, _, key = path.removeprefix(_SEAWEED_BUCKETS).partition("/")
        if path.startswith(_SEAWEED_BUCKETS) and key:
            yield HintedName(key, bucket)


def _of_nothing(_: Mapping[str, Any]) -> tuple[()]:
    return ()


# The field by which a form is recognised; the first existing field decides.
_FORMS = {
    "keys": _of_keys,
    "Records": _of_records,
    "detail": _of_eventbridge,
    "event_type": _of_seaweed,
    "message": _of_pubsub,
    "Event": _of_nothing,  # S3 sends s3:TestEvent when notifications are configured
}


def _object(part: Any, field: str) -> Mapping[str, Any]:
    value = part.get(field) if isinstance(part, Mapping) else None
    if not isinstance(value, Mapping):
        raise InvalidInput(f"This event has no object `{field}`. {_UNKNOWN}")
    return value


def _list(part: Mapping[str, Any], field: str) -> Sequence[Any]:
    value = part[field]
    if not isinstance(value, list):
        raise InvalidInput(f"The field `{field}` is not a list.", field=field)
    return value


def _text(part: Mapping[str, Any], field: str) -> str:
    value = part.get(field)
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"This event has no text `{field}`. {_UNKNOWN}")
    return value
