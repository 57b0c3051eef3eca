"""The refusals of a real Qdrant server: dead letters, waiting work, the sentence for people, and other tenants.

The quirks are replies of a real server, which the embedded engine does not give.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from shared.domain.corpus.collections import CollectionOptions
from shared.domain.errors import Unavailable
from shared.ingest.index import writer
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.vectors.index import Index
from shared.vectors.transport.addresses import Addresses
from shared.vectors.transport.requests import Requests
from tests.conftest import Library
from tests.integration.test_ledger import parsed
from tests.support import scripted_qdrant as quirks
from tests.support.api import calling, ready, work
from tests.support.emptying import PREFIX
from tests.support.planted import guards
from tests.support.scripted_qdrant import serving_qdrant
from tests.support.waiting import eventually

KEPT = ("The keeper of lamp 17 lives alone.", "The keeper of lamp 18 lives alone.")
NEIGHBOUR = "The harbour opens at seven in the morning."
QUESTIONS = ("Who lives alone?", "Where does the keeper live?", "Which lamp is kept?")
KEEPERS, HARBOUR = "default", "harbour"  # the tenants
NAME = f"{PREFIX}-refused"  # of a collection of Qdrant, which the next test deletes


@pytest.fixture(scope="module")
async def server(settings):
    async with serving_qdrant(settings) as server:
        yield server


@pytest.fixture
async def qdrant(services, server, provider, monkeypatch):
    """Return a scripted Qdrant that all services use."""
    requests = Requests(Addresses([server.url]), "secret", 5)
    monkeypatch.setattr(services.index, "_requests", requests)
    monkeypatch.setattr(services.index, "_existing", set())
    monkeypatch.setattr(services.index, "_base64", set())
    monkeypatch.setattr(writer, "_FIRST_PAUSE_SECONDS", 0.01)
    server.rules, server.requests = (), []
    yield server
    server.rules = ()
    services.index._readiness._valid_until = 0.0  # the next test has another server
    await requests.aclose()


async def execute(services, statement, **parameters):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement), parameters)
        return result.all()


async def chunks_of(services, tenant):
    statement = (
        "SELECT d.state, c.state, c.attempts, coalesce(c.error, c.history -> -1 ->> 'error')"
        " FROM chunks c JOIN documents d ON d.id = c.document_id JOIN collections l ON l.id = d.collection_id"
        " WHERE l.tenant = :tenant ORDER BY c.ordinal"
    )
    rows = await execute(services, statement, tenant=tenant)
    return [Chunk(row[0], WAITS if row[1] in {"parsed", "generated"} else row[1], row[2], row[3] or "") for row in rows]


@dataclass(frozen=True)
class Chunk:
    """A chunk with the state of its document, the number of its failed attempts, and the last reason."""

    document: str
    state: str
    attempts: int
    reason: str


@dataclass(frozen=True)
class Write:
    """A quirk of writes.

    Args:
        rules: the server's rules.
        state: state of the first chunk after the first attempt.
        sentence: part of the reason at the chunk; None if it is indexed.
        shown: whether `/health/ready` and the status say it.
        neighbour: state of another tenant's chunk after the first attempt.
        own: whether the other tenant's points are in another collection of Qdrant.
    """

    rules: tuple
    state: str
    sentence: str | None = None
    shown: bool = False
    neighbour: str = "indexed"
    own: bool = False


WAITS = "waits"
WRITES = {
    "upsert limit of strict mode": Write((quirks.upsert_max_batchsize(3),), "indexed"),
    "body too large for a proxy": Write((quirks.proxy_of_small_bodies(3),), "indexed"),
    "request larger than the rate": Write((quirks.larger_than_write_rate(3),), "indexed"),
    "large request is slow": Write((quirks.slow_with(3),), "indexed"),
    "one refused point": Write(
        (quirks.refused_point("lamp 17"),),
        "dead",
        "Qdrant refuses the points of this chunk: Qdrant answered 400 (Wrong input: Vector dimension error: expected"
        " dim: 384, got 5)",
    ),
    "collection deleted during the write": Write((quirks.channel_closed(1),), "indexed"),
    "collection deleted before the write": Write((quirks.deleted_collection(1),), "indexed"),
    "name of the collection": Write(
        (quirks.refused_name(NAME),),
        WAITS,
        "Qdrant answered 422 (Validation error in path parameters",
        shown=True,
        own=True,
    ),
    "collection is full": Write(
        (quirks.full_collection,), WAITS, "Max vector storage size limit of 1MB reached!", shown=True, neighbour=WAITS
    ),
    "key that only reads": Write(
        (quirks.key_that_only_reads,),
        WAITS,
        "Qdrant forbids this to the API key (Forbidden: Global manage access is required): set FOREASK_QDRANT_API_KEY",
        shown=True,
        neighbour=WAITS,
    ),
    "wrong key": Write(
        (quirks.wrong_key,),
        WAITS,
        "Qdrant does not accept the API key (Invalid API key or JWT): check FOREASK_QDRANT_API_KEY",
        shown=True,
        neighbour=WAITS,
    ),
    "no key": Write(
        (quirks.no_key,),
        WAITS,
        "Qdrant does not accept the API key (Must provide an API key or an Authorization bearer token)",
        shown=True,
        neighbour=WAITS,
    ),
    "full disk": Write(
        (quirks.full_disk,),
        WAITS,
        "Qdrant has no disk space left (Service internal error: No space left on device: WAL buffer size exceeds",
        shown=True,
        neighbour=WAITS,
    ),
    "rate of writes": Write(
        (quirks.write_rate(20),),
        WAITS,
        "Qdrant limits the rate of requests (Rate limiting exceeded: Write rate limit exceeded",
        shown=True,
        neighbour=WAITS,
    ),
}


@guards(
    "shared/vectors/writes.py",
    "await self._write_neutral(name)",
    "pass",
    means="a collection of Qdrant that takes no points makes its chunks dead letters",
    case="collection is full",
)
@pytest.mark.parametrize("quirk", WRITES.values(), ids=WRITES)
async def test_refused_write_waits_or_names_its_chunk(services, settings, qdrant, monkeypatch, quirk):
    if quirk.state == WAITS:
        for hold in ("_HOLD", "_HOLD_BESIDE_OTHERS"):
            monkeypatch.setattr(writer, hold, timedelta())
    document = await parsed(services, Library(services, KEEPERS), *KEPT, ready_questions=QUESTIONS)
    await parsed(services, Library(services, HARBOUR), NEIGHBOUR, ready_questions=("When does it open?",))
    if quirk.own:
        change = "UPDATE collections SET index_name = :name WHERE tenant = :tenant"
        await execute(services, change, name=f"{NAME}-{services.indexer.space}", tenant=KEEPERS)
    qdrant.rules = quirk.rules

    with suppress(Unavailable):  # no chunk is claimed while Qdrant takes no points
        await work(services, "index")

    first, second = await chunks_of(services, KEEPERS)
    (neighbour,) = await chunks_of(services, HARBOUR)
    assert (first.state, neighbour.state) == (quirk.state, quirk.neighbour)
    assert (quirk.sentence or "") in first.reason
    assert (first.document, second.state) == ("degraded", "indexed") or quirk.state != "dead"
    assert {chunk.attempts for chunk in (first, second, neighbour) if chunk.state != "dead"} == {0}
    await require_shown(services, settings, quirk.sentence if quirk.shown else None, document.id)

    qdrant.rules = ()
    services.index._rejecting.clear()  # the pause is over
    await execute(services, "UPDATE chunks SET due_at = now() WHERE state <> 'dead'")
    await work(services, "index")
    ended = [chunk.state for tenant in (KEEPERS, HARBOUR) for chunk in await chunks_of(services, tenant)]
    assert ended == ["dead" if quirk.state == "dead" else "indexed", "indexed", "indexed"]
    await require_shown(services, settings, None)


async def require_shown(services, settings, sentence, document=None):
    """Wait until health, status and a document that waits show a sentence, or health shows none about Qdrant."""
    async with calling(settings, services) as client:

        async def is_shown():
            reason = (await client.get("/health/ready")).json()["reasons"].get("qdrant")
            if sentence is None or document is None:
                return sentence in (reason or "") if sentence else reason is None
            pace = (await client.get("/v1/status")).json()["pace"]
            error = (await client.get(f"/v1/documents/{document}")).json()["error"]
            shown = [sentence in text for text in (reason or "", pace["message"], error or "")]
            return all(shown) and pace["cause"] == "component_down"

        await eventually(is_shown)


async def test_refused_question_leaves_its_text_searchable(services, provider, qdrant):
    await parsed(services, Library(services, KEEPERS), KEPT[0], ready_questions=QUESTIONS)
    qdrant.rules = (quirks.refused_point("Which lamp"),)

    await work(services, "index")

    (chunk,) = await chunks_of(services, KEEPERS)
    assert (chunk.document, chunk.state) == ("degraded", "dead")
    stored = await services.index.count_chunks((await Library(services, KEEPERS).collection()).location)
    assert stored == 1


@guards(
    "shared/ingest/index/writer.py",
    "return after.total_seconds() if after > RETRY_AFTER else 0.0",
    "return 0.0",
    means="writes are repeated within the pause that Qdrant asks for",
)
async def test_requested_pause_of_writes_is_kept(services, provider, qdrant, monkeypatch):
    monkeypatch.setattr(writer, "_HOLD", timedelta(seconds=5))
    await parsed(services, Library(services, KEEPERS), *KEPT, ready_questions=QUESTIONS)
    qdrant.rules = (quirks.write_rate(20),)
    with suppress(Unavailable):
        await work(services, "index")
    ((seconds,),) = await execute(services, "SELECT extract(epoch FROM min(due_at) - now()) FROM chunks")
    sent = len([request for request in qdrant.requests if request.points])

    with pytest.raises(Unavailable, match="rate of requests"):
        await services.index.require()

    assert sent == len([request for request in qdrant.requests if request.points]) == 1
    assert seconds > 15


async def test_check_names_failing_nodes_and_missing_rights(server):
    server.rules = ()
    both, one = Index(server.url, "http://127.0.0.1:1"), Index(server.url)

    await one.check()
    with pytest.raises(Unavailable, match=r"^127\.0\.0\.1:1: Qdrant cannot be reached.*; the other nodes answer$"):
        await both.check()
    for rule, sentence in (
        (quirks.key_that_only_reads, "Qdrant forbids"),
        (quirks.wrong_key, "Qdrant does not accept"),
    ):
        server.rules = (rule,)
        with pytest.raises(Unavailable, match=f"^{sentence}"):
            await one.check()

    await both.aclose()
    await one.aclose()


async def test_size_that_passes_is_remembered(services, provider, qdrant):
    await parsed(services, Library(services, KEEPERS), *KEPT, ready_questions=QUESTIONS)
    qdrant.rules = (quirks.upsert_max_batchsize(3),)
    await work(services, "index")
    await parsed(services, Library(services, HARBOUR), *KEPT, ready_questions=QUESTIONS)
    qdrant.requests.clear()

    await work(services, "index")

    assert {len(request.points) for request in qdrant.requests if request.points} == {2}


@guards(
    "shared/vectors/lifecycle.py",
    'if "base64" in info.get("vector_encodings", ()):',
    "if True:",
    means="a server of Qdrant receives vectors that only the embedded engine reads",
)
async def test_server_without_announcement_receives_numbers(services, provider, qdrant):
    await parsed(services, Library(services, KEEPERS), *KEPT, ready_questions=QUESTIONS)

    await work(services, "index")

    written = [point["vector"]["dense"] for request in qdrant.requests for point in request.points]
    assert len(written) == len(KEPT) * (1 + len(QUESTIONS))
    assert all(isinstance(number, float) for vector in written for number in vector)


@dataclass(frozen=True)
class Query:
    """A quirk of queries.

    Args:
        rules: the server's rules.
        status: status of the reply.
        sentence: part of its detail.
        wrong: the wrong field of the request.
        retry_after: value of this header.
        body: fields of the request.
        shown: whether `/health/ready` says it.
    """

    rules: tuple
    status: int
    sentence: str = ""
    wrong: str | None = None
    retry_after: str | None = None
    body: dict = field(default_factory=dict)
    shown: bool = False


KEYS = ("group", "tenant", "hidden", "document_id", "chunk_id", "version", "token")
QUERIES = {
    "filter by an undeclared field": Query(
        (quirks.indexed_filters_only(*KEYS),),
        422,
        "declare the field `colour` before the first document (`foreask declare COLLECTION colour=TYPE`), or set",
        wrong="filter",
        body={"filter": {"colour": "red"}},
    ),
    "filter by a field without values": Query(
        (quirks.indexed_filters_only(*KEYS),), 200, body={"filter": {"kind": "lamp"}}
    ),
    "limit of hits": Query(
        (quirks.max_query_limit(5),),
        422,
        'Qdrant allows at most 5 for "limit", and this request needs',
    ),
    "conditions of a filter": Query(
        (quirks.filter_max_conditions(6),),
        422,
        'Qdrant allows at most 6 for "Filter condition limit", and this request needs 13: use a smaller filter, or'
        " raise `filter_max_conditions` in the strict mode",
        wrong="filter",
        body={"filter": {f"field{number}": number for number in range(10)}},
    ),
    "values of a condition": Query(
        (quirks.condition_max_size(5),),
        422,
        "raise `condition_max_size` in the strict mode",
        wrong="filter",
        body={"filter": {"colour": {"any": [str(number) for number in range(10)]}}},
    ),
    "short pause of reads": Query((quirks.read_rate(1, times=1),), 200),
    "long pause of reads": Query(
        (quirks.read_rate(20),),
        503,
        "Qdrant limits the rate of requests (Rate limiting exceeded: Read rate limit exceeded",
        retry_after="20",
        shown=True,
    ),
    "batch larger than the rate": Query((quirks.larger_than_read_rate(1),), 200),
    "batch larger than the limit": Query((quirks.search_max_batchsize(1),), 200),
    "wrong key": Query(
        (quirks.wrong_key,), 503, "Qdrant does not accept the API key (Invalid API key or JWT)", shown=True
    ),
    "unknown words": Query(
        (quirks.unknown_words,), 502, "Qdrant answered 400 (Bad request: the flux of … is inverted in … xxx", shown=True
    ),
}


async def keepers(services):
    model, options = services.settings.embedding_model, CollectionOptions(filterable=(("kind", "keyword"),))
    await services.ledger[Collections].ensure("default", "default", embedding_model=model, options=options)
    await ready(services, (KEPT[0], "a.md"))


@pytest.mark.parametrize("quirk", QUERIES.values(), ids=QUERIES)
async def test_refused_query_says_why(services, settings, once, qdrant, quirk):
    await once(keepers)
    qdrant.rules = quirk.rules

    async with calling(settings, services) as client:
        reply = await client.post("/v1/retrieve", json={"question": "Who lives alone?", **quirk.body})

        problem = reply.json()
        assert (reply.status_code, problem.get("field")) == (quirk.status, quirk.wrong)
        assert quirk.sentence in problem.get("detail", "")
        assert len(problem.get("detail", "")) < 400
        if quirk.retry_after:
            assert reply.headers["retry-after"] == quirk.retry_after
        if quirk.status == 200 and "filter" not in quirk.body:
            assert problem["chunks"]
    await require_shown(services, settings, quirk.sentence if quirk.shown else None)
    qdrant.rules = ()
    await services.index.search("foreask-none", [])
