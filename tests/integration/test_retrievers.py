"""The retrievers for LangChain, LlamaIndex and Haystack, with the frameworks' own tests if available."""

import asyncio
import json
import threading
from concurrent.futures import Future

import pytest
from foreask_client import Client, NotFoundError
from langchain_core.load import dumps, loads
from langchain_tests.integration_tests import RetrieversIntegrationTests

from tests.conftest import Library
from tests.support.api import KEYS, serving, with_keys, work
from tests.support.emptying import empty
from tests.support.planted import guards

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
        # Keys find all documents and persons none, so that a retriever which loses its person is noticed.
        async with serving(with_keys(settings).model_copy(update={"readable_by_default": "nobody"})) as http:
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


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")


class TestLangChain(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _address(self, server):
        self.url = server

    @property
    def retriever_constructor(self):
        from foreask_langchain import ForeaskRetriever

        return ForeaskRetriever

    @property
    def retriever_constructor_params(self):
        return {"url": self.url, "api_key": KEYS["alice"]}

    @property
    def retriever_query_example(self):
        return QUESTION

    async def test_langchain_documents_have_source_and_matched_question(self, client):
        retriever = self.retriever_constructor(client=client, filter={"dept": "it"})

        (document,) = await retriever.ainvoke(QUESTION)
        (other,) = retriever.invoke(QUESTION, None, filter={"dept": "hr"})

        assert document.page_content.endswith("Everybody in it has 28 days of leave a year.")
        assert document.id == document.metadata["chunk_id"]
        assert (document.metadata["dept"], document.metadata["external_id"]) == ("it", "it.md")
        assert document.metadata["matched_question"] == QUESTION
        assert document.metadata["score"] > 0
        assert other.metadata["dept"] == "hr"

    @pytest.mark.filterwarnings("ignore:The function `loads` is in beta")
    @guards(
        "clients/langchain/foreask_langchain/__init__.py",
        "super().to_json() if self.client is None else self.to_json_not_implemented()",
        "super().to_json()",
        means="a loaded retriever finds the documents of the key, not of the client's person",
    )
    def test_langchain_retriever_is_saved_without_key(self, client, monkeypatch):
        named = {"user": "ada", "groups": ["legal"], "filter": {"dept": "it"}, "k": 3}
        retriever = self.retriever_constructor(**self.retriever_constructor_params, **named)
        allowed = {"allowed_objects": [self.retriever_constructor], "valid_namespaces": ["foreask_langchain"]}

        saved = dumps(retriever)
        loaded = loads(saved, secrets_map={"FOREASK_API_KEY": KEYS["alice"]}, **allowed)

        for text in (saved, repr(retriever), str(retriever.model_dump())):
            assert KEYS["alice"] not in text
        assert dumps(loaded) == saved
        with pytest.warns(UserWarning, match="No searchable document"):  # that ada may read
            assert loaded.invoke(QUESTION) == []
        with_client = dumps(self.retriever_constructor(client=client.acting_for("ada")))
        assert json.loads(with_client)["type"] == "not_implemented"

    def test_langchain_retriever_reads_address_and_key_of_environment(self, monkeypatch):
        monkeypatch.setenv("FOREASK_URL", self.url)
        monkeypatch.setenv("FOREASK_API_KEY", KEYS["alice"])
        retriever = self.retriever_constructor()

        assert len(retriever.invoke(QUESTION)) == 3
        assert KEYS["alice"] not in dumps(retriever)

    def test_langchain_error_of_constructor_hides_key(self, client):
        for wrong in ({"url": "foreask"}, {"groups": ["legal"]}, {"client": client}, {"k": "many"}):
            with pytest.raises(ValueError) as refused:  # noqa: PT011  the messages differ
                self.retriever_constructor(**self.retriever_constructor_params | wrong)
            assert KEYS["alice"] not in str(refused.value)


def found_by(framework, client, url, **more):
    """Return the documents that a framework's retriever finds."""
    if framework == "langchain":
        from foreask_langchain import ForeaskRetriever as OfLangChain

        return OfLangChain(client=client, **more).invoke(QUESTION)
    if framework == "llama-index":
        from foreask_llama_index import ForeaskRetriever as OfLlamaIndex

        return OfLlamaIndex(client, **more).retrieve(QUESTION)
    from haystack_integrations.components.retrievers.foreask import ForeaskRetriever as OfHaystack

    retriever = OfHaystack(url, **more)
    with retriever._client:
        return retriever.run(QUESTION)["documents"]


@pytest.mark.parametrize("framework", ["langchain", "llama-index", "haystack"])
def test_retriever_reports_missing_collection_and_unknown_field(server, client, monkeypatch, framework):
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


def test_llama_index_retriever_takes_address_and_key(server, client, monkeypatch):
    from foreask_llama_index import ForeaskRetriever

    given = ForeaskRetriever(url=server, api_key=KEYS["alice"])
    monkeypatch.setenv("FOREASK_URL", server)
    monkeypatch.setenv("FOREASK_API_KEY", KEYS["alice"])
    of_environment = ForeaskRetriever()

    assert [len(retriever.retrieve(QUESTION)) for retriever in (given, of_environment)] == [3, 3]
    assert ForeaskRetriever(url=server, api_key=KEYS["alice"], user="ada").retrieve(QUESTION) == []
    with pytest.raises(ValueError, match="the client replaces"):
        ForeaskRetriever(client, user="ada")


async def test_haystack_pipeline_runs_after_saving_and_loading(server, monkeypatch):
    monkeypatch.setenv("FOREASK_API_KEY", KEYS["alice"])
    from haystack import Pipeline
    from haystack_integrations.components.retrievers.foreask import ForeaskRetriever

    pipeline = Pipeline()
    pipeline.add_component("retriever", ForeaskRetriever(server, filter={"dept": {"any": ["hr", "it"]}}))

    saved = pipeline.dumps()
    loaded = Pipeline.loads(saved)  # Haystack loads components of its own namespaces only
    found = loaded.run({"retriever": {"query": QUESTION, "top_k": 1}})["retriever"]["documents"]
    more = (await pipeline.run_async({"retriever": {"query": QUESTION}}))["retriever"]["documents"]
    with pytest.warns(UserWarning, match="No searchable document"):
        of_person = loaded.run({"retriever": {"query": QUESTION, "user": "ada"}})["retriever"]["documents"]
    for each in (pipeline, loaded):
        each.get_component("retriever").close()

    assert KEYS["alice"] not in saved
    assert len(found) == 1
    assert found[0].id == more[0].id == found[0].meta["chunk_id"]
    assert {document.meta["dept"] for document in more} == {"hr", "it"}
    assert more[0].score >= more[1].score > 0
    assert of_person == []


def test_haystack_saves_person_and_refuses_plain_key(server):
    from haystack import Pipeline
    from haystack.utils import Secret
    from haystack_integrations.components.retrievers.foreask import ForeaskRetriever

    def pipeline_of(**options):
        pipeline = Pipeline()
        pipeline.add_component("retriever", ForeaskRetriever(server, **options))
        return pipeline

    saved = pipeline_of(user="ada", groups=["legal"]).dumps()
    with pytest.raises(ValueError, match="Cannot serialize token-based secret"):
        pipeline_of(api_key=Secret.from_token(KEYS["alice"])).dumps()

    again = Pipeline.loads(saved).get_component("retriever")
    assert (again.user, again.groups) == ("ada", ["legal"])
