"""Word files, made of their XML."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

_SCHEMAS = "http://schemas.openxmlformats.org"
_OFFICE = f"{_SCHEMAS}/officeDocument/2006"
NAMESPACES = " ".join(
    f'xmlns:{prefix}="{name}"'
    for prefix, name in {
        "w": f"{_SCHEMAS}/wordprocessingml/2006/main",
        "r": f"{_OFFICE}/relationships",
        "m": f"{_OFFICE}/math",
        "a": f"{_SCHEMAS}/drawingml/2006/main",
        "c": f"{_SCHEMAS}/drawingml/2006/chart",
        "dgm": f"{_SCHEMAS}/drawingml/2006/diagram",
        "wp": f"{_SCHEMAS}/drawingml/2006/wordprocessingDrawing",
        "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
        "mc": f"{_SCHEMAS}/markup-compatibility/2006",
        "v": "urn:schemas-microsoft-com:vml",
        "o": "urn:schemas-microsoft-com:office:office",
    }.items()
)

_OUTSIDE = ' TargetMode="External"'

Relations = Mapping[str, tuple[str, str]]
"""For each id, the kind and the target; a target with `://` is outside of the file."""


def word_file(body: str, parts: Mapping[str, str | bytes] | None = None, relations: Relations | None = None) -> bytes:
    """Return a Word file.

    Args:
        body: XML of its body.
        parts: further parts by their names in the folder `word`; styles, numbering, notes and comments are related.
        relations: further relations of the main document.
    """
    parts = dict(parts or {})
    related = {f"auto-{name}": (name.removesuffix(".xml"), name) for name in parts if name.endswith("s.xml")}
    if "numbering.xml" in parts:
        related["auto-numbering"] = ("numbering", "numbering.xml")
    main = f"<w:document {NAMESPACES}><w:body>{body}</w:body></w:document>"
    return package(
        {
            "_rels/.rels": relations_xml({"r": ("officeDocument", "word/document.xml")}),
            "word/document.xml": main,
            "word/_rels/document.xml.rels": relations_xml({**related, **(relations or {})}),
            **{f"word/{name}": content for name, content in parts.items()},
        }
    )


def package(parts: Mapping[str, str | bytes]) -> bytes:
    """Return a ZIP file with these parts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def relations_xml(relations: Relations) -> str:
    """Return the part with the relations of another part."""
    entries = (
        f'<Relationship Id="{identifier}" Type="{_OFFICE}/relationships/{kind}" Target="{target}"'
        f"{_OUTSIDE if '://' in target else ''}/>"
        for identifier, (kind, target) in relations.items()
    )
    return f'<Relationships xmlns="{_SCHEMAS}/package/2006/relationships">{"".join(entries)}</Relationships>'


def root(name: str, content: str) -> str:
    """Return a part with this root element of Word."""
    return f"<w:{name} {NAMESPACES}>{content}</w:{name}>"


def p(content: str = "", properties: str = "") -> str:
    """Return a paragraph with runs or with a text."""
    runs = content if content.startswith("<") else r(content)
    return f"<w:p><w:pPr>{properties}</w:pPr>{runs}</w:p>"


def r(text: str, properties: str = "") -> str:
    """Return a run."""
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def item(text: str, level: int = 0, list_id: int = 1) -> str:
    """Return a paragraph in a list."""
    return p(text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{list_id}"/></w:numPr>')


def styled(text: str, style: str) -> str:
    """Return a paragraph with a style."""
    return p(text, f'<w:pStyle w:val="{style}"/>')


def level(at: int, text: str, form: str = "decimal", more: str = "") -> str:
    """Return a level of a list."""
    return (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>{more}<w:lvlText w:val="{text}"/></w:lvl>'
    )


def numbering(levels: str, lists: str = "") -> str:
    """Return the part with lists: list 1 has these levels, and `lists` are further ones."""
    first = '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    return root("numbering", f'<w:abstractNum w:abstractNumId="0">{levels}</w:abstractNum>{first}{lists}')


def style(identifier: str, name: str, properties: str = "", parent: str = "") -> str:
    """Return a style of paragraphs."""
    based = f'<w:basedOn w:val="{parent}"/>' if parent else ""
    return (
        f'<w:style w:type="paragraph" w:styleId="{identifier}"><w:name w:val="{name}"/>{based}'
        f"<w:pPr>{properties}</w:pPr></w:style>"
    )


def tc(content: str, properties: str = "") -> str:
    """Return a cell with a text or with blocks."""
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{content if content.startswith('<') else p(content)}</w:tc>"


def tr(*cells: str, properties: str = "") -> str:
    """Return a row."""
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(cells)}</w:tr>"


def tbl(*rows: str) -> str:
    """Return a table."""
    return f"<w:tbl>{''.join(rows)}</w:tbl>"
