"""Options and clients of the commands that connect to a server."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
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
_UNLIMITED = 1_000_000  # characters of a line
LOCAL = "http://127.0.0.1:8350"


@dataclass(frozen=True, slots=True)
class OnBehalf:
    """The options before the command, which name a person.

    Args:
        token: signed token of a person, which is sent instead of the key.
        user: name of the person for whom the key acts.
        groups: groups of this person.
    """

    token: str | None = None
    user: str | None = None
    groups: tuple[str, ...] = ()


# Typer contains a copy of Click, whose current context is not found by `click`, so the options are stored here.
_NOTHING = OnBehalf()
given: ContextVar[OnBehalf] = ContextVar("given", default=_NOTHING)


def client_of(url: str, key: str | None) -> CliClient:
    from cli.client import CliClient as Http

    on_behalf = given.get()
    return Http(url, on_behalf.token or key, user=on_behalf.user, groups=on_behalf.groups)


def console_of() -> Console:
    """Return the console of standard output; without a terminal it never wraps a line."""
    from rich.console import Console as Terminal

    console = Terminal()
    if not console.is_terminal:
        console.width = _UNLIMITED
    return console
