"""Lines of the modules and styles of the page have at most 120 characters, as lines of other code."""

import re

from tests.page.words.catalogues import WEB
from tests.support.planted import guards

LONGEST = 120
# A text cannot be divided, because it is the key of its translations.
TEXT = re.compile(r"(?:const )?[\w: =]*(?:say`[^`]*`|\"[^\"]*\")[,;]")
# Files that are older than this rule. Do not add one: wrap the lines of a file that you change, and delete it here.
LONG_FILES = {
    *("parts/sharing.js", "parts/sheet.js", "parts/similarity.js", "parts/snippet.js", "parts/start.js"),
    *("parts/state.js", "parts/submission.js", "parts/suggestions.js", "parts/trend.js", "parts/trial.js"),
    *("parts/webhooks.js", "parts/words.js", "routes/api.js", "routes/collection.js", "routes/compare.js"),
    *("routes/document.js", "routes/explain.js", "routes/try.js"),
}


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
        if name not in LONG_FILES and not name.startswith("words/")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LONGEST and not TEXT.fullmatch(line.strip())
    ]

    assert long == []
