"""The table of jobs fits into a terminal of 80 columns, and cuts no id and no word; other programs get tabs."""

import io
import sys

import pytest
from foreask_client import Job
from rich.console import Console, Group

from cli import output
from cli.connection import console_of
from tests.support import replies
from tests.support.planted import guards

WIDTH = 80


def printed(*jobs):
    console = Console(file=io.StringIO(), width=WIDTH, force_terminal=True, color_system=None)
    console.print(output.jobs_table(Job.model_validate(replies.job(**job)) for job in jobs))
    return console.file.getvalue().splitlines()


def test_usual_job_is_one_line():
    job = {"kind": "load", "collection": "default", "state": "running", "pause_reason": None, "eta_seconds": 180}

    _, _, line = printed(job | {"done": 9_500, "total": 10_000})

    assert " ".join(line.split()) == f"{replies.job()['id']} load of default running, 3 min left 95%"


@pytest.mark.parametrize(
    "job",
    [
        {"kind": "evaluation", "collection": "handbook", "state": "done_with_errors", "done": 9},
        {"kind": "verification", "collection": None, "state": "cancelling", "eta_seconds": 150_000},
        {
            "kind": "sync",
            "collection": "handbook",
            "state": "running",
            "pause_reason": "provider",
            "eta_seconds": 9_000,
        },
        {"kind": "load", "collection": "default", "state": "paused", "pause_reason": "approval", "total": 0},
    ],
    ids=lambda job: job["kind"],
)
def test_long_job_is_wrapped_between_words(job):
    lines = printed(job)

    assert all(len(line.rstrip()) <= WIDTH for line in lines)
    assert lines[2].startswith(replies.job()["id"])
    words = " ".join(lines[2:]).split()
    shown = f"{job['kind']} {job['state'].replace('_', ' ')} {job['collection'] or ''}".split()
    assert all(any(word == each.rstrip(",") for each in words) for word in shown)


@guards(
    "cli/tables.py",
    "if console.is_terminal:",
    "if True:",
    means="a program that reads a table gets borders and wrapped cells",
)
def test_piped_table_has_one_line_per_row(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    name = "a-collection-with-a-long-name/of-several-words " * 9
    jobs = [Job.model_validate(replies.job(kind="load", collection=name, state="paused", total=0, eta_seconds=None))]

    console_of().print(Group(output.jobs_table(jobs), "[yellow]" + "a long sentence " * 99 + "[/yellow]"))

    heading, line, sentence = sys.stdout.getvalue().splitlines()
    assert heading == "id\tjob\tstate\tdone"
    assert line.split("\t")[:2] == [replies.job()["id"], f"load of {name.strip()}"]
    assert sentence == ("a long sentence " * 99)


def test_exact_numbers_are_shown_with_a_job():
    console = Console(file=io.StringIO(), width=WIDTH)

    output.print_job(console, Job.model_validate(replies.job(done=9_500, total=10_000)))

    assert "9,500 of 10,000 done" in console.file.getvalue()
