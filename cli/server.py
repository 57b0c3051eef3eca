"""What the commands that talk to a server have in common: which one, and as whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from cli.client import Client

Url = Annotated[str, typer.Option(envvar="FOREASK_URL", help="Where the server is.", rich_help_panel="Server")]
Key = Annotated[
    str | None,
    typer.Option(envvar="FOREASK_API_KEY", help="The key to it.", rich_help_panel="Server", show_envvar=True),
]
Collection = Annotated[str, typer.Option("--collection", "-c", help="The index to use.")]
AnyCollection = Annotated[str | None, typer.Option("--collection", "-c", help="Only those of this one.")]
LOCAL = "http://127.0.0.1:8350"


def client_of(url: str, key: str | None) -> Client:
    from cli.client import Client as Http

    return Http(url, key)


def console_of() -> Console:
    from rich.console import Console as Terminal

    return Terminal()
