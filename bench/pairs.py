"""Pairs of runs of two trees on the same text: `python -m bench.pairs BEFORE [--runs N] NAME [ARGUMENT...]`.

A benchmark with the option `--json` measures the checkout BEFORE, which needs an installed `.venv`, and this one in
turns, so that other work on the machine disturbs both. Prints the medians of both, and the median and the range of the
ratios of the pairs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from bench.__main__ import BENCHMARKS, ROOT, run
from bench.runs import Numbers

Tables = dict[str, list[Numbers]]
"""The numbers of each run, by the title of the measurement."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--runs", type=int, default=5, help="pairs of runs; %(default)s by default")
    parser.add_argument("name", choices=BENCHMARKS, metavar="NAME", help="benchmark")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="passed to the benchmark")
    options = parser.parse_args()
    before, after = Tables(), Tables()
    for number in range(options.runs):
        pair = [(before, options.before.resolve()), (after, ROOT)]
        for tables, tree in pair if number % 2 == 0 else reversed(pair):
            measure(tables, tree, options)
    for title in before:
        print_pairs(title, before[title], after[title])


def measure(tables: Tables, tree: Path, options: argparse.Namespace) -> None:
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        run(options.name, [*options.arguments, "--json", file.name], tree)
        for line in file:
            measured = json.loads(line)
            tables.setdefault(measured["title"], []).append(measured["numbers"])


def print_pairs(title: str, before: list[Numbers], after: list[Numbers]) -> None:
    print(f"\n{title}: {len(before)} pairs")
    print(f"  {'':44}{'before':>10}{'after':>10}{'ratio':>8}   lowest to highest", flush=True)
    for name in dict.fromkeys(name for each in (*before, *after) for name in each):
        first, second = ([each.get(name, 0.0) for each in runs] for runs in (before, after))
        ratios = [new / old for old, new in zip(first, second, strict=True) if old]
        spread = f"{statistics.median(ratios):8.2f}   {min(ratios):.2f} to {max(ratios):.2f}" if ratios else ""
        print(f"  {name:44}{statistics.median(first):10.2f}{statistics.median(second):10.2f}{spread}", flush=True)


if __name__ == "__main__":
    main()
