"""base64, data URIs and comments are removed; keys, long words and code are kept."""

import base64
from random import Random

import pytest

from shared.ingest.parse.payloads import without_comments, without_data
from tests.support.planted import guards

DATA = base64.b64encode(Random(1).randbytes(3000)).decode()
WRAPPED = "\n".join(DATA[at : at + 76] for at in range(0, len(DATA), 76))


@guards(
    "shared/ingest/parse/payloads.py",
    'text = _PICTURE_OR_LINK.sub(r"\\1", text)',
    "pass",
    means="the text of a picture is lost or has marks",
)
@guards(
    "shared/ingest/parse/payloads.py", 'text = _DEFINITION.sub("", text)', "pass", means="an empty definition is left"
)
@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"a ![the logo](data:image/png;base64,{DATA}) b", "a the logo b"),
        (f'a [file](data:application/pdf;base64,{DATA} "title") b', "a file b"),
        ("![](data:image/svg+xml,%3Csvg%20/%3E)b", "b"),
        (f"a\n[logo]: <data:image/png;base64,{DATA}>\nb", "a\nb"),
        (f'a <img alt="Logo" src="data:image/png;base64,{DATA}"> b', "a Logo b"),
        (f"a {{background: url(data:font/woff2;charset=utf-8;base64,{DATA})}}", "a {background: url()}"),
        (f'{{"picture": "{DATA}"}}', '{"picture": ""}'),
        (f"a\n\n{WRAPPED}\n\nb", "a\n\n\n\nb"),
        (f"a\n\n{'0123456789abcdef' * 40}\n\nb", "a\n\n\n\nb"),
    ],
)
def test_data_is_removed(text, left):
    assert without_data(text) == left


@guards(
    "shared/ingest/parse/payloads.py",
    'return "" if is_base64 or is_hexadecimal else text',
    'return ""',
    means="long words are lost",
)
@pytest.mark.parametrize(
    "text",
    [
        "a " + "x" * 50_000 + " b",
        f"key: {DATA[:128]}",
        "metadata: a, data:, and data:text",
        "![a picture](data.png) [data: x](y)",
        "1234567890" * 100,
        "/usr/share/" * 100,
        "\n".join(["AllOfTheseLinesAreLongNamesOfClassesInSomeProgramThatSomebodyWrote"] * 7),
    ],
)
def test_other_text_is_kept(text):
    assert without_data(text) == text


@guards(
    "shared/ingest/parse/payloads.py",
    "at = closing.end() if closing else len(markdown)",
    "pass",
    means="comments in code are removed",
)
def test_comments_are_removed_outside_code():
    code = "```html\n<!-- in code -->\n```\n`<!-- x -->`"

    assert without_comments(f"a<!-- b\n\nc -->d\n{code}\n<!-- e -->") == f"ad\n{code}\n"
    assert without_comments("a <!-- not closed") == "a <!-- not closed"


@pytest.mark.parametrize(
    "text",
    [
        *("![" * 100_000, "data:;base64," * 20_000, "[a](data:," * 20_000, "<!--" * 50_000, "`" * 99_999),
        *("``` a\n" * 30_000, "<img data:" * 20_000, ("A" * 60 + "\n") * 7_000, "data:a/b;" * 20_000),
    ],
)
def test_hostile_text_takes_linear_time(text):
    assert isinstance(without_comments(without_data(text)), str)
