"""Dify searches a collection as an external knowledge base: requests as Dify sends them, and its codes of errors."""

import json
from uuid import UUID

from tests.integration.test_openai_clients import LEAVE, PAY, fill
from tests.integration.test_vector_stores import fill_years
from tests.support.api import as_tenant, calling, with_keys
from tests.support.planted import guards

QUESTION = "How many days of leave has everybody?"
ALICE = as_tenant("alice")
CONDITIONS = [
    (("of", "is", "a"), "a"),
    ((["of"], "is not", "a"), "bc"),
    ((["of", "tags"], "is", "x"), "c"),
    (("of", "in", ["a", "b"]), "ab"),
    (("of", "in", "a, b"), "ab"),
    (("of", "not in", ["a"]), "bc"),
    (("of", "empty", None), "c"),
    (("of", "not empty", None), "ab"),
    (("of", "contains", "a"), "a"),
    (("of", "not contains", "a"), "bc"),
    (("year", "=", 2024), "a"),
    (("year", "=", "2024"), "a"),
    (("year", "≠", 2024), "bc"),
    (("year", ">", "2025"), "c"),
    (("year", "≥", 2025), "bc"),
    (("year", "<", 2025.5), "ab"),
    (("year", "≤", 2024), "a"),
    (("date", "after", "2026-01-01"), "c"),
    (("date", "before", "2026-01-01"), ""),
]


def conditions(*parts, operator="and"):
    listed = [{"name": name, "comparison_operator": how, "value": value} for name, how, value in parts]
    return {"logical_operator": operator, "conditions": listed}


async def retrieve(client, query=QUESTION, knowledge="handbook", headers=None, **more):
    """Send a request as Dify does: JSON in a body that its client calls data, and a null for no condition."""
    body = {
        "retrieval_setting": {"top_k": 4, "score_threshold": 0.0},
        "query": query,
        "knowledge_id": knowledge,
        "metadata_condition": None,
    }
    sent = {"content-type": "application/json"} | (headers or {})
    return await client.post("/retrieval", content=json.dumps(body | more), headers=sent)


async def test_dify_request_returns_records_with_metadata(client, once):
    await once(fill)

    reply = await retrieve(client, "When are salaries paid?")

    assert reply.status_code == 200
    first, second = reply.json()["records"]
    assert first["title"] == PAY["title"]
    assert "last working day" in first["content"]
    assert first["score"] > second["score"] > 0
    assert first["metadata"]["external_id"] == "pay.md"
    assert UUID(first["metadata"]["document_id"])
    assert first["metadata"]["url"].startswith(PAY["metadata"]["url"])
    assert f"/documents/{second['metadata']['document_id']}?chunk=" in second["metadata"]["url"]
    threshold = {"top_k": 4, "score_threshold": first["score"] - 0.001}
    best = (await retrieve(client, "When are salaries paid?", retrieval_setting=threshold)).json()["records"]
    assert best == [first]


@guards(
    "features/dify/conditions.py",
    '"is not": _negated(_equal),',
    '"is not": _equal,',
    means="a condition of Dify finds the documents that it excludes",
)
async def test_conditions_choose_documents_by_metadata(client, once):
    await once(fill_years)

    async def found(condition):
        reply = await retrieve(client, "Which report has a table?", "reports", metadata_condition=condition)
        assert reply.status_code == 200, (condition, reply.text)
        return "".join(sorted(each["metadata"]["external_id"] for each in reply.json()["records"]))

    for part, expected in CONDITIONS:
        assert await found(conditions(part)) == expected, part
    both = (("of", "is", "a"), ("year", "=", 2025))
    assert await found(conditions(*both)) == ""
    assert await found(conditions(*both, operator="or")) == "ab"
    assert await found(conditions(*both, operator=None)) == ""
    assert await found({"logical_operator": "and", "conditions": None}) == "abc"


REFUSED = [
    {"query": ""},
    {"query": None},
    {"knowledge_id": "No Name"},
    {"retrieval_setting": {"top_k": 0}},
    {"retrieval_setting": {"top_k": 10_000}},
    {"metadata_condition": conditions(("a", "start with", "b"))},
    {"metadata_condition": conditions(("a", "like", "b"))},
    {"metadata_condition": conditions(("a", "is", None))},
    {"metadata_condition": conditions(("a", "is", ["b"]))},
    {"metadata_condition": conditions(("a", ">", "b"))},
    {"metadata_condition": conditions(("a", "in", 1))},
    {"metadata_condition": conditions(("not", "is", "b"))},
]


async def test_invalid_request_is_error_of_dify(client, once, provider):
    await once(fill)
    for change in REFUSED:
        reply = await retrieve(client, **change)
        assert (reply.status_code, reply.json()["error_code"]) == (400, 400), (change, reply.text)
        assert reply.json().keys() == {"error_code", "error_msg"}
    assert provider.stats()["embeddings"] == 0


async def test_refused_keys_have_codes_of_dify(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        body = {"name": "a", "scopes": ["read"]}
        reader = (await client.post("/v1/keys", json=body, headers=ALICE)).json()["key"]
        await client.post("/v1/documents", json=LEAVE, headers=ALICE)
        replies = [
            await retrieve(client, knowledge="default", headers=headers)
            for headers in (
                {},
                {"authorization": "Basic a"},
                {"authorization": "Bearer unknown"},
                {"authorization": f"Bearer {reader}"},
                ALICE,
            )
        ]
        missing = await retrieve(client, knowledge="handbok", headers=ALICE)
        checked = await client.post("/retrieval", headers=ALICE)  # Dify's check of an address and its key

    assert [(each.status_code, each.json().get("error_code")) for each in replies] == [
        (403, 1001),
        (403, 1001),
        (403, 1002),
        (403, 1002),
        (200, None),
    ]
    assert (missing.status_code, missing.json()["error_code"]) == (404, 2001)
    assert missing.json()["error_msg"] == "There is no collection 'handbok': there is 'default'."
    assert checked.status_code not in {403, 404, 502}


async def test_provider_outage_is_error_of_dify(client, once, provider):
    await once(fill)
    provider.script(down=True)

    reply = await retrieve(client)

    assert (reply.status_code, reply.json()["error_code"]) == (503, 503)
    assert int(reply.headers["retry-after"]) >= 1
