"""Controls of OpenDocument's forms (ODF 1.3 part 3, section 13)."""

from __future__ import annotations

from collections.abc import Iterator

from shared.ingest.parse.readers.markdown import one_line
from shared.ingest.parse.readers.odf.styles import attribute
from shared.ingest.parse.readers.xml_tree import Element


def controls(forms: Element) -> Iterator[tuple[str, str]]:
    """Yield the id and the text of each control: its label, its value, and whether it is checked."""
    for control in forms.iter():
        key = attribute(control, "id")
        if not key or not isinstance(control.tag, str):
            continue
        texts = [attribute(control, name) or "" for name in ("label", "current-value", "value")]
        texts = list(dict.fromkeys(text for text in texts if text))[:2]
        chosen = [option for option in control if attribute(option, "current-selected") == "true"]
        texts += (attribute(option, "label") or "" for option in chosen)
        if attribute(control, "current-state") == "checked" or attribute(control, "current-selected") == "true":
            texts.append("[x]")
        yield key, one_line(" ".join(texts))
