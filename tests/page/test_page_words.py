"""The page in the languages that it has: German and Chinese browsers, and a choice that persists."""

import asyncio
import json
import re

import pytest
from playwright.async_api import expect

from tests.page.conftest import TIMEOUT, ask, until, visiting
from tests.page.screens import OFF_NAVIGATION, SCREENS, require_accessible
from tests.page.words.catalogues import ENGLISH, catalogue
from tests.support.planted import guards

QUESTION = "How many days of leave does everybody have?"
WITH_ENGLISH = ("/api", "/lab/compare", "/collections/default")  # names of fields, methods and options
COLLECTION = "default"  # its name is also a word of the page
TITLES = {
    "de-DE": {"/ask": "Fragen", "/documents": "Dokumente", "/work": "Fortschritt", "/keys": "Schlüssel"},
    "zh-CN": {"/ask": "提问", "/documents": "文档", "/work": "处理状态", "/keys": "密钥"},
}
TAGS = {"de-DE": "de", "zh-CN": "zh-Hans"}
CATALOGUES = re.compile(r"/words/\w+\.js")  # the query names a screen, whose words are requested first
# The texts of elements, each on its own, and the labels for screen readers. Texts of documents and of users have `dir`.
VISIBLE = """() => {
    const texts = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        if (walker.currentNode.parentElement.closest("[dir], code, pre, script, noscript, option[lang]")) continue;
        texts.push(walker.currentNode.data);
    }
    for (const element of document.querySelectorAll("[aria-label], [placeholder], [title]")) {
        texts.push(...["aria-label", "placeholder", "title"].map((name) => element.getAttribute(name) ?? ""));
    }
    return texts.map((text) => text.replace(/\\s+/g, " ").trim()).filter((text) => /\\p{L}/u.test(text));
}"""


def english_left(texts, language):
    """Return texts that are English words of the page, unless the language has the same word."""
    translated = catalogue(language)
    patterns = []
    for key in json.loads(ENGLISH.read_text()):
        if set(translated[key].split("|")) & set(key.split("|")) or not re.search(r"[A-Za-z]{2}", key):
            continue
        for form in key.split("|"):
            pieces = re.split(r"\{\d\}", form)
            if not any(re.search(r"[A-Za-z]{3}", piece) for piece in pieces):
                continue
            patterns.append("(.+)".join(re.escape(piece) for piece in pieces))
    known = re.compile("|".join(patterns))
    own = {form for text in translated.values() for form in text.split("|")}
    return [text for text in texts if known.fullmatch(text) and text not in own | {COLLECTION}]


@pytest.fixture(params=list(TITLES))
async def foreign(request, browser, deployment):
    base = f"http://127.0.0.1:{deployment.port}"
    options = {"locale": request.param, "viewport": {"width": 1360, "height": 850}}
    async with visiting(browser, base, **options) as visit:
        yield visit, request.param


@pytest.fixture
def addresses(deployment):
    """The addresses of all screens."""
    document = next(each for each in deployment.documents() if each["external_id"] == "leave.md")
    return (*SCREENS, f"/documents/{document['id']}", "/collections/default", *OFF_NAVIGATION)


async def test_translated_screens_are_complete_accessible_and_fit(foreign, addresses):
    visit, locale = foreign
    visit.allowed = ("404",)
    page = visit.page
    left = {}
    for path in addresses:
        await visit.go(path)
        await expect(page.locator("html")).to_have_attribute("lang", TAGS[locale])
        if title := TITLES[locale].get(path):
            await expect(page.locator("h1")).to_have_text(title)
            await expect(page).to_have_title(f"{title} \u00b7 foreask")
            await expect(page.locator(".rail a[aria-current=page]")).to_have_text(title)
        await until(lambda: page.evaluate("document.querySelectorAll('main > :not(h1) *').length"))
        if path not in WITH_ENGLISH:
            left[path] = english_left(await page.evaluate(VISIBLE), locale[:2])
        await _fits_all_windows(page, path)
    await ask(visit, QUESTION)
    await page.locator(".written .cited").first.click()
    await expect(page.locator("#source-title")).to_be_visible()
    left["an answer"] = english_left(await page.evaluate(VISIBLE), locale[:2])
    await _fits_all_windows(page, "an answer")
    assert {path: texts for path, texts in left.items() if texts} == {}


async def _fits_all_windows(page, where):
    for width in (390, 1360):
        await page.set_viewport_size({"width": width, "height": 850})
        await require_accessible(page, f"{where}, {width} pixels")


def test_english_words_in_translation_are_found():
    assert english_left(["Documents", "3 passages", "Dokumente", "Seite 3"], "de") == ["Documents", "3 passages"]


async def test_chosen_language_persists_until_browser_language_returns(foreign):
    visit, locale = foreign
    page = visit.page
    await visit.go("/documents")
    await page.locator(".language select").select_option("en")
    await expect(page.locator("html")).to_have_attribute("lang", "en")
    await expect(page.locator("h1")).to_have_text("Documents")
    await visit.go("/keys")
    await expect(page.locator("h1")).to_have_text("Keys")
    await page.locator(".language select").select_option("")
    await expect(page.locator("html")).to_have_attribute("lang", TAGS[locale])
    await expect(page.locator("h1")).to_have_text(TITLES[locale]["/keys"])


async def test_missing_catalogue_falls_back_to_english(browser, deployment):
    base = f"http://127.0.0.1:{deployment.port}"
    async with visiting(browser, base, locale="de-DE") as visit:
        visit.allowed = ("net::ERR_FAILED",)
        await visit.page.route(CATALOGUES, lambda route: route.abort())
        await visit.go("/documents")
        await expect(visit.page.locator("h1")).to_have_text("Documents")
        await expect(visit.page.locator("html")).to_have_attribute("lang", "en")


class LateFile:
    """A file of the page whose requests wait until `free` is set; `asked` is set by the first one."""

    def __init__(self):
        self.asked, self.free = asyncio.Event(), asyncio.Event()

    async def handle(self, route):
        self.asked.set()
        await self.free.wait()
        await route.continue_()


@guards(
    "api/web/app.js",
    'if (document.readyState === "complete")',
    "if (false)",
    means="the page in another language loads no screens in the background",
)
async def test_late_catalogue_does_not_prevent_preloading(foreign):
    visit, _ = foreign
    catalogue = LateFile()
    modules = []
    visit.page.on("request", lambda each: modules.append(each.url.rpartition("/")[2]))
    await visit.page.route(CATALOGUES, catalogue.handle)
    await visit.page.goto(f"{visit.base}/documents", wait_until="load")
    await asyncio.wait_for(catalogue.asked.wait(), TIMEOUT / 1000)
    assert "audit.js" not in modules
    catalogue.free.set()

    async def is_preloaded():
        return "audit.js" in modules

    await until(is_preloaded)


@guards(
    "api/web/index.html",
    '<script type="module" async src="{files}/parts/words.js"></script>\n',
    "",
    means="the catalogue of words is requested when all modules are loaded",
)
async def test_catalogue_is_requested_while_modules_load(foreign):
    visit, locale = foreign
    library = LateFile()
    await visit.page.route("**/vendor/lit-html.js", library.handle)
    async with visit.page.expect_request(CATALOGUES) as requested:
        await visit.page.goto(f"{visit.base}/documents", wait_until="commit")
        await asyncio.wait_for(library.asked.wait(), TIMEOUT / 1000)
    assert (await requested.value).url.endswith(f"/words/{locale[:2]}.js?documents")
    library.free.set()
    await expect(visit.page.locator("h1")).to_have_text(TITLES[locale]["/documents"])


async def test_texts_with_two_meanings_have_two_translations(foreign, deployment):
    visit, locale = foreign
    page = visit.page
    chosen, budget, refresh = {
        "de-DE": ("Satz", "Budget festlegen", "Aktualisieren"),
        "zh-CN": ("问题集", "设置预算", "刷新"),
    }[locale]
    questions = [{"question": QUESTION, "external_ids": ["leave.md"]}]
    labelled = f"/v1/collections/{COLLECTION}/labelled-sets/words"
    deployment.client.put(labelled, json={"questions": questions}).raise_for_status()
    await visit.go(f"/lab/compare?collection={COLLECTION}")
    await expect(page.locator(".tools label.inline")).to_contain_text(chosen)
    await visit.go("/limits")
    await page.locator("main button.main").click()
    await expect(page.locator("form.kit-form button[type=submit]")).to_have_text(budget)
    await visit.go("/audit")
    await expect(page.get_by_role("button", name=refresh)).to_be_visible()
