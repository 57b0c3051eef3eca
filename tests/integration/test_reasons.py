"""The reason why a provider is not called is in every view of the waiting work, without secrets."""

import pytest
from structlog.testing import capture_logs

from embedded.ports import free_port
from shared.broker.wakeups import Wakeups, celery_app
from shared.domain.errors import Unavailable
from tests.conftest import Library
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.planted import guards
from tests.support.waiting import eventually

SAID = "Credits of org-Ymz7 are used up, ask bob@acme.com about 'The harbour opens at seven'"
SHOWN = 'its quota is used up: raise it, and the work continues automatically; it says "Credits of *** are used up, ask'


@pytest.fixture
async def client(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        yield client


@guards(
    "api/progress/waiting.py",
    "if (trouble := use.trouble)), None)",
    "if (trouble := use.trouble) and not trouble), None)",
    means="a document that waits for a paused provider has no reason",
)
async def test_reason_of_pause_is_in_every_view(client, services, provider):
    await Library(services, "alice").add("The harbour opens at seven in the morning.")
    await work(services, "parse", "index")
    provider.script(status=402, error={"message": SAID})
    await work(services, "generate")
    other = await Library(services, "bob").add("The keeper lives alone.")
    await work(services, "parse", "index", "generate")

    document = (await client.get(f"/v1/documents/{other.id}", headers=as_tenant("bob"))).json()
    status = (await client.get("/v1/status", headers=as_tenant("bob"))).json()
    health = (await client.get("/health/ready")).json()
    query = await client.post("/v1/query", json={"question": "Who lives alone?"}, headers=as_tenant("bob"))

    limit = status["limits"][0]
    sentences = [document["error"], status["pace"]["message"], limit["reason"], *health["warnings"], query.text]
    assert [SHOWN in sentence.replace('\\"', '"') for sentence in sentences] == [True] * 5
    assert (document["state"], status["pace"]["cause"], health["status"]) == ("searchable", "cooldown", "ready")
    assert query.status_code == 503
    assert int(query.headers["retry-after"]) > 60
    everything = "".join(sentences)
    assert not [word for word in ("Ymz7", "acme", "harbour") if word in everything]


async def test_waiting_document_has_error_of_last_attempt(client, services, provider):
    document = await Library(services, "alice").add("The harbour opens at seven in the morning.")
    await work(services, "parse", "index")
    provider.script(status=500, error={"message": "out of memory"})
    await work(services, "generate")
    provider.restore()

    listed = (await client.get("/v1/documents", headers=as_tenant("alice"))).json()["items"]

    assert [(each["id"], each["state"]) for each in listed] == [(str(document.id), "searchable")]
    assert listed[0]["error"] == 'the llm provider answered 500: it failed; it says "out of memory"'


@guards(
    "shared/broker/wakeups.py",
    "producer.connection.default_channel.client.ping()",
    "del producer",
    means="the broker looks healthy, and no worker is ever woken",
)
async def test_unreachable_wakeups_make_broker_unready(settings):
    wakeups = Wakeups(settings.redis_url.get_secret_value())
    wakeups._app = celery_app(f"redis://127.0.0.1:{free_port()}/0")  # as if Celery read the URL in another way
    try:
        with pytest.raises(Unavailable, match=r"the broker accepts no messages: .*refused") as caught:
            await wakeups.ready()
        assert "127.0.0.1" not in caught.value.message
    finally:
        await wakeups.aclose()


async def test_pause_is_logged_once_for_each_reason(services, provider, library):
    provider.script(status=401, error={"message": "no such key"})
    with capture_logs() as logs:
        for name in ("a.md", "b.md", "c.md"):
            await library.add(f"The text of {name}.", name)
        await work(services)
        provider.restore()

        await eventually(lambda: any(entry["event"] == "calls.paused" for entry in logs))

    assert len([entry for entry in logs if entry["event"] == "calls.paused"]) == 1
