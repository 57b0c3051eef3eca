"""Read workers are killed while they read a scan: each page is read once, except the pages that they were reading.

Meanwhile small uploads of another tenant become searchable.
"""

import io
import time
from statistics import median

from PIL import Image, ImageDraw, ImageFont

from shared.domain.stages.pages import MOST_OF_A_CLAIM
from tests.support.counted_reads import counts
from tests.support.fleet import Job

KILLS = 5
UPLOADS = 5  # small ones, before the scan and during it
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


def upload_scan(fleet, name, pages):
    reply = fleet.client.post("/v1/documents", files={"file": (name, scan(pages), "image/tiff")})
    assert reply.status_code == 202, reply.text
    return reply.json()["id"]


def seconds_until_searchable(fleet, text):
    """Return the seconds from the upload of a text by the other tenant until queries find it."""
    fleet.use_key_of("few")
    try:
        started = time.monotonic()
        document_id = fleet.client.post("/v1/documents", json={"text": text}).json()["id"]
        fleet.wait_until(lambda: state_of(fleet, document_id) in ("searchable", "ready"), "it is not searchable")
        return time.monotonic() - started
    finally:
        fleet.use_key_of("default")


def test_killed_read_workers_repeat_only_open_pages(fleet, provider, start_scenario, scale, tmp_path):
    start_scenario("12", "kill -9 of read workers")  # restores the fleet
    pages, log = scale.scan_pages, tmp_path / "reads"
    log.touch()
    for name in WORKERS:
        fleet.assign(name, Job("tests.support.counted_reads", (str(log),), {"tuning__lease": LEASE}))
    seconds_until_searchable(fleet, "The first document of the tenant.")
    alone = [seconds_until_searchable(fleet, f"Ferry {number} leaves at six.") for number in range(UPLOADS)]

    document_id = upload_scan(fleet, "scan.tiff", pages)
    during = []
    for kill in range(KILLS):
        reached = pages * (kill + 1) // (KILLS + 2)
        fleet.wait_until(lambda reached=reached: counts(log)["read"].total() >= reached, "no page is read", 240)
        during.append(seconds_until_searchable(fleet, f"Ferry {kill} leaves at seven."))
        fleet.kill(WORKERS[kill % 2])
    fleet.wait_until(lambda: state_of(fleet, document_id) in ("ready", "degraded", "failed"), "it is not ready", 600)

    reads = counts(log)
    slots = min(fleet.stack.settings.parse_workers + 2, MOST_OF_A_CLAIM)
    stored = fleet.query("SELECT count(*) AS pages FROM page_texts WHERE tenant = 'default'")
    print(
        f"{pages} pages, {KILLS} kills: {reads['started'].total()} reads began, at most {pages + KILLS * slots};"
        f" {reads['read'].total()} ended. A small upload of another tenant was searchable after {median(alone):.2f} s"
        f" alone and {median(during):.2f} s during the scan"
    )
    assert state_of(fleet, document_id) == "ready"
    assert stored[0]["pages"] == pages
    assert set(reads["read"]) == set(range(1, pages + 1))
    assert reads["started"].total() <= pages + KILLS * slots
    again = upload_scan(fleet, "again.tiff", pages)
    fleet.wait_until(lambda: state_of(fleet, again) == "ready", "the same file is not ready", 240)
    assert counts(log)["started"] == reads["started"]
    print(f"the same file again: {counts(log)['started'].total() - reads['started'].total()} pages read")
