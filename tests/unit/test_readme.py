"""The numbers of the README's sentences are the code's, so that no sentence keeps a number that has changed.

The numbers of its first paragraphs and of its table are written by `python -m bench comparison --write`, and
`test_comparison.py` checks them.
"""

import re
import tomllib
from pathlib import Path

from shared.domain.corpus.chunks import ChunkContent
from shared.ingest.generate.types import GenerationOptions
from shared.settings import EMBEDDED_LLM, Settings
from shared.settings.tuning import Tuning
from tests.support.planted import guards

CLONE = Path(__file__).parents[2]
# Blocks that programs write, code, addresses and tags.
NO_SENTENCE = re.compile(
    r"<!-- [^>]*written by .*?<!-- end[^>]*-->|```.*?```|^ {4}[^\n]*$|`[^`\n]*`|\]\([^)]*\)|<[^>]+>",
    re.DOTALL | re.MULTILINE,
)
# Names, a status, the numbers of a list, and the end of a scale.
NO_MEASURE = re.compile(r"BM25|nDCG@10: 1 is perfect|\b429\b|Apache 2\.0|^\d\. ", re.MULTILINE)


def phrases():
    """The phrases with a number, made from its origin."""
    default = {name: field.default for name, field in Settings.model_fields.items()}
    project = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]
    return [
        f"Python {project['requires-python'].removeprefix('>=')} or newer",
        f"at most {default['chunk_max_chars']:,} characters",
        f"up to {default['llm_max_in_flight']} calls in flight",
        f"its lease of {Tuning.model_fields['lease'].default.total_seconds():.0f} seconds",
        f"writes {questions('short')} to {questions('long ' * 10_000)} questions",
        f"only {EMBEDDED_LLM.partition('-')[2].removesuffix('m')} million parameters",
        f"in {broken_by_make_faults()} ways",
    ]


def broken_by_make_faults():
    """Return the number of listed faults with a scenario in `tests/faults`."""
    listed = re.findall(
        r"^\| \d+ \|.* \| (.+) \|$", (CLONE / "docs/explanation/guarantees.md").read_text(), re.MULTILINE
    )
    scenarios = {f"`{path.stem}`" for path in (CLONE / "tests/faults").glob("test_*.py")}
    return sum(not scenarios.isdisjoint(re.findall("`[^`]+`", cell)) for cell in listed)


def questions(text):
    return GenerationOptions().count_for(ChunkContent(text=text, span=(0, len(text))))


@guards("README.md", "in 30 ways", "in 32 ways", means="the README promises more than the tests do")
def test_numbers_of_readme_sentences_have_their_origin():
    sentences = " ".join(NO_MEASURE.sub("", NO_SENTENCE.sub("", (CLONE / "README.md").read_text())).split())

    for phrase in phrases():
        assert phrase in sentences
        sentences = sentences.replace(phrase, "")

    assert not re.findall(r".{30}\d.{10}", sentences), "numbers without an origin"
