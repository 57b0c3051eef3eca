"""Fifty documents of ten formats: a cited fact is highlighted in the answer's source, the reader and the original."""

import asyncio
from contextlib import suppress

import httpx
import pytest
from playwright.async_api import TimeoutError as Missing
from playwright.async_api import expect

from tests.page.conftest import TIMEOUT, another_api, visiting
from tests.page.test_page_cited import squeezed
from tests.support.bridges import facts

FACTS = list(facts())
COLLECTION = "bridges"
TABS = 2
QUOTATION_MARKS = str.maketrans("\u201c\u201d\u201e", '"""')  # the text of a PDF has straight ones
SECONDS = 20  # until a highlight, before it counts as missing
CITED = """[...(CSS.highlights?.get("cited") ?? [])].filter((range) => range.startContainer.isConnected
  && range.startContainer.parentElement.closest(".detail")).map((range) => range.toString())"""
# The characters of the drawn page whose centre is in a mark.
ON_PAGE = """() => {
  const marks = [...document.querySelectorAll(".page-mark")].map((mark) => mark.getBoundingClientRect());
  const range = document.createRange();
  const isMarked = (node, at) => {
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    const { left, top, width, height } = range.getBoundingClientRect();
    const [x, y] = [left + width / 2, top + height / 2];
    return marks.some((mark) => x > mark.left && x < mark.right && y > mark.top && y < mark.bottom);
  };
  const nodes = [...document.querySelectorAll(".text-layer > span")].map((span) => span.firstChild).filter(Boolean);
  return nodes.flatMap((node) => [...node.data].filter((_, at) => isMarked(node, at))).join("");
}"""


@pytest.fixture(scope="module")
def bridges(deployment):
    """Upload the fifty documents."""
    for fact in FACTS:
        form = {"collection": COLLECTION, "external_id": fact.name}
        deployment.client.post("/v1/documents", data=form, files={"file": (fact.name, fact.content)}).raise_for_status()
    documents = deployment.wait_until_settled(len(FACTS), collection=COLLECTION)
    assert {each["external_id"]: each["state"] for each in documents} == {fact.name: "ready" for fact in FACTS}


@pytest.fixture(scope="module")
def quoting(deployment):
    """The address of an API whose answers are quotations, and can be shared."""
    with another_api(deployment, "sharing", answering="extractive", shared_answer_retention_days=7) as client:
        yield str(client.base_url).rstrip("/")


def plain(text):
    """Return the characters that must be equal."""
    return squeezed(text).translate(QUOTATION_MARKS)


async def test_each_cited_fact_is_highlighted_exactly(browser, bridges, quoting):
    assert len({fact.name.rpartition(".")[2] for fact in FACTS}) == 10
    assert len(FACTS) == 50
    wrong = []
    parts = [FACTS[number::TABS] for number in range(TABS)]
    await asyncio.gather(*(_follow_all(browser, quoting, part, wrong) for part in parts))
    assert wrong == []


async def _follow_all(browser, base, part, wrong):
    async with visiting(browser, base, viewport={"width": 1360, "height": 850}) as visit:
        await visit.go(f"/ask?collection={COLLECTION}")
        for fact in part:
            shown = {}
            try:
                await _follow(visit.page, fact, shown)
            except Missing as error:
                shown["missing"] = str(error).partition("\n")[0]
            wrong += [
                f"{fact.name}, {place}: {words!r} instead of {fact.words!r}"
                for place, words in shown.items()
                if plain(words) != plain(fact.words)
            ]
            await visit.page.locator(".rail").get_by_role("link", name="Ask").click()
            await visit.page.get_by_role("button", name="New conversation").click()


async def _follow(page, fact, shown):
    """Ask, open the citation, its passage in the reader, and the original; record the highlighted words of each."""
    await page.fill("#question", fact.question)
    await page.keyboard.press("Enter")
    await expect(page.locator(".facts")).to_be_visible()
    await page.locator(".written .cited").first.click()
    shown["source"] = await _highlighted(page)
    await page.get_by_role("link", name="Open in document").click()
    await expect(page.locator("#chunk-title")).to_be_visible()
    shown["reader"] = await _highlighted(page)
    if fact.original:
        await page.locator("#open-original").click()
        marked = page.locator(".page-mark" if fact.original == "pdf" else ".cited-row")
        await marked.first.wait_for(timeout=SECONDS * 1000)
        shown["original"] = await page.evaluate(ON_PAGE) if fact.original == "pdf" else await marked.inner_text()


async def _highlighted(page):
    """Wait for highlighted words in the open passage, and return them; an empty text if none appear."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            while not (found := await page.evaluate(CITED)):
                await asyncio.sleep(0.05)
            return "|".join(found)
    return ""


async def test_shared_answer_highlights_its_fact(browser, bridges, quoting):
    wrong = []
    async with (
        visiting(browser, quoting, viewport={"width": 1360, "height": 850}) as visit,
        httpx.AsyncClient(base_url=quoting, trust_env=False, timeout=TIMEOUT / 1000) as client,
    ):
        for fact in FACTS[::4]:
            query = {"question": fact.question, "collection": COLLECTION}
            reply = (await client.post("/v1/query", json=query)).raise_for_status().json()
            body = {"query_id": reply["metadata"]["query_id"], "answer": reply["answer"]}
            link = (await client.post("/v1/shared-answers", json=body)).raise_for_status().json()["id"]
            await visit.go(f"/answers/{link}")
            await visit.page.locator(".written .cited").first.click()
            shown = await _highlighted(visit.page)
            if plain(shown) != plain(fact.words):
                wrong.append(f"{fact.name}: {shown!r} instead of {fact.words!r}")
    assert wrong == []
