"""The explanation of a query: the result of each stage, and the rank of each chunk in each channel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from foreask_client import FoundChunk
from rich.console import Console
from rich.text import Text

from cli.tables import Table

Json = Mapping[str, Any]
_EVIDENCE = ("similarity", "words", "same_question")


def print_explanation(console: Console, chunks: Sequence[FoundChunk], explained: Json) -> None:
    console.print()
    console.print(_stages(explained["stages"]))
    for line in _rewritten(explained["rewritten"] or {}):
        console.print(Text(line), soft_wrap=True)
    console.print(_channels(chunks, explained["weights"]))


def _stages(stages: Mapping[str, Json]) -> Table:
    table = _table("stage", "ms", "result")
    for name, stage in stages.items():
        milliseconds = stage["milliseconds"]
        sentence = f"skipped: {stage['skipped']}" if stage["skipped"] else stage["summary"] or ""
        table.add_row(name, "" if milliseconds is None else f"{milliseconds:.1f}", Text(sentence))
    return table


def _rewritten(rewritten: Json) -> Iterator[str]:
    for name, value in rewritten.items():
        if value:
            text = "; ".join(value) if isinstance(value, list) else value
            yield f"{name.replace('_', ' ')}: {text}"


def _channels(chunks: Sequence[FoundChunk], weights: Mapping[str, float]) -> Table:
    channels = [f"{channel} x {weight:g}" for channel, weight in weights.items()]
    table = _table("chunk", "score", *channels, *(name.replace("_", " ") for name in _EVIDENCE))
    for number, chunk in enumerate(chunks, 1):
        ranks = [(chunk.channels or {}).get(channel) for channel in weights]
        cells = ["-" if rank is None else f"#{rank['rank']}  {rank['score']:.2f}" for rank in ranks]
        parts = chunk.evidence or {}  # exists with the default fusion only
        cells += [f"{parts[name]:.2f}" if name in parts else "" for name in _EVIDENCE]
        table.add_row(f"{number}. {chunk.external_id}", f"{chunk.score:.2f}", *cells)
    return table


def _table(*columns: str) -> Table:
    return Table(*columns, whole=columns[:1], box=None, pad_edge=False, header_style="dim")
