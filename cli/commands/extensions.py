"""Commands of other distributions, such as `foreask eval` of foreask-evaluation."""

from __future__ import annotations

from importlib.metadata import entry_points

import typer

from shared.domain.errors import InvalidInput

GROUP = "foreask.commands"


def register(app: typer.Typer) -> None:
    """Add the commands of installed distributions; each entry point is a function that adds one."""
    installed = entry_points(group=GROUP)
    for command in installed:
        command.load()(app)
    if "eval" not in installed.names:
        app.command(name="eval", add_help_option=False, context_settings={"ignore_unknown_options": True})(_missing)


def _missing(arguments: list[str] | None = typer.Argument(None, hidden=True)) -> None:  # noqa: ARG001, B008
    """Compare search strategies with labelled questions. Needs foreask's extra `eval`."""
    raise InvalidInput("The evaluation is not installed: install foreask with its extra 'eval'")
