"""Write the list of the page's words, and report words without translations: `python -m tests.page.words`."""

from __future__ import annotations

import sys

from tests.page.words.catalogues import ENGLISH, LANGUAGES, catalogue, modules, used, written
from tests.page.words.messages import unsaid


def main() -> None:
    words = used()
    ENGLISH.write_text(written(words))
    problems = [
        f"{path.name}: not passed to say: {each.text}" for path in modules() for each in unsaid(path.read_text())
    ]
    for language in LANGUAGES:
        translated = catalogue(language)
        problems += [f"{language}: not translated: {key}" for key in words if key not in translated]
        problems += [f"{language}: not used: {key}" for key in translated if key not in words]
    print("\n".join(problems))
    print(f"{len(words)} words, {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
