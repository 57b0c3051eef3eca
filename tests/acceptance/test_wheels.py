"""The wheels in clean environments: their files, their declared dependencies, and their commands.

An environment contains one wheel and its declared dependencies, linked from the environment of the tests, so that
an undeclared import fails. Nothing is downloaded.
"""

import json
import os
import subprocess
import sys
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CLONE = Path(__file__).parents[2]
SERVER = ("api", "cli", "embedded", "features", "shared", "workers")
# Distribution: its folder in the clone, and its top-level packages.
SOURCES = {
    "foreask": (CLONE, SERVER),
    "foreask-client": (CLONE / "clients/python", ("foreask_client",)),
    "foreask-mcp": (CLONE / "clients/mcp", ("foreask_mcp",)),
    "foreask-evaluation": (CLONE / "clients/evaluation", ("foreask_evaluation",)),
    "foreask-langchain": (CLONE / "clients/langchain", ("foreask_langchain",)),
    "foreask-llama-index": (CLONE / "clients/llama-index", ("foreask_llama_index",)),
    "foreask-haystack": (CLONE / "clients/haystack", ("haystack_integrations",)),
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels by distribution, built from copies because a build writes into its source folder."""
    folder = tmp_path_factory.mktemp("wheels")
    return {name: built(name, folder) for name in SOURCES}


def built(name, folder):
    source, packages = SOURCES[name]
    copy = folder / name
    copy.mkdir()
    for package in packages:
        copytree(source / package, copy / package, ignore=ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "LICENSE", "ABOUT.md" if name == "foreask" else "README.md"):
        (copy / file).write_bytes((source / file).read_bytes())
    # As `pip wheel --no-build-isolation` does, without the seconds that pip takes for each wheel.
    run(sys.executable, "-c", "from setuptools.build_meta import build_wheel; build_wheel('.')", cwd=copy)
    (wheel,) = copy.glob("*.whl")
    return wheel


def run(*command, cwd, **options):
    ended = ran(*command, cwd=cwd, **options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def ran(*command, cwd, **options):
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def environments(wheels, tmp_path_factory):
    """For each wheel, the programs of a clean environment that also contains the other wheels that it requires."""
    return {name: environment(name, wheels, tmp_path_factory.mktemp(name)) for name in wheels}


def environment(name, wheels, folder):
    venv.create(folder, symlinks=True)
    required = dependencies(name, wheels)
    files = [wheels[each] for each in wheels if each in required]
    install = ("install", "--quiet", "--no-index", "--no-deps", *files)
    run(sys.executable, "-m", "pip", "--python", folder / "bin/python", *install, cwd=folder)
    packages = next(folder.glob("lib/python*/site-packages"))
    for each in required - wheels.keys():
        link(each, packages)
    return folder / "bin"


def dependencies(name, wheels):
    """Return a distribution and its direct and indirect requirements."""
    visited, missing = set(), [(name, frozenset())]
    while missing:
        (distribution, extras) = new = missing.pop()
        visited.add(new)
        requirements = [each for each in requirements_of(distribution, wheels) if applies(each, extras)]
        required = {(canonicalize_name(each.name), frozenset(each.extras)) for each in requirements}
        missing += required - visited
    return {distribution for distribution, _ in visited}


def requirements_of(name, wheels):
    """Return the requirements of a wheel or of an installed distribution."""
    if name not in wheels:
        return list(map(Requirement, distribution(name).requires or ()))
    with zipfile.ZipFile(wheels[name]) as wheel:
        (file,) = (file for file in wheel.namelist() if file.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(wheel.read(file))
    return list(map(Requirement, metadata.get_all("Requires-Dist")))


def applies(requirement, extras):
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""})


def link(name, packages):
    """Link the top-level files and folders of an installed distribution."""
    installed = distribution(name)
    tops = {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}
    for top in tops:
        if not (packages / top).exists():
            (packages / top).symlink_to(installed.locate_file(top))


@pytest.mark.parametrize("name", SOURCES)
def test_wheel_contains_exactly_its_packages(wheels, name):
    source, packages = SOURCES[name]
    with zipfile.ZipFile(wheels[name]) as wheel:
        files = {file for file in wheel.namelist() if ".dist-info/" not in file}

    assert {file.partition("/")[0] for file in files} == set(packages)
    sources = {path for package in packages for path in (source / package).rglob("*") if path.is_file()}
    expected = {str(path.relative_to(source)) for path in sources if "__pycache__" not in path.parts}
    assert files == expected


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("foreask", ["foreask"]),
        ("foreask", ["foreask", "mcp"]),
        ("foreask-mcp", ["foreask-mcp"]),
        ("foreask-evaluation", ["foreask", "eval"]),
    ],
)
def test_command_prints_help(environments, tmp_path, name, command):
    program, *arguments = command

    shown = run(environments[name] / program, *arguments, "--help", cwd=tmp_path)

    assert f"usage: {' '.join(command)}" in shown.lower()


@pytest.mark.parametrize(("name", "command"), [("foreask", ["foreask", "mcp"]), ("foreask-mcp", ["foreask-mcp"])])
def test_mcp_command_answers_initialize(environments, tmp_path, name, command):
    program, *arguments = command

    reply = run(environments[name] / program, *arguments, cwd=tmp_path, input=json.dumps(INITIALIZE) + "\n")

    assert json.loads(reply)["result"]["serverInfo"]["name"] == "foreask"


def test_client_is_imported_without_server(environments, tmp_path):
    program = "import foreask_client, sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"

    loaded = run(environments["foreask-client"] / "python", "-c", program, cwd=tmp_path).split()

    assert "foreask_client" in loaded
    assert not set(loaded) & {*SERVER, "foreask_mcp"}


def test_missing_evaluation_names_its_extra(environments, tmp_path):
    ended = ran(environments["foreask"] / "foreask", "eval", "questions/", "--answers", cwd=tmp_path)

    assert ended.returncode == 1
    assert ended.stderr == "The evaluation is not installed: install foreask with its extra 'eval'\n"


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("foreask-langchain", "foreask_langchain"),
        ("foreask-llama-index", "foreask_llama_index"),
        ("foreask-haystack", "haystack_integrations.components.retrievers.foreask"),
    ],
)
def test_retriever_needs_only_declared_dependencies(environments, tmp_path, name, module):
    run(environments[name] / "python", "-c", f"from {module} import ForeaskRetriever", cwd=tmp_path)


@pytest.mark.parametrize("module", ["api.app", "workers.tasks", "shared.services"])
def test_server_modules_need_only_declared_dependencies(environments, tmp_path, module):
    run(environments["foreask"] / "python", "-c", f"import {module}", cwd=tmp_path)
