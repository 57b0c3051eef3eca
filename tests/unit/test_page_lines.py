"""Lines of the modules and styles of the page have at most 120 characters, as lines of other code."""

import re

from tests.page.words.catalogues import WEB
from tests.support.planted import guards

LONGEST = 120
# A text cannot be divided, because it is the key of its translations.
TEXT = re.compile(r"(?:const )?[\w: =]*(?:say`[^`]*`|\"[^\"]*\")[,;]")


@guards(
    "api/web/kit/card.js",
    "export const card",
    "/* A comment before the code, which is so long that no screen shows the line, and no reader reads it. */"
    " export const card",
    means="a line of the page is too long to be read",
)
def test_lines_of_page_have_120_characters():
    files = [path for kind in ("*.js", "*.css") for path in sorted(WEB.rglob(kind))]
    ours = {path.relative_to(WEB).as_posix(): path for path in files if "vendor" not in path.parts}
    long = [
        f"{name}:{number}"
        for name, path in ours.items()
        if not name.startswith("words/")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LONGEST and not TEXT.fullmatch(line.strip())
    ]

    assert long == []
