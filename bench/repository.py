"""Requests to the server of a repository: `python -m bench repository [--files N] [--parsers N]`.

All processes of a deployment run over embedded engines, with several parse workers on one machine, and with a server of
a repository that is git's own `http-backend`. A source is synced, and its documents are parsed. Each session of Git's
protocol has three requests.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.support.deployment import Deployment, ScriptedProvider
from tests.support.git_server import GitFolder, GitServer

FILES = 10_000
PARSERS = 3
_TIMEOUT_SECONDS = 3_600.0
_POLL_SECONDS = 0.2
_SENTENCES = 80  # 2.3 KB: more than the files that a server sends with the folders


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=FILES, help="files of the repository; %(default)s by default")
    parser.add_argument("--parsers", type=int, default=PARSERS, help="parse workers; %(default)s by default")
    options = parser.parse_args()
    provider = ScriptedProvider()
    try:
        with tempfile.TemporaryDirectory() as folder:
            repository = _made(Path(folder) / "served" / "handbook.git", options.files)
            with GitServer(repository.folder.parent).running() as server:
                _measure(provider, server, Path(folder) / "deployment", options.files, options.parsers)
    finally:
        provider.close()


def _made(folder: Path, files: int) -> GitFolder:
    repository = GitFolder(folder)
    for number in range(files):
        text = f"# Rule {number}\n\n" + f"The harbour {number} opens at six. " * _SENTENCES
        repository.write(f"{number % 97:02}/{number:06}.md", text.encode())
    repository.commit()
    return repository


def _measure(provider: ScriptedProvider, server: GitServer, folder: Path, files: int, parsers: int) -> None:
    settings = provider.settings(
        source_roots={"*": [f"git+{server.url}"]},
        sources_private_networks=True,
        tuning={"sync_open_chunks": 100 * files, "sync_free_disk": 0.0},
        calibrate=False,
    )
    folder.mkdir()
    with Deployment(settings, folder, roles=("parse", "scheduler")) as deployment:
        for number in range(1, parsers):
            deployment.worker("parse", f"parse-{number}")
        deployment.wait_for_workers()
        source = {"name": "handbook", "collection": "default", "uri": f"git+{server.url}/handbook.git"}
        deployment.client.post("/v1/sources", json=source).raise_for_status()
        started = time.perf_counter()
        deployment.client.post("/v1/sources/handbook/sync").raise_for_status()
        _wait(deployment, files)
        seconds = time.perf_counter() - started
        sessions = sum("/info/refs?" in path for path, _ in server.requests)
        print(
            f"{files:,} files, {parsers} parse workers: {seconds:.1f} s, {sessions:,} sessions,"
            f" {len(server.requests):,} requests",
            flush=True,
        )


def _wait(deployment: Deployment, files: int) -> None:
    """Wait until all documents are parsed."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        sync = deployment.client.get("/v1/sources/handbook").raise_for_status().json()["newest_sync"]
        if sync["error"]:
            sys.exit(sync["error"])
        documents = deployment.client.get("/v1/status").raise_for_status().json()["documents"]
        if documents.get("indexing", 0) >= files:
            return
        time.sleep(_POLL_SECONDS)
    sys.exit(f"Not all documents were parsed: {documents}")


if __name__ == "__main__":
    main()
