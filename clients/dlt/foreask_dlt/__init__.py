"""A dlt destination that pushes rows to a source of a foreask server.

Each row is an entry, and its key is the name of its table with its primary key. A row whose column with the hint
`hard_delete` says so is deleted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from foreask_client import Client

from foreask_dlt.rows import Columns, RefusedRows, entries_of

if TYPE_CHECKING:
    from dlt import Pipeline
    from dlt.common.destination import Destination
    from dlt.common.pipeline import LoadInfo

__all__ = ["Columns", "RefusedRows", "foreask", "run_complete"]

_LOCAL = "http://127.0.0.1:8350"
_BATCH = 500  # rows of a request


def foreask(
    source: str,
    *,
    url: str | None = None,
    api_key: str | None = None,
    listing: str | None = None,
    **columns: Any,
) -> Destination[Any, Any]:
    """Return a destination that pushes rows to a source of the kind `push`.

    A row that the server refuses fails its load job, after the other rows of its batch are saved.

    Args:
        source: name of the source.
        url: address of the server; None: FOREASK_URL, or a server on this machine.
        api_key: key with the scope `write`; None: FOREASK_API_KEY, if it is set.
        listing: id of an open listing that the rows belong to; None: they are changes. See `run_complete`.
        **columns: names of columns; see `Columns`.
    """
    import dlt  # noqa: PLC0415 - the rows are tested without it
    from dlt.common.destination.exceptions import DestinationTerminalException  # noqa: PLC0415

    names = Columns(**columns)

    def push(items: Any, table: Any) -> None:
        entries = entries_of(items, table, names)
        with _client(url, api_key) as client:
            report = client.push(source, entries, complete=False, listing=listing)
        if report.refused:
            raise DestinationTerminalException(str(RefusedRows(report.refused)))

    destination: Destination[Any, Any] = dlt.destination(
        push,
        name="foreask",
        batch_size=_BATCH,
        naming_convention="direct",
        skip_dlt_columns_and_tables=True,
        max_table_nesting=0,
    )()
    return destination


def run_complete(
    pipeline: Pipeline,
    data: Any,
    source: str,
    *,
    url: str | None = None,
    api_key: str | None = None,
    listing_key: str = "dlt",
    **columns: Any,
) -> LoadInfo:
    """Run a pipeline whose data are all rows of a source: documents of rows that it lacks are deleted.

    The deletions have the protections of syncs. If a load job fails, the listing stays open, and the next run with the
    same `listing_key` continues it.

    Args:
        pipeline: the pipeline; its destination is not used.
        data: resources or sources, without incremental loading.
        source: name of the source.
        url: address of the server, as of `foreask`.
        api_key: key with the scope `write`, as of `foreask`.
        listing_key: idempotency key of the listing.
        **columns: names of columns; see `Columns`.
    """
    with _client(url, api_key) as client:
        listing = client.start_listing(source, key=listing_key)
        destination = foreask(source, url=url, api_key=api_key, listing=listing.id, **columns)
        info: LoadInfo = pipeline.run(data, destination=destination)
        info.raise_on_failed_jobs()
        client.end_listing(source, listing.id)
    return info


def _client(url: str | None, api_key: str | None) -> Client:
    return Client(url or os.environ.get("FOREASK_URL", _LOCAL), api_key or os.environ.get("FOREASK_API_KEY"))
