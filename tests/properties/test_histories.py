"""Histories: documents are uploaded, edited, deleted and queried while workers die, resume late and lose engines.

Each history is a sequence of steps that Hypothesis chooses. At its end, when no work is due, Qdrant must contain the
points that the ledger derives from the live versions and no others, and the versions must equal the uploaded documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from pydantic import SecretStr
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from embedded.stack import Stack
from features.feedback.ledger.feedback import Feedback
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.corpus.documents import NewDocument
from shared.domain.corpus.ids import accepted_point_id, chunk_point_id, question_point_id
from shared.domain.corpus.index_location import vector_space
from shared.domain.errors import Conflict, ForeaskError, NotFound, Transient
from shared.ingest.drain import Stage
from shared.ingest.generate.generator import content_key
from shared.ingest.index import writer
from shared.ingest.index.stage import IndexStage
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.dead_letters import Choice, DeadLetters
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.submission import Submission
from shared.ledger.feedback.query_log import QueryLog, QueryLogEntry
from shared.ledger.model.collections import Collections
from shared.ledger.model.counters import Counters
from shared.ledger.model.rows.questions import QUESTIONS
from shared.ledger.work.backlog import Backlogs
from shared.providers.embedding import OpenAIEmbedder
from tests.support.cleaning import clean
from tests.support.counters import DIFFERENCES
from tests.support.deployment import ScriptedProvider
from tests.support.emptying import empty
from tests.support.fleet import Proxy
from tests.support.histories import SharedServices, run_histories, sharing
from tests.support.planted import guards
from tests.support.qdrant import headers_of

NAMES = ("a.md", "b.md")
STAGES = ("parse", "index", "generate", "index")  # stages of a chunk; its text is indexed first
_TEXT, _GENERATE = 1, 2
SECTIONS = tuple(
    f"## {stage_index}\n\n" + " ".join(f"The {stage_index} opens at {hour} on day {hour * 7}." for hour in range(6, 12))
    for stage_index in ("harbour", "library", "museum")
)
UNREADABLE = "%PDF-1.4 broken \x00\x01"
PROMPTS = (None, "ALPHA {title} {headings} {text}", "BETA {title} {headings} {text}")
QUESTION = "When may one go there?"
# All histories share it, because emptying a collection in Qdrant is faster than creating one.
INDEX_NAME = f"histories-{vector_space('scripted-embedding')}"
# Hypothesis repeats the same histories in each run, so a larger number finds a bug once; `make planted` runs 100.
HISTORIES = {"short": 30, "full": 500, "soak": 2_000}


# Expire every lease without suspecting its work.
EXPIRE_LEASES = """
    WITH d AS (UPDATE documents SET due_at = now(), lost_leases = 0 WHERE leased_by IS NOT NULL),
         c AS (UPDATE chunks SET due_at = now(), lost_leases = 0 WHERE leased_by IS NOT NULL)
    UPDATE abandoned_calls SET due_at = now()
"""

# Find contents and questions whose chunks are deleted.
ORPHANS = """
    SELECT chunk_id, version FROM chunk_contents UNION SELECT chunk_id, version FROM chunk_questions
    EXCEPT SELECT id, version FROM chunks
"""

# Make all scheduled work due.
MAKE_ALL_DUE = """
    WITH d AS (UPDATE documents SET due_at = now() WHERE due_at > now()),
         c AS (UPDATE chunks SET due_at = now() WHERE due_at > now()),
         b AS (UPDATE collections SET live_until = live_until - interval '1 hour',
                                      emptied_at = emptied_at - interval '1 hour')
    UPDATE sweeps SET due_at = now() WHERE due_at > now()
"""

# Read the uploads of the newest and the live versions of the documents of live builds.
UPLOADS = """
    SELECT d.external_id, v.upload AS newest, s.upload AS live
    FROM documents d JOIN collections l ON l.id = d.collection_id AND l.build_state = 'live'
    JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    LEFT JOIN document_versions s ON s.document_id = d.id AND s.version = d.live_version
    WHERE d.state <> 'deleting'
"""


@dataclass
class World(SharedServices):
    """The shared environment of all histories: services over links that can be cut."""

    proxy: Proxy
    provider: ScriptedProvider
    qdrant: AsyncQdrantClient  # a direct connection, without the link

    def stages(self) -> dict[str, Stage[Any, Any]]:
        s = self.services
        return {
            "parse": s.parser,
            "generate": s.generator,
            "index": IndexStage(s.indexers.values()),
        }


@dataclass
class Claim:
    """A worker's claim: an item of a stage, and later its outcome."""

    stage: Stage[Any, Any]
    item: Any
    outcome: Any = None


@dataclass
class UploadedDocument:
    """The uploads of one external id: content and metadata by the name of the upload."""

    id: UUID
    newest: str = ""
    uploads: dict[str, tuple[str | None, dict[str, str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class VisiblePoint:
    """The visible part of a point; `text` is the text of its chunk, or its question."""

    version: int
    hidden: bool
    metadata: dict[str, str]
    text: str


@pytest.fixture(scope="module")
def world(
    stack: Stack, provider_process: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[type[RuleBasedStateMachine]]:
    settings = stack.settings
    assert settings.database_url is not None
    assert settings.qdrant_url is not None
    targets = {"ledger": _address(settings.database_url.get_secret_value()), "qdrant": _address(settings.qdrant_url)}
    proxy = Proxy(targets)

    def over_link(url: str, link: str) -> str:
        return url.replace(targets[link], f"127.0.0.1:{proxy.ports[link]}")

    settings = settings.model_copy(
        update={
            "data_dir": tmp_path_factory.mktemp("histories"),
            "database_url": SecretStr(over_link(settings.database_url.get_secret_value(), "ledger")),
            "qdrant_url": over_link(settings.qdrant_url, "qdrant"),
            "chunk_max_chars": 300,
            "calibrate": False,
        }
    )
    with pytest.MonkeyPatch.context() as patch, closing(proxy):
        patch.setattr(writer, "_HOLD", timedelta(0))  # a step also ends if Qdrant is unavailable
        patch.setattr("shared.ledger.builds.builds._SLICE", 1)
        patch.setattr(Collections, "index_name", lambda *_: INDEX_NAME)
        with sharing(settings) as shared:
            qdrant = AsyncQdrantClient(
                url=stack.settings.qdrant_url,
                headers=headers_of(stack.settings),
                check_compatibility=False,
                trust_env=False,
            )
            try:
                yield World(shared.services, shared.run, proxy, provider_process, qdrant)
            finally:
                shared.run(qdrant.delete_collection(INDEX_NAME))
                shared.run(qdrant.close())


def _address(url: str) -> str:
    return url.rsplit("@", maxsplit=1)[-1].removeprefix("http://").split("/")[0]


@guards(
    "shared/ledger/work/finishing.py",
    "                await build_sync.catch_up(connection, followers)",
    "                pass",
    means="a build that reaches an edit through visible points does not catch up",
    histories=100,
)
@guards(
    "shared/ledger/documents/versions.sql",
    "AND leased_by IS NOT NULL AND due_at > now()",
    "AND false",
    means="the calls of an abandoned version are not counted",
    histories=100,
)
@guards(
    "shared/ledger/documents/versions.py",
    "await insert_sweeps(connection, [(row.id, row.version) for row in obsolete], after=after)",
    "pass",
    means="the points of an abandoned version remain",
    histories=100,
)
@guards(
    "shared/domain/corpus/ids.py",
    "_point_id(chunk, version, 1 + ordinal)",
    "_point_id(chunk, 0, 1 + ordinal)",
    means="a question of a chunk has the same point in all versions",
    histories=100,
)
@guards(
    "shared/ledger/work/parsing.py",
    "            await accepted_questions.reindex_waiting(connection, failed)",
    "            pass",
    means="users' questions of a live version wait for a failed edit",
    histories=100,
)
def test_every_history_ends_with_exactly_live_points(world, request):
    class Machine(Histories):
        def __init__(self) -> None:
            super().__init__(world)

    run_histories(Machine, request.config, HISTORIES, steps=15)


class Histories(RuleBasedStateMachine):
    """One history: steps of owners and workers, and faults."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.services = world.services
        self.stages = world.stages()
        self.uploaded: dict[str, UploadedDocument] = {}
        self.claims: list[Claim] = []
        self.accepted: list[tuple[UUID, UUID]] = []  # queries and the chunks that they returned
        self.edits = 0
        self.may_repeat = 0  # calls whose replies a death or a lost lease may have wasted
        self.unavailable: str | None = None  # the engine that is unavailable in the next step
        world.run(self._reset())

    async def _reset(self) -> None:
        await empty(self.services)
        everything = models.FilterSelector(filter=models.Filter())
        with suppress(UnexpectedResponse):  # before the first history has written a point
            await self.world.qdrant.delete(INDEX_NAME, everything, wait=True)
        self.world.provider.restore()
        self.collection = await self._collection(None)

    async def _collection(self, prompt: str | None) -> Any:
        model = self.services.settings.embedding_model
        assert model is not None
        return await self.services.ledger[Collections].ensure(
            "default", "default", embedding_model=model, options=_options(prompt)
        )

    def run(self, step: Any) -> Any:
        """Return the result of a step, or None if an engine was unavailable and the caller has to retry."""
        link, self.unavailable = self.unavailable, None
        try:
            if link:
                self.world.proxy.change(link, "cut")
            return self.world.run(step)
        except Transient:
            return None
        finally:
            if link:
                self.world.proxy.change(link)

    @initialize(documents=st.integers(0, 2), build=st.sampled_from(("none", "started", "filled")))
    def start_with_documents(self, documents: int, build: str) -> None:
        for name in NAMES[:documents]:
            self.upload(name, {0, 1}, "x")
        for stage in STAGES:
            self.run(_do_due_work(self.stages[stage]))
        if build != "none":
            self.start_build(None)
        for _ in range(documents + 1 if build == "filled" else 0):
            self.fill(pauses=False)

    # Steps of owners

    @rule(
        name=st.sampled_from(NAMES),
        sections=st.sets(st.integers(0, 2), min_size=1),
        team=st.sampled_from("xy"),
        edited=st.booleans(),
    )
    def upload(self, name: str, sections: set[int], team: str, edited: bool = True) -> None:
        """Upload sections; only the end of the last one may be new, and the live version may share the others."""
        self.edits += edited
        body = "\n\n".join(SECTIONS[number] for number in sorted(sections))
        self._submit(name, f"{body} Edit {self.edits}.", team)

    @rule(name=st.sampled_from(NAMES), team=st.sampled_from("xy"))
    def upload_unreadable_file(self, name: str, team: str) -> None:
        self._submit(name, None, team)

    def _submit(self, name: str, body: str | None, team: str) -> None:
        submitted = self.run(self._submitted(name, body, team))
        if submitted is not None and submitted[0].accepted:
            submission, upload = submitted
            uploaded = self.uploaded.setdefault(name, UploadedDocument(submission.document.id))
            if uploaded.id != submission.document.id:
                uploaded = self.uploaded[name] = UploadedDocument(submission.document.id)
            uploaded.newest = upload
            uploaded.uploads[upload] = (body, {"team": team})

    async def _submitted(self, name: str, body: str | None, team: str) -> tuple[Submission, str]:
        upload = await self.services.uploads.store_bytes((body or UNREADABLE).encode(), max_bytes=1_000_000)
        new = NewDocument(
            collection=self.collection,
            external_id=name,
            filename="text.md" if body else "text.pdf",
            title=None,
            media_type="text/markdown" if body else None,
            metadata={"team": team},
            ready_questions=None,
            upload=upload.name,
            size_bytes=upload.size_bytes,
            content_hash=upload.sha256 + team.encode(),
            lane=0,
        )
        return await self.services.ledger[Documents].submit(new), upload.name

    @precondition(lambda self: self.uploaded)
    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        if name in self.uploaded:
            try:
                deleted = self.run(self.services.ledger[Documents].delete("default", self.uploaded[name].id))
            except NotFound:
                return
            if deleted is not None:
                del self.uploaded[name]

    @precondition(lambda self: self.uploaded)
    @rule()
    def reindex(self) -> None:
        with suppress(Conflict):  # the previous reindex has not finished
            self.run(self.services.ledger[Documents].reindex(self.collection))

    @precondition(lambda self: self.uploaded)
    @rule()
    def discard_failed_versions(self) -> None:
        self.unavailable = None
        before = {row.external_id: row.live for row in self.run(self.world.sql(UPLOADS))}
        with suppress(NotFound, Conflict):
            self.run(self.services.ledger[DeadLetters].discard("default", Choice()))
        now = {row.external_id: row.newest for row in self.run(self.world.sql(UPLOADS))}
        for name, live in before.items():
            if name not in now:
                assert live is None
                del self.uploaded[name]
            elif now[name] != self.uploaded[name].newest:
                assert now[name] == live
                self.uploaded[name].newest = now[name]

    @rule(prompt=st.sampled_from(PROMPTS))
    def start_build(self, prompt: str | None) -> None:
        with suppress(Conflict):
            self.run(self._start_build(prompt))

    async def _start_build(self, prompt: str | None) -> bool:
        model = self.services.settings.embedding_model
        assert model is not None
        builds = self.services.ledger[Builds]
        await builds.start("default", "default", options=_options(prompt), embedding_model=model)
        return True

    @rule(pauses=st.booleans())
    def fill(self, pauses: bool) -> None:
        """Fill a build by one document, and pause or resume it."""
        self.run(self._fill(pauses=pauses))

    async def _fill(self, *, pauses: bool) -> None:
        builds = self.services.ledger[Builds]
        await builds.fill()
        change = builds.pause if pauses else builds.resume
        for one in await builds.list("default", "default"):
            with suppress(Conflict):
                await change("default", "default", one.number)

    @rule(number=st.integers(1, 4), refreshed=st.booleans())
    def switch(self, number: int, refreshed: bool) -> None:
        """Switch to another build; later uploads may still name the previous one."""
        with suppress(Conflict, NotFound):
            if self.run(self.services.ledger[Builds].switch("default", "default", number)) is not None and refreshed:
                self.collection = self.run(self._live())

    async def _live(self) -> Any:
        return await self.services.ledger[Collections].get("default", "default")

    @rule(number=st.integers(1, 4))
    def drop_build(self, number: int) -> None:
        with suppress(Conflict, NotFound):
            self.run(self.services.ledger[Builds].drop("default", "default", number))

    @rule(prompt=st.sampled_from(PROMPTS))
    def change_prompt(self, prompt: str | None) -> None:
        changed = self.run(self._collection(prompt))
        self.collection = changed or self.collection

    @precondition(lambda self: self.uploaded)
    @rule(number=st.integers(0, 5), edited=st.sampled_from((None, *NAMES)))
    def accept(self, number: int, edited: str | None) -> None:
        if edited:
            self.upload_unreadable_file(edited, "x")
        self.run(self._accept(number))

    async def _accept(self, number: int) -> None:
        chunks = await self.world.sql(
            "SELECT c.id, d.collection_id FROM chunks c"
            " JOIN documents d ON d.id = c.document_id AND d.live_version = c.version"
            " JOIN collections l ON l.id = d.collection_id AND l.build_state IN ('live', 'following')"
            " WHERE d.state <> 'deleting' ORDER BY c.id"
        )
        if not chunks:
            return
        chosen, query = chunks[number % len(chunks)], uuid4()
        chunk, question = chosen.id, f"{QUESTION} {len(self.accepted)}"
        entry = QueryLogEntry(query, "default", chosen.collection_id, question, [str(chunk)])
        await self.services.ledger[QueryLog].append([entry])
        with suppress(ForeaskError):
            await self.services.ledger[Feedback].accept("default", query, chunk, most=10)
            self.accepted.append((query, chunk))

    @precondition(lambda self: self.accepted)
    @rule(number=st.integers(0, 5))
    def retract(self, number: int) -> None:
        query, chunk = self.accepted[number % len(self.accepted)]
        with suppress(NotFound, Conflict):
            self.run(self.services.ledger[Feedback].retract("default", query, chunk))

    # Steps of workers

    @rule(unknown=st.booleans())
    def change_index_model(self, unknown: bool) -> None:
        """Give the index workers an embedding model that no collection uses, or restore their model."""
        indexer = self.services.indexer
        embedder = indexer.embedder
        if unknown:
            embedder = replace(embedder, embedder=OpenAIEmbedder(embedder.embedder._provider, "another-model"))
        self.stages["index"] = IndexStage([replace(indexer, embedder=embedder)])

    @rule(stage_index=st.integers(0, len(STAGES) - 1))
    def claim(self, stage_index: int) -> None:
        """Claim work of a stage, after all unclaimed due work of the earlier stages is finished."""
        for earlier in STAGES[:stage_index]:
            self.run(_do_due_work(self.stages[earlier]))
        stage = self.stages[STAGES[stage_index]]
        for item in self.run(stage.claim(2, {})) or ():
            self.claims.append(Claim(stage, item))

    @rule(stage_index=st.integers(0, len(STAGES) - 1))
    def work_and_die(self, stage_index: int) -> None:
        self.claim(stage_index)
        stage = STAGES[stage_index]
        for claim in [claim for claim in self.claims if claim.stage.name == stage]:
            claim.outcome = claim.outcome or self.run(claim.stage.process(claim.item, _assume_valid_lease))
            self.may_repeat += stage == "generate"
            self.claims.remove(claim)

    @rule(name=st.sampled_from(NAMES), sections=st.sets(st.integers(0, 2), min_size=1))
    def edit_during_generation(self, name: str, sections: set[int]) -> None:
        self.upload(name, sections, "x")
        self.claim(_GENERATE)
        for claim in [claim for claim in self.claims if claim.stage.name == "generate"]:
            claim.outcome = claim.outcome or self.run(claim.stage.process(claim.item, _assume_valid_lease))
        self.upload(name, sections, "y", edited=False)  # the same content in another version
        for stage in ("parse", "index", "generate"):
            self.run(_do_due_work(self.stages[stage]))

    @rule(name=st.sampled_from(NAMES), sections=st.sampled_from(({0, 1}, {0, 2}, {0, 1, 2})))
    def fail_edit_after_death(self, name: str, sections: set[int]) -> None:
        """Write the points of an edit, which usually shares a chunk with the live version, and abandon it."""
        self.change_index_model(unknown=False)
        self.upload(name, sections, "y")
        self.work_and_die(_TEXT)
        self.upload_unreadable_file(name, "x")

    @precondition(lambda self: any(claim.outcome is None for claim in self.claims))
    @rule(number=st.integers(0, 5))
    def work(self, number: int) -> None:
        waiting = [claim for claim in self.claims if claim.outcome is None]
        claim = waiting[number % len(waiting)]
        claim.outcome = self.run(claim.stage.process(claim.item, _assume_valid_lease))

    @precondition(lambda self: any(claim.outcome is not None for claim in self.claims))
    @rule(number=st.integers(0, 5))
    def settle(self, number: int) -> None:
        worked = [claim for claim in self.claims if claim.outcome is not None]
        claim = worked[number % len(worked)]
        if self.run(_settled(claim)):
            self.claims.remove(claim)

    @precondition(lambda self: self.claims)
    @rule(number=st.integers(0, 5))
    def stop_in_order(self, number: int) -> None:
        claim = self.claims[number % len(self.claims)]
        if claim.outcome is None:
            self.run(claim.stage.release(claim.stage.leases_of(claim.item)))
            self.claims.remove(claim)

    @rule()
    def clean(self) -> None:
        self.run(clean(self.services))

    @rule(
        stages=st.sampled_from((("parse",), ("parse", "index", "generate"), ("generate",), ("index",), tuple(STAGES)))
    )
    def do_due_work(self, stages: tuple[str, ...]) -> None:
        for stage in stages:
            self.run(_do_due_work(self.stages[stage]))

    # Faults

    @precondition(lambda self: self.claims)
    @rule(number=st.integers(0, 5))
    def kill(self, number: int) -> None:
        claim = self.claims.pop(number % len(self.claims))
        self.may_repeat += claim.stage.name == "generate" and claim.outcome is not None

    @rule()
    def expire_leases(self) -> None:
        self.may_repeat += sum(claim.stage.name == "generate" for claim in self.claims)
        self.run(self._expire_leases())

    async def _expire_leases(self) -> None:
        await self.world.sql(EXPIRE_LEASES)

    @rule(link=st.sampled_from(("ledger", "qdrant")))
    def interrupt_engine(self, link: str) -> None:
        self.unavailable = link

    # Invariants

    def teardown(self) -> None:
        self.unavailable = None
        self.change_index_model(unknown=False)
        for _ in range(2):  # cut connections fail at their next use
            self.run(self.world.sql("SELECT 1"))
        self.may_repeat += sum(claim.stage.name == "generate" for claim in self.claims)  # their leases expire now
        self.world.run(self._finish_all_work())
        if self.claims:
            self.world.run(self._resume_late())
            self.world.run(self._finish_all_work())
        self.world.run(self._check())

    async def _resume_late(self) -> None:
        """Resume stopped workers, whose leases have expired and whose work others have done."""
        for claim in self.claims:
            await claim.stage.settle([claim.outcome or await claim.stage.process(claim.item, _assume_valid_lease)])

    async def _finish_all_work(self) -> None:
        for _ in range(20):
            await self._expire_leases()
            await self.world.sql(MAKE_ALL_DUE)
            await self._fill(pauses=False)
            while due := await self.services.ledger[Backlogs].due():
                for stage in due:
                    await _do_due_work(self.stages[stage])
            await clean(self.services)
            await self.services.ledger[Counters].fold(timedelta())
            open_rows = await self._open_rows()
            if not any(open_rows.values()):
                return
        raise AssertionError(f"the work does not finish: {open_rows}")

    async def _open_rows(self) -> dict[str, int]:
        (row,) = await self.world.sql("""
            SELECT (SELECT count(*) FROM sweeps) AS sweeps,
                   (SELECT count(*) FROM chunks WHERE state IN ('parsed', 'generating', 'generated')) AS chunks,
                   (SELECT count(*) FROM documents WHERE state NOT IN ('ready', 'degraded', 'failed')) AS documents,
                   (SELECT count(*) FROM accepted_questions WHERE state IN ('waiting', 'removing')) AS questions,
                   (SELECT count(*) FROM collections WHERE build_state NOT IN ('live', 'following')) AS builds""")
        return dict(row)

    async def _check(self) -> None:
        documents = await self.world.sql("SELECT * FROM documents ORDER BY external_id")
        builds = await self.services.ledger[Builds].list("default", "default")
        for one in builds:
            rows = [d for d in documents if d.collection_id == one.id]
            uploaded = sorted((name, uploaded.id) for name, uploaded in self.uploaded.items())
            assert [(d.external_id, d.public_id) for d in rows] == uploaded
            assert (await self.services.ledger[Builds].differences(one)).none
        assert {d.collection_id for d in documents} <= {one.id for one in builds}
        expected: dict[str, VisiblePoint] = {}
        for document in documents:
            expected |= await self._expected(document)
        assert await self._stored() == expected
        assert await self.world.sql(ORPHANS) == []
        assert await self.world.sql(DIFFERENCES) == []
        await self._check_completions()
        assert self.world.provider.stats()["paid_twice"] <= self.may_repeat

    async def _expected(self, document: Any) -> dict[str, VisiblePoint]:
        """Return the points of a document's live version after comparing that version with its upload."""
        uploaded = self.uploaded[document.external_id]
        names = await self.world.sql(
            "SELECT version, upload FROM document_versions WHERE document_id = :id", id=document.id
        )
        uploads = {row.version: row.upload for row in names}
        assert uploads[document.version] == uploaded.newest
        newest, _ = uploaded.uploads[uploaded.newest]
        assert document.state == ("failed" if newest is None else "ready"), document.error
        if newest is not None:
            assert document.live_version == document.version
        if document.live_version is None:
            return {}
        live = document.live_version
        body, metadata = uploaded.uploads[uploads[live]]
        chunks = await self.world.sql(
            f"""SELECT c.id, t.content, {QUESTIONS} AS questions, q.reasons FROM chunks c
               JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
               JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
               WHERE c.document_id = :id AND c.version = :live ORDER BY c.ordinal""",
            id=document.id,
            live=live,
        )
        assert body is not None
        assert "\n\n".join(c.content["text"] for c in chunks).split() == body.split()
        accepted = await self.world.sql(
            "SELECT id, question FROM accepted_questions WHERE document_id = :id AND state = 'indexed'", id=document.id
        )
        texts = {chunk_point_id(c.id, live): c.content["text"] for c in chunks}
        texts |= {accepted_point_id(a.id, live): a.question for a in accepted}
        for chunk in chunks:
            passed = [q for q, reason in zip(chunk.questions, chunk.reasons, strict=True) if reason is None]
            texts |= {question_point_id(chunk.id, live, n): question for n, question in enumerate(passed)}
        return {point: VisiblePoint(live, hidden=False, metadata=metadata, text=text) for point, text in texts.items()}

    async def _stored(self) -> dict[str, VisiblePoint]:
        if not await self.world.qdrant.collection_exists(INDEX_NAME):
            return {}
        points, _ = await self.world.qdrant.scroll(INDEX_NAME, limit=10_000, with_payload=True)
        return {str(point.id): _visible_point(point.payload or {}) for point in points}

    async def _check_completions(self) -> None:
        """Check that the stored questions under a prompt's key were requested with that prompt."""
        contents = [
            ChunkContent.from_json(c.content) for c in await self.world.sql("SELECT content FROM chunk_contents")
        ]
        model = self.services.generator.model.name
        for prompt in PROMPTS:
            options = self.services.generator.defaults.generation_of(_options(prompt))
            keys = [content_key("default", model, content, options) for content in contents]
            rows = await self.world.sql("SELECT questions FROM completions WHERE content_key = ANY(:keys)", keys=keys)
            for row in rows:
                assert ("ALPHA" in row.questions[0], "BETA" in row.questions[0]) == (
                    "ALPHA" in (prompt or ""),
                    "BETA" in (prompt or ""),
                )


def _visible_point(payload: dict[str, Any]) -> VisiblePoint:
    text = payload.get("question", payload.get("text"))
    return VisiblePoint(payload["version"], payload.get("hidden", False), payload["metadata"], text)


def _options(prompt: str | None) -> CollectionOptions:
    return CollectionOptions(prompt=prompt, questions_per_chunk=2)


def _assume_valid_lease() -> None:
    """Report every lease as valid, as a stopped worker would."""


async def _settled(claim: Claim) -> bool:
    await claim.stage.settle([claim.outcome])
    return True


async def _do_due_work(stage: Stage[Any, Any]) -> None:
    """Do all due work of a stage, one item at a time."""
    while True:
        claimed = await stage.claim(50, {})
        if claimed is not None and not claimed:
            claimed = await stage.claim_suspect()
            if claimed is not None and not claimed:
                return
        for item in claimed or ():
            await stage.settle([await stage.process(item, _assume_valid_lease)])
