"""Conversations that the server stores: each browser with the key shows them, and another key never does."""

import pytest
from playwright.async_api import expect

from tests.page.conftest import OURS, another_api, api_keys, until, visiting
from tests.page.screens import require_accessible
from tests.page.test_page_conversation import follow_up
from tests.page.test_page_keys import QUESTION, asked, enter, scoped, with_key

LOCAL = "Object.keys(localStorage).filter((name) => name.startsWith('foreask.conversation')).length"
WIDE = {"viewport": {"width": 1440, "height": 900}}


@pytest.fixture(scope="module")
def storing(deployment):
    """A client of an API that stores conversations."""
    keys = api_keys(default=OURS)
    with another_api(deployment, "storing", OURS, api_keys=keys, conversation_retention_days=30) as client:
        yield client


@pytest.fixture
def base(storing):
    return str(storing.base_url).rstrip("/")


def stored(client, key):
    """Return the conversations that the server stores for a key."""
    reply = client.get("/v1/conversations", headers={"authorization": f"Bearer {key}"}).raise_for_status()
    return reply.json()["items"]


async def stores(client, key, *conversations):
    """Wait until the server stores these questions with their answers."""

    async def are_stored():
        found = [each["turns"] for each in stored(client, key)]
        is_answered = all(turn["answer"] for turns in found for turn in turns)
        return is_answered and [[turn["question"] for turn in turns] for turns in found] == list(conversations)

    await until(are_stored)


async def test_browsers_with_one_key_share_conversations(browser, storing, base):
    key, other = (scoped(storing, name, "ask", "read")["key"] for name in ("shares", "apart"))
    async with visiting(browser, base, **WIDE) as first, visiting(browser, base, **WIDE) as second:
        first.allowed = second.allowed = ("401",)
        await with_key(first, "/ask", key)
        await asked(first.page)
        await stores(storing, key, [QUESTION])
        await expect(first.page.locator(".conversations")).to_contain_text("on the server for your key, for 30 days")
        assert await first.page.evaluate(LOCAL) == 0

        await with_key(second, "/ask", key)
        row = second.page.locator(".conversations li")
        await expect(row).to_have_count(1)
        await row.get_by_role("link").click()
        await expect(second.page.locator(".question-title")).to_have_text([QUESTION])
        await second.page.locator(".written .cited").first.click()
        await expect(second.page.locator(".detail .marked")).to_contain_text("leave")
        await second.page.keyboard.press("Escape")
        await follow_up(second.page, "And in the first year?")
        await stores(storing, key, [QUESTION, "And in the first year?"])

        await first.page.reload()
        await expect(first.page.locator(".question-title")).to_have_text([QUESTION, "And in the first year?"])

        address = first.page.url.removeprefix(base)
        await with_key(first, "/ask", other)
        await expect(first.page.locator("#question")).to_be_visible()
        await expect(first.page.locator(".conversations li")).to_have_count(0)
        await first.go(address)
        await expect(first.page.locator(".notice")).to_contain_text("no such conversation for your key")
        await expect(first.page.locator(".question-title")).to_have_count(0)


async def test_stored_conversation_is_renamed_deleted_and_restored(browser, storing, base):
    key = scoped(storing, "edits", "ask", "read")["key"]
    async with visiting(browser, base, **WIDE) as visit:
        visit.allowed = ("401",)
        page, rows = visit.page, visit.page.locator(".conversations li")
        await with_key(visit, "/ask", key)
        await asked(page)
        await page.get_by_role("button", name=f"Rename {QUESTION}").click()
        await expect(page.get_by_label("Name of the conversation")).to_be_focused()
        await page.keyboard.type("Days off")
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="New conversation").click()
        await asked(page, "Who decides?")
        await stores(storing, key, ["Who decides?"], [QUESTION])

        await page.get_by_role("button", name="Delete Days off").click()
        await stores(storing, key, ["Who decides?"])
        await page.get_by_role("button", name="Undo").click()
        await stores(storing, key, ["Who decides?"], [QUESTION])
        await page.reload()
        await expect(rows.filter(has_text="Days off")).to_have_count(1)
        await page.get_by_role("button", name="Delete all").click()
        await expect(rows).to_have_count(0)
        await stores(storing, key)


async def test_browsers_conversations_are_moved_on_request_only(browser, storing, base):
    key = scoped(storing, "moves", "ask", "read")["key"]
    async with visiting(browser, base, **WIDE) as visit:
        visit.allowed = ("401",)
        page = visit.page

        async def without_storage(route):  # as before the operator changed the setting
            reply = await route.fetch()
            await route.fulfill(response=reply, json=await reply.json() | {"conversation_retention_days": 0})

        await page.route("**/v1/me", without_storage)
        await with_key(visit, "/ask", key)
        await asked(page)
        await expect(page.locator(".conversations")).to_contain_text("only in this browser")
        assert await page.evaluate(LOCAL) == 1
        assert stored(storing, key) == []
        await page.unroute("**/v1/me")

        await visit.go("/ask")
        await asked(page, "Who decides?")
        await stores(storing, key, ["Who decides?"])
        move = page.get_by_role("button", name="Move 1 conversation from this browser to the server")
        await expect(move).to_be_visible()
        await page.keyboard.press("Escape")  # closes the passage
        await require_accessible(visit.page, "a conversation that can be moved")
        await move.click()
        await expect(page.locator(".conversations li")).to_have_count(2)
        await expect(move).to_have_count(0)
        await stores(storing, key, ["Who decides?"], [QUESTION])
        assert await page.evaluate(LOCAL) == 0


async def test_revoked_keys_conversation_never_reaches_another_key(browser, storing, base):
    first, second = (scoped(storing, name, "ask", "read") for name in ("revoked", "next"))
    async with visiting(browser, base, **WIDE) as visit:
        visit.allowed = ("401",)
        page = visit.page
        await with_key(visit, "/ask", first["key"])
        await asked(page)
        await stores(storing, first["key"], [QUESTION])
        storing.delete(f"/v1/keys/{first['id']}").raise_for_status()

        # The browser stores the new name with the revoked key, which opens the dialog.
        async def is_refused():
            headers = {"authorization": f"Bearer {first['key']}"}
            return storing.get("/v1/me", headers=headers).status_code == 401

        await until(is_refused)
        await page.get_by_role("button", name=f"Rename {QUESTION}").click()
        await expect(page.get_by_label("Name of the conversation")).to_be_focused()
        await page.keyboard.type("Of the first key")
        await page.keyboard.press("Enter")
        await enter(page, second["key"])
        await expect(page.locator(".notice")).to_contain_text("The key was changed")
        await expect(page.locator(".conversations li")).to_have_count(0)
        await page.fill("#question", "Who decides?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".question-title")).to_have_text(["Who decides?"])
        await stores(storing, second["key"], ["Who decides?"])


async def test_erased_document_ends_storage_of_its_conversation(browser, storing, base, deployment):
    name = "history"
    deployment.ingest({name: "# Fountain\n\nThe fountain of the old town was built in 1703."}, collection=name)
    deployment.wait_until_settled(1, collection=name)
    async with visiting(browser, base, **WIDE) as visit:
        visit.allowed = ("401", "409")
        page = visit.page
        await with_key(visit, f"/ask?collection={name}", OURS)
        await asked(page, "When was the fountain built?")
        await stores(storing, OURS, ["When was the fountain built?"])
        storing.delete(f"/v1/collections/{name}").raise_for_status()

        await page.get_by_role("button", name="Rename When was").click()
        await expect(page.get_by_label("Name of the conversation")).to_be_focused()
        await page.keyboard.type("Fountain")
        await page.keyboard.press("Enter")

        await expect(page.locator(".notice")).to_contain_text("was erased")
        await stores(storing, OURS)
        await expect(page.locator(".conversations li")).to_have_count(0)
