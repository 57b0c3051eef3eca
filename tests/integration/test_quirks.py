"""Every quirk of model providers has one outcome: an answer, a dead letter of one text, or waiting with the reason.

A row of a table is a quirk, of one text or of every request, and its outcome:

- `good`: the questions, the answer or the vectors are right. Another tenant's text needs one call, so a provider's
  quirk is learnt once.
- `cut`: the answer is shown, and marked as incomplete.
- `dead`: the text is a dead letter with the provider's words. Another tenant's text passes in one call.
- `attempt`: an attempt of this text is used, and the text is tried again. Another tenant's text passes in one call.
- `waits`: no attempt is used, and another tenant's text waits with the same reason.

`paid` is the largest number of calls that a provider bills for the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

import numpy as np
import pytest

from features.all import FEATURES
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.errors import ForeaskError, Permanent, Transient
from shared.domain.stages.batches import LineContent
from shared.ingest.batches.lines import Lines
from shared.ingest.generate.generator import content_key, generate_questions
from shared.ingest.generate.types import GenerationOptions
from shared.ledger.documents.dead_letters import DeadLetters
from shared.ledger.documents.documents import Documents
from shared.providers.embedding import Input, embed_each
from shared.providers.limiter.limited_chat import LimitedChat
from shared.providers.limiter.limited_embedder import LimitedEmbedder
from shared.providers.limiter.limiter import INGEST, QUERY, MaxWait
from shared.query.answer.answer import Answer, Passage
from shared.query.answer.generative import GenerativeAnswerer
from shared.services import build
from shared.services.embedders import embedder_of, embedding_limiter_of
from shared.services.llm import chat_of, llm_limiter_of
from tests.conftest import Library
from tests.support.api import calling, work
from tests.support.emptying import use_own_collections
from tests.support.planted import guards
from tests.support.quirks import QuirkServer, marked
from tests.support.quirks.vectors import DIMENSIONS, vector_of
from tests.support.quirks.wire import ANSWER

ALL = True  # the quirk of every request
GOOD_TEXT = "The harbour opens at seven, and ships with herring wait outside until then."
PASSAGES = (Passage(1, "The harbour opens at seven."), Passage(2, "The lamp is lit at dusk."))
SHORT = timedelta(seconds=0.4)  # timeout of a call that never ends
LONG = timedelta(seconds=30)
HANGS_SECONDS = 10
WITHOUT_TIME = {"tei-overloaded"}  # 429 without a time, so that calls continue after a second
NEVER_END = {"hung", "deepseek-drip", "stream-hung"}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Args:
        quirk: name of the quirk.
        outcome: the expected outcome.
        shown: a part of the sentence that a person reads.
        paid: most calls that are billed for the text.
        everywhere: whether all requests have the quirk, or only the requests of one text.
    """

    quirk: str
    outcome: str
    shown: str = ""
    paid: int = 0
    everywhere: bool = False

    @property
    def name(self) -> str:
        return f"{self.quirk}-{'all' if self.everywhere else 'text'}"


def dead(quirk: str, shown: str, *, paid: int = 0) -> Row:
    return Row(quirk, "dead", shown, paid)


def attempt(quirk: str, shown: str, *, paid: int = 0, everywhere: bool = False) -> Row:
    return Row(quirk, "attempt", shown, paid, everywhere)


def waits(quirk: str, shown: str, *, paid: int = 0) -> Row:
    return Row(quirk, "waits", shown, paid, everywhere=True)


def good(quirk: str, paid: int = 1) -> Row:
    return Row(quirk, "good", "", paid, everywhere=True)


def cut(quirk: str) -> Row:
    return Row(quirk, "cut", "", 1, everywhere=True)


CONFIGURATION = [
    waits("openai-401", "Incorrect API key provided"),
    waits("openai-404", "does not exist or you do not have access"),
    waits("openai-quota", "exceeded your current quota"),
    waits("openai-429-date", "Rate limit reached"),
    waits("openai-429-words", "Rate limit reached for gpt-4o"),
    waits("azure-401", "invalid subscription key or wrong API endpoint"),
    waits("azure-404-deployment", "API deployment for this resource does not exist"),
    waits("azure-404-resource", "Resource not found"),
    waits("azure-429", "exceeded token rate limit"),
    waits("mistral-401", "Unauthorized"),
    waits("mistral-model", "Invalid model: mistral-giant"),
    waits("gemini-key", "API key not valid"),
    waits("gemini-429", "Resource has been exhausted"),
    waits("anthropic-401", "invalid x-api-key"),
    waits("anthropic-credit", "credit balance is too low"),
    waits("openrouter-402", "Insufficient credits"),
    waits("openrouter-404", "No endpoints found"),
    waits("groq-429", "Rate limit reached for model"),
    waits("groq-429-reset", "Rate limit reached"),
    waits("deepseek-402", "Insufficient Balance"),
    waits("ollama-404", "not found, try pulling it first"),
    waits("vllm-401", "Unauthorized"),
    waits("vllm-404", "The model `Qwen/Qwen9` does not exist"),
    waits("lmstudio-none", "No models loaded"),
    waits("litellm-budget", "Budget has been exceeded"),
    waits("litellm-401", "Invalid proxy server token"),
    waits("waf-403", "Request blocked"),
    waits("proxy-407", "Proxy Authentication Required"),
    waits("cloud-405", "Method Not Allowed"),
    waits("vllm-context", "maximum context length is 2048 tokens"),
]
FAILURES = [
    attempt("openai-500", "The server had an error", everywhere=ALL),
    attempt("anthropic-529", "Overloaded", everywhere=ALL),
    attempt("deepseek-503", "Service is too busy", everywhere=ALL),
    attempt("llamacpp-loading", "Loading model", everywhere=ALL),
    attempt("nginx-502", "502 Bad Gateway", everywhere=ALL),
    attempt("hung", "did not answer in time", paid=1),
    attempt("deepseek-drip", "did not answer in time", paid=1),
    attempt("closed", "interrupted its reply"),
    attempt("half", "interrupted its reply", paid=1),
]
QUESTIONS = [
    *CONFIGURATION,
    *FAILURES,
    waits("lmstudio-200", "Unexpected endpoint or method"),
    waits("gateway-200-retry-after", "Too many requests"),
    waits("openrouter-200-429", "free-models-per-day"),
    waits("openrouter-200-402", "requires more credits"),
    attempt("openrouter-200-502", "Provider returned error", paid=1),
    attempt("login-200", "Sign in to the company network", paid=1),
    attempt("empty-200", "no JSON", paid=1),
    attempt("choices-empty", "without choices", paid=1),
    attempt("choices-null", "without choices", paid=1),
    attempt("choice-error", "Upstream error from Chutes", paid=1),
    # One text
    dead("openai-404", "does not exist or you do not have access"),
    dead("openai-context", "maximum context length is 8192 tokens"),
    dead("vllm-context", "maximum context length is 2048 tokens"),
    dead("llamacpp-context", "exceeds the available context size"),
    dead("azure-filter", "content management policy"),
    dead("openrouter-flagged", "flagged for violence"),
    dead("groq-json", "Failed to generate JSON"),
    dead("groq-413", "Request too large"),
    dead("nginx-413", "Request Entity Too Large"),
    dead("waf-403", "Request blocked"),
    dead("cloud-405", "Method Not Allowed"),
    dead("gemini-key", "API key not valid"),
    attempt("openai-500", "The server had an error"),
    attempt("nginx-502", "502 Bad Gateway"),
    dead("refusal", "refuses to write", paid=1),
    dead("filtered", "content filter", paid=1),
    dead("content-null", "contains only the model's thinking", paid=2),
    dead("content-number", "stayed malformed", paid=3),
    dead("content-true", "stayed malformed", paid=3),
    dead("length", "cut at the token limit", paid=3),
    dead("length-thought", "thought until it reached the token limit", paid=2),
    dead("message-null", "contains only the model's thinking", paid=2),
    # Requests and replies
    good("deepseek-no-schema"),
    good("lmstudio-no-schema"),
    good("mistral-no-max"),
    good("openai-no-temperature"),
    good("redirect-307", paid=1),
    good("chunked-json"),
    good("gzip"),
    good("no-content-type"),
    good("text-content-type"),
    good("mistral-parts"),
    good("content-object"),
    good("message-text"),
    good("tool-call"),
    good("reasoning-field"),
    good("no-usage"),
    good("odd-usage"),
    good("no-finish"),
    good("code-fence"),
    good("trailing-comma"),
    good("twice-encoded"),
    good("json-lines"),
    good("think"),
    good("think-end-only"),
    good("thinking"),
    good("think-capitals"),
    good("magistral-think"),
    good("seed-think"),
    good("harmony"),
]
ANSWERS = [
    *CONFIGURATION,
    dead("waf-403", "Request blocked"),
    dead("openrouter-flagged", "flagged for violence"),
    dead("azure-filter", "content management policy"),
    dead("filtered", "content filter", paid=1),
    good("mistral-parts"),
    good("message-text"),
    good("reasoning-field"),
    good("think"),
    good("think-end-only"),
    good("thinking"),
    good("think-capitals"),
    good("magistral-think"),
    good("seed-think"),
    good("harmony"),
    cut("length"),
]
STREAMS = [
    waits("openai-401", "Incorrect API key provided"),
    waits("openai-quota", "exceeded your current quota"),
    waits("ollama-404", "not found, try pulling it first"),
    waits("lmstudio-200", "Unexpected endpoint or method"),
    waits("gateway-200-retry-after", "Too many requests"),
    dead("waf-403", "Request blocked"),
    dead("openrouter-flagged", "flagged for violence"),
    attempt("nginx-502", "502 Bad Gateway"),
    attempt("login-200", "Sign in to the company network", paid=1),
    attempt("hung", "did not answer in time", paid=1),
    good("mistral-no-stream-options"),
    good("mistral-no-max"),
    good("stream-json"),
    good("stream-crlf"),
    good("openrouter-comments"),
    good("azure-first-chunk"),
    good("stream-no-delta"),
    good("stream-no-done"),
    good("mistral-parts"),
    good("reasoning-field"),
    good("think"),
    good("think-end-only"),
    good("thinking"),
    good("think-capitals"),
    good("magistral-think"),
    good("seed-think"),
    good("harmony"),
    cut("stream-silent-end"),
    cut("stream-length"),
    cut("stream-filtered"),
    attempt("stream-reset", "interrupted its reply", paid=1),
    attempt("stream-error", "Provider disconnected unexpectedly", paid=1),
    attempt("stream-error-event", "Overloaded", paid=1),
]
VECTORS = [
    *CONFIGURATION,
    *(row for row in FAILURES if row.everywhere),
    dead("hung", "did not answer in time", paid=3),
    dead("deepseek-drip", "did not answer in time", paid=3),
    dead("closed", "interrupted its reply"),
    dead("half", "interrupted its reply", paid=5),
    waits("llamacpp-no-embeddings", "does not support embeddings"),
    waits("lmstudio-embeddings-200", "Unexpected endpoint or method"),
    waits("tei-overloaded", "Model is overloaded"),
    waits("dimensions-fixed", "vectors of 64 dimensions although 32 are requested", paid=2),
    # One text of three
    dead("waf-403", "Request blocked"),
    dead("openai-404", "does not exist"),
    dead("ollama-too-long", "exceeds the context length"),
    dead("tei-too-long", "must have less than 512 tokens"),
    dead("llamacpp-batch", "too large to process"),
    dead("ollama-nan", "unsupported value: NaN"),
    dead("nan-text", "not finite", paid=9),
    dead("fewer-vectors", "vectors", paid=9),
    dead("vector-number", "without vectors", paid=9),
    dead("vector-null", "without vectors", paid=9),
    dead("vector-empty", "without vectors", paid=9),
    # Requests and replies
    good("base64-refused"),
    good("dashscope-10"),
    good("floats"),
    good("nested"),
    good("no-index"),
    good("index-null"),
    good("index-zero"),
    good("index-text"),
    good("index-from-one"),
    good("shuffled"),
    good("scaled"),
    good("one-vector", paid=4),
    good("vectors-bare"),
    good("dimensions-refused"),
    attempt("more-vectors", "vectors for", paid=3, everywhere=ALL),
    attempt("data-null", "without vectors", paid=2, everywhere=ALL),
]


def rows(table: Sequence[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in table])


@pytest.fixture(scope="module")
async def server():
    async with QuirkServer.serving() as server:
        yield server


@pytest.fixture
async def exits():
    async with AsyncExitStack() as exits:
        yield exits


@dataclass
class Models:
    """The clients and limiters of one row: a provider that no other row has called."""

    def __init__(self, row, server, stack, exits, **more):
        server.forget()
        url = server.url(uuid4().hex)
        timeout = SHORT if row.quirk in NEVER_END else LONG
        self.settings = stack.settings.model_copy(
            update={
                "llm_base_url": url,
                "llm_timeout": timeout,
                "embedding_base_url": url,
                "embedding_timeout": timeout,
                **more,
            }
        )
        self._exits = exits

    def chat(self, wait: MaxWait) -> tuple[LimitedChat, LimitedChat]:
        """Return the model of the row's tenant, and of another one."""
        chat = chat_of(self.settings, self._exits)
        limiter = llm_limiter_of(self.settings, chat, self._exits)
        return LimitedChat(chat, limiter, "acme", wait), LimitedChat(chat, limiter, "other", wait)

    def embedder(self) -> tuple[LimitedEmbedder, LimitedEmbedder]:
        embedder = embedder_of(self.settings, self._exits)
        (entry,) = self.settings.served_embeddings().values()
        limiter = embedding_limiter_of(self.settings, entry, embedder, self._exits)
        return LimitedEmbedder(embedder, limiter, "acme"), LimitedEmbedder(embedder, limiter, "other")


async def outcome_of(work: Awaitable[str]) -> tuple[str, str]:
    """Return the outcome of a call, and the sentence of its error."""
    try:
        async with asyncio.timeout(HANGS_SECONDS):
            return await work, ""
    except TimeoutError:
        return "hangs", ""
    except ForeaskError as error:
        return outcome_of_error(error), error.message


def outcome_of_error(error: ForeaskError) -> str:
    if isinstance(error, Permanent):
        return "dead"
    assert isinstance(error, Transient), error
    return "attempt" if error.burns_attempt else "waits"


async def check(row: Row, server: QuirkServer, work: Callable[[int, str], Awaitable[str]], text: str) -> None:
    """Compare the outcomes of a text with the quirk, and of another tenant's text, with the outcomes of a row.

    Args:
        row: the expected outcomes.
        server: the server.
        work: processes a text of the tenant with this index, and returns `good` or `cut`.
        text: a text; the quirk is added.
    """
    if row.everywhere:
        server.everywhere = row.quirk
        outcome, shown = await outcome_of(work(0, text))
    else:
        outcome, shown = await outcome_of(work(0, marked(row.quirk, text)))
    paid = server.count("" if row.everywhere else f"quirk({row.quirk})", billed=True)
    calls = server.count()
    beside, reason = await outcome_of(work(1, GOOD_TEXT))
    waited = server.count() - calls

    seen = f"{outcome} ({shown}), {paid} paid; beside it {beside} ({reason}) after {waited} calls"
    assert (outcome, beside) == (row.outcome, beside_of(row)), seen
    assert row.shown in shown, seen
    assert paid <= row.paid, seen
    if row.outcome == "waits":
        assert row.shown in reason, seen
        assert waited == (1 if row.quirk in WITHOUT_TIME else 0), seen
    elif not (row.everywhere and row.outcome == "attempt"):
        assert waited == (2 if row.quirk == "redirect-307" else 1), seen


def beside_of(row: Row) -> str:
    """Return the outcome of another tenant's text."""
    return row.outcome if row.everywhere else "good"


@rows(QUESTIONS)
async def test_quirk_has_its_outcome_for_questions(row, server, stack, exits):
    models = Models(row, server, stack, exits).chat(INGEST)

    async def questions(tenant: int, text: str) -> str:
        content = ChunkContent.whole(text)
        generated = await generate_questions(models[tenant], content, GenerationOptions(questions_per_chunk=2))
        assert [question for question in generated.questions if "draft" in question] == []
        assert len(generated.questions) == 2
        return "good"

    await check(row, server, questions, "The keeper lights the lamp at dusk, and leaves at dawn.")


async def test_batch_lines_omit_fields_that_live_call_refused(services, server, stack, exits):
    (model, _) = Models(good("mistral-no-max"), server, stack, exits).chat(INGEST)
    server.everywhere = "mistral-no-max"
    content, defaults = ChunkContent.whole(GOOD_TEXT), services.generator.defaults
    lines = Lines(model.name, defaults, model.chat.quirks)
    options = CollectionOptions()
    key = content_key("acme", model.name, content, defaults.generation_of(options))
    line = LineContent(1, key, content, options)
    assert b"max_completion_tokens" in lines.rendered("acme", line)

    await generate_questions(model, content, defaults.generation_of(options))

    rendered = lines.rendered("acme", line)
    assert b"max_completion_tokens" not in rendered
    assert b"max_tokens" in rendered


@guards(
    "shared/providers/limiter/limited_chat.py",
    "if failures > len(_PAUSES_OF_TEXT):",
    "if False:",
    means="a text on which a model always fails is sent eight times, and its neutral call as often",
    case="openai-500",
)
@pytest.mark.parametrize("quirk", ["openai-500", "nginx-502", "half"])
async def test_third_failure_on_text_is_final(quirk, server, stack, exits):
    model, other = Models(attempt(quirk, ""), server, stack, exits).chat(INGEST)
    content = ChunkContent.whole(marked(quirk, "The keeper leaves at dawn."))
    errors = []
    while not errors or isinstance(errors[-1], Transient):
        with pytest.raises(ForeaskError) as caught:
            await generate_questions(model, content, GenerationOptions(questions_per_chunk=2))
        errors.append(caught.value)

    assert server.count(f"quirk({quirk})") == len(errors) == 3
    assert "it fails on this text, and answers others" in errors[-1].message
    assert [error.retry_after for error in errors[:-1]] >= [timedelta(seconds=5), timedelta(seconds=20)]
    assert all(error.burns_attempt for error in errors[:-1])
    assert server.count() <= 6  # with the neutral calls
    good = ChunkContent.whole(GOOD_TEXT)
    assert (await generate_questions(other, good, GenerationOptions(questions_per_chunk=2))).questions


@rows(ANSWERS)
async def test_quirk_has_its_outcome_for_answers(row, server, stack, exits):
    models = Models(row, server, stack, exits).chat(QUERY)

    async def answer(tenant: int, question: str) -> str:
        return outcome_of_answer(await GenerativeAnswerer(models[tenant]).answer(question, PASSAGES))

    await check(row, server, answer, "When does the harbour open?")


@rows(STREAMS)
async def test_quirk_has_its_outcome_for_streams(row, server, stack, exits):
    models = Models(row, server, stack, exits).chat(QUERY)

    async def answer(tenant: int, question: str) -> str:
        events = [event async for event in GenerativeAnswerer(models[tenant]).stream(question, PASSAGES)]
        *pieces, complete = events
        assert isinstance(complete, Answer)
        assert "".join(pieces) == complete.text
        return outcome_of_answer(complete)

    await check(row, server, answer, "When does the harbour open?")


def outcome_of_answer(answer: Answer) -> str:
    if answer.text == ANSWER:
        return "good"
    assert ANSWER.startswith(answer.text.strip()), answer.text
    return "cut" if getattr(answer, "incomplete_reason", None) else "shown as complete"


@rows(VECTORS)
async def test_quirk_has_its_outcome_for_vectors(row, server, stack, exits):
    dimensions = {"dimensions-refused": DIMENSIONS, "dimensions-fixed": DIMENSIONS // 2}.get(row.quirk)
    models = Models(row, server, stack, exits, embedding_dimensions=dimensions).embedder()

    async def vectors(tenant: int, text: str) -> str:
        texts = [Input("The harbour is deep."), Input(text), Input("The lamp is bright.")]
        if text == GOOD_TEXT:
            texts = texts[1:2]
        results = await embed_each(models[tenant], texts)
        failed = [result for result in results if isinstance(result, ForeaskError)]
        for each, result in zip(texts, results, strict=True):
            if not isinstance(result, ForeaskError):
                assert np.allclose(result, unit(vector_of(each)), atol=1e-6)
        if failed:
            assert len(failed) == 1
            raise failed[0]
        return "good"

    await check(
        row, server, vectors, "The keeper is old." + (" He is very old." * 40 if row.quirk == "llamacpp-batch" else "")
    )


def unit(vector: Sequence[float]) -> np.ndarray:
    return np.asarray(vector) / np.linalg.norm(vector)


# Quirks of one text each, the outcome of its document, and a part of the reason.
DOCUMENTS = {
    "waf-403": ("degraded", "Request blocked"),
    "azure-filter": ("degraded", "content management policy"),
    "refusal": ("degraded", "refuses to write"),
    "content-null": ("degraded", "contains only the model's thinking"),
    "choices-empty": ("degraded", "without choices"),
    "openrouter-flagged": ("degraded", "flagged for violence"),
    "ollama-too-long": ("degraded", "exceeds the context length"),
    "tei-too-long": ("degraded", "must have less than 512 tokens"),
    "think-end-only": ("ready", ""),
    "mistral-parts": ("ready", ""),
    "": ("ready", ""),
}
ANIMALS = (
    "herring",
    "walrus",
    "puffin",
    "lobster",
    "narwhal",
    "seagull",
    "mussel",
    "dolphin",
    "octopus",
    "sturgeon",
    "eider",
)


async def test_ten_quirks_at_once_spare_other_documents(services, settings, server):
    server.forget()
    url = server.url("pipeline")
    tuning = settings.tuning.model_copy(update={"max_attempts": 1})
    changes = {"llm_base_url": url, "embedding_base_url": url, "tuning": tuning}
    async with build("all", settings.model_copy(update=changes), FEATURES) as quirky:
        use_own_collections(quirky)  # its vectors have another size
        library = Library(quirky)
        submitted = [
            await library.add(
                marked(name, f"The {animal} lives near the harbour.") if name else f"The {animal} sleeps."
            )
            for name, animal in zip(DOCUMENTS, ANIMALS, strict=True)
        ]
        await work(quirky)
        found = [await quirky.ledger[Documents].get("default", document.id) for document in submitted]
        letters = await quirky.ledger[DeadLetters].page("default")
        async with calling(settings, quirky) as client:
            by_words = [
                (await client.post("/v1/retrieve", json={"question": f"{animal} harbour"})).json()["chunks"]
                for animal in ANIMALS
            ]

    assert dict(zip(DOCUMENTS, (document.state for document in found), strict=True)) == {
        name: state for name, (state, _) in DOCUMENTS.items()
    }
    reasons = {letter.document_id: letter.reason for letter in letters}
    for document, (state, reason) in zip(submitted, DOCUMENTS.values(), strict=True):
        assert reason in reasons.get(document.id, ""), (state, reasons)
    for animal, chunks in zip(ANIMALS, by_words, strict=True):
        assert animal in chunks[0]["text"]
