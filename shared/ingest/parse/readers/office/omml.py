"""Equations of Office files in one line of text, in the manner of Unicode's linear form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lxml import etree

from shared.ingest.parse.readers.xml_tree import Element, local_name

Child = tuple[str, str]
"""The name of an element and its text."""

_SKIPPED = frozenset(("del", "moveFrom", "delText", "instrText", "rPr", "ctrlPr", "argPr"))
_INVISIBLE = {0x2061: " ", 0x2062: " ", 0x2063: ",", 0x2064: " ", 0x200B: "", 0x00AD: ""}
"""Marks that no reader sees: the application of a function, a product, a list, a sum."""

_ROOTS = {"3": "∛", "4": "∜"}


def linear(equation: Element) -> str:
    """Return an equation as text. Parts that would join to one word are divided by a space."""
    stack: list[list[Child]] = [[]]
    walk = etree.iterwalk(equation, events=("start", "end"))
    for event, element in walk:
        name = local_name(element)
        if event == "start":
            if name in _SKIPPED:
                walk.skip_subtree()
            stack.append([])
            continue
        children = stack.pop()
        if name not in _SKIPPED:
            stack[-1].append((name, _text(element, name, children)))
    return " ".join(together(text for _, text in stack[0]).split())


def together(texts: Iterable[str]) -> str:
    """Join texts, with a space between two that would become one word."""
    joined: list[str] = []
    for text in texts:
        if not text:
            continue
        if joined and _is_word(joined[-1][-1]) and _is_word(text[0]) and not _are_factors(joined[-1], text):
            joined.append(" ")
        joined.append(text)
    return "".join(joined)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _are_factors(before: str, after: str) -> bool:
    """Return whether a letter after an operator meets a single letter, as in E=m and c: both are one product.

    A Greek letter stays apart, because it is a word of its own in searches.
    """
    return (
        (before[-1] + after[0]).isascii()
        and (before[-1] + after[0]).isalpha()
        and not _is_word(before[-2:-1] or "x")
        and not _is_word(after[1:2] or " ")
    )


def _text(element: Element, name: str, children: list[Child]) -> str:
    if name == "t":
        return (element.text or "").translate(_INVISIBLE)
    if name in ("br", "tab"):
        return " "
    build = _FORMS.get(name)
    return build(element, children) if build else together(text for _, text in children)


def _part(children: Sequence[Child], name: str) -> str:
    return next((text for child, text in children if child == name), "").strip()


def _grouped(text: str) -> str:
    """Return text in brackets, unless it is one word, one character or in brackets already."""
    if len(text) <= 1 or text.replace(".", "").isalnum() or (text[0] + text[-1] in ("()", "[]") and _closed(text)):
        return text
    return f"({text})"


def _closed(text: str) -> bool:
    """Return whether the first bracket is closed by the last one."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if depth == 0:
            return at == len(text) - 1
    return False


def _property(element: Element, name: str, default: str) -> str:
    """Return a property's value; an empty value is stated by an attribute that is missing or empty."""
    found = element.find(f"{{*}}{local_name(element)}Pr/{{*}}{name}")
    return default if found is None else next(iter(found.attrib.values()), "")


def _fraction(element: Element, children: list[Child]) -> str:
    above, below = _part(children, "num"), _part(children, "den")
    if _property(element, "type", "") == "noBar":
        return f"({above}¦{below})"
    return f"{_grouped(above)}/{_grouped(below)}"


def _scripted(*marks: tuple[str, str]) -> Callable[[Element, list[Child]], str]:
    def build(_: Element, children: list[Child]) -> str:
        scripts = ((mark, _part(children, name)) for name, mark in marks)
        return _part(children, "e") + "".join(mark + _grouped(text) for mark, text in scripts if text)

    return build


def _before(_: Element, children: list[Child]) -> str:
    scripts = (("_", _part(children, "sub")), ("^", _part(children, "sup")))
    return "".join(mark + _grouped(text) for mark, text in scripts if text) + " " + _part(children, "e")


def _radical(_: Element, children: list[Child]) -> str:
    degree, base = _part(children, "deg"), _part(children, "e")
    if degree in ("", "2"):
        return f"√({base})"
    return f"{_ROOTS[degree]}({base})" if degree in _ROOTS else f"√({degree}&{base})"


def _nary(element: Element, children: list[Child]) -> str:
    return _scripted(("sub", "_"), ("sup", "^"))(element, [("e", _property(element, "chr", "∫")), *children]) + (
        f" {_part(children, 'e')}"
    )


def _delimited(element: Element, children: list[Child]) -> str:
    separator = _property(element, "sepChr", "|")
    inside = separator.join(text for name, text in children if name == "e")
    return f"{_property(element, 'begChr', '(')}{inside}{_property(element, 'endChr', ')')}"


def _function(_: Element, children: list[Child]) -> str:
    name, argument = _part(children, "fName").strip(), _part(children, "e")
    return f"{name}{argument}" if argument.startswith("(") else f"{name} {argument}"


def _accented(element: Element, children: list[Child]) -> str:
    base, mark = _part(children, "e"), _property(element, "chr", "\u0302")
    return base + mark if len(base) == 1 else f"{_grouped(base)}{mark}"


def _matrix(_: Element, children: list[Child]) -> str:
    return "; ".join(text for name, text in children if name == "mr")


def _row(_: Element, children: list[Child]) -> str:
    return ", ".join(text.strip() for name, text in children if name == "e")


def _lines(_: Element, children: list[Child]) -> str:
    return "; ".join(text.replace("&", "").strip() for name, text in children if name == "e")


_FORMS: dict[str, Callable[[Element, list[Child]], str]] = {
    "f": _fraction,
    "sSup": _scripted(("sup", "^")),
    "sSub": _scripted(("sub", "_")),
    "sSubSup": _scripted(("sub", "_"), ("sup", "^")),
    "sPre": _before,
    "limLow": _scripted(("lim", "_")),
    "limUpp": _scripted(("lim", "^")),
    "rad": _radical,
    "nary": _nary,
    "d": _delimited,
    "func": _function,
    "acc": _accented,
    "m": _matrix,
    "mr": _row,
    "eqArr": _lines,
}
