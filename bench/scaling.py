"""The growth of the call rate with the number of workers: `python -m bench scaling`.

A scripted model takes two seconds, and each worker has 16 calls in flight. The texts of all documents are found before
the first worker starts, so that only the model limits the rate. The rate is measured in the middle of the calls.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bench import texts
from tests.support.deployment import Deployment, ScriptedProvider

WORKERS = (1, 2, 4, 8)
IN_FLIGHT = 16
_MODEL_SECONDS = 2.0
_SECTIONS = 5
_ROUNDS = 15  # calls of each slot
_TIMEOUT_SECONDS = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "workers", nargs="*", type=int, default=WORKERS, help="numbers to measure; %(default)s by default"
    )
    numbers = parser.parse_args().workers
    provider = ScriptedProvider(latency_seconds=_MODEL_SECONDS)
    rates: dict[int, float] = {}
    try:
        for workers in numbers:
            with tempfile.TemporaryDirectory() as folder:
                rates[workers], cpu = rate(provider, workers, Path(folder))
            ideal = workers * IN_FLIGHT / _MODEL_SECONDS
            print(
                f"{workers} workers: {rates[workers]:6.2f} calls/s, {rates[workers] / ideal:.3f} of {ideal:.0f}; "
                f"{cpu * 1000:.2f} CPU ms a call in the workers",
                flush=True,
            )
    finally:
        provider.close()


def rate(provider: ScriptedProvider, workers: int, folder: Path) -> tuple[float, float]:
    """Return the calls a second of `workers` workers, and the CPU seconds that each call took them."""
    documents = texts.documents(workers * IN_FLIGHT * _ROUNDS // _SECTIONS, sections=_SECTIONS)
    settings = provider.settings(llm_max_in_flight=IN_FLIGHT)
    with Deployment(settings, folder, roles=("parse", "index", "scheduler")) as deployment:
        deployment.ingest(documents)
        wait_for_texts(deployment, len(documents))
        provider.reset()
        names = [f"generate-{number}" for number in range(workers)]
        for name in names:
            deployment.worker("generate", name)
        deployment.wait_until_settled(len(documents), timeout=_TIMEOUT_SECONDS)
        arrivals = sorted(provider.stats()["arrivals"])
        consumed = deployment.cpu_seconds()
    first, last = len(arrivals) // 5, len(arrivals) * 4 // 5
    middle = (last - first) / (arrivals[last] - arrivals[first])
    return middle, sum(consumed[name] for name in names) / len(arrivals)


def wait_for_texts(deployment: Deployment, documents: int) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while deployment.states().get("searchable", 0) < documents:
        assert time.monotonic() < deadline, deployment.logs()
        time.sleep(0.1)


if __name__ == "__main__":
    main()
