"""Every class in a template of the page has a rule in its styles, and every class of a rule is used."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.page.words.catalogues import WEB, modules
from tests.page.words.literals import Literal, Reader, nested
from tests.page.words.markup import runs
from tests.page.words.messages import MARKUP
from tests.support.planted import guards

STYLES = sorted((WEB / "style").rglob("*.css"))
# Classes without a rule: modules and tests find elements by them.
HOOKS = {"facts", "keys", "pace", "request", "window-all"}
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_PRELUDE = re.compile(r"([^{};]+)\{")
_CLASS = re.compile(r"\.([a-zA-Z][\w-]*)")
_VALUE = "\0"
# A browser finds the rules of an element by the id, class or tag at the end of their selectors. It compares other
# selectors with every element. An element whose :has() depends on the whole document is styled again at every change.
_UNIVERSAL = re.compile(r"(?:^|[\s>+~])(?:\*|::?[\w-]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?)+$")
_OF_DOCUMENT = re.compile(r"(?:html|body|:root|main)\S*:has\(")
SLOW = {
    "*",
    ":focus-visible",
    ":root",
    "[data-passage] ::highlight(cited)",
    ".kit-dialog > * + *",
    '.kit-field :is(input:not([type="checkbox"], [type="radio"]), select, textarea)',
}


def classes_of(module: Path) -> Iterator[str]:
    """Return the classes in the templates of a module; the computed part of a class is a null character."""
    for template in nested(Reader(module.read_text()).read()):
        if template.tag not in MARKUP:
            continue
        for run in runs(template):
            if run.attribute == "class":
                for text in _texts(template, run.items):
                    yield from text.split()


def _texts(template: Literal, items) -> Iterator[str]:
    """Return the possible texts of an attribute: its own one, and the strings in its values."""
    yield "".join(_VALUE if isinstance(item, int) else item.text for item in items)
    for item in items:
        if isinstance(item, int):
            for each in template.values[item]:
                if each.tag == "" and not each.before.endswith(("===", "!==", "==", "(")):
                    yield each.text


def ruled() -> set[str]:
    """Return the classes in the selectors of all styles."""
    css = "\n".join(_COMMENT.sub("", path.read_text()) for path in STYLES)
    return {name for prelude in _PRELUDE.findall(css) for name in _CLASS.findall(prelude)}


def split_selectors(prelude: str) -> list[str]:
    """Return the selectors of a list, without at-rules."""
    parts = re.split(r",(?![^()]*(?:\([^()]*\)[^()]*)*\))", prelude)
    return [" ".join(part.split()) for part in parts if not part.strip().startswith("@")]


def is_ruled(name: str, rules: set[str]) -> bool:
    pattern = re.compile(".*".join(map(re.escape, name.split(_VALUE))))
    return not name.strip(_VALUE) or any(pattern.fullmatch(rule) for rule in rules)


@guards(
    "api/web/style/kit/card.css",
    ".kit-card-actions {",
    ".kit-card-buttons {",
    means="the buttons of a card have no layout",
)
def test_each_class_of_templates_has_a_rule():
    rules = ruled() | HOOKS

    missing = {
        (module.relative_to(WEB).as_posix(), name)
        for module in modules()
        for name in classes_of(module)
        if not is_ruled(name, rules)
    }

    assert missing == set()


def test_each_class_of_rules_is_used():
    written = "\n".join(module.read_text() for module in [*modules(), WEB / "index.html"])
    words = set(re.findall(r"[\w-]+", written))
    prefixes = {word for word in words if word.endswith("-")}

    unused = {rule for rule in ruled() - words if not any(rule.startswith(each) for each in prefixes)}

    assert unused == set()


@guards(
    "api/web/style/page.css",
    ".chip select, .chip input {",
    ".chip :is(select, input) {",
    means="a selector is compared with every element, which delays each frame while a list is scrolled",
)
def test_few_selectors_are_compared_with_every_element():
    css = "\n".join(_COMMENT.sub("", path.read_text()) for path in STYLES)
    selectors = {each for prelude in _PRELUDE.findall(css) for each in split_selectors(prelude)}

    slow = {each for each in selectors if _UNIVERSAL.search(each) or _OF_DOCUMENT.match(each)}

    assert slow == SLOW


def test_all_styles_are_in_known_layers():
    for path in STYLES:
        css = _COMMENT.sub("", path.read_text()).strip()
        layer = "page" if path.parent.name == "style" else path.parent.name
        assert css.startswith(f"@layer {layer} {{" if path.stem != "_layers" else "@layer page, kit, screens;"), path
