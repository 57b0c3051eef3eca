"""`python -m bench [NAME...]`: run the benchmarks, all of them or those named; each prints what it measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EVALDATA = Path(__file__).resolve().parents[2] / "shared" / "evaldata"
QUESTION_SETS = [str(EVALDATA / name) for name in ("nq_ares", "xquad_oracle") if (EVALDATA / name).is_dir()]
BENCHMARKS = {
    "calibration": QUESTION_SETS,
    "ingest": [],
    "layouts": [],
    "limiter": [],
    "questions": [],
    "question_channel": QUESTION_SETS,
    "retrieval": [],
    "scaling": [],
    "searchable": [],
    "size": [],
    "stalls": [],
    "startup": [],
    "wal": [],
}


def main() -> None:
    unknown = set(sys.argv[1:]) - BENCHMARKS.keys()
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    for name in sys.argv[1:] or BENCHMARKS:
        print(f"== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"bench.{name}", *BENCHMARKS[name]], check=True)


if __name__ == "__main__":
    main()
