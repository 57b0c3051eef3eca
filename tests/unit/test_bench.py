"""The command line of the benchmarks."""

import ast
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench import texts

FOLDER = Path(bench.__file__).parent


@pytest.mark.parametrize("arguments", [["--help"], ["ingest", "--help"]])
def test_help_of_benchmarks_exits_without_measuring(arguments):
    command = [sys.executable, "-m", "bench", *arguments]
    run = subprocess.run(command, check=False, cwd=FOLDER.parent, capture_output=True, text=True, timeout=600)

    assert (run.returncode, run.stderr) == (0, "")
    assert "usage:" in run.stdout


@pytest.mark.parametrize("name", bench.BENCHMARKS)
def test_every_benchmark_parses_its_arguments(name):
    calls = (node for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text())) if isinstance(node, ast.Call))
    assert any(isinstance(call.func, ast.Attribute) and call.func.attr == "parse_args" for call in calls)


def test_documents_of_benchmarks_are_distinct_and_repeatable():
    first, again = texts.documents(20), texts.documents(20)
    sections = [section.partition("\n")[2] for text in first.values() for section in text.split("\n\n## ")[1:]]

    assert first == again
    assert len(set(sections)) == len(sections) == 20 * texts.SECTIONS


def test_questions_of_benchmarks_rarely_repeat():
    questions = list(itertools.islice(texts.questions(), 4_000))
    assert len(set(questions)) > 0.99 * len(questions)
