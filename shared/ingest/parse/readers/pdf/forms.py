"""Values of form fields, and the texts of annotations."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pypdfium2 import raw

from shared.ingest.parse.readers.pdf.appearances import MOST_BOXES, shows_text
from shared.ingest.parse.readers.pdf.layout.lines import normal
from shared.ingest.parse.readers.pdf.rulings import Box, turned
from shared.ingest.parse.readers.pdf.structure import wide_text
from shared.ingest.parse.readers.pdf.text.layer import TextLayer
from shared.ingest.parse.readers.pdf.text.styles import Style
from shared.ingest.parse.readers.pdf.text.words import Word

_MAX_ANNOTATIONS = 10_000  # of a page
_MAX_OPTIONS = 2_000
_SHOWN_OPTIONS = 50
_ON = re.compile(r"on|yes|true|off|ja|oui|si|choice\W?\w*", re.IGNORECASE)
"""The values that programs give to buttons."""

_SMALLEST, _LARGEST = 6.0, 12.0  # points
_OVER = 4.0  # points: a label may reach into the box of its field
_MOST_LABELS = 500  # words that are level with a field
_FEW_LETTERS = 2
_AUTOMATIC = re.compile(r"\S*\d\S*|(?:text|field|combo|list|drop)\w*", re.IGNORECASE)
"""The names that programs give to fields."""

_HIDDEN = 1 << 1
_PASSWORD = 1 << 13
_SILENT = frozenset((raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_WIDGET))
_TICKED = frozenset((raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON))
_CHOSEN = frozenset((raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX))
_DRAWN_FIELDS = frozenset((raw.FPDF_FORMFIELD_SIGNATURE, raw.FPDF_FORMFIELD_PUSHBUTTON, raw.FPDF_FORMFIELD_TEXTFIELD))
_DRAWN = frozenset((raw.FPDF_ANNOT_STAMP, raw.FPDF_ANNOT_FREETEXT))
_MARKED = frozenset(
    (raw.FPDF_ANNOT_HIGHLIGHT, raw.FPDF_ANNOT_UNDERLINE, raw.FPDF_ANNOT_SQUIGGLY, raw.FPDF_ANNOT_STRIKEOUT)
)


@dataclass(frozen=True, slots=True)
class Annotations:
    """Texts of a page that are not in its content.

    Args:
        values: the values of its fields, at their places.
        comments: the texts of its comments, each with a label.
        drawn: the boxes of annotations that draw a text, but do not state it.
    """

    values: tuple[Word, ...] = ()
    comments: tuple[str, ...] = ()
    drawn: tuple[Box, ...] = ()


@contextmanager
def form_of(document: Any) -> Iterator[Any]:
    """Open the form of a document; None if it has none."""
    if document.get_formtype() == raw.FORMTYPE_NONE:
        yield None
        return
    options = raw.FPDF_FORMFILLINFO(version=2)
    form = raw.FPDFDOC_InitFormFillEnvironment(document, byref(options))
    try:
        yield form or None
    finally:
        if form:
            raw.FPDFDOC_ExitFormFillEnvironment(form)


def annotations_of(page: Any, form: Any, layer: TextLayer) -> Annotations:
    """Return the values of fields and the comments of a page.

    Args:
        page: pdfium's handle.
        form: handle of the document's form; None if it has none.
        layer: text of the page, which contains the labels of most fields.
    """
    count = min(raw.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)
    if count <= 0:
        return Annotations()
    values, comments, drawn = list[Word](), list[str](), list[Box]()
    labels = _Labels(layer)
    for index in range(count):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        if not raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN:
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            stated = (len(values), len(comments))
            if kind == raw.FPDF_ANNOT_WIDGET:
                values += _field(annotation, form, labels) if form else ()
            else:
                comments += _comment(annotation)
            if stated == (len(values), len(comments)) and _only_draws(annotation, form, kind):
                drawn.append(_box(annotation))
        raw.FPDFPage_CloseAnnot(annotation)
    return Annotations(tuple(values), tuple(comments), tuple(drawn[:MOST_BOXES]))


def _only_draws(annotation: Any, form: Any, kind: int) -> bool:
    """Return whether an annotation without a stated text draws one.

    Fields of a file without a form are only drawn, as in a page that was taken from another file.
    """
    if kind == raw.FPDF_ANNOT_WIDGET and form:
        is_text = raw.FPDFAnnot_GetFormFieldType(form, annotation) in _DRAWN_FIELDS
        is_secret = raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD
        return is_text and not is_secret and shows_text(annotation)
    return kind in (*_DRAWN, raw.FPDF_ANNOT_WIDGET) and shows_text(annotation)


def _box(annotation: Any) -> Box:
    rect = raw.FS_RECTF()
    raw.FPDFAnnot_GetRect(annotation, byref(rect))
    (left, right), (bottom, top) = sorted((rect.left, rect.right)), sorted((rect.bottom, rect.top))
    return (left, bottom, right, top)


class _Labels:
    """The words of a page that may be the labels of its fields."""

    def __init__(self, layer: TextLayer) -> None:
        self._layer = layer
        self.angle = layer.groups[0][0] if layer.groups else 0

    def says(self, text: str, box: Box) -> bool:
        """Return whether the page has a text; a letter or two must be next to the box."""
        said = self._said if len(text) > _FEW_LETTERS else _spaced(word.text for word in self._level(box))
        return _spaced(text.split()) in said

    def baseline(self, box: Box) -> float | None:
        """Return the baseline of the nearest word on the left of a box, else on its right; None if it has none."""
        words = self._level(box)
        left = max((word for word in words if word.x1 <= box[0] + _OVER), key=lambda word: word.x1, default=None)
        right = min((word for word in words if word.x0 >= box[2] - _OVER), key=lambda word: word.x0, default=None)
        nearest = left or right
        return nearest.y if nearest else None

    @cached_property
    def _said(self) -> str:
        return _spaced(self._layer.plain.split())

    @cached_property
    def _words(self) -> list[Word]:
        return sorted(self._layer.groups[0][1] if self._layer.groups else (), key=_middle)

    @cached_property
    def _middles(self) -> list[float]:
        return list(map(_middle, self._words))

    def _level(self, box: Box) -> list[Word]:
        first, last = bisect_left(self._middles, box[1]), bisect_right(self._middles, box[3])
        return self._words[first : min(last, first + _MOST_LABELS)]


def _spaced(words: Iterable[str]) -> str:
    return f" {' '.join(filter(None, map(normal, words)))} "


def _middle(word: Word) -> float:
    return word.y + word.style.size / 4


def _field(annotation: Any, form: Any, labels: _Labels) -> Iterator[Word]:
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    value = _value(annotation, form, kind)
    if not value:
        return
    box = turned(_box(annotation), labels.angle)
    label = " ".join(wide_text(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation).split())
    if kind in _TICKED:
        value = f"{value} {_choice(annotation, form, labels, box)}".rstrip()
    elif label and not _AUTOMATIC.fullmatch(label) and not labels.says(label, box):
        value = f"{label.removesuffix(':')}: {value}"
    yield from _placed(value, kind, box, labels)


def _placed(value: str, kind: int, box: Box, labels: _Labels) -> Iterator[Word]:
    """Yield the lines of a value; the first one is level with the label next to its box."""
    left, bottom, right, top = box
    size = max(min((top - bottom) * (1 if kind in _TICKED else 0.7), _LARGEST), _SMALLEST)
    rows = [row for row in (" ".join(row.split()) for row in value.split("\n")) if row]
    y = labels.baseline(box)
    if y is None:
        y = top - size if len(rows) > 1 else (top + bottom) / 2 - size / 3
    for row in rows:
        end = left + size * len(row) / 2
        end = max(end, right - 2) if kind in _TICKED else max(min(end, right - 2), left + 1)
        yield Word(row, left, end, y, Style(size, bold=False, angle=labels.angle), -1)
        y -= size * 1.2


def _value(annotation: Any, form: Any, kind: int) -> str:
    if kind in _TICKED:
        return "[x]" if raw.FPDFAnnot_IsChecked(form, annotation) else "[ ]"
    if kind in _CHOSEN:
        return _options(annotation, form, kind) or _stated(annotation, form)
    if kind == raw.FPDF_FORMFIELD_TEXTFIELD and not raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return _stated(annotation, form)
    return ""


def _choice(annotation: Any, form: Any, labels: _Labels, box: Box) -> str:
    """Return the value of a button, if the page has no text that says it."""
    if raw.FPDFAnnot_GetFormFieldType(form, annotation) != raw.FPDF_FORMFIELD_RADIOBUTTON:
        return ""
    value = " ".join(wide_text(raw.FPDFAnnot_GetFormFieldExportValue, form, annotation).split())
    return "" if _AUTOMATIC.fullmatch(value) or _ON.fullmatch(value) or labels.says(value, box) else value


def _options(annotation: Any, form: Any, kind: int) -> str:
    """Return the chosen options; a list that shows all its options has the others, too, if they are few."""
    count = max(min(raw.FPDFAnnot_GetOptionCount(form, annotation), _MAX_OPTIONS), 0)
    chosen = [bool(raw.FPDFAnnot_IsOptionSelected(form, annotation, index)) for index in range(count)]
    labels = [wide_text(raw.FPDFAnnot_GetOptionLabel, form, annotation, index).strip() for index in range(count)]
    if kind == raw.FPDF_FORMFIELD_LISTBOX and count <= _SHOWN_OPTIONS:
        return " ".join(f"{'[x]' if on else '[ ]'} {label}" for on, label in zip(chosen, labels, strict=True))
    return ", ".join(label for on, label in zip(chosen, labels, strict=True) if on)


def _stated(annotation: Any, form: Any) -> str:
    value = wide_text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    return value.replace("\r\n", "\n").replace("\r", "\n").strip()


def _comment(annotation: Any) -> Iterator[str]:
    kind = raw.FPDFAnnot_GetSubtype(annotation)
    if kind in _SILENT:
        return
    text = " ".join(wide_text(raw.FPDFAnnot_GetStringValue, annotation, b"Contents").split())
    if not text:
        return
    author = " ".join(wide_text(raw.FPDFAnnot_GetStringValue, annotation, b"T").split())
    label = "Text note" if kind == raw.FPDF_ANNOT_FREETEXT else "Marked text" if kind in _MARKED else "Comment"
    yield f"{label}{f' by {author}' if author else ''}: {text}"


def unread_form(document: Any, pages: Sequence[str]) -> Iterator[str]:
    """Yield a sentence if the form of a document is only there as XFA, which needs the program that made it.

    Args:
        document: pdfium's handle.
        pages: the texts of its pages.
    """
    kind = document.get_formtype()
    waits = any("please wait" in text[:1000].casefold() for text in pages[:1])
    if kind == raw.FORMTYPE_XFA_FULL or (kind == raw.FORMTYPE_XFA_FOREGROUND and waits):
        yield "the XFA form in the file was not read; print it to a new PDF file with Adobe Reader and add that"


def attachments_of(document: Any) -> Iterator[str]:
    """Yield a sentence for each file inside a document."""
    for index in range(min(max(raw.FPDFDoc_GetAttachmentCount(document), 0), _MAX_ANNOTATIONS)):
        name = wide_text(raw.FPDFAttachment_GetName, raw.FPDFDoc_GetAttachment(document, index))
        yield f'the attached file "{" ".join(name.split())[:200]}" was not read; add it as a document of its own'
