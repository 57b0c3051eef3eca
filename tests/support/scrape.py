"""Scrape every process of a deployment for a while, as Prometheus would, and report missing metrics.

    python -m tests.support.scrape --ports 9350-9355 --seconds 600

Each reply is read by Prometheus' parser. The output has a line for each process with its role, failed scrapes, slowest
scrape and number of series, then the counters that increased, and the metrics that no process had. The exit code is 1
if a scrape failed, a role is missing, or a counter decreased.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx
from prometheus_client.parser import text_string_to_metric_families

from shared.process.telemetry import metrics
from tests.support.waiting import TIMEOUT_SECONDS

_ROLES = {"api", "parse", "generate", "index", "scheduler"}
_EVERY_SECONDS = 15


@dataclass
class Target:
    port: int
    role: str = "?"
    scrapes: int = 0
    failures: int = 0
    slowest: float = 0.0
    series: int = 0
    first: dict[str, float] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    decreased: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    def scrape(self, client: httpx.Client) -> None:
        started = time.perf_counter()
        try:
            text = client.get(f"http://127.0.0.1:{self.port}/metrics").raise_for_status().text
        except httpx.HTTPError:
            self.failures += 1
            return
        self.slowest = max(self.slowest, time.perf_counter() - started)
        self.scrapes += 1
        totals = Counter[str]()
        families = list(text_string_to_metric_families(text))
        for family in families:
            for sample in family.samples:
                self.names.add(family.name + "_total" * (family.type == "counter"))
                if sample.name == "foreask_process_info":
                    self.role = sample.labels["role"]
                if sample.name.endswith(("_total", "_count")):
                    totals[sample.name] += sample.value
        self.series = sum(len(family.samples) for family in families)
        self.decreased |= {name for name, value in self.last.items() if totals[name] < value}
        self.first, self.last = self.first or dict(totals), dict(totals)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ports", required=True, help="the first and the last, such as 9350-9355")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--every", type=float, default=_EVERY_SECONDS)
    options = parser.parse_args()
    first, last = map(int, options.ports.split("-"))
    targets = [Target(port) for port in range(first, last + 1)]
    end = time.monotonic() + options.seconds
    with httpx.Client(trust_env=False, timeout=TIMEOUT_SECONDS) as client:
        while True:
            for target in targets:
                target.scrape(client)
            if time.monotonic() >= end:
                break
            time.sleep(options.every)
    return report(targets)


def report(targets: list[Target]) -> int:
    increases = Counter[str]()
    for target in targets:
        print(
            f"{target.port} {target.role}: {target.scrapes} scrapes, {target.failures} failed,"
            f" {target.slowest * 1000:.0f} ms at most, {target.series} series"
        )
        for name, value in target.last.items():
            increases[name] += round(value - target.first.get(name, 0))
    for name, value in sorted(increases.items()):
        print(f"{name}: +{value}")
    missing = metrics.names() - {name for target in targets for name in target.names}
    roles = _ROLES - {target.role for target in targets}
    decreased = {name for target in targets for name in target.decreased}
    print(f"without a value: {sorted(missing)}; roles missing: {sorted(roles)}; decreased: {sorted(decreased)}")
    return 1 if roles or decreased or any(target.failures for target in targets) else 0


if __name__ == "__main__":
    sys.exit(main())
