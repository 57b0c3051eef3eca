"""A scan from its upload to an answer with its page, read by the real engine in a worker of its own."""

from io import BytesIO

import pytest
from PIL import Image, ImageDraw, ImageFont

from tests.support.deployment import ROLES, Deployment

LEAVE = "Employees have thirty days of leave a year."
TRAVEL = "Trains are booked by the office in Bergen."
# A page of more than half a chunk, so that two pages are two chunks.
REST = "\n".join(f"Paragraph {number} belongs to the same page." for number in range(1, 5))


def picture(text):
    """Return a page in A5 at 200 dpi, with lines of printed text."""
    page = Image.new("L", (1165, 1654), 255)
    ImageDraw.Draw(page).multiline_text(
        (80, 200), f"{text}\n{REST}", fill=0, font=ImageFont.load_default(44), spacing=20
    )
    return page


def saved(pages, kind):
    first, *others = pages
    content = BytesIO()
    more = {"save_all": True, "append_images": others} if others else {}
    first.save(content, kind, resolution=200, **more)
    return content.getvalue()


@pytest.fixture(scope="module")
def deployment(provider_process, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scans")
    with Deployment(provider_process.settings(), folder, durable=False, roles=(*ROLES, "read")) as deployment:
        deployment.wait_for_workers()
        deployment.client.put("/v1/collections/default", json={"chunk_max_chars": 250}).raise_for_status()
        yield deployment


def upload(deployment, name, content, media_type):
    deployment.client.post("/v1/documents", files={"file": (name, content, media_type)}).raise_for_status()


@pytest.mark.slow
def test_answer_cites_page_of_scan(deployment):
    upload(deployment, "leave.png", saved([picture(LEAVE)], "PNG"), "image/png")
    upload(deployment, "travel.pdf", saved([picture(LEAVE.upper()), picture(TRAVEL)], "PDF"), "application/pdf")

    documents = {each["external_id"]: each for each in deployment.wait_until_settled(2)}

    counts = {name: (each["state"], each["pages"], each["pages_read"]) for name, each in documents.items()}
    assert counts == {"leave.png": ("ready", 1, 1), "travel.pdf": ("ready", 2, 2)}, deployment.logs()
    reply = deployment.client.post("/v1/query", json={"question": TRAVEL, "top_k": 1}).json()
    [chunk] = reply["chunks"]
    assert (chunk["external_id"], chunk["page"], "office in Bergen" in chunk["text"]) == ("travel.pdf", 2, True)
    [citation] = reply["citations"]
    assert (citation["external_id"], citation["page"]) == ("travel.pdf", 2)
    chunks = deployment.client.get(f"/v1/documents/{documents['leave.png']['id']}/chunks").json()["items"]
    assert all(chunk["confidence"] > 80 for chunk in chunks)
