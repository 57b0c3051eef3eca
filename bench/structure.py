"""The structure of the code: how packages import each other, and how many lines the processes load.

    python -m bench structure [PACKAGE...]

A package's *rooms* are its direct modules and packages. An *arrow* is an import between two rooms, a *floor* is a set
of rooms that import only lower floors. A *circle* is a set of rooms that import each other, directly or not, and a
*back arrow* is an import without which a circle would be none. Imports for type checkers are not counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
HOUSE = ("api", "cli", "embedded", "features", "shared", "workers")
PACKAGES = ("house", "shared", "features", "api", "shared.ledger")
ROLES: Mapping[str, str] = {
    "api": "api.server shared.services.api",
    "parse": "workers.process shared.services.parse",
    "read": "workers.process shared.services.read",
    "generate": "workers.process shared.services.generate",
    "index": "workers.process shared.services.index",
    "scheduler": "workers.process workers.scheduler shared.services.scheduler",
}
LOADED = """
import importlib, sys
for name in sys.argv[2:]:
    importlib.import_module(name)
files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
own = {file for file in files if file and file.startswith(sys.argv[1]) and "site-packages" not in file}
print(len(own), sum(sum(1 for _ in open(file)) for file in own))
"""

Arrows = dict[str, set[str]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench structure", description="Measure the structure of the code.")
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"by default {', '.join(PACKAGES)}")
    packages = parser.parse_args().packages or PACKAGES
    graph = grimp.build_graph(*HOUSE, exclude_type_checking_imports=True, cache_dir=None)
    print(f"{'package':30} {'rooms':>6} {'floors':>6} {'arrows':>6} {'back arrows':>11}  circles")
    for package in packages:
        arrows = arrows_of(graph, package)
        circles = [sorted(circle) for circle in circles_of(arrows)]
        counts = (len(arrows), len(floors_of(arrows)), sum(map(len, arrows.values())), len(back_arrows(arrows)))
        print("{:30} {:6} {:6} {:6} {:11}  ".format(package, *counts) + "; ".join(" ↔ ".join(c) for c in circles))
    print(f"\n{'lines of':30} {'files':>6} {'lines':>7}")
    for package, (files, lines) in sizes().items():
        print(f"{package:30} {files:6} {lines:7,}")
    print(f"\n{'a process loads':30} {'files':>6} {'lines':>7}")
    for role, modules in ROLES.items():
        command = [sys.executable, "-c", LOADED, str(ROOT), *modules.split()]
        files, lines = map(int, subprocess.run(command, capture_output=True, check=True, cwd=ROOT).stdout.split())
        print(f"{role:30} {files:6} {lines:7,}")


def arrows_of(graph: grimp.ImportGraph, package: str) -> Arrows:
    """Return the rooms that each room of a package imports; the package `house` has the top-level packages."""
    rooms = set(HOUSE) if package == "house" else graph.find_children(package)
    rooms = {room for room in rooms if graph.find_descendants(room) or lines_of(room)}
    return {
        room: {
            other
            for other in rooms - {room}
            if graph.direct_import_exists(importer=room, imported=other, as_packages=True)
        }
        for room in rooms
    }


def lines_of(module: str) -> int:
    """Return the lines of a module's file; 0 for a package."""
    path = ROOT / (module.replace(".", "/") + ".py")
    return len(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else 0


def circles_of(arrows: Arrows) -> list[set[str]]:
    """Return the sets of rooms that import each other, directly or not."""
    reached = {room: _reachable(room, arrows) for room in arrows}
    circles = {frozenset(other for other in reached[room] if room in reached[other]) for room in arrows}
    return [set(circle) for circle in circles if len(circle) > 1]


def _reachable(room: str, arrows: Arrows) -> set[str]:
    found, left = set[str](), [room]
    while left:
        for other in arrows[left.pop()] - found:
            found.add(other)
            left.append(other)
    return found


def floors_of(arrows: Arrows) -> list[set[str]]:
    """Return the floors, the lowest first, without the back arrows."""
    down = _without(arrows, back_arrows(arrows))
    floors = dict[str, int]()
    for room in TopologicalSorter(down).static_order():
        floors[room] = 1 + max((floors[other] for other in down[room]), default=-1)
    return [
        {room for room, at in floors.items() if at == floor} for floor in range(max(floors.values(), default=-1) + 1)
    ]


def back_arrows(arrows: Arrows) -> list[tuple[str, str]]:
    """Return imports without which no circle is left: of each circle the arrow to the room with the most importers."""
    removed = list[tuple[str, str]]()
    while True:
        try:
            TopologicalSorter(_without(arrows, removed)).prepare()
        except CycleError as error:
            circle = error.args[1]  # each room imports the one before
            importers = Counter(other for others in arrows.values() for other in others)
            pairs = list(zip(circle[1:], circle, strict=False))
            removed.append(max(pairs, key=lambda pair: (importers[pair[0]], pair)))
        else:
            return removed


def _without(arrows: Arrows, removed: Iterable[tuple[str, str]]) -> Arrows:
    gone = set(removed)
    return {room: {other for other in others if (room, other) not in gone} for room, others in arrows.items()}


def sizes() -> dict[str, tuple[int, int]]:
    """Return the files and lines of Python, SQL and Lua of each top-level package."""
    found = {}
    for package in (*HOUSE, "shared/ledger", "clients", "tests", "bench"):
        files = [f for f in (ROOT / package).rglob("*") if f.suffix in {".py", ".sql", ".lua"} and f.is_file()]
        found[package] = (len(files), sum(len(f.read_text(encoding="utf-8").splitlines()) for f in files))
    return found


if __name__ == "__main__":
    main()
