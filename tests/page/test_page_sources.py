"""Sources are added, synced and removed on the page, and withheld deletions are approved there."""

from playwright.async_api import expect

from tests.page.conftest import visiting
from tests.page.screens import require_accessible
from tests.support.deployment import Deployment


async def test_page_syncs_approves_deletions_and_removes_source(browser, deployment: Deployment, tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number in range(3):
        (corpus / f"{number}.md").write_text(f"# Text {number}\n\nThis is text {number} of the corpus.\n")
    async with visiting(browser, f"http://127.0.0.1:{deployment.port}") as visit:
        page = visit.page
        await visit.go("/sources")
        add = page.get_by_role("button", name="Add a source")
        await add.click()
        await page.get_by_role("button", name="Cancel").click()
        await expect(add).to_be_focused()
        await add.click()
        folder = page.get_by_role("textbox", name="Folder")
        await folder.fill("/etc")
        visit.allowed = ("422",)
        await page.get_by_role("button", name="Test").click()
        await expect(folder).to_have_attribute("aria-invalid", "true")
        await require_accessible(page, "a refused address")
        await folder.fill(str(corpus))
        await page.get_by_role("button", name="Test").click()
        await expect(page.locator(".source-test")).to_contain_text("3 entries listed.")
        await expect(page.get_by_role("textbox", name="Name")).to_have_value("corpus")
        await page.get_by_label("Collection").fill("synced-page")
        await page.get_by_label("Schedule").select_option("Every day")
        await page.get_by_role("button", name="Add and sync").click()
        card = visit.page.get_by_role("listitem", name="corpus")
        await expect(card).to_contain_text("every day at 03:00")
        await expect(card).to_contain_text("3 entries listed, 3 new")

        for path in corpus.iterdir():
            path.unlink()
        await card.get_by_role("button", name="Sync now: corpus").click()
        await expect(card).to_contain_text("0 entries listed, 3 missing")
        await card.get_by_role("button", name="Sync now: corpus").click()  # deletions need two listings
        await expect(card).to_contain_text("Missing in the source: 3 of 3 documents.")
        await card.get_by_text("Which ones?").click()
        await expect(card.locator(".keys li")).to_have_text(["0.md", "1.md", "2.md"])
        await card.get_by_role("button", name="Approve deletions: corpus").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete 3 documents").click()
        await expect(card).to_contain_text("3 deleted")
        await card.get_by_text("Last syncs").click()
        await expect(card.locator("tbody tr")).to_have_count(3)

        await card.get_by_role("button", name="Actions of corpus").click()
        await page.get_by_role("menuitem", name="Change").click()
        await expect(page.get_by_label("Schedule")).to_have_value("day")
        await page.get_by_label("Schedule").select_option("Every hour")
        await page.get_by_role("button", name="Save").click()
        await expect(card).to_contain_text("every hour")
        await card.get_by_role("button", name="Actions of corpus").click()
        await page.get_by_role("menuitem", name="Remove, keep documents").click()
        await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        await expect(card).to_have_count(0)


async def test_form_of_each_kind_fits_small_displays(visit):
    page = visit.page
    await page.emulate_media(reduced_motion="reduce")
    await page.set_viewport_size({"width": 360, "height": 800})
    await visit.go("/sources")
    await page.get_by_role("button", name="Add a source").click()
    for kind in await page.get_by_role("radio").all():
        await kind.check()
        await page.get_by_text("More options").click()
        await require_accessible(page, await kind.get_attribute("value"))
        await page.get_by_text("More options").click()


async def test_form_shows_rules_of_readers_again(browser, deployment: Deployment, tmp_path):
    rules = "legal/* = group:legal\n* = everyone"
    async with visiting(browser, f"http://127.0.0.1:{deployment.port}") as visit:
        page = visit.page
        await visit.go("/sources")
        await page.get_by_role("button", name="Add a source").click()
        await page.get_by_role("textbox", name="Folder").fill(str(tmp_path))
        await page.get_by_role("textbox", name="Name").fill("with-readers")
        await page.get_by_text("More options").click()
        readers = page.get_by_label("Readers of the documents")
        await readers.fill("legal")
        visit.allowed = ("422",)
        await page.get_by_role("button", name="Add and sync").click()
        await expect(readers).to_have_attribute("aria-invalid", "true")
        await require_accessible(page, "refused rules of readers")
        await readers.fill(rules)
        await page.get_by_role("button", name="Add and sync").click()

        card = page.get_by_role("listitem", name="with-readers")
        await card.get_by_role("button", name="Actions of with-readers").click()
        await page.get_by_role("menuitem", name="Change").click()
        await page.get_by_text("More options").click()
        await expect(readers).to_have_value(rules)
