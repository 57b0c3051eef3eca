"""Every text of the page can be translated, and is translated into each language."""

import re

import pytest

from tests.page.words.catalogues import ENGLISH, LANGUAGES, WEB, catalogue, placeholders, untranslated, used, written
from tests.page.words.literals import Reader, nested
from tests.page.words.messages import messages, unsaid
from tests.support.planted import guards

FORMS = {"de": 2, "zh": 1}  # plural forms of a number


def test_list_of_words_is_current():
    assert ENGLISH.read_text() == written(used()), "Run python -m tests.page.words"


@guards("api/web/words/zh.js", '"Undo":', '"Redo":', means="a translation is missing")
@pytest.mark.parametrize("language", LANGUAGES)
def test_translation_has_exactly_the_used_words(language):
    translated = catalogue(language)

    assert set(used()) - set(translated) == set(), "not translated"
    assert set(translated) - set(used()) == set(), "not used"


@guards("api/web/words/de.js", '"Quelle {0}"', '"Quelle"', means="a translation lacks the number of its sentence")
@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_keep_placeholders_and_plural_forms(language):
    for key, text in catalogue(language).items():
        expected = placeholders(key)
        forms = FORMS[language] if len(expected) > 1 else 1
        assert placeholders(text) == [expected[0]] * forms, key
        assert text.strip() == text, key
        assert text, key


@guards(
    "api/web/routes/ask.js",
    "${say`New conversation`}",
    "New conversation",
    means="a button of the page has a text that cannot be translated",
)
def test_module_shows_no_words_without_translation():
    assert untranslated() == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("html`<p>Nothing found</p>`", ["Nothing found"]),
        ("html`<p>${say`Nothing found`}</p>`", []),
        ("html`<p>${count(1)} pages</p>`", [" pages"]),
        ('html`<button aria-label="Close">\\u2715</button>`', ["Close"]),
        ("html`<button aria-label=${`Close ${name}`}></button>`", ["Close \u2026"]),
        ('html`<p>${open ? "open" : say`closed`}</p>`', ["open"]),
        ('html`<p>${say`Found ${many ? "many" : count(1)}`}</p>`', ["many"]),
        ('html`<p class="soft small"><code>foreask up</code> \\u00b7 ${path(a, "b")}</p>`', []),
        ('html`<a href="/a b/" @click=${() => go("there")}>${name}</a>`', []),
        ('html`<p class=${open ? "wide column" : ""} @click=${() => notify("Saved")}></p>`', ["Saved"]),
        ('html`<p @click=${() => copy(turns, "Copied as Markdown.")}></p>`', ["Copied as Markdown."]),
        ("notify(`gone: ${name}`)", ["gone: \u2026"]),
        ('const TABS = [["asked", "Asked"]];', ["Asked"]),
        ('html`${field({ name: "name", label: "Name", type: "select" })}`', ["Name"]),
        ('const note = "the rows are marked";', ["the rows are marked"]),
        (
            '// The words of a comment\nconst kind = /["\'`]/.test("x") ? "json" : "Authorization";',
            ["Authorization"],
        ),
    ],
)
def test_words_without_translation_are_found(source, words):
    assert [each.text for each in unsaid(source)] == [" ".join(each.split()) for each in words]


def test_keys_number_values_and_plurals_have_forms():
    source = 'say`Page ${a} of ${say`many`}\\u2026`; plural(n, "entry", "entries"); plural(n.length, "page");'

    assert set(messages(source)) == {
        "Page {0} of {1}\u2026",
        "many",
        "{0} entry|{0} entries",
        "{0} page|{0} pages",
    }


def test_plural_of_computed_noun_is_rejected():
    with pytest.raises(ValueError, match="no literal noun"):
        list(messages("plural(n, noun)"))


def test_reader_understands_templates_in_templates():
    source = "const a = b / c / d; html`<p>${x.map((y) => html`<b>${y}</b>`)} \\`${\"}\"}</p>`; const e = '}';"

    texts = [each.key for each in nested(Reader(source).read())]

    assert texts == ["<p>{0} `{1}</p>", "<b>{0}</b>", "}", "}"]


def test_document_has_one_untranslated_sentence():
    texts = re.findall(r">([^<>{}]+)<", (WEB / "index.html").read_text())

    assert [text for text in texts if re.search("[a-z]", text)] == [
        "foreask",
        "foreask",
        "This page needs JavaScript. All of its content is also available from the API.",
    ]
