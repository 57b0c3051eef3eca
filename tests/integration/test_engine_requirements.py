"""System libraries of the engines: bundled if possible, otherwise named in one line if missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedded import openmp, requirements
from embedded.stack import ENGINES, Stack
from shared.domain.errors import Unavailable
from shared.settings import Settings

SENTENCE = (
    "This system lacks libgomp.so.1, which the embedded language model needs; "
    "on Debian and Ubuntu: sudo apt-get install libgomp1"
)


@pytest.fixture
def lacking(tmp_path, monkeypatch):
    """Return a function that makes the engine's import fail like the loader with a missing library."""

    def lack(library):
        error = f"{library}: cannot open shared object file: No such file or directory"
        (tmp_path / "xllamacpp.py").write_text(f"raise ImportError({error!r})\n")
        paths = (str(tmp_path), os.environ.get("PYTHONPATH"))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    return lack


def test_every_engine_loads_on_this_system():
    assert {engine: requirements.lack(engine) for engine in ENGINES} == dict.fromkeys(ENGINES)


def test_llm_engine_loads_bundled_openmp(tmp_path):
    code = "import xllamacpp; print(open('/proc/self/maps').read())"
    environment = {**os.environ, **openmp.variables(tmp_path / "llm")}
    maps = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    ).stdout

    (loaded,) = {Path(line.split()[-1]) for line in maps.splitlines() if "libgomp" in line}
    assert loaded == (tmp_path / "llm" / "libgomp.so.1").resolve()
    assert loaded.parent.name == "pykdtree.libs"


def test_dangling_library_link_is_replaced(tmp_path):
    (tmp_path / "libgomp.so.1").symlink_to(tmp_path / "missing")

    openmp.variables(tmp_path)

    assert (tmp_path / "libgomp.so.1").exists()


def test_configured_library_path_is_searched_last(tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/given")

    assert openmp.variables(tmp_path) == {"LD_LIBRARY_PATH": f"{tmp_path}:/given"}


def test_missing_library_is_reported_in_one_line(lacking):
    lacking("libgomp.so.1")

    result = subprocess.run([sys.executable, "-m", "embedded.requirements"], check=True, capture_output=True, text=True)

    assert result.stderr == f"{SENTENCE}\n"


def test_missing_library_of_unknown_package_is_named(lacking):
    lacking("libodd-2.so.5")

    assert requirements.lack("llm") == (
        "This system lacks libodd-2.so.5, which the embedded language model needs; install the package that contains it"
    )


def test_stack_without_library_reports_same_sentence(lacking, tmp_path):
    lacking("libgomp.so.1")
    with pytest.raises(Unavailable) as caught:
        Stack(Settings(_env_file=None), tmp_path / "data", engines=("llm",)).start()

    assert caught.value.message == SENTENCE
