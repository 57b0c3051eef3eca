"""Sets of switches in which every pair of values of two switches occurs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import combinations

Chosen = dict[str, str]
_CANDIDATES = 40  # random completions of a set, of which the one with most new pairs is chosen


def pairwise(switches: Mapping[str, Sequence[str]], least: int, seed: int = 7) -> list[Chosen]:
    """Return sets of values that contain every pair, and then random ones until there are `least` sets."""
    chance = random.Random(seed)
    missing = {
        ((one, a), (two, b)) for one, two in combinations(switches, 2) for a in switches[one] for b in switches[two]
    }
    sets: list[Chosen] = []
    while missing or len(sets) < least:
        fixed = dict(min(missing)) if missing else {}
        candidates = [
            {name: fixed.get(name) or chance.choice(values) for name, values in switches.items()}
            for _ in range(_CANDIDATES)
        ]
        best = max(candidates, key=lambda each: len(missing & pairs(each)))
        missing -= pairs(best)
        sets.append(best)
    return sets


def pairs(chosen: Chosen) -> set[tuple[tuple[str, str], tuple[str, str]]]:
    return set(combinations(chosen.items(), 2))
