"""Citations: the page highlights exactly the sentences that support an answer, in documents of ten formats."""

import pytest
from playwright.async_api import expect

from shared.query.answer import Passage
from shared.query.answer.quotes import candidates
from tests.page.conftest import another_api, until, visiting
from tests.support.ships import EACH, ships

SHIPS = list(ships())
LOCATE = """async (passages) => {
  const folder = document.querySelector("script[type=module]").src.replace(/[^/]*$/, "");
  const { markdown } = await import(folder + "parts/markdown.js");
  const { highlight, wordsOf } = await import(folder + "parts/cited.js");
  const { render } = await import(folder + "vendor/lit-html.js");
  return passages.map(({ text, sentences, plain }) => {
    const box = document.body.appendChild(document.createElement("div"));
    if (plain) box.textContent = text; else render(markdown(text), box);
    const { ranges } = highlight(box, text, sentences);
    const drawn = [...CSS.highlights.get("cited")].map((range) => range.toString());
    return { drawn, words: ranges.map(wordsOf) };
  });
}"""
HIGHLIGHTED = "[...(CSS.highlights.get('cited') ?? [])].map((range) => range.toString()).join('|')"


def squeezed(text):
    return "".join(text.split())


@pytest.fixture(scope="module")
def fleet(deployment):
    """Upload the fifty documents; return the chunk with the sentence of each ship."""
    for ship in SHIPS:
        form = {"collection": "ships", "external_id": ship.name}
        deployment.client.post("/v1/documents", data=form, files={"file": (ship.name, ship.content)}).raise_for_status()
    chunks = {}
    for document in deployment.wait_until_settled(len(SHIPS), collection="ships"):
        items = deployment.client.get(f"/v1/documents/{document['id']}/chunks").raise_for_status().json()["items"]
        chunks[document["external_id"]] = [chunk["text"] for chunk in items]
    return chunks


@pytest.fixture(scope="module")
def quoting(deployment):
    """The address of an API whose answers are quotations."""
    with another_api(deployment, "quoting", answering="extractive") as client:
        yield str(client.base_url).rstrip("/")


async def test_cited_sentences_of_ten_formats_are_highlighted(visit, fleet):
    assert len({ship.name.rpartition(".")[2] for ship in SHIPS}) * EACH == len(SHIPS) == 50
    passages = []
    for ship in SHIPS:
        found = [
            {"text": text, "sentences": [[quote.support.start, quote.support.end]]}
            for text in fleet[ship.name]
            for quote in candidates([Passage(1, text)])
            if ship.ship in quote.text
        ]
        assert found, f"{ship.name}: {fleet[ship.name]}"
        passages.append(found[0])
    await visit.go("/ask")
    located = await visit.page.evaluate(LOCATE, passages)

    for ship, shown in zip(SHIPS, located, strict=True):
        assert [squeezed(text) for text in shown["drawn"]] == [squeezed(ship.words)], ship.name
        assert [squeezed(text) for text in shown["words"]] == [squeezed(ship.words)], ship.name


WRITTEN = [
    ("One is **bold. Two** is not. Three.", "One is **bold.", "One is bold."),
    ("- [x] Tea is served at four. Not coffee.", "Tea is served at four.", "Tea is served at four."),
    ("A &lt;tag&gt; opens. AT&amp;T calls.", "AT&amp;T calls.", "AT&T calls."),
    ("It goes on\nto the next line. End.", "It goes on\nto the next line.", "It goes on to the next line."),
    ("\U0001f600 Yes. \U0001f600 No.", "\U0001f600 No.", "\U0001f600 No."),
    ("See ![a map](map.png) here. End.", "See ![a map](map.png) here.", "See Picture: a map here."),
    ("1. One.\n2. Same words.\n\nSame words.", "Same words.", "Same words."),
    ("| a | b |\n|---|---|\n| 1 | x \\| y |\n", "| 1 | x \\| y |", "1 x | y"),
    ("Write to a@example.org. Or call.", "Write to a@example.org.", "Write to a@example.org."),
]


async def test_markup_does_not_break_highlight(visit):
    passages, expected = [], []
    for text, sentence, shown in WRITTEN:
        start = text.rindex(sentence) if text.startswith("1.") else text.index(sentence)
        for plain in (False, True):
            passages.append({"text": text, "sentences": [[start, start + len(sentence)]], "plain": plain})
            expected.append(" ".join((sentence if plain else shown).split()))
    text = "The mark \ufdd0 is no letter. Nor is this."
    passages.append({"text": f"**{text}**", "sentences": [[2, 29]]})
    await visit.go("/documents")

    *located, unlocatable = await visit.page.evaluate(LOCATE, passages)

    assert [[" ".join(words.split()) for words in found["words"]] for found in located] == [[each] for each in expected]
    assert unlocatable == {"drawn": [], "words": []}


async def test_quoted_sentence_is_highlighted_in_source(browser, deployment, fleet, quoting):
    ship = next(ship for ship in SHIPS if ship.name == "ship-0-0.md")
    async with visiting(browser, quoting) as visit:
        page = visit.page
        await visit.go("/ask?collection=ships")
        await page.fill("#question", f"How many tonnes does the anchor of the {ship.ship} weigh without its chain?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".written blockquote").first).to_contain_text(ship.ship)
        await page.locator(".written .cited").first.click()
        await page.wait_for_function(f"{HIGHLIGHTED}.includes({ship.ship!r})")

        assert squeezed(await page.evaluate(HIGHLIGHTED)) == squeezed(ship.words)
        note = page.locator(".detail > p", has_text="Cited sentence:")
        await expect(note).to_have_text(f"Cited sentence: {ship.words}")
        await expect(note).to_have_class("hidden")
        await expect(page.locator(".detail .marked")).to_have_css("background-color", "rgba(0, 0, 0, 0)")

        await page.get_by_role("button", name="Close", exact=True).last.click()
        await expect(page.locator(".detail")).to_have_count(0)
        await page.locator(".written .cited").first.click()  # opened again, it is highlighted again
        await until(lambda: _is_highlighted(page, ship.words))


async def _is_highlighted(page, words):
    return squeezed(await page.evaluate(HIGHLIGHTED)) == squeezed(words)


async def test_browser_without_highlights_shows_sentence(browser, deployment, fleet, quoting):
    ship = next(ship for ship in SHIPS if ship.name == "ship-1-0.txt")
    async with visiting(browser, quoting) as visit:
        page = visit.page
        await page.add_init_script("delete CSS.highlights; delete Object.getPrototypeOf(CSS).highlights;")
        await visit.go("/ask?collection=ships")
        await page.fill("#question", f"How many tonnes does the anchor of the {ship.ship} weigh without its chain?")
        await page.keyboard.press("Enter")
        await page.locator(".written .cited").first.click()
        await expect(page.get_by_text(f"Cited sentence: {ship.words}")).to_be_visible()


async def test_closest_passages_can_be_opened(browser, deployment, fleet, quoting):
    async with visiting(browser, quoting) as visit:
        page = visit.page
        await visit.go("/ask?collection=ships")
        await page.fill("#question", "Zebra xylophone quartz?")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Closest passages")).to_be_visible()
        await page.locator(".sources button").first.click()
        await expect(page.locator(".detail .marked")).to_be_visible()
