"""The command that calibrates a collection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.server import LOCAL, Key, Url, client_of, console_of


def register(app: typer.Typer) -> None:
    app.command()(calibrate)


def calibrate(
    collection: Annotated[str, typer.Argument(help="The collection.")],
    questions: Annotated[
        Path | None,
        typer.Argument(
            help='Labelled questions, JSONL: {"question": ..., "external_ids": [...]} or {..., "chunk_ids": [...]}'
        ),
    ] = None,
    *,
    reset: Annotated[bool, typer.Option("--reset", help="Go back to equal weights.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the evidence as JSON.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Choose how much each channel counts, by questions whose answers are known; 30 are enough to help.

    Equal weights stay unless others are better by more than chance. Without a file they stay, and only what needs no
    label is measured: the baseline of the embedding model, and what each channel finds of the collection's
    own questions.
    No language model is called.
    """
    from cli import output

    if reset and questions is not None:
        raise typer.BadParameter("--reset takes no file of labelled questions.")
    with client_of(url, key) as client:
        if reset:
            client.forget_calibration(collection)
            console_of().print(f"{collection}: every channel counts the same")
            return
        evidence = client.calibrate(collection, None if questions is None else read_labelled(questions))
    if as_json:
        output.print_json(evidence)
    else:
        console_of().print(output.calibration_table(evidence))


def read_labelled(path: Path) -> list[dict[str, Any]]:
    """Read labelled questions, a JSON object a line."""
    import orjson

    from shared.domain.errors import InvalidInput

    rows = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}", field="questions") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            raise InvalidInput(f"{path}, line {number} is not JSON: {error}", field="questions") from error
    return rows
