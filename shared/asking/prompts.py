"""The prompts, versioned: whoever changes what is asked raises `PROMPT_VERSION`, and every chunk is asked anew."""

from __future__ import annotations

import re

from shared.errors import InvalidInput

PROMPT_VERSION = "1"

_PLACEHOLDERS = ("title", "headings", "count", "text")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_TEMPLATE_MAX_CHARS = 20_000


def validate_template(template: str) -> None:
    """Check a collection's own prompt.

    Raises:
        InvalidInput: it lacks `{text}`, is too long, or has placeholders that do not exist (they are named).
    """
    names = _PLACEHOLDER.findall(template)
    unknown = sorted(set(names) - set(_PLACEHOLDERS))
    if unknown:
        listed = ", ".join(f"{{{name}}}" for name in unknown)
        known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
        raise InvalidInput(f"the template has unknown placeholders: {listed}; known are {known}", field="template")
    if "text" not in names:
        raise InvalidInput("the template must contain {text}, where the chunk goes", field="template")
    if len(template) > _TEMPLATE_MAX_CHARS:
        raise InvalidInput(f"the template has more than {_TEMPLATE_MAX_CHARS:,} characters", field="template")
