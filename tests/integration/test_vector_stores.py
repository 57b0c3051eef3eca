"""Collections are vector stores for OpenAI's clients: found, searched and filtered."""

import asyncio
from uuid import UUID

import openai
import pytest

from shared.settings import TenantLimits
from tests.integration.test_openai_clients import LEAVE, PAY, fill
from tests.support.api import as_tenant, calling, serving, with_keys, work
from tests.support.planted import guards

QUESTION = "How many days of leave has everybody?"
ALICE = as_tenant("alice")
YEARS = [
    {"text": "The report of the first year has one table.", "external_id": "a", "metadata": {"year": 2024, "of": "a"}},
    {"text": "The report of the next year has two tables.", "external_id": "b", "metadata": {"year": 2025, "of": "b"}},
    {
        "text": "The report of the last year has no table.",
        "external_id": "c",
        "metadata": {"year": 2026.5, "final": True, "tags": ["x", "y"], "date": "2026-03-01", "none": None},
    },
]


async def fill_years(services):
    async with calling(services.settings, services) as client:
        for body in YEARS:
            (await client.post("/v1/documents", json=body | {"collection": "reports"})).raise_for_status()
    await work(services)


async def search(client, query=QUESTION, name="handbook", headers=None, **more):
    return await client.post(f"/v1/vector_stores/{name}/search", json={"query": query} | more, headers=headers)


async def test_openai_client_lists_and_searches_vector_stores(client, services, settings, once):
    await once(fill)
    async with serving(settings, services) as served:

        def use():
            with openai.OpenAI(base_url=f"{served.base_url}/v1", api_key="none", max_retries=0) as stores:
                listed = list(stores.vector_stores.list(limit=1))
                store = stores.vector_stores.retrieve("handbook")
                found = list(stores.vector_stores.search("handbook", query=QUESTION, max_num_results=1))
                with pytest.raises(openai.NotFoundError) as refused:
                    stores.vector_stores.retrieve("other")
                assert (refused.value.code, refused.value.param) == ("vector_store_not_found", "vector_store_id")
                with pytest.raises(openai.APIStatusError, match="A vector store is a collection"):
                    stores.vector_stores.create(name="new")
                with pytest.raises(openai.NotFoundError, match="A vector store is a collection"):
                    stores.vector_stores.files.list("handbook")
                return listed, store, found

        listed, store, found = await asyncio.to_thread(use)

    assert [each.id for each in listed] == [store.id] == ["handbook"]
    assert (store.name, store.status, store.file_counts.total, store.file_counts.completed) == (
        "handbook",
        "completed",
        2,
        2,
    )
    (result,) = found
    assert result.filename == LEAVE["external_id"]
    assert "thirty days" in result.content[0].text
    assert 0 < result.score < 1
    assert UUID(result.file_id)
    reply = (await search(client, "When are salaries paid?")).json()
    best = reply["data"][0]
    assert best["attributes"] == PAY["metadata"]
    assert best["foreask"]["url"] == f"{PAY['metadata']['url']}#{best['foreask']['chunk_id']}"
    assert (reply["object"], reply["has_more"], reply["next_page"]) == ("vector_store.search_results.page", False, None)
    rated = {"query_id": reply["foreask"]["query_ids"][0], "chunk_id": best["foreask"]["chunk_id"], "helpful": True}
    assert (await client.post("/v1/feedback", json=rated)).status_code == 200


def comparison(kind, key, value):
    return {"type": kind, "key": key, "value": value}


FILTERS = [
    (comparison("eq", "year", 2024), "a"),
    (comparison("eq", "year", 2026.5), "c"),
    (comparison("eq", "final", value=True), "c"),
    (comparison("ne", "of", "a"), "bc"),
    (comparison("gt", "year", 2024), "bc"),
    (comparison("gte", "year", 2025), "bc"),
    (comparison("lt", "year", 2025), "a"),
    (comparison("lte", "year", 2025), "ab"),
    (comparison("gte", "date", "2026-01-01"), "c"),
    (comparison("in", "of", ["a", "b"]), "ab"),
    (comparison("in", "year", [2024, 2026.5]), "ac"),
    (comparison("nin", "of", ["a"]), "bc"),
    (comparison("nin", "year", [2024, 2026.5]), "b"),
    ({"type": "and", "filters": [comparison("gt", "year", 2024), comparison("lt", "year", 2026)]}, "b"),
    (
        {
            "type": "or",
            "filters": [
                comparison("eq", "of", "a"),
                {"type": "and", "filters": [comparison("eq", "tags", "x"), comparison("eq", "final", value=True)]},
            ],
        },
        "ac",
    ),
]


@guards(
    "features/openai/filters.py",
    'return found if given.type == "in" else {"not": found}',
    "return found",
    means="a filter finds the documents that it excludes",
)
async def test_filters_choose_documents_by_attributes(client, services, once):
    await once(fill_years)

    for filters, expected in FILTERS:
        reply = (await search(client, "Which report has a table?", "reports", filters=filters)).json()
        assert "".join(sorted(each["filename"] for each in reply["data"])) == expected, filters
    (last,) = (await search(client, "a table", "reports", filters=comparison("eq", "final", value=True))).json()["data"]
    assert last["attributes"] == {"year": 2026.5, "final": True, "tags": '["x","y"]', "date": "2026-03-01"}


async def test_several_queries_are_merged_by_score(client, once, provider):
    await once(fill)
    one, other = [(await search(client, each)).json()["data"] for each in (QUESTION, "When are salaries paid?")]

    merged = (await search(client, [QUESTION, "When are salaries paid?"])).json()
    scores = {}
    for each in one + other:
        scores[each["foreask"]["chunk_id"]] = max(each["score"], scores.get(each["foreask"]["chunk_id"], 0))
    assert {each["foreask"]["chunk_id"]: each["score"] for each in merged["data"]} == pytest.approx(scores)
    assert [each["score"] for each in merged["data"]] == sorted(scores.values(), reverse=True)
    assert merged["search_query"] == [QUESTION, "When are salaries paid?"]
    assert len(set(merged["foreask"]["query_ids"])) == 2
    few = (await search(client, [QUESTION, "When are salaries paid?"], max_num_results=1)).json()
    assert few["data"] == merged["data"][:1]


async def test_threshold_and_rewriting_are_applied(client, once, provider):
    await once(fill)
    provider.script(rewriting={"queries": ["How long is the leave?", "Is there leave?"]})
    everything = (await search(client)).json()["data"]
    threshold = {"score_threshold": everything[0]["score"] - 0.001, "ranker": "auto"}

    best = (await search(client, ranking_options=threshold, rewrite_query=False)).json()
    assert [each["filename"] for each in best["data"]] == ["leave.md"]
    assert len(everything) == 2
    assert best["search_query"] == [QUESTION]
    rewritten = (await search(client, rewrite_query=True)).json()
    assert rewritten["search_query"] == [QUESTION, "How long is the leave?", "Is there leave?"]


REFUSED = [
    ({"query": ""}, "query.0"),
    ({"query": []}, "query"),
    ({"query": ["a"] * 9}, "query"),
    ({"max_num_results": 0}, "max_num_results"),
    ({"max_num_results": 51}, "max_num_results"),
    ({"ranking_options": {"score_threshold": 2}}, "ranking_options.score_threshold"),
    ({"filters": comparison("like", "a", "b")}, "filters.comparison.type"),
    ({"filters": comparison("eq", "a", ["b"])}, "filters"),
    ({"filters": comparison("in", "a", "b")}, "filters"),
    ({"filters": comparison("gt", "a", "yesterday")}, "filters"),
    ({"filters": comparison("gt", "a", value=True)}, "filters"),
    ({"filters": comparison("eq", "all", 1)}, "filters"),
    ({"filters": comparison("eq", "a..b", 1)}, "filters"),
    ({"filters": comparison("eq", "a", 2**63)}, "filters"),
    ({"filters": {"type": "and", "filters": []}}, "filters.compound.filters"),
    (
        {"filters": {"type": "and", "filters": [comparison("eq", "a", n) for n in range(65)]}},
        "filters.compound.filters",
    ),
]


async def test_invalid_search_is_rejected_by_name(client, once, provider):
    await once(fill)
    for change, param in REFUSED:
        reply = await search(client, **change)
        assert reply.status_code == 400, (change, reply.text)
        assert reply.json()["error"]["param"] == param, reply.text
    nested = comparison("eq", "a", 1)
    for _ in range(9):
        nested = {"type": "and", "filters": [nested]}
    assert (await search(client, filters=nested)).json()["error"]["param"] == "filters"
    assert provider.stats()["embeddings"] == 0
    for path, param in (("?before=a", "before"), ("?limit=0", "limit"), ("/No-Name", "name")):
        reply = await client.get(f"/v1/vector_stores{path}")
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


async def test_vector_stores_are_listed_in_pages(client, services, settings):
    async with calling(with_keys(settings), services) as keyed:
        for name in ("c", "a", "b"):
            await keyed.put(f"/v1/collections/{name}", json={}, headers=ALICE)
        first = (await keyed.get("/v1/vector_stores?limit=2&order=desc", headers=ALICE)).json()
        rest = (await keyed.get("/v1/vector_stores?limit=2&after=b", headers=ALICE)).json()
        others = (await keyed.get("/v1/vector_stores", headers=as_tenant("bob"))).json()

    assert ([each["id"] for each in first["data"]], first["has_more"]) == (["a", "b"], True)
    assert (first["first_id"], first["last_id"]) == ("a", "b")
    assert ([each["id"] for each in rest["data"]], rest["has_more"]) == (["c"], False)
    assert others == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


@guards(
    "features/openai/routes/vector_stores.py",
    "return Scope.READ in caller.scopes and not caller.restriction.is_partial",
    "return True",
    means="a key that only asks learns the number of documents",
)
@pytest.mark.parametrize(
    ("rights", "is_counted"),
    [
        ({"scopes": ["ask", "read"]}, True),
        ({"scopes": ["ask"]}, False),
        ({"scopes": ["ask"], "filter": {"a": 1}}, False),
    ],
)
async def test_files_are_counted_only_for_readers(services, settings, rights, is_counted):
    async with calling(with_keys(settings), services) as keyed:
        await keyed.post("/v1/documents", json=LEAVE, headers=ALICE)
        key = (await keyed.post("/v1/keys", json={"name": "a", **rights}, headers=ALICE)).json()["key"]
        store = (await keyed.get("/v1/vector_stores/default", headers={"authorization": f"Bearer {key}"})).json()

    waiting = {"total": 1, "completed": 0, "in_progress": 1, "failed": 0, "cancelled": 0}
    expected = (waiting, "in_progress") if is_counted else (None, "completed")
    assert (store["file_counts"], store["status"]) == expected


@guards(
    "features/openai/routes/vector_stores.py",
    "                await admit_another_query(searcher.request)",
    "                pass",
    means="one request has eight queries for the rate of one",
)
async def test_each_query_of_search_counts_towards_rate(services, settings, provider):
    limits = {"alice": TenantLimits(requests_per_second=0.01, burst=4)}
    async with calling(with_keys(settings).model_copy(update={"tenant_limits": limits}), services) as keyed:
        await keyed.put("/v1/collections/handbook", json={}, headers=ALICE)
        allowed = await search(keyed, ["a", "b"], headers=ALICE)
        refused = await search(keyed, ["a", "b"], headers=ALICE)

    assert allowed.status_code == 200
    assert (refused.status_code, refused.json()["error"]["type"]) == (429, "rate_limit_error")
    assert int(refused.headers["retry-after"]) >= 1
