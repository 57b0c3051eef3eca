"""Gaps: unanswered questions that mean the same are one group, which can be assigned, resolved and exported."""

import asyncio
import csv
import io
from datetime import timedelta
from uuid import uuid4

import pytest

from features.erasure.ledger.erasures import Erasures
from features.gaps.feature import GAPS
from features.gaps.finder import GapFinder
from features.gaps.ledger import Gaps
from features.gaps.schemas import GapPage, GapView
from shared.ledger.documents.documents import Documents
from shared.ledger.feedback.query_log import QueryLog, QueryLogEntry
from shared.ledger.postgres.statements import Statement
from shared.settings import TenantLimits
from tests.conftest import Library
from tests.integration.test_erasure import finished
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.planted import guards
from workers.scheduler import forget_queries

ADDRESS = "/v1/collections/default/gaps"
DOGS = ("may I bring a dog to the office", "may I bring my dog to the office", "may I bring a dog to the new office")
LUNCH = ("who pays for lunch on a business trip", "who pays lunch on a business trip")
NOWHERE = "where do lighthouses keep their spare lamps"


@pytest.fixture
async def collection(library):
    return await library.collection()


async def ask(services, collection, *questions, chunks=(), score=None):
    """Log questions one after the other; without chunks they are unanswered."""
    for question in questions:
        await services.ledger[QueryLog].append([entry_of(collection, question, chunks, score)])


def entry_of(collection, question, chunks=(), score=None):
    return QueryLogEntry(uuid4(), collection.tenant, collection.id, question, [str(c) for c in chunks], score)


async def run(services, statement, **parameters):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement), parameters)
        return [tuple(row) for row in result]


async def list_gaps(client, headers=None, **parameters):
    reply = await client.get(ADDRESS, params=parameters, headers=headers)
    assert reply.status_code == 200, reply.text
    return GapPage.model_validate_json(reply.content)


async def change(client, gap, headers=None, **changes):
    body = {name: value if value is None else str(value) for name, value in changes.items()}
    reply = await client.patch(f"{ADDRESS}/{gap.id}", json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    return GapView.model_validate_json(reply.content)


def restart(services):
    """Forget the remembered vectors, as a new process does."""
    services.retriever._vectors._remembered.clear()


async def forget(services):
    """Delete the expired questions, and the gaps without questions."""
    await forget_queries(services)
    for step in GAPS.steps(services):
        await step.work()


async def test_unanswered_questions_are_grouped_by_meaning(client, services, collection):
    await ask(services, collection, *DOGS, DOGS[0].upper() + "?", *LUNCH, NOWHERE)
    await ask(services, collection, "how many days of leave are there", chunks=[uuid4()], score=0.9)

    page = await list_gaps(client)

    assert [(gap.question, gap.times, gap.distinct_questions) for gap in page.items[:1]] == [
        (DOGS[0].upper() + "?", 4, 3)
    ]
    assert sorted((gap.times, gap.distinct_questions) for gap in page.items[1:]) == [(1, 1), (2, 2)]
    assert (page.counts.open, page.ungrouped, page.delayed_by, page.retention_days) == (3, 0, None, 30)
    first = page.items[0]
    assert (first.per_day[-1], sum(first.per_day), len(first.per_day), page.days) == (4, 4, 30, 30)
    assert (first.last_week, first.week_before, first.state, first.nearest) == (4, 0, "open", None)
    assert {each.question for each in first.questions} == {DOGS[0].upper() + "?", *DOGS[1:]}


async def test_trend_counts_queries_per_day(client, services, collection):
    for days, question in ((1, DOGS[0]), (8, DOGS[1]), (9, DOGS[2]), (20, DOGS[0])):
        await ask(services, collection, question)
        await run(
            services,
            "UPDATE queries SET created_at = now() - CAST(:age AS interval) WHERE created_at > now() - interval '1 h'",
            age=timedelta(days=days),
        )

    (gap,) = (await list_gaps(client)).items

    assert [age for age, times in enumerate(reversed(gap.per_day)) if times] == [1, 8, 9, 20]
    assert (gap.last_week, gap.week_before, gap.times) == (1, 2, 4)


@guards(
    "features/gaps/finder.py",
    "    return [question for question in unanswered if question.gap_id is None]",
    "    return unanswered",
    means="a question of a gap is embedded again after a restart",
)
async def test_questions_are_embedded_once(client, services, collection, provider):
    await ask(services, collection, *DOGS, *LUNCH)
    first = await list_gaps(client)
    assert provider.stats()["embedded_inputs"] == 5

    restart(services)
    assert (await list_gaps(client)).items == first.items
    await ask(services, collection, DOGS[0] + "?")
    await list_gaps(client)

    assert provider.stats()["embedded_inputs"] == 5


async def test_recently_asked_question_is_not_embedded_again(client, services, collection, provider):
    await client.post("/v1/retrieve", json={"question": NOWHERE})
    paid = provider.stats()["embedded_inputs"]

    assert len((await list_gaps(client)).items) == 1
    assert provider.stats()["embedded_inputs"] == paid


@guards(
    "features/gaps/finder.py",
    "if collection.id in self._busy:",
    "if False:",
    means="concurrent requests embed a question twice",
)
async def test_concurrent_requests_pay_and_group_once(client, services, collection, provider):
    await ask(services, collection, *DOGS, *LUNCH)
    provider.script(embedding_latency_seconds=0.3)

    await asyncio.gather(*(list_gaps(client) for _ in range(4)))

    assert provider.stats()["embedded_inputs"] == 5
    assert len((await list_gaps(client)).items) == 2


@guards(
    "features/gaps/ledger.sql",
    "SELECT pg_advisory_xact_lock(",
    "SELECT (",
    means="two processes make a gap twice",
)
async def test_concurrent_processes_make_no_gap_twice(client, services, collection, provider):
    await ask(services, collection, *DOGS)
    logged = await services.ledger[QueryLog].asked("default", "default", collection.created_at)
    asked = await services.ledger[Gaps].with_gaps(collection, logged)
    await services.retriever.question_vectors(DOGS, collection)  # remembered, so that all start their transactions

    finders = [GapFinder(services.retriever, services.ledger[Gaps]) for _ in asked]
    await asyncio.gather(*(finder.add(collection, [question]) for finder, question in zip(finders, asked, strict=True)))

    assert [gap.times for gap in (await list_gaps(client)).items] == [3]


async def test_new_question_joins_assigned_gap(client, services, collection):
    await ask(services, collection, DOGS[0])
    (gap,) = (await list_gaps(client)).items
    assert (await change(client, gap, assigned_to="Ann")).state == "assigned"

    await ask(services, collection, *DOGS[1:], *LUNCH)
    page = await list_gaps(client, state="assigned")

    assert [(each.id, each.assigned_to, each.times) for each in page.items] == [(gap.id, "Ann", 3)]
    assert (page.counts.open, page.counts.assigned) == (1, 1)
    assert (await change(client, gap, assigned_to=None)).state == "open"


@guards(
    "features/gaps/gap.py",
    "resolved_at is not None and at <= resolved_at",
    "resolved_at is not None",
    means="a gap stays resolved when users ask again",
)
@guards(
    "shared/ledger/feedback/query_log.py",
    "return self.helpful_at if self.found else self.last_at",
    "return self.last_at",
    means="feedback on an old answer opens a resolved gap",
)
async def test_resolved_gap_opens_when_asked_again(client, services, library, collection):
    document = await library.add("Dogs are welcome.", "dogs.md")
    await ask(services, collection, *DOGS)
    (gap,) = (await list_gaps(client)).items
    await change(client, gap, assigned_to="Ann")

    resolved = await change(client, gap, resolved_by=document.id)
    assert (resolved.state, resolved.assigned_to, resolved.resolved_by.external_id) == ("resolved", "Ann", "dogs.md")
    await ask(services, collection, DOGS[1], chunks=[uuid4()], score=0.8)  # it is answered now
    assert (await list_gaps(client)).items[0].state == "resolved"

    await run(services, "UPDATE queries SET helpful = false WHERE found AND question = :question", question=DOGS[1])
    assert (await list_gaps(client)).items[0].state == "assigned"
    await change(client, gap, resolved_by=document.id)
    await ask(services, collection, DOGS[1], chunks=[uuid4()], score=0.8)  # since the feedback
    assert (await list_gaps(client)).items[0].state == "resolved"

    await ask(services, collection, DOGS[1])
    (again,) = (await list_gaps(client)).items
    assert (again.id, again.state, again.resolved_by.document_id) == (gap.id, "assigned", document.id)
    assert (await change(client, gap, resolved_by=document.id)).state == "resolved"
    undone = await change(client, gap, resolved_by=None)
    assert (undone.state, undone.resolved_by) == ("assigned", None)


async def test_gap_without_unanswered_question_is_resolved(client, services, collection):
    await ask(services, collection, DOGS[0])
    (gap,) = (await list_gaps(client)).items

    await ask(services, collection, DOGS[0], chunks=[uuid4()], score=0.8)

    assert [(each.id, each.state, each.times) for each in (await list_gaps(client)).items] == [(gap.id, "resolved", 2)]


@guards(
    "features/gaps/ledger.sql",
    " AND {exists:d}",
    "",
    means="a gap stays resolved by a deleted document",
    case="delete",
)
@pytest.mark.parametrize("removal", ["delete", "erase"])
async def test_gap_of_removed_document_is_open(client, services, library, collection, removal):
    document = await library.add("Dogs are welcome.", "dogs.md")
    await ask(services, collection, DOGS[0])
    (gap,) = (await list_gaps(client)).items
    await change(client, gap, resolved_by=document.id)

    if removal == "delete":
        await services.ledger[Documents].delete("default", document.id)
    else:
        await services.ledger[Erasures].start_document(document.id)

    (opened,) = (await list_gaps(client)).items
    assert (opened.state, opened.resolved_by) == ("open", None)
    reply = await client.patch(f"{ADDRESS}/{gap.id}", json={"resolved_by": str(document.id)})
    assert (reply.status_code, reply.json()["field"]) == (404, "resolved_by")


async def test_nearest_passage_is_named_with_score(client, services, library, collection, provider):
    document = await library.add("The office opens at six.", "office.md")
    await work(services)
    ((chunk,),) = await run(services, "SELECT id FROM chunks")
    for question, score in zip(DOGS, (0.2, 0.4, 0.3), strict=True):
        await ask(services, collection, question, chunks=[chunk, uuid4()], score=score)
    await run(services, "UPDATE queries SET found = false")

    (gap,) = (await list_gaps(client)).items

    assert (gap.nearest.chunk_id, gap.nearest.document_id) == (chunk, document.id)
    assert (gap.nearest.external_id, gap.nearest.score) == ("office.md", 0.4)
    await ask(services, collection, DOGS[1], chunks=[uuid4()], score=0.9)  # of a document that was deleted since
    await run(services, "UPDATE queries SET found = false")
    nearest = (await list_gaps(client)).items[0].nearest
    assert (nearest.chunk_id, nearest.score) == (chunk, 0.3)
    await services.ledger[Documents].delete("default", document.id)
    assert (await list_gaps(client)).items[0].nearest is None


@guards(
    "shared/ledger/feedback/query_log.sql",
    "OR r.chunk_ids[1] = CAST(:chunk AS uuid)",
    "OR CAST(:chunk AS uuid) = ANY(r.chunk_ids)",
    means="a chunk lists questions of other chunks",
)
async def test_chunk_lists_questions_that_found_it_first(client, services, collection):
    first, second = uuid4(), uuid4()
    await ask(services, collection, DOGS[0], chunks=[first, second], score=0.7)
    await ask(services, collection, LUNCH[0], chunks=[second, first], score=0.6)
    await ask(services, collection, DOGS[0], chunks=[second], score=0.5)

    reply = (await client.get("/v1/collections/default/queries", params={"chunk_id": str(first)})).json()

    assert [(each["question"], each["times"], each["best_score"]) for each in reply["items"]] == [(DOGS[0], 1, 0.7)]


@guards(
    "features/erasure/ledger/searches.sql",
    "CASE WHEN q.chunk_ids[1] NOT IN (SELECT id FROM erased) THEN q.best_score END",
    "q.best_score",
    means="the score of an erased chunk becomes the score of another one",
)
async def test_erased_document_leaves_no_score_of_its_chunk(services, library, collection, provider):
    document = await library.add("The office opens at six.", "office.md")
    await work(services)
    ((chunk,),) = await run(services, "SELECT id FROM chunks")
    other = uuid4()
    await ask(services, collection, DOGS[0], chunks=[chunk, other], score=0.7)
    await ask(services, collection, LUNCH[0], chunks=[other, chunk], score=0.6)

    await finished(services, await services.ledger[Erasures].start_document(document.id))

    found = await run(services, "SELECT chunk_ids, round(best_score::numeric, 1)::float FROM queries ORDER BY question")
    assert found == [([other], None), ([other], 0.6)]


@guards(
    "features/gaps/ledger.sql",
    "q.tenant = :tenant AND q.collection_id IN",
    "q.tenant <> '' AND q.collection_id IN",
    "collections WHERE tenant = :tenant AND name",
    "collections WHERE :tenant <> '' AND name",
    "WHERE gaps.tenant = :tenant AND gaps.collection = :name",
    "",
    means="a tenant changes the gaps of others",
)
async def test_tenants_see_and_change_only_own_gaps(services, settings, provider):
    alice, bob = as_tenant("alice"), as_tenant("bob")
    for tenant in ("alice", "bob"):
        await ask(services, await Library(services, tenant).collection(), *DOGS)
    document = await Library(services, "bob").add("Dogs are welcome.", "dogs.md")
    async with calling(with_keys(settings), services) as client:
        (gap,) = (await list_gaps(client, alice)).items
        (other,) = (await list_gaps(client, bob)).items
        assert gap.id != other.id
        for body in ({"assigned_to": "Bob"}, {"resolved_by": str(document.id)}):
            reply = await client.patch(f"{ADDRESS}/{gap.id}", json=body, headers=bob)
            assert reply.status_code == 404, reply.text
        reply = await client.patch(f"{ADDRESS}/{gap.id}", json={"resolved_by": str(document.id)}, headers=alice)
        assert reply.status_code == 404, reply.text
        await change(client, gap, alice, assigned_to="Ann")
        reply = await client.patch(f"{ADDRESS}/{gap.id}", json={"assigned_to": "Bob"}, headers=bob)
        assert reply.status_code == 404, reply.text
        assert (await list_gaps(client, alice)).items[0].assigned_to == "Ann"
        made = await client.post("/v1/keys", json={"name": "asker", "scopes": ["ask", "read", "write"]}, headers=alice)
        asker = {"authorization": f"Bearer {made.json()['key']}"}
        assert (await client.get(ADDRESS, headers=asker)).status_code == 403
        assert (await client.patch(f"{ADDRESS}/{gap.id}", json={}, headers=asker)).status_code == 403


async def test_gap_of_another_collection_is_not_found(client, services, library, collection):
    await library.collection("other")
    await ask(services, collection, DOGS[0])
    (gap,) = (await list_gaps(client)).items
    body = {"text": "Dogs are welcome.", "external_id": "dogs.md", "collection": "other"}
    document = (await client.post("/v1/documents", json=body)).json()["id"]

    for address, body in (
        (f"/v1/collections/other/gaps/{gap.id}", {"assigned_to": "Ann"}),
        (f"{ADDRESS}/{uuid4()}", {"assigned_to": "Ann"}),
        (f"{ADDRESS}/{gap.id}", {"resolved_by": document}),
    ):
        assert (await client.patch(address, json=body)).status_code == 404
    for body in ({"assigned_to": ""}, {"assigned_to": " "}, {"resolved_by": "dogs.md"}, {"state": "open"}):
        assert (await client.patch(f"{ADDRESS}/{gap.id}", json=body)).status_code == 422


@guards(
    "features/gaps/feature.py",
    'return [Step("forget_gaps", _FORGET_EVERY, parts.ledger[Gaps].forget)]',
    "return []",
    means="assignments outlive their questions",
)
async def test_gap_ends_with_its_last_question(client, services, collection):
    await ask(services, collection, *DOGS)
    (gap,) = (await list_gaps(client)).items
    await change(client, gap, assigned_to="Ann")
    expire = "UPDATE queries SET created_at = now() - interval '31 days' WHERE question = ANY(:questions)"

    await run(services, expire, questions=list(DOGS[:2]))
    await forget(services)
    (kept,) = (await list_gaps(client)).items
    assert (kept.id, kept.assigned_to, kept.question) == (gap.id, "Ann", DOGS[2])

    await run(services, expire, questions=list(DOGS))
    await forget(services)
    assert (await list_gaps(client)).items == []
    assert await run(services, "SELECT * FROM gaps") == []
    assert await run(services, "SELECT * FROM queries") == []


@guards(
    "features/gaps/finder.py",
    "await self._gaps.carry(collection, due)",
    "pass",
    means="a repeated question loses its gap with its first query",
)
async def test_repeated_question_keeps_its_gap(client, services, collection, provider):
    await ask(services, collection, DOGS[0])
    (gap,) = (await list_gaps(client)).items
    await change(client, gap, assigned_to="Ann")
    await run(services, "UPDATE queries SET created_at = now() - interval '29 days'")
    await ask(services, collection, DOGS[0])
    await list_gaps(client)

    await run(services, "UPDATE queries SET created_at = created_at - interval '2 days'")
    await forget(services)
    restart(services)

    assert [(each.id, each.assigned_to, each.times) for each in (await list_gaps(client)).items] == [(gap.id, "Ann", 1)]
    assert provider.stats()["embedded_inputs"] == 1


@guards(
    "features/gaps/finder.py",
    " or stored_at - since <= _DAY",
    "",
    means="a gap ends a day before its last question",
)
async def test_gap_lasts_as_long_as_its_question(services, settings, collection):
    async with calling(settings.model_copy(update={"query_retention_days": 1}), services) as client:
        await ask(services, collection, DOGS[0])
        (gap,) = (await list_gaps(client)).items
        await change(client, gap, assigned_to="Ann")
        await run(services, "UPDATE queries SET created_at = now() - interval '23 h'")
        await ask(services, collection, DOGS[0])
        await list_gaps(client)

        await run(services, "UPDATE queries SET created_at = created_at - interval '2 h'")
        await services.ledger[QueryLog].purge(timedelta(days=1))

        (kept,) = (await list_gaps(client)).items
        assert (kept.id, kept.assigned_to, kept.times) == (gap.id, "Ann", 1)


async def test_no_questions_are_grouped_without_query_log(services, settings, collection):
    await ask(services, collection, *DOGS)
    async with calling(settings.model_copy(update={"query_retention_days": 0}), services) as client:
        page = await list_gaps(client)
    assert (page.retention_days, page.items, page.ungrouped) == (0, [], 0)


@guards(
    "features/gaps/routes.py",
    "except ForeaskError as error:",
    "except KeyError as error:",
    means="the existing gaps are hidden while the embedding is unavailable",
)
async def test_unavailable_embedding_delays_new_gaps_only(client, services, collection, provider):
    await ask(services, collection, *DOGS)
    await list_gaps(client)
    await ask(services, collection, *LUNCH)
    provider.script(down=True)

    page = await list_gaps(client)
    assert (len(page.items), page.ungrouped) == (1, 2)
    assert page.delayed_by


@guards("features/gaps/routes.py", "if ungrouped(asked):", "if False:", means="grouping questions is not charged")
async def test_used_up_budget_delays_new_gaps_only(services, settings, collection, provider):
    await ask(services, collection, *DOGS)
    limited = settings.model_copy(update={"tenant_limits": {"default": TenantLimits(query_tokens_per_day=1)}})
    async with calling(limited, services) as client:
        assert len((await list_gaps(client)).items) == 1
        await ask(services, collection, *LUNCH)
        page = await list_gaps(client)
        assert (len(page.items), page.ungrouped) == (1, 2)
        assert "used up" in page.delayed_by


async def test_leaders_get_vectors_of_a_new_embedding(client, services, collection, provider):
    await ask(services, collection, DOGS[0], LUNCH[0])
    before = {gap.id for gap in (await list_gaps(client)).items}
    await run(services, "UPDATE queries SET question_embedding = 'older', question_vector = decode('003c', 'hex')")
    restart(services)
    provider.reset()

    await ask(services, collection, DOGS[1], LUNCH[1])
    gaps = (await list_gaps(client)).items

    assert ({gap.id for gap in gaps}, [gap.times for gap in gaps]) == (before, [2, 2])
    assert provider.stats()["embedded_inputs"] == 4


async def test_refused_question_is_a_gap_of_its_own(client, services, collection, provider):
    provider.script(refuse_containing="office")
    await ask(services, collection, DOGS[0], *LUNCH)

    assert sorted(gap.times for gap in (await list_gaps(client)).items) == [1, 2]
    assert sorted(gap.times for gap in (await list_gaps(client)).items) == [1, 2]


@guards(
    "features/gaps/finder.py",
    "if not self._accepted and len",
    "if len(texts) < 0 and len",
    "        if not self._accepted:\n",
    "        if False:\n",
    means="a provider that refuses everything makes each question a gap of its own",
)
async def test_provider_that_refuses_everything_changes_nothing(client, services, collection, provider):
    provider.script(refuse_containing="office")
    entries = [entry_of(collection, f"{DOGS[0]} number {number}") for number in range(64)]
    await services.ledger[QueryLog].append(entries)

    page = await list_gaps(client)

    assert (page.items, page.ungrouped) == ([], 64)
    assert page.delayed_by
    assert provider.stats()["embeddings"] <= 2 * 16  # with a neutral call after each refusal of a single question
    provider.script(refuse_containing="")
    assert sum(gap.times for gap in (await list_gaps(client)).items) == 64


async def test_pages_list_each_gap_once(client, services, collection):
    await ask(services, collection, *DOGS, *LUNCH, NOWHERE)
    all_gaps = (await list_gaps(client)).items

    first = await list_gaps(client, limit=2)
    rest = await list_gaps(client, limit=2, cursor=first.next_cursor)

    assert [gap.times for gap in all_gaps] == [3, 2, 1]
    assert ([*first.items, *rest.items], rest.next_cursor) == (all_gaps, None)
    assert (await client.get(ADDRESS, params={"cursor": "x"})).status_code == 400


async def read_table(client, **parameters):
    reply = await client.get(ADDRESS, params={"format": "csv", **parameters})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    assert reply.headers["content-disposition"] == 'attachment; filename="gaps-default.csv"'
    return list(csv.DictReader(io.StringIO(reply.content.decode("utf-8-sig"))))


async def test_table_contains_all_gaps(client, services, library, collection):
    await ask(services, collection, *DOGS, LUNCH[0], 'Où sont les clés,\n"s\'il vous plaît"?')
    document = await library.add("Dogs are welcome.", "dogs.md")
    (gap, *_) = (await list_gaps(client)).items
    await change(client, gap, resolved_by=document.id, assigned_to="Ann")

    rows = await read_table(client)

    assert [row["times"] for row in rows] == ["3", "1", "1"]
    assert [(row["state"], row["assigned_to"], row["resolved_by"]) for row in rows[:1]] == [
        ("resolved", "Ann", "dogs.md")
    ]
    assert 'Où sont les clés,\n"s\'il vous plaît"?' in [row["question"] for row in rows]
    assert [row["question"] for row in await read_table(client, state="resolved")] == [gap.question]


@guards(
    "features/gaps/table.py",
    "_FORMULA.sub(_disarmed, value)",
    "value",
    means="a question is a formula in the table of gaps",
)
async def test_table_contains_no_formulas(client, services, library, collection):
    formulas = ["=HYPERLINK(A1)", "+1", "-2", "@SUM(A1)", "\tcell", "\uff1d1+1"]
    separated = ["Leave;=HYPERLINK(A1)", "Leave\t@A1", "Leave;a\n-2"]
    await ask(services, collection, *formulas, *separated)
    gap = next(each for each in (await list_gaps(client)).items if each.question in formulas)
    document = await library.add("A text.", "=1+1")
    await change(client, gap, assigned_to="=cmd", resolved_by=document.id)

    rows = await read_table(client)

    shown = {row["question"] for row in rows}
    assert shown
    assert shown <= {*(f"'{formula}" for formula in formulas), "Leave;'=HYPERLINK(A1)", "Leave\t'@A1", "Leave;a\n'-2"}
    resolved = next(row for row in rows if row["id"] == str(gap.id))
    assert (resolved["assigned_to"], resolved["resolved_by"]) == ("'=cmd", "'=1+1")


@guards(
    "shared/ledger/postgres/migrations/schema.sql",
    "IF changed = CAST('{}' AS jsonb) THEN",
    "IF changed IS NOT NULL THEN",
    means="changes of gaps are not recorded",
)
async def test_changes_are_recorded_without_questions(services, settings, provider):
    alice = as_tenant("alice")
    library = Library(services, "alice")
    await ask(services, await library.collection(), *DOGS)
    document = await library.add("Dogs are welcome.", "dogs.md")
    async with calling(with_keys(settings), services) as client:
        (gap,) = (await list_gaps(client, alice)).items
        await change(client, gap, alice, assigned_to="Ann")
        await change(client, gap, alice, resolved_by=document.id)
        await change(client, gap, alice, resolved_by=None)
        reply = await client.get("/v1/audit", params={"object": "gap"}, headers=alice)

    entries = reply.json()["items"]
    assert [sorted(entry["changes"]) for entry in entries] == [["resolved_at"], ["resolved_at"], ["assigned_to"]]
    assert {entry["object_name"] for entry in entries} == {f"default, gap {str(gap.id)[:8]}"}
    assert entries[2]["changes"]["assigned_to"] == {"before": None, "after": "Ann"}
    assert "dog" not in reply.text
    assert str(document.id) not in reply.text
