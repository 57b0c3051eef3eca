"""Fixtures of all tests: engines and a scripted provider for the session, and services that use them."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
import structlog
from _pytest.unraisableexception import gc_collect_iterations_key
from xdist.scheduler.loadscope import LoadScopeScheduling

from embedded.stack import Stack
from features.all import FEATURES
from shared.confined.reading import Readers
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.documents import Document, NewDocument, ReadyQuestion
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.services import build
from shared.services.all import AllServices
from shared.settings import Settings
from tests.support.deployment import ScriptedProvider
from tests.support.emptying import empty, prepare
from tests.support.engines import named_servers, require_one_process
from tests.support.forkserver import ForkServer
from tests.support.objects import S3, serving_s3
from tests.support.remembered import Remembered
from tests.support.slow import is_slow

# Groups of the fault suite by file, so that no process still runs a long group at the end. Other files are one group.
FAULT_GROUPS = {
    "test_batches": "faults of batches",
    "test_budgets": "faults of batches",
    "test_workers_die": "faults of workers",
    "test_poison": "faults of workers",
    "test_clock_jumps": "faults of workers",
    "test_two_releases": "faults of releases",  # has its own deployment
    "test_chart_pods": "faults of pods",  # likewise
}
FORKING = ("tests/integration/test_api_service.py",)  # files whose fast tests start processes by `forks`
SUITES = ("faults", "acceptance", "page", "properties", "integration", "contract", "unit")  # longest first
QUERY_BUDGETS = {f"{name}_budget": timedelta(minutes=1) for name in ("rewrite", "rerank", "query_log")}
Once = Callable[..., Awaitable[Any]]
pytest_plugins = ["tests.support.isolated_home", "tests.support.costs"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults", choices=("short", "full", "soak"), default="short", help="size of the fault suite")
    parser.addoption("--histories", type=int, help="number of random histories; by default as --faults says")
    parser.addoption("--seed", type=int, default=7, help="seed of the fault suite")
    # Not pytest-randomly, which also resets the seeds of random numbers, and is active unless it is disabled.
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of a file, in random order")
    parser.addoption("--previous-release", help="folder or git reference of the release that is updated to this one")


def pytest_configure(config: pytest.Config) -> None:
    require_one_process(config)
    config.stash[gc_collect_iterations_key] = 1  # five collections, pytest's default, take seconds per process
    gc.disable()
    # The default renderer colours the source of every traceback, which takes a tenth of a second.
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, renderer]
    )


def pytest_collection_finish() -> None:
    """Exclude modules and collected tests from garbage collections, because none of them is ever deleted."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests, and order the suites, longest first, or shuffle them."""
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
    if (seed := config.option.shuffle) is None:
        items.sort(key=lambda item: SUITES.index(_suite(item)))
    else:
        items[:] = _shuffled(items, Random(seed))


def _shuffled(items: Sequence[pytest.Item], random: Random) -> Iterator[pytest.Item]:
    """Yield the tests of one file after the other, both in random order."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    for tests in random.sample(list(files.values()), len(files)):
        yield from random.sample(tests, len(tests))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.option.shuffle is not None:
        terminalreporter.write_line(f"shuffled: --shuffle {config.option.shuffle}")


class Groups(LoadScopeScheduling):  # type: ignore[misc]  # xdist's scheduler is not typed
    """Runs the tests of a group in one process, which shares their fixtures.

    A file is a group. The fault suite has `FAULT_GROUPS`, and one if only its fast tests run: each group starts a
    deployment. `FORKING` belongs to that one, because a fork server takes seconds of processor time to start.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if self.config.option.markexpr and file in FORKING:
            return "faults"
        if file.startswith("tests/faults/"):
            return "faults" if self.config.option.markexpr else FAULT_GROUPS.get(Path(file).stem, "faults")
        return file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Groups:
    return Groups(config, log)


def _suite(item: pytest.Item) -> str:
    return item.nodeid.split("/")[1]


@pytest.fixture(scope="session")
def provider_process() -> Iterator[ScriptedProvider]:
    provider = ScriptedProvider()
    yield provider
    provider.close()


@pytest.fixture
def provider(provider_process: ScriptedProvider) -> Iterator[ScriptedProvider]:
    """Return the scripted provider with counters at zero and no fault."""
    provider_process.restore()
    yield provider_process
    if provider_process.is_scripted:
        provider_process.restore()


@pytest.fixture(scope="session")
async def readers() -> AsyncIterator[Readers]:
    """Processes that read contents of sources: starting one takes 0.2 s."""
    async with aclosing(Readers()) as readers:
        yield readers


@pytest.fixture(scope="session")
def stack(provider_process: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """PostgreSQL, Valkey and Qdrant for the whole session: embedded engines, or the servers that variables name."""
    folder = tmp_path_factory.mktemp("stack")
    with named_servers() as servers, Stack(provider_process.settings(**servers), folder, durable=False) as stack:
        yield stack


@pytest.fixture(scope="session")
def settings(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The session's engines, a folder for uploads, and budgets of queries that a busy machine does not exceed."""
    tuning = stack.settings.tuning.model_copy(update=QUERY_BUDGETS)
    return stack.settings.model_copy(update={"data_dir": tmp_path_factory.mktemp("data"), "tuning": tuning})


@pytest.fixture(scope="session")
async def session_services(settings: Settings) -> AsyncIterator[AllServices]:
    """Services over the session's engines: building them for each test would take longer than most tests do."""
    async with build("all", settings, FEATURES) as services:
        await prepare(services.database)
        yield services


@pytest.fixture
async def services(session_services: AllServices) -> AllServices:
    """Services over a ledger without rows, a broker without keys and a folder without uploads."""
    await empty(session_services)
    return session_services


@pytest.fixture(scope="session")
async def remembered(session_services: AllServices) -> AsyncIterator[Remembered]:
    remembered = Remembered(session_services)
    yield remembered
    await remembered.aclose()


@pytest.fixture
async def once(services: AllServices, remembered: Remembered, provider: ScriptedProvider) -> Once:
    """Return a function that builds a state of the empty engines once per process, and restores it for other tests.

    `await once(build, *arguments)` must precede other changes of the engines. `build(services, *arguments)` is a
    function of a module, and the broker's keys and the provider's counts are reset after it.
    """

    async def state(build: Callable[..., Awaitable[Any]], *arguments: Hashable) -> Any:
        value = await remembered.state(build, *arguments)
        provider.restore()
        return value

    return state


@pytest.fixture(scope="session")
def forks() -> Iterator[ForkServer]:
    """Start processes of the product without their seconds of imports."""
    with ForkServer() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """An S3 server on loopback."""
    with serving_s3() as server:
        yield server


class Library:
    """Submits documents to the ledger as the API does."""

    def __init__(self, services: AllServices, tenant: str = "default") -> None:
        self._services = services
        self.tenant = tenant

    async def collection(self, name: str = "default") -> Collection:
        model = self._services.settings.embedding_model
        assert model is not None
        return await self._services.ledger[Collections].ensure(self.tenant, name, embedding_model=model)

    async def add(self, text: str, external_id: str | None = None, **options: Any) -> Document:
        """Submit a document, with the options of `new`."""
        new = await self.new(text, external_id, **options)
        return (await self._services.ledger[Documents].submit(new)).document

    async def new(
        self,
        text: str,
        external_id: str | None = None,
        *,
        questions: Sequence[str | ReadyQuestion] | None = None,
        lane: int = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> NewDocument:
        """Store a document's bytes without submitting it."""
        upload = await self._services.uploads.store_bytes(text.encode(), max_bytes=10_000_000)
        return NewDocument(
            collection=await self.collection(),
            external_id=external_id or uuid4().hex,
            filename="text.md",
            title=None,
            media_type="text/markdown",
            metadata=metadata or {},
            ready_questions=None if questions is None else tuple(map(_ready, questions)),
            upload=upload.name,
            size_bytes=upload.size_bytes,
            content_hash=upload.sha256,
            lane=lane,
        )


def _ready(question: str | ReadyQuestion) -> ReadyQuestion:
    return ReadyQuestion(question) if isinstance(question, str) else question


@pytest.fixture
def library(services: AllServices) -> Library:
    return Library(services)
