"""The adapter for rerank endpoints, with the scripted provider."""

from datetime import timedelta

import pytest

from shared.domain.errors import BadReply, Unavailable
from shared.providers.provider import Provider
from shared.providers.reranking import Reranker

DOCUMENTS = ["Salaries are paid monthly.", "Everybody has thirty days of leave.", "Leave is taken in days."]
QUESTION = "thirty days of leave"


@pytest.fixture
async def connection(provider):
    connection = Provider(component="rerank", base_url=provider.url, api_key=None, timeout=timedelta(seconds=5))
    yield connection
    await connection.aclose()


@pytest.mark.parametrize("bare", [True, False])
async def test_rerank_scores_follow_document_order(connection, provider, bare):
    provider.script(rerank_list=bare)

    assert await Reranker(connection, "scripted").score(QUESTION, DOCUMENTS) == [0.0, 1.0, 0.5]


async def test_rerank_request_has_common_format(connection, provider):
    await Reranker(connection, "scripted").score(QUESTION, DOCUMENTS)
    await Reranker(connection, None).score(QUESTION, DOCUMENTS)

    with_model, without = provider.stats()["reranks"]
    assert without == {"query": QUESTION, "documents": DOCUMENTS, "top_n": 3}
    assert with_model == without | {"model": "scripted"}


@pytest.mark.parametrize(
    ("fault", "error"), [("500", Unavailable), ("rubbish", BadReply), ("nan", BadReply), ("indexes", BadReply)]
)
async def test_invalid_rerank_replies_become_errors(connection, provider, fault, error):
    provider.script(rerank_fault=fault)

    with pytest.raises(error, match="the rerank provider"):
        await Reranker(connection, "scripted").score(QUESTION, DOCUMENTS)
