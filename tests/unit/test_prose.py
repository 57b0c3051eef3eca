"""The check of prose and test names."""

import pytest

from tests.support import prose
from tests.support.prose import Rules

RULES = Rules(("*",), {"exempt.py": ("handed in",)})


def found(path, source):
    return [hit.words.lower() for hit in prose.hits(path, source, RULES)]


@pytest.mark.parametrize(
    "words",
    [
        "It returns what it has cost.",
        "Whoever comes first wins.",
        "Nobody waits.",
        "The price of those that were paid.",
        "A document is handed in.",
        "Qdrant is away.",
        "The row is gone.",
        "The chunk is not there yet.",
        "Its name stands in the row.",
        "This is no error.",
        "The client is told.",
        "The document goes with its chunks.",
        "The call begins.",
        "One waits behind the other.",
        "It is sent anew.",
        "It gives the claim up.",
        "The rest is put off.",
        "The call is under way.",
        "It comes in place of the other.",
        "Each in its place.",
        "None where there is none.",
        "Have the collection bear the costs.",
    ],
)
def test_phrase_is_reported_in_docstrings(words):
    assert found("shared/a.py", f'"""{words}"""\n')


@pytest.mark.parametrize(
    "words",
    [
        "It says what to do.",
        "What does it cost?",
        "There is no limit.",
        "BM25 stands for a ranking function.",
        "The server stores the row.",
        "Code is exempt: `what it is`.",
    ],
)
def test_plain_words_pass(words):
    assert found("README.md", words + "\n") == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("shared/a.py", "x = 1  # nobody waits\n"),
        ("shared/a.py", "raise ValueError('The file was handed in already.')\n"),
        ("docs/a.md", "Nobody waits.\n"),
        ("api/web/a.js", "// Nobody waits.\n"),
        ("api/web/a.js", "html`<p>The file was handed in.</p>`\n"),
        ("shared/a.sql", "-- Nobody waits.\nSELECT 1;\n"),
        ("docker-compose.yml", "a: 1  # nobody waits\n"),
        ("shared/a.py", 'def f(a):\n    """F.\n\n    Args:\n        a: of the row.\n    """\n'),
    ],
)
def test_prose_is_found_in_every_kind_of_file(path, source):
    assert len(found(path, source)) == 1


@pytest.mark.parametrize(
    "name",
    ["test_a_b_c_d_e_f_g_h_i", "test_it_waits", "test_nobody_waits", "test_what_is_new_wins", "test_of_two_one_wins"],
)
def test_unclear_test_name_is_reported(name):
    assert found("tests/unit/test_a.py", f"def {name}():\n    pass\n") == [name]


def test_clear_test_name_passes():
    assert found("tests/unit/test_a.py", "def test_concurrent_updates_last_write_wins():\n    pass\n") == []


def test_exception_is_not_reported():
    assert found("exempt.py", "# It was handed in.\n") == []


def test_code_in_markdown_is_ignored():
    assert found("docs/a.md", "```\nnobody waits\n```\n\n    nobody waits\n") == []
