"""The lists of packages with hashes agree with the pyproject.toml files and with constraints.txt."""

import re
import tomllib
from importlib.metadata import distribution, distributions

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from deploy import lock
from embedded import llama
from tests.support.deployment import ROOT

# The sources of each list and the extra of the server that it adds.
LISTS = {"server": (lock.SERVER, None), "mcp": (lock.MCP, None)} | {name: (lock.SERVER, name) for name in lock.EXTRAS}


def listed(name):
    """Return the requirement and the lines of each package of a list."""
    return {Requirement(line): pin for line, pin in lock.pins_of((lock.FOLDER / f"{name}.txt").read_text()).items()}


def constraints():
    pins = (line.partition("==") for line in (ROOT / "constraints.txt").read_text().split())
    return {canonicalize_name(name): version for name, _, version in pins}


def test_installed_versions_support_the_oldest_python():
    needed = {f"{each.name} {each.version}": each.metadata["Requires-Python"] or "" for each in distributions()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"

    assert not {name: pythons for name, pythons in needed.items() if not SpecifierSet(pythons).contains(oldest)}


def required(sources, extra):
    """Return the names of the packages that the sources require on this system, directly or indirectly."""
    missing = [line for source in sources for line in declared(source, extra)]
    found = set()
    while missing:
        requirement = Requirement(missing.pop())
        name = canonicalize_name(requirement.name)
        if not applies(requirement, extra) or name in {*lock.OWN, *lock.UNUSED}:
            continue
        for each in {"", *requirement.extras}:
            if (name, each) not in found:
                found.add((name, each))
                missing += [line for line in distribution(name).requires or () if applies(Requirement(line), each)]
    return {name for name, _ in found} | ({lock.MODEL} if extra == "embedded" else set())


def declared(source, extra):
    project = tomllib.loads((ROOT / source).read_text())["project"]
    return [*project["dependencies"], *project.get("optional-dependencies", {}).get(extra, ())]


def applies(requirement, extra):
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra or ""})


@pytest.mark.parametrize("name", LISTS)
def test_list_contains_every_required_package(name):
    sources, extra = LISTS[name]
    lists = {name, "server"} if extra else {name}
    pinned = {canonicalize_name(each.name) for each in (each for part in lists for each in listed(part))}

    assert required(sources, extra) <= pinned


@pytest.mark.parametrize("name", LISTS)
def test_listed_versions_are_those_of_constraints(name):
    versions = constraints()
    here = {canonicalize_name(each.name): each for each in listed(name) if applies(each, None)}

    assert here
    assert {each: str(pin.specifier) for each, pin in here.items()} == {each: f"=={versions[each]}" for each in here}


@pytest.mark.parametrize("name", LISTS)
def test_every_listed_package_has_hashes(name):
    text = (lock.FOLDER / f"{name}.txt").read_text()

    assert text.splitlines()[1:3] == ["--require-hashes", "--only-binary :all:"]
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}\b", pin) for pin in listed(name).values())
    assert "://" not in text


def test_list_of_extra_adds_only_its_packages():
    server = {each.name for each in listed("server")}

    for extra in lock.EXTRAS:
        added = {each.name for each in listed(extra)}
        assert added
        assert not added & server


def test_command_for_language_model_names_listed_version():
    assert llama.PACKAGE in {str(each) for each in listed("embedded")}
