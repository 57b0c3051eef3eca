"""Write the list of the page's words, and report words without translations: `python -m tests.page.words`."""

from __future__ import annotations

import sys

from tests.page.words.catalogues import ENGLISH, LANGUAGES, catalogue, untranslated, used, written


def main() -> None:
    words = used()
    ENGLISH.write_text(written(words))
    problems = [f"{module}: not passed to say: {text}" for module, text in untranslated()]
    for language in LANGUAGES:
        translated = catalogue(language)
        problems += [f"{language}: not translated: {key}" for key in words if key not in translated]
        problems += [f"{language}: not used: {key}" for key in translated if key not in words]
    print("\n".join(problems))
    print(f"{len(words)} words, {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
