"""foreask, LlamaIndex and Haystack with the same model: `python -m bench peers [--runs N] [--documents N]`.

Each ingests the same chunks with the same number of calls in flight, writes five questions for each chunk and embeds
it, with the same scripted model on this machine. LlamaIndex and Haystack run as their documentation recommends (see
`bench/peer_programs`) in an environment of their own, which the first run installs. They keep their result in memory,
and embed the questions as a part of the chunk's text. foreask stores each step in PostgreSQL, embeds each question
separately, and stores it in Qdrant. CPU is measured after a warm-up, without imports.

Then each program is killed when half of the calls have started, foreask with all its engines, and is started again: a
chunk whose questions were written twice was paid twice.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import texts
from bench.ingest import Ingest
from bench.runs import Numbers, add_options, repeat
from tests.support.deployment import Deployment, ScriptedProvider

PROGRAMS = Path(__file__).with_name("peer_programs")
_QUESTIONS = [f"Which part of the passage answers question number {number}?" for number in range(1, 6)]
PEERS = {
    "LlamaIndex": ("with_llama_index.py", "\n".join(_QUESTIONS)),
    "Haystack": ("with_haystack.py", json.dumps({"questions": _QUESTIONS})),
}
"""The program of each peer, and the reply of the model in the form that it expects."""

_WARM_CHUNKS = 20
_POLL_SECONDS = 0.02
_TIMEOUT_SECONDS = 600.0


class Peer:
    """A peer's program over the chunks of `bench ingest`."""

    def __init__(self, name: str, python: Path, provider: ScriptedProvider, options: argparse.Namespace) -> None:
        program, self._reply = PEERS[name]
        self._command = [str(python), str(PROGRAMS / program)]
        self._provider = provider
        self._specification = {
            "url": provider.url,
            "in_flight": options.in_flight,
            "chunks": texts.chunks(options.documents, options.characters),
            "warm": texts.chunks(_WARM_CHUNKS // texts.SECTIONS, options.characters, "note"),
        }
        self.chunks = len(self._specification["chunks"])

    def run(self) -> Numbers:
        with self._started() as process:
            output, _ = process.communicate("start\n", timeout=_TIMEOUT_SECONDS)
        assert process.returncode == 0, "the program failed"
        result = json.loads(output)
        assert result["vectors"] == self.chunks, result
        return {
            "CPU ms a chunk": result["cpu"] * 1000 / self.chunks,
            "wall, s": result["wall"],
            "most calls in flight": self._provider.stats()["peak_in_flight"],
        }

    def killed(self) -> None:
        """Kill the program in the middle and run it again; the calls of both runs are counted."""
        with self._started() as process:
            assert process.stdin is not None
            process.stdin.write("start\n")
            process.stdin.flush()
            wait_for_calls(self._provider, self.chunks // 2)
            process.kill()
        calls = calls_for_chunks(self._provider)
        self.run()
        print_paid(calls, calls + calls_for_chunks(self._provider), self.chunks)

    @contextmanager
    def _started(self) -> Iterator[subprocess.Popen[str]]:
        """Start the program, and wait for the end of its warm-up."""
        self._provider.script(answer=self._reply)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(self._specification, file)
            file.flush()
            environment = os.environ | {"HAYSTACK_TELEMETRY_ENABLED": "False"}
            with subprocess.Popen(
                [*self._command, file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            ) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "warm\n"
                self._provider.reset()
                yield process


def kill_foreask(provider: ScriptedProvider, options: argparse.Namespace) -> None:
    documents = texts.documents(options.documents, texts.SECTIONS, options.characters)
    chunks = len(documents) * texts.SECTIONS
    settings = provider.settings(llm_max_in_flight=options.in_flight)
    with tempfile.TemporaryDirectory() as folder, Deployment(settings, Path(folder)) as deployment:
        deployment.wait_for_workers()
        provider.reset()
        deployment.ingest(documents)
        wait_for_calls(provider, chunks // 2)
        deployment.kill_everything()
        calls = calls_for_chunks(provider)
        deployment.start()
        deployment.wait_until_settled(len(documents), timeout=_TIMEOUT_SECONDS)
        print_paid(calls, calls_for_chunks(provider), chunks)


def wait_for_calls(provider: ScriptedProvider, calls: int) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while calls_for_chunks(provider) < calls:
        assert time.monotonic() < deadline, "the calls have not started"
        time.sleep(_POLL_SECONDS)


def calls_for_chunks(provider: ScriptedProvider) -> int:
    """Return the number of calls with the heading of a chunk: a start of foreask calls the model, too."""
    return int(provider.stats(texts.HEADING)["calls"])


def print_paid(before: int, calls: int, chunks: int) -> None:
    print(
        f"  killed after {before:,} calls; {calls:,} calls for {chunks:,} chunks: {calls - chunks:,} paid twice",
        flush=True,
    )


def environment(folder: Path) -> Path:
    """Return the Python of the peers' environment; the first call installs it."""
    python, installed = folder / "bin" / "python", folder / "installed"
    pinned = (PROGRAMS / "constraints.txt").read_text() + (PROGRAMS / "requirements.txt").read_text()
    if not installed.exists() or installed.read_text() != pinned:
        print(f"installing the peers in {folder}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        files = ["--requirement", str(PROGRAMS / "requirements.txt"), "--constraint", str(PROGRAMS / "constraints.txt")]
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *files], check=True)
        installed.write_text(pinned)
    return python


def _versions(python: Path) -> str:
    packages = ("llama-index-core", "haystack-ai", "openai")
    command = f"from importlib.metadata import version; print(*(f'{{p}} {{version(p)}}' for p in {packages}), sep=', ')"
    return subprocess.run([str(python), "-c", command], check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foreask" / "bench-peers"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200, help="of five chunks; %(default)s by default")
    parser.add_argument("--in-flight", type=int, default=64, help="calls of the model; %(default)s by default")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a call; %(default)s by default")
    parser.add_argument(
        "--characters", type=int, default=texts.CHARACTERS, help="of a chunk's text; %(default)s by default"
    )
    parser.add_argument("--folder", type=Path, default=cache, help="environment of the peers; %(default)s by default")
    add_options(parser)
    options = parser.parse_args()
    options.spread, options.embedded, options.warm = 0.0, False, _WARM_CHUNKS // texts.SECTIONS
    python = environment(options.folder.absolute())
    print(_versions(python), flush=True)
    provider = ScriptedProvider(latency_seconds=options.seconds)
    try:
        ingest = Ingest(provider, options.in_flight, options)
        repeat(f"foreask, {ingest.title}", ingest.run, options)
        kill_foreask(provider, options)
        for name in PEERS:
            peer = Peer(name, python, provider, options)
            repeat(f"{name}, {ingest.title}", peer.run, options)
            peer.killed()
    finally:
        provider.close()


if __name__ == "__main__":
    main()
