"""A conversation on the Ask screen: follow-up questions, and its storage in the browser."""

import json
import re

import pytest
from playwright.async_api import expect

from tests.page.conftest import act, ask, visiting
from tests.page.screens import require_accessible

QUESTIONS = (
    "How many days of leave does everybody have?",
    "And in the first year?",
    "What about travel abroad?",
    "Who decides about it?",
    "Where is its table?",
)
STANDALONE = "How many days of leave are there in the first year?"


@pytest.fixture
def provider(provider_process):
    yield provider_process
    provider_process.restore()


async def follow_up(page, question):
    count = await page.locator(".answer").count()
    await page.fill("#question", question)
    await page.press("#question", "Enter")  # a closing panel gives the focus back to a citation
    await expect(page.locator(".answer")).to_have_count(count + 1)
    await expect(page.locator(".answer").last.locator(".facts")).to_be_visible()


async def converse(visit, number):
    await ask(visit, QUESTIONS[0])
    for question in QUESTIONS[1:number]:
        await follow_up(visit.page, question)


def titles(page):
    return page.locator(".question-title")


async def test_conversation_of_five_turns_survives_reload(visit, provider):
    page, bodies = visit.page, []
    page.on("request", lambda each: each.url.endswith("/v1/query") and bodies.append(json.loads(each.post_data)))
    await ask(visit, QUESTIONS[0])
    provider.script(condensed=STANDALONE)
    await follow_up(page, QUESTIONS[1])
    await expect(page.get_by_text("Searched for")).to_contain_text(STANDALONE)
    provider.script(condensed="")
    for question in QUESTIONS[2:]:
        await follow_up(page, question)

    await expect(titles(page)).to_have_text(list(QUESTIONS))
    assert [len(body.get("history", [])) for body in bodies] == [0, 2, 4, 6, 8]
    assert [message["content"] for message in bodies[4]["history"][::2]] == list(QUESTIONS[:4])
    await expect(page.locator(".conversations li")).to_contain_text("5 questions")
    await expect(page).to_have_url(re.compile(r"[?&]conversation="))
    answers = await page.locator(".written").all_inner_texts()
    values = await page.evaluate("JSON.stringify(Object.values(localStorage))")
    assert QUESTIONS[0] in values
    assert "thirty days of leave" not in values  # a passage is read from the server again

    await page.reload()

    await expect(titles(page)).to_have_text(list(QUESTIONS))
    # A loaded answer is drawn as text until Markdown's module is loaded.
    await expect(page.locator(".written")).to_have_text(answers, use_inner_text=True)
    await page.locator(".answer").first.locator(".written .cited").click()
    await expect(page.locator(".detail .marked")).to_contain_text("leave")
    await page.keyboard.press("Escape")
    await expect(page.locator(".detail .marked")).to_be_hidden()
    await follow_up(page, "Is that all?")
    assert len(bodies[5]["history"]) == 10


async def test_edited_question_replaces_later_ones_until_undone(visit):
    page = visit.page
    await converse(visit, 3)
    await act(page.locator(".answer").nth(1), "Edit question")
    await expect(page.locator("#question")).to_be_focused()
    await expect(page.locator("#question")).to_have_value(QUESTIONS[1])
    await page.fill("#question", "And in the second year?")
    await page.keyboard.press("Enter")
    await expect(titles(page)).to_have_text([QUESTIONS[0], "And in the second year?"])
    await expect(page.locator(".notice")).to_contain_text("1 later question removed")
    await expect(page.locator(".answer").last.locator(".facts")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect(titles(page)).to_have_text(list(QUESTIONS[:3]))

    await act(page.locator(".answer").last, "Ask again")
    await expect(page.locator(".answer").last.locator(".facts")).to_be_visible()
    await expect(titles(page)).to_have_text(list(QUESTIONS[:3]))


async def test_stopped_answer_stays_and_can_be_asked_again(visit, provider):
    page = visit.page
    await converse(visit, 1)
    provider.script(latency_seconds=60)
    await page.fill("#question", QUESTIONS[1])
    await page.keyboard.press("Enter")
    await expect(titles(page)).to_have_count(2)
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_text("Stopped.")).to_be_visible()
    await expect(page.locator(".written").first).to_contain_text("The documents say so")
    provider.restore()
    await page.locator(".answer").last.get_by_role("button", name="Ask again").click()
    await expect(page.locator(".answer").last.locator(".facts")).to_be_visible()
    await expect(page.get_by_text("Stopped.")).to_have_count(0)


async def test_conversations_are_renamed_searched_and_deleted(visit):
    page = visit.page
    rows = page.locator(".conversations li")
    for number in range(7):
        if number:
            await page.get_by_role("button", name="New conversation").click()
            await expect(titles(page)).to_have_count(0)
            await page.fill("#question", f"Where is room {number} of the museum?")
            await page.keyboard.press("Enter")
            await expect(page.locator(".facts")).to_be_visible()
        else:
            await ask(visit, QUESTIONS[0])
        await expect(rows).to_have_count(number + 1)
    await page.get_by_role("button", name=f"Rename {QUESTIONS[0]}").click()
    await expect(page.get_by_label("Name of the conversation")).to_be_focused()
    await page.keyboard.type("Days off")
    await page.keyboard.press("Enter")
    await expect(rows.filter(has_text="Days off")).to_have_count(1)
    await page.get_by_label("Search conversations").fill("EVERYBODY leave")
    await expect(rows).to_have_count(1)
    await rows.get_by_role("link").click()
    await expect(titles(page)).to_have_text([QUESTIONS[0]])
    await follow_up(page, QUESTIONS[1])
    await expect(rows).to_contain_text(["Days off"])  # the name stays after another question

    await page.get_by_role("button", name="Delete Days off").click()
    await expect(rows).to_have_count(0)
    await expect(titles(page)).to_have_count(0)
    await page.get_by_role("button", name="Undo").click()
    await expect(rows).to_have_count(1)
    await page.get_by_label("Search conversations").fill("")
    await page.get_by_role("button", name="Delete all").click()
    await expect(rows).to_have_count(0)
    stored = "Object.keys(localStorage).filter((name) => name.startsWith('foreask.conversation'))"
    assert await page.evaluate(stored) == []


async def test_answer_is_copied_as_markdown_with_sources(browser, deployment):
    base = f"http://127.0.0.1:{deployment.port}"
    permissions = ["clipboard-read", "clipboard-write"]
    async with visiting(browser, base, permissions=permissions) as visit:
        await converse(visit, 2)
        await visit.page.locator(".answer").first.get_by_role("button", name="Copy").click()
        await expect(visit.page.locator(".notice")).to_contain_text("Answer copied")
        copied = await visit.page.evaluate("navigator.clipboard.readText()")
        chunk = re.search(r"\?chunk=([0-9a-f-]{36})>", copied)[1]
        document = deployment.client.get(f"/v1/chunks/{chunk}").json()["document"]
        assert copied.startswith(f"## {QUESTIONS[0]}\n\nThe documents say so [1].\n\nSources:\n\n1. ")
        assert f"<{base}/documents/{document['id']}?chunk={chunk}>\n" in copied
        await visit.page.get_by_role("button", name="Copy all").click()
        await expect(visit.page.locator(".notice")).to_contain_text("Conversation copied")
        assert (await visit.page.evaluate("navigator.clipboard.readText()")).count("## ") == 2


async def test_passage_of_deleted_document_is_not_shown(visit, deployment):
    page = visit.page
    name = "shortlived"
    deployment.ingest({name: "# Fountain\n\nThe fountain of the old town was built in 1703."}, collection=name)
    (document,) = deployment.wait_until_settled(1, collection=name)
    await visit.go(f"/ask?collection={name}")
    await page.fill("#question", "When was the fountain built?")
    await page.keyboard.press("Enter")
    await expect(page.locator(".facts")).to_be_visible()
    deployment.client.delete(f"/v1/documents/{document['id']}").raise_for_status()
    visit.allowed = ("404",)
    await page.reload()
    await page.locator(".written .cited").click()
    await expect(page.locator(".notice")).to_contain_text("This passage no longer exists")
    await expect(page.locator(".detail")).to_have_count(0)


async def test_conversation_is_accessible_and_fits(visit):
    page = visit.page
    await converse(visit, 3)
    for width in (1440, 360):
        await page.set_viewport_size({"width": width, "height": 800})
        await require_accessible(page, f"a conversation, {width} pixels")
        await page.get_by_role("button", name=f"Rename {QUESTIONS[0]}").click()
        await require_accessible(page, f"a name being edited, {width} pixels")
        await page.keyboard.press("Escape")
        await page.locator(".answer").first.get_by_role("button", name="More actions").click()
        await require_accessible(page, f"the menu of an answer, {width} pixels")
        await page.locator(".answer").first.get_by_role("menuitem", name="Edit question").click()
        await require_accessible(page, f"a question being edited, {width} pixels")
        await page.keyboard.press("Escape")
        if width == 1440:  # in a narrow window the passage would cover the conversation
            await page.get_by_role("button", name="Close", exact=True).last.click()
            await expect(page.locator(".detail")).to_have_count(0)
