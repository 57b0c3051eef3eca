"""Lines of the modules and styles of the page have at most 120 characters, as lines of other code."""

import re

from tests.page.words.catalogues import WEB
from tests.support.planted import guards

LONGEST = 120
# A text cannot be divided, because it is the key of its translations.
TEXT = re.compile(r"(?:const )?[\w: =]*(?:say`[^`]*`|\"[^\"]*\")[,;]")
# Files that are older than this rule. Do not add one: wrap the lines of a file that you change, and delete it here.
LONG_FILES = {
    *("api.js", "app.js", "events.js", "parts/answer.js", "parts/bars.js"),
    *("parts/chart.js", "parts/charts.js", "parts/cited.js", "parts/clipboard.js", "parts/collections.js"),
    *("parts/conversation-list.js", "parts/conversations.js", "parts/estimate.js", "parts/format.js"),
    *("parts/fusion.js", "parts/kinds.js", "parts/labelling.js", "parts/language.js"),
    *("parts/markdown.js", "parts/navigation.js", "parts/notice.js", "parts/original.js", "parts/pdf-text.js"),
    *("parts/pdf.js", "parts/polling.js", "parts/prose.js", "parts/report.js", "parts/request.js"),
    *("parts/sample.js", "parts/scans.js", "parts/schema.js", "parts/sentences.js"),
    *("parts/server-conversations.js", "parts/sharing.js", "parts/sheet.js", "parts/similarity.js"),
    *("parts/snippet.js", "parts/source.js", "parts/start.js", "parts/state.js", "parts/submission.js"),
    *("parts/suggestions.js", "parts/transcript.js", "parts/trend.js", "parts/trial.js", "parts/turns.js"),
    *("parts/webhooks.js", "parts/window.js", "parts/words.js", "routes/api.js"),
    *("routes/ask.js", "routes/collection.js", "routes/compare.js", "routes/document.js"),
    *("routes/documents.js", "routes/explain.js", "routes/gaps.js", "routes/questions.js"),
    *("routes/shared.js", "routes/try.js", "store.js", "style/page.css"),
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
