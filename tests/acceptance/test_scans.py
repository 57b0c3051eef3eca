"""A scan from its upload to an answer with its page, read by the real engine in a worker of its own."""

import pytest

from tests.support.deployment import ROLES, Deployment
from tests.support.pictures import picture, saved

LEAVE = "Employees have thirty days of leave a year."
TRAVEL = "Trains are booked by the office in Bergen."
# A page of more than half a chunk, so that two pages are two chunks.
REST = "\n".join(f"Paragraph {number} belongs to the same page." for number in range(1, 5))


def page(text):
    return picture(f"{text}\n{REST}")


@pytest.fixture(scope="module")
def deployment(provider_process, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scans")
    with Deployment(provider_process.settings(), folder, durable=False, roles=(*ROLES, "read")) as deployment:
        deployment.wait_for_workers()
        deployment.client.put("/v1/collections/default", json={"chunk_max_chars": 250}).raise_for_status()
        yield deployment


def upload(deployment, name, content, media_type):
    deployment.client.post("/v1/documents", files={"file": (name, content, media_type)}).raise_for_status()


def test_answer_cites_page_of_scan(deployment):
    upload(deployment, "leave.png", saved([page(LEAVE)], "PNG"), "image/png")
    upload(deployment, "travel.pdf", saved([page(LEAVE.upper()), page(TRAVEL)], "PDF"), "application/pdf")

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
