"""Sources: corpora that the server keeps collections in sync with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from foreask_client.models import Json, Source, Sync, Withheld
from foreask_client.requests import Pages, Request, as_type, get, given, post, segment
from foreask_client.synchronous.connection import Connection


class SourcesApi(Connection):
    """Methods for sources and their syncs."""

    def add_source(
        self,
        name: str,
        uri: str,
        *,
        collection: str = "default",
        kind: str | None = None,
        options: Mapping[str, Any] | None = None,
        secret_name: str | None = None,
        schedule: str | None = None,
        time_zone: str = "UTC",
        max_delete_share: float | None = None,
        copy_files: bool | None = None,
    ) -> Source:
        """Add a source to a collection. It is synced at the times of its schedule, or by `start_sync`.

        Args:
            name: name of the source, which is the first part of its documents' external ids.
            uri: its address, which the operator must have allowed.
            collection: name of the collection; the source creates it.
            kind: kind of the source; None: by the address.
            options: options of the kind.
            secret_name: name of the operator's setting with the secret; None if it needs none.
            schedule: cron expression with five fields; None: only on request.
            time_zone: time zone of the schedule, such as `Europe/Berlin`.
            max_delete_share: part of its documents that one sync may delete without approval; None: a tenth.
            copy_files: the option of sources of files that has their bytes copied; None: they stay in the source, and
                a version can be read again only as long as the source has it.
        """
        if copy_files is not None:
            options = {**(options or {}), "copy_files": copy_files}
        body: Json = {"name": name, "uri": uri, "collection": collection, "time_zone": time_zone}
        body |= given({"kind": kind, "secret_name": secret_name, "schedule": schedule, "options": options})
        return self.send(post("/v1/sources", Source, body | given({"max_delete_share": max_delete_share})))

    def sources(self, *, collection: str | None = None) -> Iterator[Source]:
        """List sources by name, each with its newest sync."""
        return self.items(Pages("/v1/sources", given({"collection": collection}), Source.model_validate))

    def source(self, name: str) -> Source:
        """Return a source with its newest sync."""
        return self.send(get(_path(name), Source))

    def change_source(self, name: str, changes: Mapping[str, Any], *, confirm: bool = False) -> Source:
        """Change a source.

        Args:
            name: name of the source.
            changes: new values of `uri`, `options`, `secret_name`, `schedule`, `time_zone` and `max_delete_share`.
            confirm: whether the address or the options of a source with documents may change. Documents of entries
                that the source lacks afterwards are deleted.
        """
        body = {**changes, "confirm": confirm}
        return self.send(Request("PATCH", _path(name), as_type(Source), body=body, repeatable=True))

    def remove_source(self, name: str, *, documents: Literal["keep", "delete"]) -> Source:
        """Remove a source, and keep or delete its documents."""
        params = {"documents": documents}
        return self.send(Request("DELETE", _path(name), as_type(Source), params=params, repeatable=True))

    def start_sync(self, name: str) -> Sync:
        """Start a sync. Its id is the id of its job, which `job_events` follows.

        If a sync is open, the error has status 409 and the id of its job as `job_id` in its `problem`.
        """
        return self.send(post(f"{_path(name)}/sync", Sync))

    def syncs(self, name: str) -> Iterator[Sync]:
        """List the syncs of a source, newest first."""
        return self.items(Pages(f"{_path(name)}/syncs", {}, Sync.model_validate))

    def withheld_deletions(self, name: str) -> Withheld:
        """Return the deletions of a source that need approval: their number, and the first keys."""
        return self.send(get(f"{_path(name)}/withheld", Withheld))

    def approve_deletions(self, name: str, deletions: int) -> Sync:
        """Approve withheld deletions. The source is listed again, and at most this many documents are deleted."""
        return self.send(post(f"{_path(name)}/approve", Sync, {"deletions": deletions}))

    def hint_source(self, name: str, keys: Sequence[str]) -> Json:
        """Report entries that may have changed. They are looked up without a listing.

        Returns:
            The numbers of keys that are looked up (`accepted`), and of keys outside the source (`ignored`).
        """
        return self.send(post(f"{_path(name)}/hints", Json, {"keys": list(keys)}, repeatable=True))


def _path(name: str) -> str:
    return f"/v1/sources/{segment(name)}"
