"""The page about packages names the files that import each package."""

import re
from pathlib import Path

import pytest

from tests.support.planted import guards

CLONE = Path(__file__).parents[2]
PAGE = CLONE / "docs/explanation/packages.md"
PRODUCT = ("api", "cli", "clients", "embedded", "features", "shared", "workers")
IMPORT = re.compile(r"^ *(?:import|from) (\w+)", re.MULTILINE)
PACKAGES = ("celery", "redis", "qdrant-client", "httpx", "openai", "tenacity", "pydantic", "structlog")


@pytest.fixture(scope="module")
def importers():
    """The files of the product by each package that they import."""
    files = {}
    for folder in PRODUCT:
        for path in sorted((CLONE / folder).rglob("*.py")):
            for package in set(IMPORT.findall(path.read_text())):
                files.setdefault(package, []).append(path.relative_to(CLONE))
    return files


def named(package):
    (row,) = re.findall(rf"^\| `{package}` \|.*\| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    return [Path(entry) for entry in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("package", PACKAGES)
@guards("docs/explanation/packages.md", "`cli/client.py`", "`cli/main.py`", means="a named file lacks the import")
def test_page_names_importers_of_package(package, importers):
    files, entries = importers[package.replace("-", "_")], named(package)

    for entry in entries:
        assert any(file.is_relative_to(entry) for file in files), f"{entry} does not import {package}"
    for file in files:
        assert any(file.is_relative_to(entry) for entry in entries), f"{file} imports {package}"
