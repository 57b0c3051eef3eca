"""Names of elements and attributes of Word's XML, and the values of its properties."""

from __future__ import annotations

from shared.ingest.parse.readers.xml_tree import Element

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
VML = "{urn:schemas-microsoft-com:vml}"
OFFICE = "{urn:schemas-microsoft-com:office:office}"
WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
CHART_2016 = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"


_OFF = frozenset(("0", "false", "off", "none"))
_LONGEST_NUMBER = 9


def child(parent: Element | None, *names: str) -> Element | None:
    """Return the first element of Word at the end of a path of names, if there is one."""
    found = parent
    for name in names:
        if found is None:
            return None
        found = next(found.iterchildren(W + name), None)
    return found


def value(parent: Element | None, *names: str) -> str | None:
    """Return the value of a property at the end of a path of names."""
    found = child(parent, *names)
    return None if found is None else found.get(W + "val")


def is_on(parent: Element | None, *names: str) -> bool:
    """Return whether a switch is present and not turned off."""
    found = child(parent, *names)
    return found is not None and (found.get(W + "val") or "1").lower() not in _OFF


def number(text: str | None) -> int | None:
    """Return a whole number; None for other text, because damaged files have any."""
    if not text or len(text) > _LONGEST_NUMBER:
        return None
    try:
        return int(text)
    except ValueError:
        return None
