"""Qdrant's own words about a refused request, and the sentences that people read.

Other versions use other words, and so does a proxy. A sentence therefore depends on the status first, and quotes the
words. Addresses, folders, names of collections and long quotations are removed, because other tenants may read it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

import orjson

from shared.process.words import words_for_people
from shared.vectors.schema.payload_indexes import ON_DEMAND, REQUIRED

UNAUTHORIZED, FORBIDDEN, TOO_LARGE, TOO_MANY, FULL = 401, 403, 413, 429, 507
_READ_BYTES = 4_000
# Names of nodes, folders and collections, and quotations, which may be another tenant's.
_NAMES = (
    (re.compile(r"\b\w+://[^\s\"'`<]+"), "…"),
    (re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?"), "…"),
    (re.compile(r"(?<![\w/])\.{0,2}(?:/[\w.@+-]+){2,}/?"), "…"),
    (re.compile(r"(?i)\b(collection) (?:`[^`]*`|\"[^\"]*\"|'[^']*')"), r"\1 …"),
    (re.compile(r"`[^`]{41,}`|\"[^\"]{41,}\"|'[^']{41,}'"), "…"),
)
_NO_INDEX = re.compile(r"index\s+(?:is\s+)?required\b[^\"'`]*[\"'`]([^\"'`]+)[\"'`]", re.IGNORECASE)
_LIMIT = re.compile(r"limit exceeded:?\s+(\S+)\s*>\s*(\S+)(?:\s+for\s+[\"'`]([^\"'`]+)[\"'`])?", re.IGNORECASE)
_STRICT = re.compile(r"limit|exceed|strict|too (?:many|large|long)|maximum|disabled", re.IGNORECASE)
_FULL = re.compile(r"no space left|disk (?:is )?full|not enough (?:disk )?space", re.IGNORECASE)
_METADATA = "metadata."
_OWN = REQUIRED.keys() | ON_DEMAND.keys()
_UNDECLARABLE = frozenset('.=[]"\\')
# Qdrant's names of limits in its answers, and in the configuration of a collection.
_PARAMETERS = (
    ("hnsw_ef", "search_max_hnsw_ef"),
    ("oversampling", "search_max_oversampling"),
    ("upsert", "upsert_max_batchsize"),
    ("batch", "search_max_batchsize"),
    ("condition size", "condition_max_size"),
    ("condition", "filter_max_conditions"),
    ("timeout", "max_timeout"),
    ("limit", "max_query_limit"),
)


@dataclass(frozen=True, slots=True)
class StrictLimit:
    """A limit of Qdrant's strict mode that a request exceeds.

    Args:
        sentence: the limit and its remedy.
        is_filter: whether the caller's filter is the cause.
        is_timeout: whether the requested time is too long.
    """

    sentence: str
    is_filter: bool
    is_timeout: bool = False


def words_of(content: bytes) -> str:
    """Return the words of an answer in one short line; empty without any."""
    text = content[:_READ_BYTES].decode(errors="replace")
    with suppress(orjson.JSONDecodeError, AttributeError):
        answer = orjson.loads(content)
        status = answer.get("status", answer)
        text = str(status.get("error", "") if isinstance(status, dict) else status)
    for pattern, replacement in _NAMES:
        text = pattern.sub(replacement, text)
    return words_for_people(text)


def sentence_of(status: int, words: str) -> str:
    """Return a sentence without a full stop: the reason of a refusal, and its remedy if there is one."""
    said = f" ({words.rstrip('.')})" if words else ""
    if status == UNAUTHORIZED:
        return f"Qdrant does not accept the API key{said}: check FOREASK_QDRANT_API_KEY"
    if status == FORBIDDEN:
        return f"Qdrant forbids this to the API key{said}: set FOREASK_QDRANT_API_KEY to a key that may read and write"
    if status == TOO_MANY:
        return f"Qdrant limits the rate of requests{said}"
    if status == FULL or _FULL.search(words):
        return f"Qdrant has no disk space left{said}: free some, and the work continues automatically"
    return f"Qdrant answered {status}{said}"


def missing_index(words: str) -> str | None:
    """Return the key of points by which Qdrant does not filter without an index; None if it misses none."""
    match = _NO_INDEX.search(words)
    return match[1].strip() if match else None


def strict_limit(words: str, *, named: bool = False) -> StrictLimit | None:
    """Return the limit of Qdrant that a request exceeds; None if there is none.

    Args:
        words: Qdrant's words.
        named: whether the words must name the limit in a known form, because the status does not mean a limit.
    """
    if (key := missing_index(words)) is not None:
        return StrictLimit(_without_index(key), is_filter=True)
    if match := _LIMIT.search(words):
        value, most, name = match[1], match[2].rstrip(".,;"), match[3] or "limit"
        parameter = next((found for part, found in _PARAMETERS if part in name.lower()), None)
        raised = f"raise `{parameter}`" if parameter else "raise the limit"
        is_filter = parameter in {"condition_max_size", "filter_max_conditions"}
        smaller = "use a smaller filter" if is_filter else "request less"
        return StrictLimit(
            f'Qdrant allows at most {most} for "{name}", and this request needs {value}: {smaller}, or {raised} in the'
            " strict mode of the collection in Qdrant.",
            is_filter=is_filter,
            is_timeout=parameter == "max_timeout",
        )
    if not named and _STRICT.search(words):
        return StrictLimit(
            f"A limit of Qdrant stops this request ({words.rstrip('.')}): request less, or change the strict mode of"
            " the collection in Qdrant.",
            is_filter="filter" in words.lower(),
        )
    return None


def _without_index(key: str) -> str:
    field = key.removeprefix(_METADATA)
    if key in _OWN or _UNDECLARABLE & set(field):
        return (
            f"Qdrant does not filter by `{key}`, which has no index: set `unindexed_filtering_retrieve` in the strict"
            " mode of the collection in Qdrant."
        )
    return (
        f"Qdrant's strict mode filters by declared fields only: declare the field `{field}` before the first document"
        f" (`foreask declare COLLECTION {field}=TYPE`), or set `unindexed_filtering_retrieve` in Qdrant."
    )
