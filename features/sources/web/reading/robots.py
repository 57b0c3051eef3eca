"""The rules of robots.txt for this robot, by RFC 9309.

protego was replaced: it keeps the rules of all robots, so that 64 KB of names and rules take 11 s and 0.6 GB.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from shared.ingest.parse.web.addresses import encoded, path_of

ROBOT = "foreask"
MOST_RULES = 10_000
MOST_SITEMAPS = 1_000
MOST_PATTERN_CHARS = 2_000  # no address is longer
_MOST_STARS = 20
_TOKEN = re.compile(r"[a-z_-]+")
# Common misspellings are accepted.
_NAMES = {
    "user-agent": "agent",
    "useragent": "agent",
    "user agent": "agent",
    "allow": "allow",
    "disallow": "disallow",
    "dissallow": "disallow",
    "dissalow": "disallow",
    "disalow": "disallow",
    "diasllow": "disallow",
    "disallaw": "disallow",
    "crawl-delay": "delay",
    "crawl delay": "delay",
    "sitemap": "sitemap",
    "sitemaps": "sitemap",
    "site-map": "sitemap",
}


@dataclass(slots=True, eq=False)
class Group:
    """The rules for a robot: (allowed, pattern), and the pause between requests, in seconds."""

    rules: list[tuple[bool, str]] = field(default_factory=list)
    delay: float = 0.0

    def add(self, *, allowed: bool, pattern: str) -> None:
        if pattern and len(self.rules) < MOST_RULES:
            self.rules.append((allowed, pattern))
            if allowed and pattern.endswith("/index.html"):
                self.rules.append((True, pattern.removesuffix("index.html") + "$"))


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """The part of robots.txt for this robot, and the addresses of its sitemaps."""

    group: Group
    sitemaps: list[str]


def read_robots(text: str) -> RobotsFile:
    """Return the rules of the groups that name this robot; if there are none, of the groups for all robots."""
    own, of_all, sitemaps = Group(), Group(), list[str]()
    names_own, current, was_agent = False, list[Group](), False
    for name, value in _lines(text):
        if name == "sitemap":
            sitemaps += [value] if value and len(sitemaps) < MOST_SITEMAPS else []
            continue
        if name == "agent":
            current = current if was_agent else []
            group = of_all if value.startswith("*") else own if _token(value) == ROBOT else None
            current += [group] if group and group not in current else []
            names_own |= group is own
        else:
            for group in current:
                _add(group, name, value)
        was_agent = name == "agent"
    return RobotsFile(own if names_own else of_all, sitemaps)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the known names of lines, and their values; other lines end a list of agents, but have no meaning."""
    for line in text.splitlines():
        name, colon, value = line.partition("#")[0].partition(":")
        if not colon:
            name, _, value = name.strip().partition(" ")
        if name := name.strip().lower():
            yield _NAMES.get(name, "unknown"), value.strip()


def _token(value: str) -> str:
    found = _TOKEN.match(value.lower())
    return found[0] if found else ""


def _add(group: Group, name: str, value: str) -> None:
    if name in ("allow", "disallow"):
        group.add(allowed=name == "allow", pattern=_pattern(value, allowed=name == "allow"))
    elif name == "delay":
        try:
            delay = float(value)
        except ValueError:
            return
        group.delay = delay if math.isfinite(delay) and delay > 0 else group.delay


def _pattern(value: str, *, allowed: bool) -> str:
    """Return a pattern in the form of normal addresses; empty if it matches nothing.

    A pattern with many `*` takes long to compare: if it allows, it is ignored, and if it forbids, it loses its end
    and forbids more.
    """
    if not value:
        return ""
    pattern = encoded(re.sub(r"\*+", "*", value[: MOST_PATTERN_CHARS + 1]))
    if pattern.count("*") > _MOST_STARS:
        pattern = "" if allowed else "*".join(pattern.split("*")[:_MOST_STARS])
    if len(pattern) > MOST_PATTERN_CHARS:
        return ""
    return pattern if pattern.startswith(("/", "*")) or not pattern else f"/{pattern}"


class Robots:
    """Decides which addresses a robot may request.

    Args:
        rules: (allowed, pattern). The longest pattern that matches decides. If two are equally long, an allowing rule
            precedes.
    """

    def __init__(self, rules: list[tuple[bool, str]]) -> None:
        ordered = sorted(rules, key=lambda rule: (len(rule[1]), rule[0]), reverse=True)
        self._rules = [(allowed, _Pattern(pattern)) for allowed, pattern in ordered]

    def allows(self, address: str) -> bool:
        """Return whether a normal address may be requested."""
        path = path_of(address)
        return next((allowed for allowed, pattern in self._rules if pattern.matches(path)), True)


class _Pattern:
    """A pattern, in which `*` matches any characters, and `$` at its end the end. Comparing takes linear time."""

    __slots__ = ("_ends", "_first", "_last", "_middle")

    def __init__(self, pattern: str) -> None:
        self._ends = pattern.endswith("$")
        self._first, *rest = pattern.removesuffix("$").split("*")
        self._middle, self._last = rest[:-1], rest[-1] if rest else None

    def matches(self, path: str) -> bool:
        if not path.startswith(self._first):
            return False
        at = len(self._first)
        if self._last is None:
            return not self._ends or at == len(path)
        for part in self._middle:
            if (at := path.find(part, at)) < 0:
                return False
            at += len(part)
        if self._ends:
            return len(path) - len(self._last) >= at and path.endswith(self._last)
        return path.find(self._last, at) >= 0
