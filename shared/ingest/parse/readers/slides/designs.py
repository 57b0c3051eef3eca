"""Layouts and masters of slides: the positions, lists and texts that slides inherit from them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from shared.ingest.parse.readers.office.drawingml import TextBody
from shared.ingest.parse.readers.office.package import Package
from shared.ingest.parse.readers.slides.placement import Box
from shared.ingest.parse.readers.xml_tree import Element

_FAMILY = {"ctrTitle": "title", "subTitle": "body", "obj": "body", "half": "body"}
_STYLES = {"title": "titleStyle", "body": "bodyStyle"}


class Design:
    """A layout or a master.

    Args:
        root: its element; None if it is missing in the file.
        below: the master of a layout.
    """

    def __init__(self, root: Element | None, below: Design | None = None) -> None:
        self._root = root
        self._below = below

    @cached_property
    def _placeholders(self) -> list[tuple[str, str, Element]]:
        shapes = self._root.iter("{*}sp") if self._root is not None else ()
        return [(kind, placeholder_index(shape), shape) for shape in shapes if (kind := placeholder(shape))]

    def texts(self, *, shown: bool) -> Iterator[str]:
        """Yield the texts that each slide shows without being able to change them.

        Args:
            shown: whether the slide shows shapes of its design.
        """
        if self._root is None or not shown:
            return
        for shape in self._root.iter("{*}sp"):
            body = shape.find("{*}txBody")
            if body is not None and placeholder(shape) is None:
                yield from TextBody(body).blocks()
        if self._below:
            yield from self._below.texts(shown=shows_master(self._root))

    def inherited(self, kind: str, index: str) -> Iterator[Element]:
        """Yield the placeholders from which one of this kind and index inherits, the nearest first."""
        found = next((shape for _, own, shape in self._placeholders if own == index and self._below), None)
        if found is None:
            same = _FAMILY.get(kind, kind)
            found = next((shape for own, _, shape in self._placeholders if _FAMILY.get(own, own) == same), None)
        if found is not None:
            yield found
        if self._below:
            yield from self._below.inherited(kind, index)

    def style(self, kind: str | None) -> Element | None:
        """Return the style of the master's lists for a kind of placeholder."""
        if self._below:
            return self._below.style(kind)
        if self._root is None or kind is None:
            return None
        name = _STYLES.get(_FAMILY.get(kind, kind), "otherStyle")
        return self._root.find(f"{{*}}txStyles/{{*}}{name}")


def design_of(package: Package, slide: str, known: dict[str, Design]) -> Design:
    """Return the layout of the slide with this path.

    Args:
        package: the file.
        slide: path of the slide.
        known: layouts and masters by their paths; new ones are added.
    """
    layout = package.target(slide, "slideLayout")
    master = package.target(layout, "slideMaster") if layout else ""
    if master not in known:
        known[master] = Design(package.xml(master))
    if layout not in known:
        known[layout] = Design(package.xml(layout), known[master])
    return known[layout]


def placeholder(shape: Element) -> str | None:
    """Return the kind of a placeholder; None for another shape."""
    mark = shape.find("./*/{*}nvPr/{*}ph")
    return None if mark is None else mark.get("type", "obj")


def placeholder_index(shape: Element) -> str:
    """Return the index of a placeholder, by which it inherits."""
    mark = shape.find("./*/{*}nvPr/{*}ph")
    return "0" if mark is None else mark.get("idx", "0")


def shows_master(root: Element) -> bool:
    """Return whether a slide or layout shows the shapes of its design."""
    return root.get("showMasterSp", "1") not in ("0", "false")


def box_of(shape: Element) -> Box | None:
    """Return the position and size that a shape states."""
    frame = shape.find("{*}xfrm")
    if frame is None:
        frame = shape.find("./*/{*}xfrm")
    offset, extent = (None, None) if frame is None else (frame.find("{*}off"), frame.find("{*}ext"))
    if offset is None or extent is None:
        return None
    stated = (offset.get("x"), offset.get("y"), extent.get("cx"), extent.get("cy"))
    try:
        return Box(*(float(number or 0) for number in stated))
    except ValueError:
        return None
