"""JSON: lines with paths, tables of similar objects, whole texts."""

import pytest

from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers import json
from shared.ingest.parse.readers.guard import guarded
from tests.support.planted import guards


def text_of(source):
    reading = json.read(source)
    assert reading
    assert guarded(reading.parts).coverage in (1, None)
    return reading.parts[0].markdown


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            '{"name": "x", "server": {"host": "h", "ports": [80, 443]}}',
            "name: x\nserver.host: h\nserver.ports: 80, 443",
        ),
        (
            '{"price": 1.10, "id": 12345678901234567890123, "x": -2E5}',
            "price: 1.10\nid: 12345678901234567890123\nx: -2E5",
        ),
        ('{"on": true, "off": false, "none": null, "empty": {}}', "on: true\noff: false\nnone: null\nempty: (empty)"),
        ('{"a": 1, "a": 2}', "a: 1\na: 2"),
        ('"Gr\\u00fc\\u00dfe \\ud83d\\ude00"', "Grüße 😀"),
        ('{"text": "# one\\n\\ntwo"}', "text:\n\n\\# one\n\ntwo"),
        ("[[1, 2], [3, 4]]", "1, 2; 3, 4"),
    ],
)
def test_values_are_lines_with_paths(source, text):
    assert text_of(source) == text


@guards(
    "shared/ingest/parse/readers/json.py",
    "if rows := _rows(values):",
    "if rows := []:",
    means="a table of records is not a table",
)
def test_similar_objects_are_table():
    people = '[{"id": 1, "name": "A|B", "tags": ["x", "y"]}, {"id": 2, "mail": null}]'

    assert text_of(f'{{"people": {people}}}') == (
        "people:\n\n| id | name | tags | mail |\n| --- | --- | --- | --- |\n| 1 | A\\|B | x, y |  |\n| 2 |  |  |  |"
    )


def test_object_of_similar_objects_is_table():
    assert text_of('{"a": {"v": 1}, "b": {"v": 2}}') == "|  | v |\n| --- | --- |\n| a | 1 |\n| b | 2 |"


@guards(
    "shared/ingest/parse/readers/json.py",
    "self._sections.append((path, values, level))",
    "pass",
    means="nested records are lost",
)
def test_records_follow_lines_of_object():
    source = '{"posts": [{"t": "one", "by": [{"n": {"x": "me"}}, {"n": "you"}]}, {"t": "two"}], "count": 2}'

    assert text_of(source) == "count: 2\n\n## posts\n\nt: one\nby.1.n.x: me\nby.2.n: you\n\nt: two"


def test_several_values_are_read():
    assert text_of('{"a": 1}\n{"a": 2}\n') == "| a |\n| --- |\n| 1 |\n| 2 |"


def test_title_is_stated():
    reading = json.read('{"title": "Harbours"}')

    assert reading
    assert reading.title == "Harbours"


@guards(
    "shared/ingest/parse/readers/json.py",
    "except (JSONDecodeError, RecursionError):",
    "except JSONDecodeError:",
    means="a deep file crashes the parser",
)
@pytest.mark.parametrize("source", ["{a: 1}", '{"a": 1', "[" * 100_000, '{"a":' * 100 + "1" + "}" * 100, "[]"])
def test_other_source_is_shown(source):
    extracted = extract(source.encode(), filename="a.json", media_type=None, max_text_chars=10**6)

    assert extracted.text == source
    assert not extracted.markdown


@guards(
    "shared/ingest/parse/readers/json.py",
    "if len(path) > _PATH_CHARS:",
    "if False:",
    means="nested names repeat without limit",
)
def test_long_names_are_not_repeated():
    source = '{"' + "n" * 10_000 + '": {' + ",".join(f'"k{number}": {number}' for number in range(1_000)) + "}}"

    assert len(text_of(source)) < 2 * len(source)
