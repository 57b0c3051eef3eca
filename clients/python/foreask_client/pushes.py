"""Entries that a program pushes, and their pages: the parts that both clients share."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from foreask_client.models import EntryResult, Json, Sync
from foreask_client.requests import Request, as_type, given, segment
from foreask_client.uploads import Attachment

_PAGE = 500  # entries of a request; the server accepts 1,000
_PAGE_BYTES = 4 << 20  # of texts in a request; a larger text is sent as a file


class PushedEntry(TypedDict, total=False):
    """An entry of a source to which a program pushes.

    Attributes:
        key: its name within the source; required.
        version: changes whenever its body changes, such as an ETag. Default: the hash of the body.
        text: its body, if it is a text that the program has already; Markdown unless there is a `media_type`.
        filename: name whose ending shows the format of the body.
        media_type: default: by the filename and the content.
        title: default: from the content.
        url: its address, which becomes the metadata field `url`.
        metadata: an object to filter by.
        readable_by: its readers: `everyone`, `user:NAME` and `group:NAME`.
        deleted: whether it does not exist any more.
    """

    key: str
    version: str
    text: str
    filename: str
    media_type: str
    title: str
    url: str
    metadata: Mapping[str, Any]
    readable_by: Sequence[str]
    deleted: bool


Body = str | bytes | Path | None
"""The body of an entry: a text, bytes, or a file. None: the entry has none now, and its document stays as it is."""

BodyOf = Callable[[PushedEntry], Body]


@dataclass(slots=True)
class PushReport:
    """The result of a push.

    Attributes:
        results: number of entries by their results.
        refused: the entries that were refused, or whose bodies are missing.
        sync: the ended listing; its deletions follow. None if the push was not a complete listing.
    """

    results: Counter[str] = field(default_factory=Counter)
    refused: list[EntryResult] = field(default_factory=list)
    sync: Sync | None = None

    def add(self, result: EntryResult) -> None:
        self.results[result.result] += 1
        if result.result in {"refused", "body_needed"}:
            self.refused.append(result)


def pages_of(entries: Iterable[PushedEntry]) -> Iterator[list[PushedEntry]]:
    """Yield entries in pages that are small enough for a request."""
    page, size = list[PushedEntry](), 0
    for entry in entries:
        length = 4 * len(listed(entry).get("text", ""))  # a character has at most four bytes
        if page and (len(page) == _PAGE or size + length > _PAGE_BYTES):
            yield page
            page, size = [], 0
        page.append(entry)
        size += length
    if page:
        yield page


def listed(entry: PushedEntry) -> PushedEntry:
    """Return an entry as it is listed: without a text that is too large for a page, and is sent as a file if needed."""
    if fits_page(entry.get("text", "")):
        return entry
    light: PushedEntry = {**entry}
    digest = hashlib.sha256(light.pop("text").encode()).hexdigest()
    return {"version": f"sha256-{digest}", **light}


def fits_page(body: Body) -> bool:
    """Return whether a body can be a part of a page; others are sent as files."""
    return isinstance(body, str) and 4 * len(body) <= _PAGE_BYTES


def page_request(
    source: str, entries: Sequence[PushedEntry], listing: str | None, checkpoint: str | None
) -> Request[list[EntryResult]]:
    body = {"entries": list(entries)} | given({"listing": listing, "checkpoint": checkpoint})
    return Request("POST", f"{path_of(source)}/entries", _results, body=body, repeatable=True, slow=True)


def file_request(source: str, entry: PushedEntry, file: Attachment, listing: str | None) -> Request[EntryResult]:
    form = {"entry": json.dumps({name: value for name, value in entry.items() if name != "text"})} | given(
        {"listing": listing}
    )
    return Request(
        "POST", f"{path_of(source)}/files", as_type(EntryResult), form=form, file=file, repeatable=True, slow=True
    )


def attachment(entry: PushedEntry, body: bytes | Path | str, filename: str | None = None) -> Attachment:
    """Return a body as a file."""
    content = body.encode() if isinstance(body, str) else body
    usual = content.name if isinstance(content, Path) else entry["key"].rpartition("/")[2]
    return Attachment(content, filename or entry.get("filename") or usual or "file")


def path_of(source: str) -> str:
    return f"/v1/sources/{segment(source)}"


def _results(response: Any) -> list[EntryResult]:
    reply: Json = response.json()
    return [EntryResult.model_validate(each) for each in reply["results"]]
