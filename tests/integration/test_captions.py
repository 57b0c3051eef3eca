"""Pictures in documents: a model describes each once, and its description is a chunk of the document."""

from dataclasses import replace

import pytest

from features.erasure.ledger.erasures import Erasures
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.spending.budgets import BudgetUnit, NewBudget, Period, SetBy
from shared.domain.states import DocumentState
from shared.ledger.budgets.budgets import Budgets
from shared.ledger.documents.dead_letters import Choice, DeadLetters
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.generation import GenerateWork
from shared.services.parse import pictures_of
from tests.conftest import Library
from tests.integration.test_builds import filled
from tests.integration.test_erasure import finished
from tests.support.api import calling, work
from tests.support.illustrated import CHART, LOGO, MAP, docx, pdf
from tests.support.planted import guards

HARBOUR, MARKET = "The harbour opens at six in the morning.", "The market closes at noon on Sundays."
DESCRIBE = "Describe the picture"
CAUGHT = "How large was the herring catch of 1902?"


@pytest.fixture
def described(services, provider):
    """Services that describe pictures, and have not tried whether the model reads them."""
    services.generator.limiter.pictures.forget()
    return replace(services, parser=replace(services.parser, pictures=lambda option: 20 if option is not False else 0))


async def run(services, statement, **parameters):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement), parameters)
        return [tuple(row) for row in result]


async def submitted(services, content, name="report.pdf", *, tenant="default", **options):
    """Submit a file."""
    new = await Library(services, tenant).new("", name, **options)
    upload = await services.uploads.store_bytes(content, max_bytes=10_000_000)
    new = replace(
        new,
        upload=upload.name,
        filename=name,
        media_type=None,
        content_hash=upload.sha256,
        size_bytes=upload.size_bytes,
    )
    return (await services.ledger[Documents].submit(new)).document


async def shown(services, document, tenant="default"):
    return await services.ledger[Documents].get(tenant, document.id)


async def contents_of(services, document):
    """Return the contents of the chunks in the newest version."""
    rows = """SELECT t.content FROM documents d JOIN chunks c ON c.document_id = d.id AND c.version = d.version
              JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
              WHERE d.public_id = :id ORDER BY c.ordinal"""
    return [row[0] for row in await run(services, rows, id=document.id)]


async def retrieved(services, question):
    """Return the chunks that a query finds."""
    async with calling(services.settings, services) as client:
        return (await client.post("/v1/retrieve", json={"question": question})).raise_for_status().json()["chunks"]


def described_calls(provider):
    return provider.stats(containing=DESCRIBE)["calls"]


async def test_description_is_found_and_cited_with_page(described, provider):
    document = await submitted(described, pdf([(HARBOUR, None), (MARKET, CHART)]))
    await work(described)

    assert (await shown(described, document)).state is DocumentState.READY
    found, *_ = await retrieved(described, CAUGHT)
    assert found["text"].startswith("Picture: A bar chart of the herring catch")
    assert found["page"] == 2
    assert described_calls(provider) == 1


async def test_picture_follows_chunk_of_its_location(described):
    first, second, third = ((f"{name} {HARBOUR} " + "The tide turns twice a day. " * 60, None) for name in "ABC")
    document = await submitted(described, docx([first, ("The chart follows.", CHART), second, third]), "report.docx")
    await work(described)

    texts = [content["text"] for content in await contents_of(described, document)]
    (at,) = [index for index, words in enumerate(texts) if words.startswith("Picture: ")]
    assert len(texts) == 4
    assert "The chart follows." in texts[at - 1]


async def test_off_stores_no_picture_and_makes_no_call(services, provider):
    document = await submitted(services, pdf([(HARBOUR, CHART)]))
    await work(services)

    (content,) = await contents_of(services, document)
    assert (content["text"].strip(), "picture" in content) == (HARBOUR, False)
    assert described_calls(provider) == 0


def test_option_of_collection_overrides_setting(settings):
    off, on = (pictures_of(settings.model_copy(update={"captions": captions})) for captions in ("off", "on"))
    assert [off(option) for option in (None, False, True)] == [0, 0, 20]
    assert [on(option) for option in (None, False, True)] == [20, 0, 20]


async def test_collection_turns_descriptions_on(services, provider):
    on = replace(services, parser=replace(services.parser, pictures=pictures_of(services.settings)))
    await services.ledger[Collections].ensure(
        "default",
        "default",
        embedding_model=services.settings.embedding_model,
        options=CollectionOptions(captions=True),
    )
    await submitted(on, pdf([(HARBOUR, CHART)]))
    await work(on)

    assert described_calls(provider) == 1


async def test_captions_leave_keys_of_texts_unchanged(services, described, provider):
    content = docx([(HARBOUR, CHART), (MARKET, MAP)])
    await submitted(services, content, "a.docx")
    await work(services)
    await submitted(described, content, "b.docx")
    await work(described)

    stats = provider.stats()
    assert stats["calls"] == 1 + described_calls(provider) == 3


async def test_edits_builds_and_documents_pay_picture_once(described, provider):
    both = f"{HARBOUR} {MARKET}"  # long enough to have a language, which the description is written in
    await submitted(described, pdf([(both, CHART)]), "a.pdf")
    await work(described)
    await submitted(described, pdf([(both, CHART), (HARBOUR, None)]), "a.pdf")
    await submitted(described, pdf([(f"{MARKET} {HARBOUR}", CHART)]), "b.pdf")
    await work(described)
    await filled(described, chunk_max_chars=500)
    await work(described)

    rows = await run(
        described,
        """SELECT c.state, t.content ->> 'text' LIKE 'Picture: A bar chart%' FROM chunks c
           JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version WHERE t.content ? 'picture'""",
    )
    assert len(rows) >= 4
    assert set(rows) == {("indexed", True)}
    assert described_calls(provider) == 1


async def test_other_tenant_pays_itself(described, provider):
    for tenant in ("default", "alice"):
        await submitted(described, pdf([(HARBOUR, CHART)]), tenant=tenant)
    await work(described)

    stats = provider.stats(containing=DESCRIBE)
    assert (stats["calls"], len(stats["chats"])) == (2, 1)


async def test_logo_and_small_pictures_are_left_out(described, provider):
    await submitted(described, pdf([(f"{HARBOUR} {number}", LOGO) for number in range(4)]), "logo.pdf")
    await submitted(described, pdf([(MARKET, CHART)], size=(400, 199)), "small.pdf")
    await work(described)

    assert described_calls(provider) == 0


async def test_picture_on_three_pages_is_described_once(described, provider):
    document = await submitted(described, pdf([(f"{HARBOUR} {number}", MAP) for number in range(3)]))
    await work(described)

    pictures = [content for content in await contents_of(described, document) if "picture" in content]
    assert [picture["page"] for picture in pictures] == [1]
    assert described_calls(provider) == 1


async def test_only_first_pictures_are_described(described, provider):
    few = replace(described, parser=replace(described.parser, pictures=lambda _: 2))
    await submitted(few, pdf([(f"{HARBOUR} {number}", number) for number in range(1, 6)]))
    await work(few)

    assert described_calls(provider) == 2


async def test_document_with_ready_questions_makes_no_call(described, provider):
    await submitted(described, pdf([(HARBOUR, CHART)]), questions=["When does the harbour open?"])
    await work(described)

    assert provider.stats()["calls"] == 0


async def test_model_without_vision_degrades_with_remedy(described, provider):
    provider.script(reads_pictures=False)
    document = await submitted(described, pdf([(HARBOUR, CHART)]))
    await work(described)

    assert (await shown(described, document)).state is DocumentState.DEGRADED
    (letter,) = await described.ledger[DeadLetters].page("default")
    assert "cannot read pictures" in letter.reason
    assert "FOREASK_CAPTIONS=off" in letter.reason
    assert described_calls(provider) == 1
    (text_, picture) = await contents_of(described, document)
    assert (text_["text"].strip(), picture["text"]) == (HARBOUR, "")


@guards(
    "shared/providers/limiter/pictures.py",
    "if self._refusal is not None and self._now() < self._until:",
    "if False:",
    means="each picture is sent to a model that reads none",
)
async def test_model_without_vision_is_sent_one_picture(described, provider):
    provider.script(reads_pictures=False)
    await submitted(described, pdf([(HARBOUR, CHART), (MARKET, MAP)]), "a.pdf")
    await submitted(described, pdf([(f"{HARBOUR} {number}", number) for number in range(1, 5)]), "b.pdf")
    await work(described)

    letters = await described.ledger[DeadLetters].page("default")
    assert {letter.reason for letter in letters} == {letters[0].reason}
    assert "FOREASK_CAPTIONS=off" in letters[0].reason
    assert described_calls(provider) == 1
    assert provider.stats(containing="Reply with OK")["calls"] <= 2  # without and with a picture


async def test_retried_dead_picture_is_described(described, provider):
    provider.script(reads_pictures=False)
    document = await submitted(described, pdf([(HARBOUR, CHART)]))
    await work(described)
    provider.script(reads_pictures=True)
    described.generator.limiter.pictures.forget()

    (letter,) = await described.ledger[DeadLetters].page("default")
    await described.ledger[DeadLetters].retry("default", Choice(letter_id=letter.id))
    await work(described)

    assert (await shown(described, document)).state is DocumentState.READY
    assert (await contents_of(described, document))[1]["text"].startswith("Picture: ")
    assert described_calls(provider) == 2


async def test_undescribed_picture_is_neither_embedded_nor_found(described, provider):
    document = await submitted(described, pdf([(HARBOUR, CHART)]))
    await work(described, "parse", "index")

    assert provider.stats()["embedded_inputs"] == 1
    assert [chunk["text"].strip() for chunk in await retrieved(described, CAUGHT)] == [HARBOUR]
    assert (await shown(described, document)).progress.total == 2


async def test_description_replaces_picture_in_ledger(described):
    await submitted(described, pdf([(HARBOUR, CHART)]))
    await work(described, "parse")
    before = await run(described, "SELECT picture IS NOT NULL FROM chunk_contents ORDER BY 1")
    await work(described)

    assert before == [(False,), (True,)]
    assert await run(described, "SELECT 1 FROM chunk_contents WHERE picture IS NOT NULL") == []


@pytest.mark.parametrize("scope", ["tenant", "collection", "document"])
async def test_erasure_deletes_pictures_and_descriptions(described, scope):
    document = await submitted(described, pdf([(HARBOUR, CHART)]), "a.pdf", tenant="alice")
    await work(described)
    waiting = await submitted(described, pdf([(HARBOUR, MAP)]), "b.pdf", tenant="alice")
    await work(described, "parse", "index")
    erasures = described.ledger[Erasures]
    if scope == "document":
        for one in (document, waiting):
            await finished(described, await erasures.start_document(one.id))
    else:
        await finished(described, await erasures.start("alice", None if scope == "tenant" else "default"))

    assert await run(described, "SELECT 1 FROM chunk_contents") == []
    assert await run(described, "SELECT text FROM completions WHERE text IS NOT NULL") == []


async def test_budget_reserves_and_books_picture(described):
    new = NewBudget("default", None, None, Period.TOTAL, BudgetUnit.TOKENS, SetBy.TENANT, 100_000)
    await described.ledger[Budgets].set(new)
    await submitted(described, pdf([(HARBOUR, CHART)]))
    await work(described, "parse", "index")
    by_kind = {chunk.picture is not None: chunk for chunk in await described.generator.claim(10, {})}
    await described.ledger[GenerateWork].release([chunk.lease for chunk in by_kind.values()])
    await work(described)

    assert by_kind[True].reserve.usage.prompt_tokens > 4_000 > by_kind[False].reserve.usage.prompt_tokens
    ((spent, held),) = await run(described, "SELECT spent, held FROM budgets")
    assert held == 0
    assert [(spent,)] == await run(described, "SELECT sum(prompt_tokens + completion_tokens) FROM chunks")


async def test_picture_waits_for_room_in_budget(described, provider):
    budget = NewBudget("default", None, None, Period.TOTAL, BudgetUnit.TOKENS, SetBy.TENANT, 6_000)
    await described.ledger[Budgets].set(budget)
    document = await submitted(described, pdf([(HARBOUR, CHART)]))
    await work(described, "parse", "index")
    claimed = [chunk for _ in range(3) for chunk in await described.generator.claim(10, {}) or ()]
    await described.ledger[GenerateWork].release([chunk.lease for chunk in claimed])
    state = (await shown(described, document)).state
    await described.ledger[Budgets].set(replace(budget, most=100_000))
    await work(described, "generate", "index")

    assert (state, [chunk for chunk in claimed if chunk.picture]) == (DocumentState.SEARCHABLE, [])
    assert ((await shown(described, document)).state, described_calls(provider)) == (DocumentState.READY, 1)


async def test_picture_does_not_wait_for_batch(described, provider):
    document = await submitted(described, pdf([(HARBOUR, CHART)]), lane=2)
    await work(described)

    rows = await run(described, "SELECT c.lane, c.state FROM chunks c ORDER BY c.ordinal")
    assert rows == [(2, "generating"), (1, "indexed")]
    assert (await shown(described, document)).progress.total == 2
    assert described_calls(provider) == 1
