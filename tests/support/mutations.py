"""Bugs that the tests must catch: each is planted into a copy of the tree, where its test must fail.

`python -m tests.support.mutations [NAME...]` plants the bugs whose test or meaning contains a NAME, or all bugs. It
exits with status 1 if the tests miss a bug, and runs nothing if a bug no longer fits the tree.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.deployment import ROOT

_TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Bug:
    """A deliberate bug: the first text of each edit occurs exactly once in `file` and is replaced by the second.

    The texts are short and on one line, so that a change of the surrounding code does not affect them.
    """

    means: str
    caught_by: str
    file: str
    edits: tuple[tuple[str, str], ...]


WORKERS = "tests/faults/test_workers_die.py::"
BROKER = "tests/faults/test_broker_fails.py::"
QDRANT = "tests/faults/test_qdrant_fails.py::"
LEDGER = "tests/faults/test_ledger_fails.py::"
DOCUMENTS = "tests/faults/test_documents_change.py::"
BUILDS = "tests/faults/test_builds.py::test_kills_at_each_build_step_lose_nothing"
ONE_BUILD = "tests/integration/test_migrate.py::test_query_uses_one_build_during_switches"
UNFINISHED = "tests/integration/test_interleavings.py::test_document_of_dead_worker_is_finished_later"
HIDDEN = "tests/integration/test_ledger.py::test_points_hidden_before_going_live_are_shown"
PROVIDER = "tests/faults/test_provider_fails.py::"
ERASURE = "tests/faults/test_tenant_erased.py::test_kills_during_tenant_erasure_leave_no_data"
LATE = "tests/integration/test_erasure.py::test_settlement_during_tenant_erasure_leaves_nothing[generate-after the end]"
HISTORIES = "tests/properties/test_histories.py::test_every_history_ends_with_exactly_live_points"
BUGS = (
    Bug(
        "the work of a dead worker is treated as the cause of its death",
        WORKERS + "test_random_worker_kills_lose_nothing",
        "shared/domain/poison.py",
        (("if lost_leases >= SUSPECT_AFTER + DEATHS_ALONE:", "if lost_leases >= 1:"),),
    ),
    Bug(
        "a chunk with an expired lease is never claimed again",
        WORKERS + "test_worker_killed_at_point_loses_nothing[after the claim]",
        "shared/ledger/work/claims.py",
        (('"{content_is_free}"', '"w.leased_by IS NULL AND {content_is_free}"'),),
    ),
    Bug(
        "a slot is free before its answer is committed",
        WORKERS + "test_worker_killed_at_point_loses_nothing[after the answer]",
        "shared/ingest/drain.py",
        (
            (
                "await self._commit(group)",
                "[self._release(i) for i, _ in group]; await asyncio.sleep(1); await self._commit(group)",
            ),
            ("                self._release(item)", "                pass"),
        ),
    ),
    Bug(
        "a paid reply is not stored at the commit",
        WORKERS + "test_worker_killed_at_point_loses_nothing[after its commit]",
        "shared/ledger/work/work.py",
        (("await connection.execute(SQL.insert_completions, rows.generated_rows(paid))", "pass"),),
    ),
    Bug(
        "a chunk whose indexer died is never indexed again",
        WORKERS + "test_worker_killed_at_point_loses_nothing[after the upsert]",
        "shared/ledger/work/claims.py",
        (('"w.embedding_model = m.name"', '"w.embedding_model = m.name AND w.leased_by IS NULL"'),),
    ),
    Bug(
        "the sweep of a killed worker is not repeated",
        WORKERS + "test_kill_during_version_replacement_loses_nothing[before the delete]",
        "shared/maintenance/cleanup.py",
        (('            "sweep": self.sweep,', ""),),
    ),
    Bug(
        "the unfinished documents of a killed worker are not finished",
        UNFINISHED,
        "shared/maintenance/cleanup.py",
        (('            "finish": self.finish,', ""),),
    ),
    Bug(
        "a stopped worker keeps its claims for ever",
        WORKERS + "test_generating_worker_stalled_past_lease_changes_nothing",
        "shared/ledger/work/claims.py",
        (('"{content_is_free}"', '"w.leased_by IS NULL AND {content_is_free}"'),),
    ),
    Bug(
        "a stopped process keeps its locks",
        WORKERS + "test_worker_stalled_in_transaction_blocks_no_work",
        "shared/ledger/postgres/database.py",
        (
            ("'idle_in_transaction_session_timeout', '15s'", "'idle_in_transaction_session_timeout', '0'"),
            ('return f"{seconds:g}s"', 'return "0"'),
        ),
    ),
    Bug(
        "the points that a late writer adds to an old version remain",
        WORKERS + "test_stalled_indexing_worker_cannot_write_old_version",
        "shared/ledger/work/work.py",
        (
            ("            if late:", "            if late and not stale:"),
            ("[s.id for s in sweeps if not s.again]", "[s.id for s in sweeps]"),
        ),
    ),
    Bug(
        "points are fenced only by their version",
        WORKERS + "test_stalled_indexing_worker_cannot_damage_live_version",
        "shared/vectors/filters.py",
        (("models.Range(lte=token)", "models.Range(lte=token + 1_000_000)"),),
    ),
    Bug(
        "a parse is recorded without its fencing token",
        WORKERS + "test_stalled_parsing_worker_cannot_write_old_chunks",
        "shared/ledger/work/settlements.sql",
        (("WHERE d.id = v.id AND d.lease_token = v.token AND", "WHERE d.id = v.id AND"),),
    ),
    Bug(
        "a stopping worker drops its calls",
        WORKERS + "test_rolling_restart_under_load_loses_nothing",
        "shared/ingest/drain.py",
        (("timeout=self._limits.grace.total_seconds()", "timeout=0"),),
    ),
    Bug(
        "free slots are assigned in the order of arrival",
        "tests/faults/test_fairness.py::test_small_upload_overtakes_flood_of_other_tenant",
        "shared/ledger/work/claims.sql",
        (("ORDER BY turn, c.lane, c.due_at", "ORDER BY c.lane, c.due_at"),),
    ),
    Bug(
        "workers are not woken again for due work",
        BROKER + "test_lost_wakeups_lose_no_work",
        "workers/scheduler.py",
        (("for queue in await services.ledger.work.due():", "for queue in []:"),),
    ),
    Bug(
        "a dead connection is kept for a long time",
        BROKER + "test_broker_connections_silent_forever_are_replaced",
        "shared/broker/wakeups.py",
        (('"health_check_interval": seconds', '"health_check_interval": 120'),),
    ),
    Bug(
        "a rejected wake-up stops all further ones",
        BROKER + "test_full_broker_delays_but_loses_nothing",
        "shared/broker/wakeups.py",
        (("except (RedisError, KombuError, OSError) as error:", "except OSError as error:"),),
    ),
    Bug(
        "an unavailable Qdrant makes the chunk a dead letter",
        QDRANT + "test_qdrant_outage_delays_but_loses_nothing",
        "shared/vectors/connection.py",
        (
            (
                'raise Unavailable("Qdrant cannot be reached", component="qdrant", retry_after=RETRY_AFTER)',
                'raise Permanent("Qdrant cannot be reached")',
            ),
        ),
    ),
    Bug(
        "a chunk is claimed for the index while Qdrant is unavailable",
        "tests/integration/test_qdrant_fails.py::test_claims_stop_during_qdrant_outage",
        "shared/vectors/lifecycle.py",
        (("if self._unavailable:", "if False:"),),
    ),
    Bug(
        "a full disk of Qdrant makes the chunk a dead letter",
        QDRANT + "test_qdrant_rejecting_writes_loses_nothing",
        "shared/vectors/connection.py",
        (("if 400 <= status < 500 and", "if 400 <= status < 600 and"),),
    ),
    Bug(
        "questions get different ids at each claim",
        QDRANT + "test_lost_write_replies_duplicate_no_points",
        "shared/vectors/points.py",
        (
            (
                "question_point_id(chunk, version, ordinal)",
                "question_point_id(chunk, version, ordinal + 100 * (id(context) % 9973))",
            ),
        ),
    ),
    Bug(
        "an upload is not written to the following builds",
        BUILDS,
        "shared/ledger/documents/submission.py",
        (("for build in others if accepted else ():", "for build in ():"),),
    ),
    Bug(
        "a deletion does not delete the document in other builds",
        BUILDS,
        "shared/ledger/documents/documents.sql",
        (("d.tenant = :tenant AND {exists:d} AND l.id =", "d.id = :id AND {exists:d} AND l.id ="),),
    ),
    Bug(
        "the points of a dropped build remain",
        BUILDS,
        "shared/maintenance/cleanup.py",
        (("await self.index.delete_build(build.location)", "pass"),),
    ),
    Bug(
        "a switch waits for neither an upload nor another switch",
        "tests/integration/test_builds.py::test_old_build_live_time_ends_after_switch_locks",
        "shared/ledger/documents/build_sync.sql",
        (
            ("AND {is_live} FOR UPDATE", "AND {is_live}"),
            ("ORDER BY build FOR UPDATE", "ORDER BY build"),
        ),
    ),
    Bug(
        "a switch loses an edit of the previous build",
        "tests/integration/test_builds.py::test_switch_to_lagging_build_loses_no_edit[True]",
        "shared/ledger/builds/builds.py",
        (("await build_sync.start_newest(connection, ", "(lambda *_: None)(connection, "),),
    ),
    Bug(
        "a query uses a different embedding than its build",
        ONE_BUILD,
        "shared/query/retrieve/retriever.py",
        (
            (
                "embedder = self._embedders.of(search.collection.embedding_model)",
                "embedder = self._embedders.of(self._embedders.names[0])",
            ),
        ),
    ),
    Bug(
        "a query is logged in the build that is live at its end",
        ONE_BUILD,
        "api/routes/queries.py",
        (
            (
                "query_log.record(retrieval.collection, ",
                "query_log.record(await collection_cache.find(caller.tenant, body.collection), ",
            ),
        ),
    ),
    Bug(
        "a build that reaches an edit through visible points does not catch up",
        HISTORIES,
        "shared/ledger/work/work.py",
        (("                await build_sync.catch_up(connection, followers)", "                pass"),),
    ),
    Bug(
        "a new version stays hidden",
        DOCUMENTS + "test_changes_during_ingest_leave_only_newest_version",
        "shared/vectors/writes.py",
        (("yield models.SetPayloadOperation(set_payload=shown)", "pass"),),
    ),
    Bug(
        "a connection refused by PostgreSQL is treated as a bug",
        LEDGER + "test_ledger_restart_and_kill_lose_nothing",
        "shared/ledger/postgres/database.py",
        (
            ("    ConnectionError,", ""),
            ("    OSError,", ""),
        ),
    ),
    Bug(
        "an unavailable ledger returns 500 instead of 503",
        LEDGER + "test_ledger_outage_delays_but_loses_nothing",
        "api/http/problems.py",
        (('Unavailable: ProblemKind(503, "unavailable"', 'Unavailable: ProblemKind(500, "unavailable"'),),
    ),
    Bug(
        "replies are discarded while the ledger is unavailable",
        LEDGER + "test_ledger_outage_beyond_lease_loses_nothing",
        "shared/ingest/drain.py",
        (("await asyncio.sleep(_LEDGER_PAUSE_SECONDS)", "return"),),
    ),
    Bug(
        "each process applies the limit separately",
        "tests/faults/test_limits.py::test_declared_limit_is_respected_and_used",
        "shared/providers/limiter/script.py",
        (("{{{self._terms.provider}}}", "{{{self._terms.provider}{__import__('os').getpid()}}}"),),
    ),
    Bug(
        "a provider's rate-limit reply is ignored",
        "tests/faults/test_limits.py::test_undeclared_limit_is_detected_without_losses",
        "shared/providers/limiter/limiter.lua",
        (("local function limited(call)", "local function limited(call) do return end"),),
    ),
    Bug(
        "a truncated reply is treated as a reply without questions",
        "tests/faults/test_provider_fails.py::test_useless_provider_replies_lose_nothing",
        "shared/ingest/generate/question_list.py",
        (
            (
                "except MalformedReply as fault:",
                (
                    "except TruncatedReply:\n"
                    "            return GeneratedQuestions((), usage, calls)\n"
                    "        except MalformedReply as fault:"
                ),
            ),
        ),
    ),
    Bug(
        "work that kills its worker is never set aside",
        "tests/faults/test_poison.py::test_poison_is_set_aside_and_others_finish",
        "shared/domain/poison.py",
        (("if lost_leases >= SUSPECT_AFTER + DEATHS_ALONE:", "if lost_leases >= 1_000:"),),
    ),
    Bug(
        "a wake-up expires by the clock of the worker that receives it",
        "tests/faults/test_clock_jumps.py::test_jumping_worker_clocks_change_nothing",
        "shared/broker/wakeups.py",
        (("retry=False)", "retry=False, expires=3600)"),),
    ),
    Bug(
        "a file is treated as deleted while the folder of uploads is unavailable",
        "tests/faults/test_uploads_fail.py::test_upload_store_outage_loses_nothing",
        "shared/storage/folder.py",
        (
            (
                "        except FileNotFoundError as error:",
                "        except FileNotFoundError as error:\n            raise Unreadable('gone') from error",
            ),
        ),
    ),
    Bug(
        "a worker claims chunks of another embedding model",
        "tests/integration/test_embeddings.py::test_worker_claims_only_chunks_of_its_embeddings",
        "shared/ledger/work/claims.py",
        (('"w.embedding_model = m.name"', '"TRUE"'),),
    ),
    Bug(
        "questions are stored under the key of the prompt that applied when their document was parsed",
        "tests/faults/test_settings_differ.py::test_prompt_change_applies_to_waiting_chunks",
        "shared/ingest/generate/stage.py",
        (("key_of=partial(_key_of, generator)", "key_of=None"),),
    ),
    Bug(
        "a version waits for its questions",
        PROVIDER + "test_dead_language_model_keeps_texts_searchable",
        "shared/ledger/work/settlements.sql",
        (("{TO_INDEX_TEXT:c}", "{OPEN_CHUNKS:c}"),),
    ),
    Bug(
        "an edit is searchable before Qdrant shows it",
        "tests/integration/test_interleavings.py::test_edit_is_searchable_once_qdrant_shows_it",
        "shared/ledger/work/settlements.sql",
        (("d.live_version = d.version AND {no_first_sweep}", "d.live_version = d.version"),),
    ),
    Bug(
        "points written hidden stay hidden after their version became live",
        HIDDEN,
        "shared/ledger/work/work.py",
        (("await _show_again(connection, [o.chunk for o in settled if o.chunk.hidden])", "pass"),),
    ),
    Bug(
        "the calls of an abandoned version are not counted",
        HISTORIES,
        "shared/ledger/documents/versions.sql",
        (("AND leased_by IS NOT NULL AND due_at > now()", "AND false"),),
    ),
    Bug(
        "the points of an abandoned version remain",
        HISTORIES,
        "shared/ledger/documents/versions.py",
        (("if written else {}", "if not written else {}"),),
    ),
    Bug(
        "a question of a chunk has the same point in all versions",
        HISTORIES,
        "shared/domain/ids.py",
        (("_point_id(chunk, version, 1 + ordinal)", "_point_id(chunk, 0, 1 + ordinal)"),),
    ),
    Bug(
        "users' questions of a live version wait for a failed edit",
        HISTORIES,
        "shared/ledger/work/work.py",
        (("            await acceptance.index_waiting(connection, failed)", "            pass"),),
    ),
    Bug(
        "a tenant's paid replies outlive its erasure",
        ERASURE,
        "shared/ledger/erasure/erasures.py",
        (
            ("count = await completions.delete_unused(connection, tenant)", "count = 0"),
            ('    "completions",\n', ""),
        ),
    ),
    Bug(
        "an erasure does not continue after its documents are deleted",
        ERASURE,
        "shared/maintenance/cleanup.py",
        (('            "erase": self.erase,', ""),),
    ),
    Bug(
        "the uploads of an erased tenant remain",
        ERASURE,
        "shared/ledger/documents/versions.py",
        (
            ("    if outdated:", "    if not outdated:"),
            ("return sorted({row.stored for row in outdated} - in_use)", "return []"),
        ),
    ),
    Bug(
        "a late reply restores data of an erased tenant",
        LATE,
        "shared/ledger/erasure/erasures.sql",
        (("nextval('fencing')", "NULL"),),
    ),
)


def misfits(bug: Bug) -> list[str]:
    """Return why the bug does not fit the tree: a text that does not occur exactly once, or a missing test."""
    path = ROOT / bug.file
    code = path.read_text() if path.exists() else ""
    counts = {old: code.count(old) for old, _ in bug.edits}
    file, _, test = bug.caught_by.partition("::")
    wrong = [
        f"{bug.file} contains {old!r} {count} times instead of once" for old, count in counts.items() if count != 1
    ]
    if f"def {test.partition('[')[0]}(" not in (ROOT / file).read_text():
        wrong.append(f"{file} does not contain {test}")
    return [f"{bug.means}: {reason}" for reason in wrong]


def plant(bug: Bug, tree: Path) -> None:
    path = tree / bug.file
    code = path.read_text()
    for old, new in bug.edits:
        code = code.replace(old, new)
    path.write_text(code)


def caught(bug: Bug, folder: Path) -> str | None:
    """Return the test's failure in a copy of the tree with this bug, or None if the test passes."""
    tree = folder / "tree"
    copy_of(tree)
    plant(bug, tree)
    command = [sys.executable, "-m", "pytest", bug.caught_by, "-p", "no:cacheprovider", f"--basetemp={folder / 'run'}"]
    try:
        done = subprocess.run(command, cwd=tree, check=False, timeout=_TIMEOUT_SECONDS, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode == 0:
        return None
    failures = [line[2:].strip() for line in done.stdout.splitlines() if line.startswith("E  ")]
    if done.returncode != 1 or "1 failed" not in done.stdout or not failures:
        sys.exit(f"{bug.caught_by} could not be run:\n{done.stdout}{done.stderr}")
    return failures[0][:120]


def copy_of(tree: Path) -> None:
    """Copy the working tree: all files that git tracks, and new files that it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (source := ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, tree / name)


def chosen(names: list[str]) -> list[Bug]:
    return [bug for bug in BUGS if not names or any(name in bug.caught_by + bug.means for name in names)]


def main(names: list[str]) -> int:
    if wrong := [reason for bug in BUGS for reason in misfits(bug)]:
        sys.exit("\n".join(wrong))
    missed = 0
    for bug in chosen(names):
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="planted-") as folder:
            failure = caught(bug, Path(folder))
        missed += failure is None
        scenario = bug.caught_by.partition("::")[2].removeprefix("test_")
        result = f"caught: {failure}" if failure else "MISSED"
        print(f"{scenario}: {bug.means}: {result} ({time.monotonic() - started:.0f} s)", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
