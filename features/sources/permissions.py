"""Rules that name who reads the documents of a source, by the keys of entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from features.sources.named_readers import readers_in
from shared.domain.errors import InvalidInput
from shared.domain.text.unicode_form import composed

_MOST_RULES = 500
_SIGN = " = "  # between the pattern and the readers of a rule that is written as text; addresses contain = alone
_FORM = "legal/** = group:legal"


def _readers(value: object) -> tuple[str, ...]:
    try:
        return readers_in(value)
    except InvalidInput as error:
        raise ValueError(error.message) from None


class ReadersRule(BaseModel):
    """The readers of all entries whose key matches a pattern of a shell, in which `*` also matches `/`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    match: Annotated[str, AfterValidator(composed)] = Field(min_length=1, max_length=1_024)
    readable_by: Annotated[tuple[str, ...], BeforeValidator(_readers)]


def _rules(value: object) -> object:
    """Return the rules of a text, as a form or the command line has them: a rule in each line, or JSON."""
    if isinstance(value, str):
        value = _rules_in(value)
    if value is not None and not (isinstance(value, list | tuple) and all(isinstance(rule, dict) for rule in value)):
        raise ValueError("Write a list of rules, each with match and readable_by")
    return value


def _rules_in(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return [_rule(line) for line in text.splitlines() if line.strip()]


def _rule(line: str) -> dict[str, str]:
    match, sign, readers = f"{line.strip()} ".partition(_SIGN)
    if not (sign and match.strip()):
        raise ValueError(f"Write a pattern and its readers in each line, such as {_FORM}")
    return {"match": match.strip(), "readable_by": readers}


_Rules = Annotated[tuple[ReadersRule, ...], Field(max_length=_MOST_RULES)]
Rules = Annotated[_Rules | None, BeforeValidator(_rules)]


def readers_by_rule(rules: Iterable[ReadersRule], names: Sequence[str]) -> tuple[str, ...]:
    """Return the readers of the first rule that matches.

    Args:
        rules: rules in order.
        names: the key of an entry, and further names of it with which patterns are compared.
    """
    known = [composed(name) for name in names]
    for rule in rules:
        if any(fnmatchcase(name, rule.match) for name in known):
            return rule.readable_by
    return ()
