"""Bugs that the fault suite must catch: each is planted into a copy of the tree, where its scenario must fail.

`python -m tests.support.mutations [NAME...]` plants the bugs whose scenario or meaning contains a NAME, or all bugs. It
exits with status 1 if the suite misses a bug, and starts nothing if a bug no longer fits the tree.
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
    """A deliberate bug: the first text of each edit stands exactly once in `file`, and becomes the second.

    The texts are short and of one line, so that they outlast a change of what stands around them.
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
BUILDS = "tests/faults/test_builds.py::test_killed_at_each_step_of_a_build"
ONE_BUILD = "tests/integration/test_migrate.py::test_query_uses_one_build_during_switches"
LEFT = "tests/integration/test_interleavings.py::test_document_of_dead_worker_is_finished_later"
HIDDEN = "tests/integration/test_ledger.py::test_points_hidden_before_going_live_are_shown"
PROVIDER = "tests/faults/test_provider_fails.py::"
ERASURE = "tests/faults/test_tenant_erased.py::test_killed_twice_while_a_tenant_is_erased"
LATE = (
    "tests/integration/test_erasure.py::"
    "test_settlement_during_tenant_erasure_leaves_nothing[generate-when it has ended]"
)
HISTORIES = "tests/properties/test_histories.py::test_every_history_ends_with_exactly_live_points"
BUGS = (
    Bug(
        "what was in a worker that died is taken for what killed it",
        WORKERS + "test_a_random_worker_is_killed_every_second",
        "shared/domain/poison.py",
        (("if lost_leases >= SUSPECT_AFTER + DEATHS_ALONE:", "if lost_leases >= 1:"),),
    ),
    Bug(
        "a chunk whose lease ended is never claimed again",
        WORKERS + "test_killed_at_a_point[after the claim]",
        "shared/ledger/work/claims.py",
        (('"{content_is_free}"', '"w.leased_by IS NULL AND {content_is_free}"'),),
    ),
    Bug(
        "a slot is free before its answer is committed",
        WORKERS + "test_killed_at_a_point[after the answer]",
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
        "what was paid for is not kept when it is committed",
        WORKERS + "test_killed_at_a_point[after its commit]",
        "shared/ledger/work/work.py",
        (("await connection.execute(SQL.insert_completions, rows.generated_rows(paid))", "pass"),),
    ),
    Bug(
        "a chunk whose indexer died is never indexed again",
        WORKERS + "test_killed_at_a_point[after the upsert]",
        "shared/ledger/work/claims.py",
        (('"w.embedding_model = m.name"', '"w.embedding_model = m.name AND w.leased_by IS NULL"'),),
    ),
    Bug(
        "nobody repeats the sweep that a killed worker began",
        WORKERS + "test_killed_while_a_version_is_replaced[before the delete]",
        "shared/maintenance/cleanup.py",
        (('            "sweep": self.sweep,', ""),),
    ),
    Bug(
        "nobody finishes the documents that a killed worker left unfinished",
        LEFT,
        "shared/maintenance/cleanup.py",
        (('            "finish": self.finish,', ""),),
    ),
    Bug(
        "a worker that stands still keeps its claims for ever",
        WORKERS + "test_generating_worker_stalled_past_lease_changes_nothing",
        "shared/ledger/work/claims.py",
        (('"{content_is_free}"', '"w.leased_by IS NULL AND {content_is_free}"'),),
    ),
    Bug(
        "a process that stands still keeps its locks",
        WORKERS + "test_worker_stalled_in_transaction_blocks_no_work",
        "shared/ledger/postgres/database.py",
        (
            ("'idle_in_transaction_session_timeout', '15s'", "'idle_in_transaction_session_timeout', '0'"),
            ('return f"{seconds:g}s"', 'return "0"'),
        ),
    ),
    Bug(
        "the points that a late writer adds to an old version stay",
        WORKERS + "test_stalled_indexing_worker_cannot_write_old_version",
        "shared/ledger/work/work.py",
        (
            ("            if late:", "            if late and not stale:"),
            ("[s.id for s in sweeps if not s.again]", "[s.id for s in sweeps]"),
        ),
    ),
    Bug(
        "points are fenced by their version alone",
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
        "a worker that is asked to end drops its calls",
        WORKERS + "test_every_process_is_restarted_in_turn_under_load",
        "shared/ingest/drain.py",
        (("timeout=self._limits.grace.total_seconds()", "timeout=0"),),
    ),
    Bug(
        "the free slots go to whoever came first",
        "tests/faults/test_fairness.py::test_a_tenants_few_chunks_overtake_anothers_many",
        "shared/ledger/work/claims.sql",
        (("ORDER BY turn, c.lane, c.due_at", "ORDER BY c.lane, c.due_at"),),
    ),
    Bug(
        "nobody wakes workers again for what is due",
        BROKER + "test_lost_wakeups_lose_no_work",
        "workers/scheduler.py",
        (("for queue in await services.ledger.work.due():", "for queue in []:"),),
    ),
    Bug(
        "a connection whose other end is gone is kept for a long time",
        BROKER + "test_broker_connections_silent_forever_are_replaced",
        "shared/broker/wakeups.py",
        (('"health_check_interval": seconds', '"health_check_interval": 120'),),
    ),
    Bug(
        "a broker that refuses a wake-up ends all further ones",
        BROKER + "test_full_broker_delays_but_loses_nothing",
        "shared/broker/wakeups.py",
        (("except (RedisError, KombuError, OSError) as error:", "except OSError as error:"),),
    ),
    Bug(
        "an index that is away fails the chunk for good",
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
        "a chunk is claimed for the index while Qdrant is away",
        "tests/integration/test_qdrant_fails.py::test_nothing_is_claimed_while_qdrant_answers_nothing",
        "shared/vectors/lifecycle.py",
        (("if self._unavailable:", "if False:"),),
    ),
    Bug(
        "a disk of Qdrant that is full fails the chunk for good",
        QDRANT + "test_qdrant_rejecting_writes_loses_nothing",
        "shared/vectors/connection.py",
        (("if 400 <= status < 500 and", "if 400 <= status < 600 and"),),
    ),
    Bug(
        "questions get other ids with each claim",
        QDRANT + "test_writes_are_applied_and_their_replies_are_lost",
        "shared/vectors/points.py",
        (
            (
                "question_point_id(chunk, version, ordinal)",
                "question_point_id(chunk, version, ordinal + 100 * (id(context) % 9973))",
            ),
        ),
    ),
    Bug(
        "what is handed in is not written to the builds that follow",
        BUILDS,
        "shared/ledger/documents/submission.py",
        (("for build in others if accepted else ():", "for build in ():"),),
    ),
    Bug(
        "a deletion leaves what other builds have of the document",
        BUILDS,
        "shared/ledger/documents/documents.sql",
        (("d.tenant = :tenant AND {exists:d} AND l.id =", "d.id = :id AND {exists:d} AND l.id ="),),
    ),
    Bug(
        "the points of a dropped build stay",
        BUILDS,
        "shared/maintenance/cleanup.py",
        (("await self.index.delete_build(build.location)", "pass"),),
    ),
    Bug(
        "a switch waits neither for an upload nor for another switch",
        "tests/integration/test_builds.py::test_build_counts_as_seen_until_switch_has_locks",
        "shared/ledger/documents/build_sync.sql",
        (
            ("AND {is_live} FOR UPDATE", "AND {is_live}"),
            ("ORDER BY build FOR UPDATE", "ORDER BY build"),
        ),
    ),
    Bug(
        "a switch leaves an edit in the build before",
        "tests/integration/test_builds.py::test_switch_to_lagging_build_loses_no_edit[True]",
        "shared/ledger/builds/builds.py",
        (("await build_sync.start_newest(connection, ", "(lambda *_: None)(connection, "),),
    ),
    Bug(
        "a query is embedded by another embedding than its build",
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
        "a query is logged in the build that is live when it ends",
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
        "a build that comes to an edit over what is seen stays behind it",
        HISTORIES,
        "shared/ledger/work/work.py",
        (("                await build_sync.catch_up(connection, followers)", "                pass"),),
    ),
    Bug(
        "a new version is left hidden",
        DOCUMENTS + "test_only_the_newest_version_or_nothing_remains",
        "shared/vectors/writes.py",
        (("yield models.SetPayloadOperation(set_payload=shown)", "pass"),),
    ),
    Bug(
        "a connection that PostgreSQL refuses is taken for a bug",
        LEDGER + "test_ledger_restart_and_kill_lose_nothing",
        "shared/ledger/postgres/database.py",
        (
            ("    ConnectionError,", ""),
            ("    OSError,", ""),
        ),
    ),
    Bug(
        "a ledger that is away is a fault of the server, not a reason to come back",
        LEDGER + "test_ledger_outage_delays_but_loses_nothing",
        "api/http/problems.py",
        (('Unavailable: ProblemKind(503, "unavailable"', 'Unavailable: ProblemKind(500, "unavailable"'),),
    ),
    Bug(
        "answers that the ledger cannot take now are thrown away",
        LEDGER + "test_ledger_outage_beyond_lease_loses_nothing",
        "shared/ingest/drain.py",
        (("await asyncio.sleep(_LEDGER_PAUSE_SECONDS)", "return"),),
    ),
    Bug(
        "each process keeps the limit for itself",
        "tests/faults/test_limits.py::test_declared_limit_is_kept_and_used",
        "shared/providers/limiter/script.py",
        (("{{{self._terms.provider}}}", "{{{self._terms.provider}{__import__('os').getpid()}}}"),),
    ),
    Bug(
        "a provider that says that there are too many calls is not listened to",
        "tests/faults/test_limits.py::test_undeclared_limit_is_found_without_losses",
        "shared/providers/limiter/limiter.lua",
        (("local function limited(call)", "local function limited(call) do return end"),),
    ),
    Bug(
        "a reply that was cut short is taken for no questions at all",
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
        "what kills its worker is never set aside",
        "tests/faults/test_poison.py::test_poison_is_set_aside",
        "shared/domain/poison.py",
        (("if lost_leases >= SUSPECT_AFTER + DEATHS_ALONE:", "if lost_leases >= 1_000:"),),
    ),
    Bug(
        "a wake-up expires by the clock of the worker that takes it",
        "tests/faults/test_clock_jumps.py::test_workers_clocks_jump_under_load",
        "shared/broker/wakeups.py",
        (("retry=False)", "retry=False, expires=3600)"),),
    ),
    Bug(
        "a file is taken for gone where the folder of uploads is away",
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
        "tests/integration/test_embeddings.py::test_worker_claims_only_its_embeddings_chunks",
        "shared/ledger/work/claims.py",
        (('"w.embedding_model = m.name"', '"TRUE"'),),
    ),
    Bug(
        "questions stand under the key of the prompt that was read when their document was parsed",
        "tests/faults/test_settings_differ.py::test_a_prompt_changes_while_chunks_wait",
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
        "what was written hidden stays so though its version became live",
        HIDDEN,
        "shared/ledger/work/work.py",
        (("await _show_again(connection, [o.chunk for o in settled if o.chunk.hidden])", "pass"),),
    ),
    Bug(
        "the calls of a version that is given up are forgotten",
        HISTORIES,
        "shared/ledger/documents/versions.sql",
        (("AND leased_by IS NOT NULL AND due_at > now()", "AND false"),),
    ),
    Bug(
        "the points of a version that is given up stay",
        HISTORIES,
        "shared/ledger/documents/versions.py",
        (("if written else {}", "if not written else {}"),),
    ),
    Bug(
        "a question of a chunk is one point in all versions",
        HISTORIES,
        "shared/domain/ids.py",
        (("_point_id(chunk, version, 1 + ordinal)", "_point_id(chunk, 0, 1 + ordinal)"),),
    ),
    Bug(
        "users' questions of a live version wait for an edit that failed",
        HISTORIES,
        "shared/ledger/work/work.py",
        (("            await acceptance.index_waiting(connection, failed)", "            pass"),),
    ),
    Bug(
        "what a tenant has paid for outlives its erasure",
        ERASURE,
        "shared/ledger/erasure/erasures.py",
        (
            ("count = await completions.delete_unused(connection, tenant)", "count = 0"),
            ('    "completions",\n', ""),
        ),
    ),
    Bug(
        "nobody goes on with an erasure when its documents are gone",
        ERASURE,
        "shared/maintenance/cleanup.py",
        (('            "erase": self.erase,', ""),),
    ),
    Bug(
        "the bytes of an erased tenant stay",
        ERASURE,
        "shared/ledger/documents/versions.py",
        (
            ("    if outdated:", "    if not outdated:"),
            ("return sorted({row.stored for row in outdated} - in_use)", "return []"),
        ),
    ),
    Bug(
        "what a worker was answered comes back when its tenant is erased",
        LATE,
        "shared/ledger/erasure/erasures.sql",
        (("nextval('fencing')", "NULL"),),
    ),
)


def misfits(bug: Bug) -> list[str]:
    """Why the bug does not fit the tree as it is: a text that is not there exactly once, a test that has gone."""
    path = ROOT / bug.file
    code = path.read_text() if path.exists() else ""
    counts = {old: code.count(old) for old, _ in bug.edits}
    file, _, test = bug.caught_by.partition("::")
    wrong = [f"{bug.file} holds {old!r} {count} times, not once" for old, count in counts.items() if count != 1]
    if f"def {test.partition('[')[0]}(" not in (ROOT / file).read_text():
        wrong.append(f"{file} has no {test}")
    return [f"{bug.means}: {what}" for what in wrong]


def plant(bug: Bug, tree: Path) -> None:
    path = tree / bug.file
    code = path.read_text()
    for old, new in bug.edits:
        code = code.replace(old, new)
    path.write_text(code)


def caught(bug: Bug, folder: Path) -> str | None:
    """What the scenario says over a copy of the tree with this bug; None where it finds nothing wrong."""
    tree = folder / "tree"
    copy_of(tree)
    plant(bug, tree)
    command = [sys.executable, "-m", "pytest", bug.caught_by, "-p", "no:cacheprovider", f"--basetemp={folder / 'run'}"]
    try:
        done = subprocess.run(command, cwd=tree, check=False, timeout=_TIMEOUT_SECONDS, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return "no end in time"
    if done.returncode == 0:
        return None
    said = [line[2:].strip() for line in done.stdout.splitlines() if line.startswith("E  ")]
    if done.returncode != 1 or "1 failed" not in done.stdout or not said:
        sys.exit(f"{bug.caught_by} could not be run:\n{done.stdout}{done.stderr}")
    return said[0][:120]


def copy_of(tree: Path) -> None:
    """The files that git knows or would take, as they are now."""
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
    if wrong := [what for bug in BUGS for what in misfits(bug)]:
        sys.exit("\n".join(wrong))
    missed = 0
    for bug in chosen(names):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="planted-") as folder:
            said = caught(bug, Path(folder))
        missed += said is None
        scenario = bug.caught_by.partition("::")[2].removeprefix("test_")
        verdict = f"caught: {said}" if said else "MISSED"
        print(f"{scenario}: {bug.means}: {verdict} ({time.monotonic() - began:.0f} s)", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
