"""The retrievers for LangChain, LlamaIndex and Haystack, with the frameworks' own tests if available."""

import asyncio
import threading
from concurrent.futures import Future

import pytest
from foreask_client import Client, NotFoundError
from langchain_tests.integration_tests import RetrieversIntegrationTests

from tests.conftest import Library
from tests.support.api import KEYS, serving, with_keys, work
from tests.support.emptying import empty

QUESTION = "How much leave do I get?"


@pytest.fixture(scope="module")
async def server(session_services, settings):
    """Run a server with three documents in its own thread, because the frameworks' tests block."""
    await empty(session_services)
    library = Library(session_services, "alice")
    for number, department in enumerate(("hr", "sales", "it")):
        text = f"# Leave\n\nEverybody in {department} has {30 - number} days of leave a year."
        await library.add(text, f"{department}.md", questions=[QUESTION], metadata={"dept": department})
    await work(session_services)

    url: Future[str] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve():
        async with serving(with_keys(settings)) as http:
            url.set_result(str(http.base_url))
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    try:
        yield await asyncio.to_thread(url.result, 20)
    finally:
        loop.call_soon_threadsafe(stop.set)
        await asyncio.to_thread(thread.join, 20)
        loop.close()


@pytest.fixture
def client(server):
    with Client(server, KEYS["alice"]) as client:
        yield client


class TestLangChain(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _connect(self, client):
        self.client = client

    @property
    def retriever_constructor(self):
        from foreask_langchain import ForeaskRetriever

        return ForeaskRetriever

    @property
    def retriever_constructor_params(self):
        return {"client": self.client}

    @property
    def retriever_query_example(self):
        return QUESTION

    async def test_langchain_documents_have_source_and_matched_question(self):
        retriever = self.retriever_constructor(client=self.client, filter={"dept": "it"})

        (document,) = await retriever.ainvoke(QUESTION)
        (other,) = retriever.invoke(QUESTION, None, filter={"dept": "hr"})

        assert document.page_content.endswith("Everybody in it has 28 days of leave a year.")
        assert document.id == document.metadata["chunk_id"]
        assert (document.metadata["dept"], document.metadata["external_id"]) == ("it", "it.md")
        assert document.metadata["matched_question"] == QUESTION
        assert document.metadata["score"] > 0
        assert other.metadata["dept"] == "hr"
        assert KEYS["alice"] not in repr(retriever)


def found_by(framework, client, url, **more):
    """Return the documents that a framework's retriever finds."""
    if framework == "langchain":
        from foreask_langchain import ForeaskRetriever as OfLangChain

        return OfLangChain(client=client, **more).invoke(QUESTION)
    if framework == "llama-index":
        from foreask_llama_index import ForeaskRetriever as OfLlamaIndex

        return OfLlamaIndex(client, **more).retrieve(QUESTION)
    from foreask_haystack import ForeaskRetriever as OfHaystack

    retriever = OfHaystack(url, **more)
    with retriever._client:
        return retriever.run(QUESTION)["documents"]


@pytest.mark.parametrize("framework", ["langchain", "llama-index", "haystack"])
def test_retriever_reports_missing_collection_and_unknown_field(server, client, monkeypatch, framework):
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    monkeypatch.setenv("FOREASK_API_KEY", KEYS["alice"])

    with pytest.raises(NotFoundError, match="There is no collection 'defualt': there is 'default'"):
        found_by(framework, client, server, collection="defualt")
    with pytest.warns(UserWarning, match="has the metadata field 'dpt' of the filter: there is 'dept'"):
        none = found_by(framework, client, server, filter={"dpt": "hr"})
    assert none == []
    assert len(found_by(framework, client, server, filter={"dept": "hr"})) == 1


async def test_llama_index_answers_from_retrieved_nodes(client):
    from foreask_llama_index import ForeaskRetriever
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    retriever = ForeaskRetriever(client, top_k=2)

    nodes = retriever.retrieve(QUESTION)
    again = await retriever.aretrieve(QUESTION)
    answer = RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query(QUESTION)

    assert [node.node_id for node in nodes] == [node.node_id for node in again]
    assert [node.node_id for node in answer.source_nodes] == [node.node_id for node in nodes]
    assert nodes[0].score >= nodes[1].score > 0
    assert nodes[0].node.ref_doc_id == nodes[0].metadata["document_id"]
    assert nodes[0].metadata["matched_question"] == QUESTION
    assert "days of leave a year." in str(answer)  # this model repeats its input
    assert "heading_path" in str(answer)
    assert "chunk_id" not in str(answer)


async def test_haystack_pipeline_runs_after_saving_and_loading(server, monkeypatch):
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    monkeypatch.setenv("FOREASK_API_KEY", KEYS["alice"])
    from foreask_haystack import ForeaskRetriever
    from haystack import Pipeline

    pipeline = Pipeline()
    pipeline.add_component("retriever", ForeaskRetriever(server, filter={"dept": {"any": ["hr", "it"]}}))

    saved = pipeline.dumps()
    loaded = Pipeline.loads(saved, allowed_modules=["foreask_haystack.*"])
    found = loaded.run({"retriever": {"query": QUESTION, "top_k": 1}})["retriever"]["documents"]
    more = (await pipeline.run_async({"retriever": {"query": QUESTION}}))["retriever"]["documents"]
    for each in (pipeline, loaded):
        each.get_component("retriever").close()

    assert KEYS["alice"] not in saved
    assert len(found) == 1
    assert found[0].id == more[0].id == found[0].meta["chunk_id"]
    assert {document.meta["dept"] for document in more} == {"hr", "it"}
    assert more[0].score >= more[1].score > 0
