"""Two releases on one ledger, broker and Qdrant: processes of both, and clients of both APIs.

The next release is a copy of this tree whose schema, stored values and messages have additions, as an update may have.
The previous release is this tree, or another one by its folder or git reference.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import orjson

from embedded.ports import free_port
from shared.ledger.postgres.revision import REVISION
from shared.settings import Settings
from tests.support.deployment import ROOT, Launch
from tests.support.fleet import Fleet, Job, worker
from tests.support.scenario import Scenario, Section, section, text_of

OLD_CREW = ("parse-1", "generate-1", "index-1", "scheduler-1")
NEW_CREW = ("parse-new", "generate-new", "index-new", "scheduler-new")
APIS = ("api", "api-new")
_CODE = ("api", "cli", "clients", "embedded", "features", "shared", "workers", "tests/__init__.py", "tests/support")
_REVISION = Path("shared/ledger/postgres/revision.py")
_MIGRATIONS = Path("shared/ledger/postgres/migrations/versions")
_MIGRATE_ATTEMPTS = 5

# The additions of the next release to the schema: each is a migration.
MIGRATIONS = (
    *(f'op.add_column("{table}", sa.Column("added", sa.Text()))' for table in ("collections", "documents", "chunks")),
    'op.create_table("additions", sa.Column("name", sa.Text()))',
    # a run of a kind that the old release does not know; no worker of the next release works on it either
    (
        'op.execute("WITH job AS (INSERT INTO jobs (id, tenant, collection, collection_id, kind, state)"\n'
        "               \" VALUES (gen_random_uuid(), 'default', 'default', gen_random_uuid(), 'next', 'running')\"\n"
        '               " RETURNING id, kind, tenant, collection)"\n'
        '               " INSERT INTO job_claims (id, kind, tenant, collection, embeddings)"\n'
        "               \" SELECT *, '{}' FROM job\")"
    ),
    (
        "with op.get_context().autocommit_block():\n"
        '        op.drop_index("ix_chunks_added", if_exists=True, postgresql_concurrently=True)\n'
        '        op.create_index("ix_chunks_added", "chunks_open", ["added"], postgresql_concurrently=True)'
    ),
)
# The additions of the next release to stored values and messages: file, text, and its replacement.
ADDITIONS = (
    # a value of a collection's options
    (
        "shared/ledger/model/collection_options.py",
        "return {name: value for name, value in dataclasses.asdict(options).items() if value is not None}",
        "return {n: v for n, v in dataclasses.asdict(options).items() if v is not None} | {'added': 'next'}",
    ),
    # a value of a chunk's content
    (
        "shared/ledger/model/rows/parsing.py",
        '"content": chunk.content.as_json(),',
        '"content": chunk.content.as_json() | {"added": "next"},',
    ),
    # a value of a chunk's context
    (
        "shared/ledger/model/rows/generation.py",
        '"context": outcome.context and outcome.context.as_json(),',
        '"context": outcome.context and outcome.context.as_json() | {"added": "next"},',
    ),
    # a field of the points in Qdrant
    ("shared/vectors/schema/points.py", '"token": context.token,', '"token": context.token, "added": "next",'),
    # an argument of a wake-up
    (
        "shared/broker/wakeups.py",
        "send_task(broker_name(queue), retry=False)",
        'send_task(broker_name(queue), kwargs={"added": "next"}, retry=False)',
    ),
    # a kind of run
    ("shared/domain/jobs.py", 'SYNC = "sync"', 'SYNC = "sync"\n    NEXT = "next"'),
    ("shared/http/schemas/jobs.py", "ERASURE = jobs.JobKind.ERASURE.value", 'ERASURE = "erasure"\n    NEXT = "next"'),
    # a field of the limiter's state
    (
        "shared/providers/limiter/limiter.lua",
        "local s = load(KEYS[1])",
        "local s = load(KEYS[1])\ns.added = (s.added or 0) + 1",
    ),
)

_MIGRATION = '''"""An addition of the next release."""

import sqlalchemy as sa
from alembic import op

revision = "{revision:04}"
down_revision = "{down_revision:04}"
min_revision = "{min_revision}"


def upgrade() -> None:
    {upgrade}
'''


def next_release(folder: Path) -> Path:
    """Create the next release as a copy of this tree in a folder; the current code may run on its schema."""
    for name in _CODE:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy2(source, target)
    for number, upgrade in enumerate(MIGRATIONS, start=int(REVISION) + 1):
        code = _MIGRATION.format(revision=number, down_revision=number - 1, min_revision=REVISION, upgrade=upgrade)
        (folder / _MIGRATIONS / f"{number:04}_next.py").write_text(code)
    newest = f"{int(REVISION) + len(MIGRATIONS):04}"
    for name, old, new in ((str(_REVISION), f'REVISION = "{REVISION}"', f'REVISION = "{newest}"'), *ADDITIONS):
        code = (folder / name).read_text()
        assert code.count(old) == 1, (name, old)
        (folder / name).write_text(code.replace(old, new))
    return folder


def previous_release(source: str | None, folder: Path) -> Path:
    """Return the folder of the previous release.

    Args:
        source: folder of its code, or a git reference; None: this tree.
        folder: folder for the code of a git reference.
    """
    if source is None:
        return ROOT
    if Path(source).is_dir():
        return Path(source).resolve()
    folder.mkdir()
    archive = subprocess.run(["git", "archive", source], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    return folder


def revision_of(tree: Path) -> str:
    """Return the schema revision of a release's code."""
    found = re.search(r'^REVISION = "(\d+)"', (tree / _REVISION).read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


class TwoReleases(Fleet):
    """A fleet that starts with the old release; `upgrade` migrates its schema and starts processes of the new one.

    Args:
        old: function that starts a process of the old release.
        new: function that starts a process of the new release.
        revision: schema revision of the old code.
    """

    def __init__(self, settings: Settings, data_dir: Path, *, old: Launch, new: Launch, revision: str) -> None:
        super().__init__(settings, data_dir, launch=old, crew=OLD_CREW)
        self.revision = revision
        self._new = new
        self._restarts: Counter[str] = Counter()
        self._restarting: set[str] = set()
        self.clients = {"api": self.client}

    def launcher(self, name: str) -> Launch:
        return self._new if name.endswith("-new") else self.launch

    def upgrade(self) -> None:
        """Migrate the ledger with the new code while the old code runs, and start the processes of the new release."""
        self.migrate()
        port = free_port()
        self._restarting.add("api-new")  # it refuses connections until it has started
        self.clients["api-new"] = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60, headers=dict(self.client.headers)
        )
        with self._watched:
            self.assign("api-new", Job("api", settings={"api_port": port}))
            for name in NEW_CREW:
                self.assign(name, worker(name))
        workers = [name for name in NEW_CREW if not name.startswith("scheduler")]
        self._wait_for_workers(dict.fromkeys(workers, 0))
        self.wait_until(lambda: self._is_ready("api-new"), "the new API did not start", 120)
        self._restarting.discard("api-new")

    def migrate(self) -> None:
        """Bring the ledger to the new schema; safe to repeat."""
        command, log = [sys.executable, "-m", "shared.ledger"], self.data_dir / "logs" / "migrate-new.log"
        for _ in range(_MIGRATE_ATTEMPTS):  # a migration that waits too long for a lock asks to be run again
            if self._new(command, self.environment(), log).wait(timeout=120) == 0:
                return
        raise AssertionError(f"the schema was not migrated\n{self.logs()}")

    def refusal(self, name: str) -> str:
        """Start another process of the old release, which must exit with an error; return its output."""
        job, log = self._jobs[name], self.data_dir / "logs" / f"refused-{name}.log"
        process = self.launch(job.command(), {**self.environment(), "FOREASK_API_PORT": str(free_port())}, log)
        code = process.wait(timeout=120)
        assert code == 1, (name, code)
        return log.read_text()

    def end(self, name: str, number: int) -> None:
        """End a process by a signal, and wait until its successor works."""
        before, process = self.started(name), self.processes[name]
        self._restarts[name] += 1
        self._restarting.add(name)
        process.send_signal(number)
        process.wait(timeout=60)
        self.wait_until(lambda: self._restarted(name, before, process.pid), f"{name} was not restarted", 120)
        self._restarting.discard(name)

    def _restarted(self, name: str, before: int, old: int) -> bool:
        if name in APIS:
            return self.processes[name].pid != old and self._is_ready(name)
        return super()._restarted(name, before, old)

    def _is_ready(self, api: str) -> bool:
        return self.clients[api].get("/health/ready").status_code == 200

    def restarts_of(self, name: str) -> tuple[int, bool]:
        """Return the number of times a process was ended, and whether its successor is still starting."""
        return self._restarts[name], name in self._restarting

    def stop(self) -> None:
        for name, client in self.clients.items():
            if name != "api":
                client.close()
        super().stop()

    def errors(self) -> list[str]:
        """Return the error lines of all processes, and of PostgreSQL about its tables, columns and plans."""
        return [
            f"{path.stem}: {line[:500]}"
            for path in sorted((self.data_dir / "logs").glob("*.log"))
            for line in path.read_text(errors="replace").splitlines()
            if _is_error(line) or (path.stem == "postgres" and _ABOUT_SCHEMA.search(line))
        ]


# A new ledger has no table of revisions when its first migration reads it. Deadlocks are repeated by the product.
_ABOUT_SCHEMA = re.compile(r'ERROR: (?!.*"alembic_version" does not exist).*(column|relation|cached plan|ambiguous)')


def _is_error(line: str) -> bool:
    """Return whether a process logged an error, or wrote another text than log lines, such as a traceback."""
    if line.startswith("Traceback"):
        return True
    with suppress(orjson.JSONDecodeError):
        entry = orjson.loads(line)
        return isinstance(entry, dict) and entry.get("level") in ("error", "critical")
    return False


@dataclass
class Load:
    """Clients that upload, change, delete and query documents, at either API, while processes are restarted.

    A request whose connection fails is sent to the next API, as a load balancer does. A reply with a status of 500 or
    more is a failure, and so is a failed connection to an API that is not being restarted.

    Args:
        documents: the documents to upload.
        chance: source of the random choices.
    """

    scenario: Scenario
    fleet: TwoReleases
    documents: Mapping[str, list[Section]]
    chance: random.Random
    failures: list[str] = field(default_factory=list)
    replies: Counter[tuple[str, str, int]] = field(default_factory=Counter)  # counts by API, request and status
    ids: dict[str, str] = field(default_factory=dict)  # ids of uploaded documents by external id
    changed: int = 0
    deleted: int = 0
    _calls: int = 0

    @contextmanager
    def uploading(self, clients: int = 4) -> Iterator[Callable[[int], None]]:
        """Upload all documents by the end of the block; yield a function that uploads some of them concurrently."""
        remaining = iter(self.documents.items())
        uploads: list[Future[None]] = []

        def upload(count: int) -> None:
            uploads.extend(pool.submit(self._upload, *each) for each in islice(remaining, count))

        with ThreadPoolExecutor(clients) as pool:
            yield upload
            upload(len(self.documents))
            for each in uploads:
                each.result()

    def change(self, count: int, version: int) -> None:
        """Replace the text of some uploaded documents."""
        for name in self._some(count):
            (part,) = self.scenario.documents[name]
            self._upload(name, [section(f"{part.mark.rsplit('_', 1)[0]}_{version}")])
            self.changed += 1

    def delete(self, count: int) -> None:
        """Delete some uploaded documents."""
        for name in self._some(count):
            self._send("DELETE", f"/v1/documents/{self.ids.pop(name)}", accepted=(202, 204, 404))
            del self.scenario.documents[name]
            self.deleted += 1

    def _some(self, count: int) -> list[str]:
        names = sorted(self.ids)
        return self.chance.sample(names, min(count, len(names)))

    def _upload(self, name: str, sections: list[Section]) -> None:
        body = {
            "collection": self.scenario.collection,
            "external_id": name,
            "filename": name,
            "text": text_of(name, sections),
        }
        reply = self._send("POST", "/v1/documents", accepted=(200, 202), json=body)
        self.scenario.documents[name] = sections
        self.ids[name] = reply.json()["id"]
        question = {"collection": self.scenario.collection, "question": f"What is {sections[0].mark}?", "top_k": 3}
        self._send("POST", "/v1/retrieve", accepted=(200,), json=question)

    def _send(self, method: str, path: str, *, accepted: tuple[int, ...], **options: Any) -> httpx.Response:
        """Send a request until an API accepts it."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            self._calls += 1
            apis = tuple(self.fleet.clients)
            api = apis[self._calls % len(apis)]
            before = self.fleet.restarts_of(api)
            try:
                reply = self.fleet.clients[api].request(method, path, **options)
            except httpx.TransportError as error:
                after = self.fleet.restarts_of(api)
                if before == after and not after[1]:
                    self.failures.append(f"{api}: {method} {path}: {error!r}")
                continue
            self.replies[api, f"{method} {path.split('/')[2]}", reply.status_code] += 1
            if reply.status_code in accepted:
                return reply
            self.failures.append(f"{api}: {method} {path}: {reply.status_code} {reply.text[:300]}")
            time.sleep(0.2)
        raise AssertionError(f"{method} {path} was not accepted: {self.failures[-3:]}")

    def counts(self) -> dict[str, int]:
        """Return the number of replies of each API."""
        sums: dict[str, int] = defaultdict(int)
        for (api, _, _), count in self.replies.items():
            sums[api] += count
        return dict(sums)
