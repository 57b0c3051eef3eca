"""`foreask mcp`: the tools for language models, over standard input and output."""

from __future__ import annotations

import typer

from cli.connection import LOCAL, Key, Url, on_behalf


def register(app: typer.Typer) -> None:
    app.command()(mcp)


def mcp(*, url: Url = LOCAL, key: Key = None) -> None:
    """Serve the Model Context Protocol on standard input and output, with the tools that the key permits."""
    from foreask_mcp.main import client_of, serve

    from shared.domain.errors import InvalidInput

    given = on_behalf()
    try:
        client = client_of(url, given.token or key, given.user, given.groups)
    except ValueError as error:
        raise InvalidInput(str(error), field="url") from error
    serve(client)
