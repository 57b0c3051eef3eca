"""The version of foreask: `python -m deploy.versions [NEW]`, which is `make version TO=NEW`.

The version in the pyproject.toml of the clone decides. Every other file that states it is written and checked here.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
# Distributions and their folders.
DISTRIBUTIONS = {
    "foreask": ".",
    "foreask-client": "clients/python",
    "foreask-mcp": "clients/mcp",
    "foreask-evaluation": "clients/evaluation",
    "foreask-langchain": "clients/langchain",
    "foreask-llama-index": "clients/llama-index",
    "foreask-haystack": "clients/haystack",
    "foreask-dlt": "clients/dlt",
}
CHART = "deploy/helm/foreask/Chart.yaml"
_VERSION = re.compile(r'^version = "(?P<version>[^"]+)"$', re.MULTILINE)
_REQUIRED = re.compile(rf'"((?:{"|".join(DISTRIBUTIONS)})(?:\[[^\]]*\])?)[<>=][^"]*"')
_CHARTS = re.compile(r"^(version|appVersion): .*$", re.MULTILINE)
_HEADING = re.compile(r"^## (?P<version>\S+) \((?P<date>.*)\)$", re.MULTILINE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def current(root: Path = ROOT) -> str:
    """Return the version of the clone."""
    return str(_project(root, ".")["version"])


def range_of(version: str) -> str:
    """Return the versions of our other distributions that work with a version, as in a requirement."""
    major, minor, _ = Version(version).release
    until = f"0.{minor + 1}" if major == 0 else str(major + 1)
    return f">={major}.{minor},<{until}"


def write(root: Path, version: str) -> None:
    """Write the version into every file that states it."""
    Version(version)  # raises an error for other words
    for folder in DISTRIBUTIONS.values():
        file = root / folder / "pyproject.toml"
        text = _VERSION.sub(f'version = "{version}"', file.read_text(), count=1)
        file.write_text(_REQUIRED.sub(rf'"\g<1>{range_of(version)}"', text))
    chart = root / CHART
    chart.write_text(_CHARTS.sub(rf"\g<1>: {version}", chart.read_text()))


def disagreements(root: Path = ROOT) -> Iterator[str]:
    """Yield a sentence for each file that states another version than the clone's pyproject.toml."""
    version = current(root)
    for name, folder in DISTRIBUTIONS.items():
        project, file = _project(root, folder), str(Path(folder, "pyproject.toml"))
        if (project["name"], project["version"]) != (name, version):
            yield f"{file}: it has {project['name']} {project['version']} instead of {name} {version}."
        extras = project.get("optional-dependencies", {}).values()
        for line in (*project["dependencies"], *(line for lines in extras for line in lines)):
            required = Requirement(line)
            if required.name in DISTRIBUTIONS and not required.specifier.contains(version, prereleases=True):
                yield f"{file}: it requires {required}, which excludes {version}."
    chart = (root / CHART).read_text()
    for field in ("version", "appVersion"):
        if f"\n{field}: {version}\n" not in chart:
            yield f"{CHART}: {field} is not {version}."


def unreleased(root: Path = ROOT) -> Iterator[str]:
    """Yield the gaps of CHANGELOG.md that prevent a release: a missing date, or missing changes."""
    version, text = current(root), (root / "CHANGELOG.md").read_text()
    newest = _HEADING.search(text)
    if newest is None or newest["version"] != version:
        yield f"CHANGELOG.md: the first heading must be '## {version} (YYYY-MM-DD)'."
        return
    if not _DATE.fullmatch(newest["date"]):
        yield f"CHANGELOG.md: write the date of {version} instead of '{newest['date']}'."
    changes = re.split(r"^## ", text[newest.end() :], maxsplit=1, flags=re.MULTILINE)[0]
    if not re.search(r"^- ", changes, re.MULTILINE):
        yield f"CHANGELOG.md: {version} has no changes."


def _project(root: Path, folder: str) -> dict[str, object]:
    return dict(tomllib.loads((root / folder / "pyproject.toml").read_text())["project"])


if __name__ == "__main__":
    if new := "".join(sys.argv[1:]):
        write(ROOT, new)
    print(current())
    sys.exit("\n".join(disagreements()) or None)
