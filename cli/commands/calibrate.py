"""The command that calibrates a collection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.connection import LOCAL, Key, Url, client_of, console_of


def register(app: typer.Typer) -> None:
    app.command()(calibrate)


def calibrate(
    collection: Annotated[str, typer.Argument(help="Name of the collection.")],
    questions: Annotated[
        Path | None,
        typer.Argument(
            help='Labelled questions, JSONL: {"question": ..., "external_ids": [...]} or {..., "chunk_ids": [...]}'
        ),
    ] = None,
    *,
    reset: Annotated[bool, typer.Option("--reset", help="Reset to equal weights.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the measurements as JSON.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Choose the weight of each channel by questions whose answers are known; 30 questions are enough to help.

    Equal weights are kept unless others are significantly better. Without a file the weights do not change, and only
    the baseline similarity of the embedding model and the channels' results for the collection's own questions are
    measured. No language model is called.
    """
    from cli import output

    if reset and questions is not None:
        raise typer.BadParameter("--reset and a file of labelled questions exclude each other.")
    with client_of(url, key) as client:
        if reset:
            client.reset_calibration(collection)
            console_of().print(f"{collection}: every channel has the same weight")
            return
        evidence = client.calibrate(collection, None if questions is None else read_labelled(questions))
    if as_json:
        output.print_json(evidence)
    else:
        console_of().print(output.calibration_table(evidence))


def read_labelled(path: Path) -> list[dict[str, Any]]:
    """Read labelled questions, one JSON object per line."""
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
