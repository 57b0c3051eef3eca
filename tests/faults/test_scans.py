"""Read workers are killed while they read a scan: each page is read once, except the pages that they were reading."""

import io

from PIL import Image, ImageDraw, ImageFont

from shared.ledger.work.pages import MOST_OF_A_CLAIM
from tests.support.counted_reads import counts
from tests.support.fleet import Job

PAGES, KILLS = 60, 5
LEASE = "PT10S"  # of read workers: on a busy machine, shorter leases end while a page is read
WORKERS = ("read-1", "read-2")


def scan(count):
    """Return a TIFF of pages with a word each."""
    font = ImageFont.load_default(48)
    frames = []
    for number in range(1, count + 1):
        frame = Image.new("L", (700, 200), 255)
        ImageDraw.Draw(frame).text((60, 60), f"harbour number {number}", fill=0, font=font)
        frames.append(frame)
    file = io.BytesIO()
    frames[0].save(file, "TIFF", save_all=True, append_images=frames[1:], dpi=(200, 200), compression="tiff_deflate")
    return file.getvalue()


def state_of(fleet, document_id):
    return fleet.client.get(f"/v1/documents/{document_id}").json()["state"]


def test_killed_read_workers_repeat_only_open_pages(fleet, provider, start_scenario, tmp_path):
    start_scenario("12", "kill -9 of read workers")  # restores the fleet
    log = tmp_path / "reads"
    log.touch()
    for name in WORKERS:
        fleet.assign(name, Job("tests.support.counted_reads", (str(log),), {"tuning__lease": LEASE}))

    reply = fleet.client.post("/v1/documents", files={"file": ("scan.tiff", scan(PAGES), "image/tiff")})
    assert reply.status_code == 202, reply.text
    document_id = reply.json()["id"]
    for kill in range(KILLS):
        reached = PAGES * (kill + 1) // (KILLS + 2)
        fleet.wait_until(lambda reached=reached: counts(log)["read"].total() >= reached, "no page is read", 120)
        fleet.kill(WORKERS[kill % 2])
    fleet.wait_until(lambda: state_of(fleet, document_id) in ("ready", "degraded", "failed"), "it is not ready", 240)

    reads = counts(log)
    slots = min(fleet.stack.settings.parse_workers + 2, MOST_OF_A_CLAIM)
    stored = fleet.query("SELECT count(*) AS pages FROM page_texts WHERE tenant = 'default'")
    print(f"{PAGES} pages, {KILLS} kills: {reads['started'].total()} started, {reads['read'].total()} read")
    assert state_of(fleet, document_id) == "ready"
    assert stored[0]["pages"] == PAGES
    assert set(reads["read"]) == set(range(1, PAGES + 1))
    assert reads["started"].total() <= PAGES + KILLS * slots
    again = fleet.client.post("/v1/documents", files={"file": ("again.tiff", scan(PAGES), "image/tiff")})
    fleet.wait_until(lambda: state_of(fleet, again.json()["id"]) == "ready", "the same file is not ready", 120)
    assert counts(log)["started"] == reads["started"]
