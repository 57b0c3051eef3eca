"""Sources are added, synced and removed on the page, and withheld deletions are approved there."""

from playwright.async_api import expect

from tests.page.conftest import visiting
from tests.support.deployment import Deployment


async def test_page_syncs_approves_deletions_and_removes_source(browser, deployment: Deployment, tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number in range(3):
        (corpus / f"{number}.md").write_text(f"# Text {number}\n\nThis is text {number} of the corpus.\n")
    async with visiting(browser, f"http://127.0.0.1:{deployment.port}") as visit:
        visit.page.on("dialog", lambda dialog: dialog.accept())
        await visit.go("/sources")
        await visit.page.get_by_text("Add a source").click()
        await visit.page.get_by_label("Name").fill("corpus")
        await visit.page.get_by_label("Address").fill(corpus.as_uri())
        await visit.page.get_by_label("Collection").fill("synced-page")
        await visit.page.get_by_role("button", name="Add", exact=True).click()
        card = visit.page.get_by_role("listitem", name="corpus")
        await expect(card).to_contain_text("Not synced yet.")
        await card.get_by_role("button", name="Sync now: corpus").click()
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
        await expect(card).to_contain_text("3 deleted")
        await card.get_by_text("Last syncs").click()
        await expect(card.locator("tbody tr")).to_have_count(3)

        await card.get_by_role("button", name="Remove corpus, keep its documents").click()
        await expect(card).to_have_count(0)
        visit.faults = [fault for fault in visit.faults if not fault.startswith("dialog: ")]
