"""`python -m bench [NAME [ARGUMENT...]]`: run all benchmarks or one; each prints its measurements."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EVALDATA = Path(__file__).resolve().parents[2] / "shared" / "evaldata"
QUESTION_SETS = [str(EVALDATA / name) for name in ("nq_ares", "xquad_oracle") if (EVALDATA / name).is_dir()]
ASKED_SETS = sorted(str(path.parent) for path in EVALDATA.glob("*_asked/qrels.tsv"))
CONTEXT_SETS = sorted(str(path.parent) for path in EVALDATA.glob("*/context.jsonl"))
RETRIEVAL_SETS = sorted(str(path.parent) for path in EVALDATA.glob("*/qrels.tsv"))
BENCHMARKS = {
    "alerts": ["--minutes", "2"],
    "batch_lane": ["10000"],
    "batch_uploads": ["10000"],
    "bm25": [],
    "budget": [],
    "calibration": QUESTION_SETS,
    "certainty": ASKED_SETS,
    "comparison": [],
    "context": CONTEXT_SETS,
    "corpus": ["--documents", "5000"],
    "edits": ["--seconds", "30"],
    "erasure": ["--rows", "100000"],
    "fidelity": [],
    "flex": ["--pairs", "2"],
    "flushes": [],
    "fusion": RETRIEVAL_SETS,
    "idle": [],
    "ingest": [],
    "layouts": [],
    "limiter": [],
    "listeners": ["--seconds", "10", "--minutes", "1"],
    "migration": ["--chunks", "1000"],
    "packing": QUESTION_SETS,
    "page": [],
    "peers": [],
    "probes": ["--minutes", "1"],
    "profile": [],
    "questions": [],
    "question_channel": QUESTION_SETS,
    "quotes": [],
    "repository": [],
    "retrieval": [],
    "scale": ["--chunks", "100000", "--load", "300"],
    "scaling": [],
    "scan_cost": [],
    "scan_retrieval": [],
    "scans": [],
    "sdks": [],
    "searchable": [],
    "size": [],
    "stalls": [],
    "startup": [],
    "structure": [],
    "sync": ["--objects", "100000", "--changes", "1000"],
    "tasks": [],
    "tenants": [],
    "text_first": [],
    "wal": [],
    "wanted": [],
}
ENVIRONMENTS = {"comparison": {"OPENBLAS_NUM_THREADS": "1"}}  # its milliseconds are measured with one thread


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run all benchmarks or one.")
    names = ", ".join(BENCHMARKS)
    parser.add_argument("name", nargs="?", choices=BENCHMARKS, metavar="NAME", help=f"{names}; all by default")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="passed to the benchmark; `NAME --help` lists them"
    )
    parser.add_argument(
        "--tree", type=Path, default=ROOT, help="another checkout with its .venv, whose processes are measured"
    )
    options = parser.parse_args()
    for name in [options.name] if options.name else BENCHMARKS:
        print(f"== {name}", flush=True)
        run(name, options.arguments or BENCHMARKS[name], options.tree.resolve())


def run(name: str, arguments: list[str], tree: Path = ROOT) -> None:
    """Run a benchmark of this checkout on the processes of a tree: all other code is imported from there."""
    environment = os.environ | ENVIRONMENTS.get(name, {})
    if tree == ROOT:
        subprocess.run([sys.executable, "-m", f"bench.{name}", *arguments], check=True, env=environment)
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bench").symlink_to(ROOT / "bench")
        # The current folder must not be searched first, because it has benchmarks of its own.
        environment |= {"PYTHONPATH": f"{folder}{os.pathsep}{tree}", "PYTHONSAFEPATH": "1"}
        command = [str(tree / ".venv" / "bin" / "python"), "-m", f"bench.{name}", *arguments]
        subprocess.run(command, check=True, cwd=tree, env=environment)


if __name__ == "__main__":
    main()
