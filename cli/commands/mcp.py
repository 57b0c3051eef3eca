"""`foreask mcp`: the tools for language models, over standard input and output."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.connection import LOCAL, Key, Url, given


def register(app: typer.Typer) -> None:
    app.command()(mcp)


_Collection = Annotated[
    str, typer.Option("--collection", "-c", envvar="FOREASK_COLLECTION", help="Collection of calls that name none.")
]


def mcp(*, collection: _Collection = "default", url: Url = LOCAL, key: Key = None) -> None:
    """Serve the Model Context Protocol on standard input and output, with the tools that the key permits."""
    from foreask_mcp.main import client_of, serve

    from shared.domain.errors import InvalidInput

    on_behalf = given.get()
    try:
        client = client_of(url, on_behalf.token or key, on_behalf.user, on_behalf.groups)
    except ValueError as error:
        raise InvalidInput(str(error), field="url") from error
    serve(client, collection)
