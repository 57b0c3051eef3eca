"""Seconds until the texts of many documents are found while the embedded language model generates questions.

`python -m bench text_first [PAGES]`: processes as `foreask up` starts them, over the embedded models. A first document
is found, and the model generates its questions; then the pages of `docs` are uploaded. Three deployments, one after the
other: the model has the priority of all other processes, the model yields the processor, and no questions are generated
at all. The last column shows that questions continue: the seconds from the last text found until the first document is
`ready`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from cli.launcher import SPINS_OF_OPENMP, embedded_llm_settings
from embedded import llama
from shared.settings import Settings
from tests.support.deployment import ROLES, ROOT, Deployment

PAGES = 30
_POLL_SECONDS = 0.1
_TIMEOUT_SECONDS = 400.0
_FOUND = ("searchable", "ready", "degraded")
_FIRST = "quickstart/first-answer.md"
_DOCS = ROOT / "docs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="?", type=int, default=PAGES, help="number of documents; %(default)s by default")
    pages = parser.parse_args().pages
    for name, value in SPINS_OF_OPENMP.items():
        os.environ.setdefault(name, value)
    yielding = llama.NICENESS
    print(f"{'':<15}{'chunks':>8}{'found after':>13}{'chunks/s':>10}{'LLM cores':>11}{'first ready':>13}", flush=True)
    measure("no questions", yielding, pages, generates=False)
    measure("same priority", 0, pages)
    measure("yielding", yielding, pages)


def measure(name: str, niceness: int, pages: int, *, generates: bool = True) -> None:
    """Print one row of the table."""
    llama.NICENESS = niceness
    settings = Settings(_env_file=None)
    settings = settings.model_copy(update=embedded_llm_settings(settings))
    roles = [role for role in ROLES if generates or role != "generate"]
    texts = {path.relative_to(_DOCS).as_posix(): path.read_text() for path in sorted(_DOCS.glob("*/*.md"))}
    first = {_FIRST: texts.pop(_FIRST)}
    texts = dict(list(texts.items())[:pages])
    with tempfile.TemporaryDirectory() as folder, Deployment(settings, Path(folder), roles=roles) as deployment:
        deployment.wait_for_workers()
        deployment.ingest(first)
        wait_until_found(deployment, 1)
        generating_since = deployment.engine_cpu_seconds()["llm"]
        while generates and deployment.engine_cpu_seconds()["llm"] < generating_since + _POLL_SECONDS:
            time.sleep(_POLL_SECONDS)
        before, started = deployment.engine_cpu_seconds()["llm"], time.perf_counter()
        deployment.ingest(texts)
        wait_until_found(deployment, 1 + len(texts))
        found = time.perf_counter()
        cores = (deployment.engine_cpu_seconds()["llm"] - before) / (found - started)
        chunks = sum(sum(d["chunks"].values()) for d in deployment.documents() if d["external_id"] != _FIRST)
        while generates and not deployment.states().get("ready"):
            time.sleep(_POLL_SECONDS)
        ready = f"{time.perf_counter() - found:.1f} s" if generates else ""
    rate = chunks / (found - started)
    row = f"{name:<15}{chunks:>8}{found - started:>11.1f} s{rate:>10.1f}{cores:>11.2f}{ready:>13}"
    print(f"{row}   load {os.getloadavg()[0]:.1f}", flush=True)


def wait_until_found(deployment: Deployment, documents: int) -> None:
    """Wait until queries find the texts of that many documents."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while sum(deployment.states().get(state, 0) for state in _FOUND) < documents:
        assert time.monotonic() < deadline, deployment.states()
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
