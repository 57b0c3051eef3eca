"""Values of form fields, and the texts of annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref
from dataclasses import dataclass
from typing import Any

from pypdfium2 import raw

from shared.ingest.parse.readers.pdf.layout.lines import normal
from shared.ingest.parse.readers.pdf.structure import wide_text
from shared.ingest.parse.readers.pdf.text.styles import Style
from shared.ingest.parse.readers.pdf.text.words import Word

_MAX_ANNOTATIONS = 10_000  # of a page
_MAX_OPTIONS = 2_000
_SHOWN_OPTIONS = 50
_ON = re.compile(r"on|yes|true|off|ja|oui|si|choice\W?\w*", re.IGNORECASE)
"""The values that programs give to buttons."""

_SMALLEST, _LARGEST = 6.0, 12.0  # points
_AUTOMATIC = re.compile(r"\S*\d\S*|(?:text|field|combo|list|drop)\w*", re.IGNORECASE)
"""The names that programs give to fields."""

_HIDDEN = 1 << 1
_PASSWORD = 1 << 13
_SILENT = frozenset((raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_WIDGET))
_TICKED = frozenset((raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON))
_CHOSEN = frozenset((raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX))
_MARKED = frozenset(
    (raw.FPDF_ANNOT_HIGHLIGHT, raw.FPDF_ANNOT_UNDERLINE, raw.FPDF_ANNOT_SQUIGGLY, raw.FPDF_ANNOT_STRIKEOUT)
)


@dataclass(frozen=True, slots=True)
class Annotations:
    """Texts of a page that are not in its content.

    Args:
        values: the values of its fields, at their places.
        comments: the texts of its comments, each with a label.
    """

    values: tuple[Word, ...] = ()
    comments: tuple[str, ...] = ()


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


def annotations_of(page: Any, form: Any, text: str) -> Annotations:
    """Return the values of fields and the comments of a page.

    Args:
        page: pdfium's handle.
        form: handle of the document's form; None if it has none.
        text: text of the page, which contains the labels of most fields.
    """
    count = min(raw.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)
    if count <= 0:
        return Annotations()
    values, comments = list[Word](), list[str]()
    known = normal(text)
    for index in range(count):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        if not raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN:
            if raw.FPDFAnnot_GetSubtype(annotation) == raw.FPDF_ANNOT_WIDGET:
                values += _field(annotation, form, known) if form else ()
            else:
                comments += _comment(annotation)
        raw.FPDFPage_CloseAnnot(annotation)
    return Annotations(tuple(values), tuple(comments))


def _field(annotation: Any, form: Any, known: str) -> Iterator[Word]:
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    value = _value(annotation, form, kind)
    if not value:
        return
    label = " ".join(wide_text(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation).split())
    if kind in _TICKED:
        value = f"{value} {_choice(annotation, form, known)}".rstrip()
    elif label and not _AUTOMATIC.fullmatch(label) and normal(label) not in known:
        value = f"{label.removesuffix(':')}: {value}"
    box = raw.FS_RECTF()
    raw.FPDFAnnot_GetRect(annotation, byref(box))
    bottom, top = sorted((box.bottom, box.top))
    size = max(min((top - bottom) * (1 if kind in _TICKED else 0.7), _LARGEST), _SMALLEST)
    rows = value.split("\n")
    y = top - size if len(rows) > 1 else (top + bottom) / 2 - size / 3
    for row in rows:
        if text := " ".join(row.split()):
            end = max(box.left + size * len(text) / 2, box.right - 2)
            yield Word(text, box.left, end, y, Style(size, bold=False, angle=0), -1)
        y -= size * 1.2


def _value(annotation: Any, form: Any, kind: int) -> str:
    if kind in _TICKED:
        return "[x]" if raw.FPDFAnnot_IsChecked(form, annotation) else "[ ]"
    if kind in _CHOSEN:
        return _options(annotation, form, kind) or _stated(annotation, form)
    if kind == raw.FPDF_FORMFIELD_TEXTFIELD and not raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return _stated(annotation, form)
    return ""


def _choice(annotation: Any, form: Any, known: str) -> str:
    """Return the value of a button, if the page has no text that says it."""
    if raw.FPDFAnnot_GetFormFieldType(form, annotation) != raw.FPDF_FORMFIELD_RADIOBUTTON:
        return ""
    value = " ".join(wide_text(raw.FPDFAnnot_GetFormFieldExportValue, form, annotation).split())
    return "" if _AUTOMATIC.fullmatch(value) or _ON.fullmatch(value) or normal(value) in known else value


def _options(annotation: Any, form: Any, kind: int) -> str:
    """Return the chosen options; a list that shows all its options has the others, too, if they are few."""
    count = max(min(raw.FPDFAnnot_GetOptionCount(form, annotation), _MAX_OPTIONS), 0)
    chosen = [bool(raw.FPDFAnnot_IsOptionSelected(form, annotation, index)) for index in range(count)]
    labels = [wide_text(raw.FPDFAnnot_GetOptionLabel, form, annotation, index).strip() for index in range(count)]
    if kind == raw.FPDF_FORMFIELD_LISTBOX and count <= _SHOWN_OPTIONS:
        return "\n".join(f"{'[x]' if on else '[ ]'} {label}" for on, label in zip(chosen, labels, strict=True))
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
