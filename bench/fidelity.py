"""How much of a file's text arrives: `python -m bench fidelity FOLDER... [--other CONVERTER]`.

For each file of the folders whose format has a plain reading (`bench.plain_readings`; PDF needs poppler's `pdftotext`):
the share of its words that are in the parser's text, the share of its pairs of neighbouring words, and the share of the
text's words that the reading does not have. The last line of a format says how often the parser itself noticed a loss.
`--other` compares a converter that is installed in this environment: markitdown, docling or pypandoc. Processor seconds
are of the parser alone, in this process.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from bench.plain_readings import READINGS, reading_of, words
from shared.domain.errors import Unreadable
from shared.ingest.parse.document import ExtractedText
from shared.ingest.parse.extraction import extract

FILES = Path(__file__).resolve().parents[1] / "tests" / "files" / "good"
_MIN_WORDS = 8
_MAX_CHARS = 100_000_000
_LOW = 0.98
_SAMPLE = 6


@dataclass(frozen=True)
class Score:
    """The comparison of a text with the plain reading of its file.

    Args:
        arrived: share of the reading's words that are in the text.
        pairs: the same for pairs of neighbouring words.
        extra: share of the text's words that the reading does not have.
        missing: some of the missing words.
        noticed: whether the parser itself reports a loss.
    """

    path: Path
    arrived: float
    pairs: float
    extra: float
    missing: Sequence[str]
    seconds: float
    noticed: bool


def score(path: Path, expected: Sequence[str], text: str, seconds: float, *, noticed: bool = False) -> Score:
    found = words(text)
    lost = Counter(expected) - Counter(found)
    extra = Counter(found) - Counter(expected)
    pairs = Counter(pairwise(expected))
    lost_pairs = pairs - Counter(pairwise(found))
    return Score(
        path,
        1 - lost.total() / len(expected),
        1 - lost_pairs.total() / max(1, pairs.total()),
        extra.total() / max(1, len(found)),
        [word for word, _ in lost.most_common(_SAMPLE)],
        seconds,
        noticed,
    )


def parsed(path: Path) -> tuple[str, bool]:
    """Return the parser's text of a file, and whether it reports a loss; empty if it rejects the file."""
    try:
        extracted = extract(path.read_bytes(), filename=path.name, media_type=None, max_text_chars=_MAX_CHARS)
    except Unreadable:
        return "", True
    assert isinstance(extracted, ExtractedText)
    return extracted.text, bool(extracted.losses or extracted.unread)


def converter(name: str) -> Callable[[Path], tuple[str, bool]]:
    """Return the function of another converter; files that it cannot read have no text."""
    module = import_module(name)
    if name == "markitdown":
        convert = lambda path: module.MarkItDown().convert(str(path)).text_content  # noqa: E731
    elif name == "docling":
        documents = import_module("docling.document_converter").DocumentConverter()
        convert = lambda path: documents.convert(path).document.export_to_markdown()  # noqa: E731
    else:
        convert = lambda path: module.convert_file(str(path), "gfm-raw_html", extra_args=["--wrap=none"])  # noqa: E731

    def text_of(path: Path) -> tuple[str, bool]:
        try:
            return str(convert(path) or ""), False  # type: ignore[no-untyped-call]
        except Exception as error:  # noqa: BLE001 - any library, any error
            print(f"  {name} cannot read {path.name}: {type(error).__name__}", file=sys.stderr)
            return "", True

    return text_of


def scores(folders: Iterable[Path], read: Callable[[Path], tuple[str, bool]]) -> Iterator[Score]:
    for path in sorted(path for folder in folders for path in folder.rglob("*") if path.is_file()):
        if path.name.endswith(".expected.md") or path.suffix[1:].lower() not in READINGS:
            continue
        try:
            expected = words(reading_of(path) or "")
        except Exception as error:  # noqa: BLE001 - the reading is not a parser, and a damaged file has no measure
            print(f"  no plain reading of {path.name}: {type(error).__name__}", file=sys.stderr)
            continue
        if len(expected) >= _MIN_WORDS:
            started = time.process_time()
            text, noticed = read(path)
            yield score(path, expected, text, time.process_time() - started, noticed=noticed)


def table(found: Sequence[Score]) -> Iterator[str]:
    by_format: dict[str, list[Score]] = defaultdict(list)
    for one in found:
        by_format[one.path.suffix[1:].lower()].append(one)
    yield "| format | files | words arrived | pairs | extra | below 98 % | loss noticed | CPU ms a file |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, some in sorted(by_format.items()):
        means = (statistics.mean(getattr(one, field) for one in some) for field in ("arrived", "pairs", "extra"))
        columns = [name, str(len(some)), *(f"{mean:.3f}" for mean in means)]
        columns += [str(sum(one.arrived < _LOW for one in some)), str(sum(one.noticed for one in some))]
        yield f"| {' | '.join(columns)} | {1000 * statistics.mean(one.seconds for one in some):.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench fidelity", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, default=[FILES], metavar="FOLDER")
    parser.add_argument("--other", action="append", default=[], choices=("markitdown", "docling", "pypandoc"))
    options = parser.parse_args()
    for name, read in (("foreask", parsed), *((other, converter(other)) for other in options.other)):
        found = list(scores(options.folders, read))
        print(name, *table(found), sep="\n")
        for one in sorted(found, key=lambda one: one.arrived):
            if one.arrived < _LOW:
                print(f"  {one.arrived:.3f} {one.path.name}: without {' '.join(one.missing)}")


if __name__ == "__main__":
    main()
