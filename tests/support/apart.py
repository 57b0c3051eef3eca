"""The API or a scheduler whose clock is wrong: `python -m tests.support.apart MINUTES api | scheduler`."""

from __future__ import annotations

import runpy
import sys
from datetime import timedelta

import time_machine

if __name__ == "__main__":
    minutes, role = float(sys.argv[1]), sys.argv[2]
    time_machine.travel(timedelta(minutes=minutes), tick=True).start()
    module = {"api": "api", "scheduler": "workers"}[role]
    sys.argv = [module] if role == "api" else [module, role]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
