"""Drawings, embedded objects and parts in other formats. Each function reads the start of one."""

from __future__ import annotations

import re

from shared.ingest.parse.readers.word.blocks import WordBlock
from shared.ingest.parse.readers.word.names import MC, A, R
from shared.ingest.parse.readers.word.story import Story, Visit
from shared.ingest.parse.readers.xml_tree import Element

_NO_DESCRIPTION = re.compile(
    r"\S*[/\\:]\S*$|a description\W*$|.*\.(?:png|jpe?g|gif|bmp|emf|wmf|tiff?|svg)$", re.IGNORECASE
)
_GENERATED = re.compile(r"\s*Description automatically generated.*", re.IGNORECASE | re.DOTALL)


def alternatives(_: Story, element: Element) -> Visit:
    """Read the first choice of an alternative content; the fallback says the same for older programs."""
    choices = (*element.iterchildren(MC + "Choice"), *element.iterchildren(MC + "Fallback"))
    chosen = next((choice for choice in choices if len(choice)), None)
    return None if chosen is None else (chosen, None)


def text_box(story: Story, element: Element) -> Visit:
    story.open_flow(box=True)
    return element, lambda: story.put_after(story.close_flow(box=True))


def properties(story: Story, element: Element) -> Visit:
    story.description = element.get("descr") or ""
    return element, None


def shape(story: Story, element: Element) -> Visit:
    story.description = element.get("alt") or ""
    return element, None


def picture(story: Story, element: Element) -> Visit:
    relation = story.relations.get(element.get(R + "embed") or element.get(R + "id") or "")
    if relation and not relation.external and story.paragraph:
        story.paragraph.pictures.append(relation.target)
    text = _GENERATED.sub("", story.description)
    text = " ".join(text.replace("[", "(").replace("]", ")").split())
    story.description = ""
    if text and not _NO_DESCRIPTION.match(text):
        story.add(f"![{text}]()")
    return None


def drawn_paragraph(story: Story, element: Element) -> Visit:
    text = "".join(node.text or "" for node in element.iter(A + "t")).strip()
    if text:
        story.put_after([WordBlock(text)])
    return None


def word_art(story: Story, element: Element) -> Visit:
    if text := (element.get("string") or "").strip():
        story.put_after([WordBlock(text)])
    return element, None


def chart(story: Story, element: Element) -> Visit:
    return _figure(story, "chart", element.get(R + "id"))


def diagram(story: Story, element: Element) -> Visit:
    return _figure(story, "diagram", element.get(R + "dm"))


def embedded_object(story: Story, element: Element) -> Visit:
    story.around.embed(element.get("ProgID") or "", story.relations.get(element.get(R + "id", "")))
    return None


def other_format(story: Story, element: Element) -> Visit:
    relation = story.relations.get(element.get(R + "id", ""))
    block = story.around.alternative(relation) if relation else None
    if block:
        story.append(block)
    return None


def subdocument(story: Story, _: Element) -> Visit:
    story.around.leave_out("subdocument")
    return None


def _figure(story: Story, kind: str, identifier: str | None) -> Visit:
    if relation := story.relations.get(identifier or ""):
        story.put_after(story.around.figure(kind, relation))
    return None
