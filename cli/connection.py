"""Options and clients of the commands that connect to a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from cli.client import CliClient

Url = Annotated[str, typer.Option(envvar="FOREASK_URL", help="URL of the server.", rich_help_panel="Server")]
Key = Annotated[
    str | None,
    typer.Option(envvar="FOREASK_API_KEY", help="API key.", rich_help_panel="Server", show_envvar=True),
]
Collection = Annotated[str, typer.Option("--collection", "-c", help="Name of the collection.")]
AnyCollection = Annotated[str | None, typer.Option("--collection", "-c", help="Only items of this collection.")]
LOCAL = "http://127.0.0.1:8350"


def client_of(url: str, key: str | None) -> CliClient:
    from cli.client import CliClient as Http

    return Http(url, key)


def console_of() -> Console:
    from rich.console import Console as Terminal

    return Terminal()
