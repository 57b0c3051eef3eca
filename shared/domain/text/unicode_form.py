"""The Unicode form in which metadata are stored and compared.

Unicode has several forms of the same text: macOS writes `ü` in the name of a file as `u` and a combining diaeresis.
Values of metadata, names of their fields and filters are converted to the composed form (NFC), so that texts that look
equal are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unicodedata import normalize

from shared.domain.errors import InvalidInput


def composed(value: Any) -> Any:
    """Return a value of JSON whose texts and names have the composed form; other values stay as they are.

    Raises:
        InvalidInput: two names of an object are equal in this form.
    """
    if isinstance(value, str):
        return normalize("NFC", value)
    if isinstance(value, list):
        return [composed(item) for item in value]
    if isinstance(value, Mapping):
        return _object(value)
    return value


def _object(value: Mapping[str, Any]) -> dict[str, Any]:
    result = {composed(name): composed(item) for name, item in value.items()}
    if len(result) < len(value):
        names = [composed(name) for name in value]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"The field '{twice}' occurs twice, in two forms of Unicode.", field="metadata")
    return result
