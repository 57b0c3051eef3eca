"""The checker of prose and test names."""

import pytest

from tests.support import prose
from tests.support.prose import Rules

RULES = Rules(("*",), {"exempt.py": ("handed in",)})


def phrases_in(path, source):
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
        "Those asked are counted.",
        "The kept are deleted.",
        "Each build has it that one is live.",
        "The kernel hands ports to connections.",
        "Someone waits.",
        "The work can go on.",
        "It takes its row along.",
        "A look costs a request.",
        "Several rows in all places.",
    ],
)
def test_phrase_is_reported_in_docstrings(words):
    assert phrases_in("shared/a.py", f'"""{words}"""\n')


@pytest.mark.parametrize(
    "words",
    [
        "It says what to do.",
        "What does it cost?",
        "There is no limit.",
        "BM25 stands for a ranking function.",
        "The server stores the row.",
        "Code is exempt: `what it is`.",
        "The known limit is asked of the provider.",
        "See the reference.",
    ],
)
def test_plain_words_pass(words):
    assert phrases_in("README.md", words + "\n") == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("shared/a.py", "x = 1  # nobody waits\n"),
        ("shared/a.py", "raise ValueError('The file was handed in already.')\n"),
        ("docs/a.md", "Nobody waits.\n"),
        ("api/web/a.js", "// Nobody waits.\n"),
        ("api/web/a.js", "html`<p>The file was handed in.</p>`\n"),
        ("shared/a.py", "x = Field(description='goes first')\n"),
        ("api/web/a.js", 'const label = "Nobody waits";\n'),
        ("api/web/a.html", "<p>Nobody waits</p>\n"),
        ("api/web/a.css", ".a { color: red; } /* nobody waits */\n"),
        ("shared/a.sql", "-- Nobody waits.\nSELECT 1;\n"),
        ("shared/a.sql", "SELECT 'a', 1;  -- nobody's row\n"),
        ("shared/a.sql", "RAISE EXCEPTION 'the row is gone now';\n"),
        ("shared/a.lua", "local a = 1 -- nobody waits\n"),
        ("shared/a.lua", 'error("the row is gone now")\n'),
        ("docker-compose.yml", "a: 1  # nobody waits\n"),
        ("shared/a.py", 'def f(a):\n    """F.\n\n    Args:\n        a: of the row.\n    """\n'),
    ],
)
def test_prose_is_found_in_every_kind_of_file(path, source):
    assert len(phrases_in(path, source)) == 1


@pytest.mark.parametrize(
    "name",
    [
        "test_a_b_c_d_e_f_g_h_i",
        "test_it_waits",
        "test_nobody_waits",
        "test_what_is_new_wins",
        "test_of_two_one_wins",
        "test_lease_is_given_up",
        "test_read_comes_in_once_more",
    ],
)
def test_unclear_test_name_is_reported(name):
    assert phrases_in("tests/unit/test_a.py", f"def {name}():\n    pass\n") == [name]


def test_clear_test_name_passes():
    assert phrases_in("tests/unit/test_a.py", "def test_concurrent_updates_last_write_wins():\n    pass\n") == []


def test_listed_exception_is_not_reported():
    assert phrases_in("exempt.py", "# It was handed in.\n") == []


def test_quoted_mark_starts_no_comment():
    assert phrases_in("shared/a.sql", "SELECT '-- nobody';\n") == []
    assert phrases_in("a.toml", 'a = "# nobody waits"\n') == []


def test_code_in_markdown_is_ignored():
    assert phrases_in("docs/a.md", "```\nnobody waits\n```\n\n    nobody waits\n") == []
