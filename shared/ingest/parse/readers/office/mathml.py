"""Formulas of MathML in one line of text."""

from __future__ import annotations

from collections.abc import Callable

from lxml import etree

from shared.ingest.parse.readers.xml_tree import Element, local_name

_OPERATOR_OF = {"msup": "^", "msub": "_", "mfrac": "/", "mover": "^", "munder": "_"}
_LEFT_OUT = frozenset(("annotation", "annotation-xml"))
_MOST_NESTED = 200


def formula(element: Element) -> str:
    """Return a formula as people type it, such as `(a + b)/(2c)`.

    The words of the formula are complete and in order; brackets show its structure where a line needs them.
    """
    stack: list[list[str]] = [[]]
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, node in walk:
        name = local_name(node)
        if event == "start":
            if name in _LEFT_OUT or not name:
                walk.skip_subtree()
            stack.append([])
        elif len(stack) > 1:
            parts = stack.pop()
            stack[-1].append(_text_of(node, name, parts) if len(stack) < _MOST_NESTED else "".join(parts))
    return " ".join("".join(stack[0]).split())


def _text_of(node: Element, name: str, parts: list[str]) -> str:
    if name in _LEFT_OUT:
        return ""
    if name in ("mo", "mi", "mn", "mtext", "ms"):
        text = " ".join("".join((node.text or "", *parts)).split())
        return f" {text} " if name == "mo" and text not in "(){}[]|,.!'" else text
    if operator := _OPERATOR_OF.get(name):
        return operator.join(_bracketed(part) for part in _kept(parts))
    build = _BUILDERS.get(name)
    return build(node, _kept(parts)) if build else "".join(parts)


def _kept(parts: list[str]) -> list[str]:
    return [part for part in parts if part.strip()]


def _bracketed(text: str) -> str:
    bare = text.strip()
    return bare if len(bare) < 2 or bare.isalnum() or (bare[0] == "(" and bare[-1] == ")") else f"({bare})"  # noqa: PLR2004


def _root(_: Element, parts: list[str]) -> str:
    return f"√({''.join(parts).strip()})"


def _scripts(_: Element, parts: list[str]) -> str:
    return "_".join(_bracketed(part) for part in parts[:2]) + "".join("^" + _bracketed(part) for part in parts[2:])


def _row(_: Element, parts: list[str]) -> str:
    return ", ".join(part.strip() for part in parts) + "; "


def _fenced(node: Element, parts: list[str]) -> str:
    return f"{node.get('open', '(')}{', '.join(part.strip() for part in parts)}{node.get('close', ')')}"


_BUILDERS: dict[str, Callable[[Element, list[str]], str]] = {
    "msqrt": _root,
    "mroot": _root,
    "msubsup": _scripts,
    "munderover": _scripts,
    "mtr": _row,
    "mfenced": _fenced,
}
