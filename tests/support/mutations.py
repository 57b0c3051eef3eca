"""Bugs that the tests must catch: each is planted into a copy of the tree, where its test must fail.

`python -m tests.support.mutations [--jobs N] [NAME...]` plants the bugs whose test or meaning contains a NAME, or all
bugs, N at a time. The tests run first in a copy without a bug: a test that fails there proves nothing, so its bugs are
not planted. The command exits with status 1 if a bug was missed or its test could not be run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree as ET

from embedded.guarded import guarded
from tests.support.deployment import ROOT

_MIN_SECONDS = 300.0  # time limit of a test, if it takes less without the bug
_TIMES_SLOWER = 5  # a test with a bug may take this multiple of its time without the bug
_STOP_SECONDS = 30.0  # time in which an interrupted test stops its engines
_RAN = (0, 1)  # exit codes of pytest: all tests passed, or some failed
# Errors of a planted text that is not valid code: they would fail any test.
_INVALID = ("SyntaxError", "IndentationError", "NameError", "ImportError", "ModuleNotFoundError")
_CLIENTS = ("clients/python", "clients/mcp", "clients/evaluation")


@dataclass(frozen=True)
class Bug:
    """A deliberate bug: the first text of each edit occurs exactly once in `file` and is replaced by the second.

    The texts are short and on one line, so that a change of the surrounding code does not affect them.

    Args:
        means: the bug in words.
        caught_by: the test that must fail.
        file: the file with the bug.
        edits: the replaced texts and their replacements.
    """

    means: str
    caught_by: str
    file: str
    edits: tuple[tuple[str, str], ...]


class Result(StrEnum):
    CAUGHT = "caught"
    MISSED = "MISSED"
    NOT_RUN = "NOT RUN"


@dataclass(frozen=True)
class Run:
    """A run of tests.

    Args:
        seconds: duration of the run.
        failures: first line of the failure, by the name of each failed test.
        times: durations of the tests that passed, by name.
        trouble: reason why the tests did not run, such as an error of a fixture.
        timed_out: whether the run was interrupted.
    """

    seconds: float
    failures: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    trouble: str = ""
    timed_out: bool = False


WORKERS = "tests/faults/test_workers_die.py::"
BROKER = "tests/faults/test_broker_fails.py::"
QDRANT = "tests/faults/test_qdrant_fails.py::"
ENGINE = "tests/contract/test_qdrant_server.py::"
LEDGER = "tests/faults/test_ledger_fails.py::"
DOCUMENTS = "tests/faults/test_documents_change.py::"
BUILDS = "tests/faults/test_builds.py::test_kills_at_each_build_step_lose_nothing"
ONE_BUILD = "tests/integration/test_migrate.py::test_query_uses_one_build_during_switches"
UNFINISHED = "tests/integration/test_interleavings.py::test_document_of_dead_worker_is_finished_later"
HIDDEN = "tests/integration/test_ledger.py::test_points_hidden_before_going_live_are_shown"
PROVIDER = "tests/faults/test_provider_fails.py::"
ERASURE = "tests/faults/test_tenant_erased.py::test_tenant_erasure_with_kills_deletes_all_data"
LATE = "tests/integration/test_erasure.py::test_settlement_during_tenant_erasure_stores_nothing[generate-after the end]"
STALLED = "tests/faults/test_tenant_erased.py::test_stalled_indexing_worker_leaves_no_points_after_erasure"
SHARED = "tests/integration/test_shared_answers.py::"
BUDGETS = "tests/integration/test_budgets.py::"
LATE_WRITERS = "tests/integration/test_erasure.py::"
OF_KEYS = "tests/integration/test_feedback_of_keys.py::"
BATCHES = "tests/faults/test_batches.py::test_kills_during_batch_pay_nothing_twice"
LANE = "tests/integration/test_batch_lane.py::"
REJECTED = "tests/integration/test_rejected_batches.py::"
SHOWN = "tests/integration/test_shown_batches.py::"
READ = "tests/integration/test_read_stage.py::"
PAGES = "tests/integration/test_scanned_pages.py::"
HISTORIES = "tests/properties/test_histories.py::test_every_history_ends_with_exactly_live_points"
SYNC_KILLS = "tests/faults/test_syncs.py::"
SYNCS = "tests/integration/test_syncs.py::"
SYNC_HISTORIES = "tests/properties/test_sync_histories.py::test_every_history_deletes_only_missing_documents"
CONTRACT = "tests/contract/test_sources_of_git_and_postgresql.py::"
GIT = "tests/integration/test_git_sources.py::"
GIT_ADDRESSES = "tests/unit/test_git_addresses.py::"
GIT_ORDER = "tests/properties/test_git_order.py::"
GIT_PACKS = "tests/unit/test_git_packs.py::"
POSTGRESQL = "tests/integration/test_postgresql_sources.py::"
WEB = "tests/integration/test_web_sources.py::"
WEB_READING = "tests/unit/test_web_reading.py::"
QUOTES = "tests/unit/test_answering.py::"
CHART = "tests/acceptance/test_chart.py::"
AUDIT = "tests/integration/test_audit_log.py::"
GAPS = "tests/integration/test_gaps.py::"
CONVERSATIONS = "tests/integration/test_conversations.py::"
BLOCKED_PAGE = "tests/page/test_page_blocked.py::"
GAPS_PAGE = "tests/page/test_page_gaps.py::"
HISTORY = "tests/page/test_page_history.py::"
ORIGINALS = "tests/integration/test_api_documents.py::"
CHARTS = "tests/page/test_page_charts.py::"
BUGS = (
    Bug(
        "an action of a closed screen starts its polling again",
        GAPS_PAGE + "test_late_change_does_not_poll_closed_screen",
        "api/web/parts/polling.js",
        (("    if (!isOpen) return;\n", ""),),
    ),
    Bug(
        "late collections start the list of a closed screen",
        GAPS_PAGE + "test_screen_closed_before_list_starts_never_polls",
        "api/web/routes/gaps.js",
        (("if (now === visit) await restart();", "await restart();"),),
    ),
    Bug(
        "gaps are read every two seconds although nothing can be grouped",
        GAPS_PAGE + "test_delayed_grouping_is_read_every_ten_seconds",
        "api/web/routes/gaps.js",
        (("seen.page?.ungrouped && !seen.page.delayed_by", "seen.page?.ungrouped"),),
    ),
    Bug(
        "the days of a gap have the dates of the time zone",
        GAPS_PAGE + "test_gap_days_are_utc_in_any_time_zone",
        "api/web/routes/gaps.js",
        ((".toISOString().slice(0, 10) }]", ".toISOString() }]"),),
    ),
    Bug(
        "the page says that a gap is open which stays resolved",
        GAPS_PAGE + "test_reopening_answered_gap_reports_that_it_stays",
        "api/web/routes/gaps.js",
        (('if (state !== "resolved") return', "if (state) return"),),
    ),
    Bug(
        "a changed gap closes the older pages of the list",
        GAPS_PAGE + "test_changed_gaps_keep_pages_and_pass_focus_on",
        "api/web/routes/gaps.js",
        (("    await gaps.poll();", "    await gaps.load();"),),
    ),
    Bug(
        "the focus is lost when a gap leaves the list",
        GAPS_PAGE + "test_changed_gaps_keep_pages_and_pass_focus_on",
        "api/web/routes/gaps.js",
        (("    next?.focus();\n", ""),),
    ),
    Bug(
        "the page needs the stores of the browser",
        BLOCKED_PAGE + "test_key_and_conversation_last_until_page_closes",
        "api/web/store.js",
        (("export const isStoring = hasStores();", "export const isStoring = true;"),),
    ),
    Bug(
        "the list of documents waits for a lock that the browser denies",
        BLOCKED_PAGE + "test_documents_update_live_without_stores",
        "api/web/events.js",
        (("if (!navigator.locks || !isStoring)", "if (!navigator.locks)"),),
    ),
    Bug(
        "an arrow key skips a point of a chart",
        CHARTS + "test_keyboard_reads_value_of_every_minute",
        "api/web/parts/chart.js",
        (("ArrowRight: from + 1", "ArrowRight: from + 2"),),
    ),
    Bug(
        "the pointer shows the value of a neighbour",
        CHARTS + "test_pointer_shows_values_within_plot",
        "api/web/parts/chart.js",
        (("/ box.width) * times.length)", "/ box.width) * last)"),),
    ),
    Bug(
        "the table of a chart lacks points without failures",
        CHARTS + "test_table_has_numbers_of_chart",
        "api/web/parts/chart.js",
        (("series.some(({ values: all })", "series.every(({ values: all })"),),
    ),
    Bug(
        "stacked columns overlap",
        CHARTS + "test_columns_have_heights_of_their_values",
        "api/web/parts/chart.js",
        (("drawn.slice(0, order).reduce", "drawn.slice(0, 0).reduce"),),
    ),
    Bug(
        "a value is higher than its axis",
        CHARTS + "test_axis_has_two_to_four_round_numbers",
        "api/web/parts/chart.js",
        (("Math.ceil(high / step)", "Math.floor(high / step)"),),
    ),
    Bug(
        "the cost of a day lacks a tier",
        CHARTS + "test_costs_of_days_are_split_by_kind",
        "api/web/parts/charts.js",
        (("each.day === day && isOf(each)", 'each.day === day && each.tier === "standard" && isOf(each)'),),
    ),
    Bug(
        "the chart of running calls shows their limit",
        CHARTS + "test_calls_in_flight_equal_status",
        "api/web/parts/charts.js",
        (('values: of(name, "running") }', 'values: of(name, "most") }'),),
    ),
    Bug(
        "runs are drawn newest first",
        CHARTS + "test_quality_over_runs_equals_evaluations",
        "api/web/parts/trend.js",
        (("each.results?.rows).reverse();", "each.results?.rows);"),),
    ),
    Bug(
        "the page in another language loads no screens in the background",
        "tests/page/test_page_words.py::test_late_catalogue_does_not_prevent_preloading",
        "api/web/app.js",
        (('if (document.readyState === "complete")', "if (false)"),),
    ),
    Bug(
        "the catalogue of words is requested when all modules are loaded",
        "tests/page/test_page_words.py::test_catalogue_is_requested_while_modules_load",
        "api/web/index.html",
        (('<script type="module" async src="{files}/parts/words.js"></script>\n', ""),),
    ),
    Bug(
        "a button of the page has a text that cannot be translated",
        "tests/unit/test_words.py::test_module_shows_no_words_without_translation",
        "api/web/routes/ask.js",
        (("${say`New conversation`}", "New conversation"),),
    ),
    Bug(
        "a translation lacks the number of its sentence",
        "tests/unit/test_words.py::test_translations_keep_placeholders_and_plural_forms",
        "api/web/words/de.js",
        (('"Quelle {0}"', '"Quelle"'),),
    ),
    Bug(
        "a translation is missing",
        "tests/unit/test_words.py::test_translation_has_exactly_the_used_words",
        "api/web/words/zh.js",
        (('"Undo":', '"Redo":'),),
    ),
    Bug(
        "the mode of TLS in the URL of PostgreSQL is ignored",
        "tests/integration/test_database_errors.py::test_tls_of_url_is_required",
        "shared/ledger/postgres/database.py",
        (('"postgresql:///?{urlencode(parameters)}"', '"postgresql:///"'),),
    ),
    Bug(
        "containers that wait for the schema lack the certificate of PostgreSQL",
        CHART + "test_every_container_has_extra_variables_and_volumes",
        "deploy/helm/foreask/templates/_workloads.tpl",
        (('"extra" .extra)', '"extra" list)'),),
    ),
    Bug(
        "the check of a cluster deletes a namespace that it has not created",
        "tests/acceptance/test_chart_verification.py::test_existing_namespace_is_neither_changed_nor_deleted",
        "deploy/helm/verify.py",
        (('}") is not None:', '}") is False:'),),
    ),
    Bug(
        "changes of settings are not recorded",
        AUDIT + "test_key_changes_are_recorded_with_author",
        "api/access/auth.py",
        (("if self.scope in _RECORDED:", "if False:"),),
    ),
    Bug(
        "changes of one statement are not recorded",
        AUDIT + "test_changes_of_other_settings_are_recorded",
        "shared/ledger/postgres/database.py",
        (("engine = self.engine if actors.is_recorded() else self._for_one", "engine = self._for_one"),),
    ),
    Bug(
        "secrets of webhooks are recorded",
        AUDIT + "test_secrets_and_contents_are_never_recorded",
        "shared/ledger/postgres/migrations/versions/0020_audit_log.py",
        (('("url", "events", "disabled_at")', '("url", "events", "secret")'),),
    ),
    Bug(
        "prompts are recorded",
        AUDIT + "test_secrets_and_contents_are_never_recorded",
        "shared/ledger/postgres/migrations/versions/0020_audit_log.py",
        (("WHEN field LIKE '%prompt%' OR", "WHEN false OR"),),
    ),
    Bug(
        "a tenant reads the changes of others",
        AUDIT + "test_only_managers_read_own_tenants_entries",
        "shared/ledger/tenants/audit_log.sql",
        (("WHERE (tenant = :tenant OR", "WHERE (:tenant <> '' OR"),),
    ),
    Bug(
        "a key changes keys with scopes that it lacks",
        AUDIT + "test_key_changes_only_own_tenants_lesser_keys",
        "api/routes/keys.py",
        (("if missing := key.scopes - caller.scopes:", "if missing := key.scopes - key.scopes:"),),
    ),
    Bug(
        "a key changes keys of other tenants",
        AUDIT + "test_key_changes_only_own_tenants_lesser_keys",
        "shared/ledger/tenants/keys.sql",
        (
            (
                "SELECT {key_columns} FROM api_keys WHERE tenant = :tenant AND id = :id FOR UPDATE",
                "SELECT {key_columns} FROM api_keys WHERE :tenant <> '' AND id = :id FOR UPDATE",
            ),
        ),
    ),
    Bug(
        "recorded changes can be changed",
        AUDIT + "test_entries_are_never_changed_and_expire",
        "shared/ledger/postgres/migrations/versions/0020_audit_log.py",
        (("BEFORE UPDATE ON audit_log", "BEFORE UPDATE OF id ON audit_log"),),
    ),
    Bug(
        "an erasure of a tenant keeps the recorded changes",
        AUDIT + "test_tenant_erasure_deletes_entries_and_stays_recorded",
        "shared/ledger/erasure/erasures.py",
        (('    "audit_log",', ""),),
    ),
    Bug(
        "a range of an original has other bytes",
        ORIGINALS + "test_range_of_original_is_sent_alone",
        "shared/storage/uploads.py",
        (("        offset, end = first + start, first + stop", "        offset, end = first, first + stop - start"),),
    ),
    Bug(
        "a range in a pack has bytes of another document",
        "tests/contract/test_store.py::test_span_of_stored_bytes_is_read_alone",
        "shared/storage/uploads.py",
        (("        offset, end = first + start, first + stop", "        offset, end = start, stop"),),
    ),
    Bug(
        "a client joins ranges of two versions",
        ORIGINALS + "test_range_of_replaced_original_is_sent_whole",
        "api/http/ranges.py",
        ((' or headers.get("if-range", tag) != tag', ""),),
    ),
    Bug(
        "a range of an original runs as a page of this server",
        ORIGINALS + "test_range_of_original_is_sent_alone",
        "api/routes/contents.py",
        (("pieces), 206, _SAFE | headers)", "pieces), 206, headers)"),),
    ),
    Bug(
        "a browser stores an original that is erased later",
        ORIGINALS + "test_range_of_original_is_sent_alone",
        "api/routes/contents.py",
        (('"cache-control": "private, no-store"', '"cache-control": "private"'),),
    ),
    Bug(
        "the worker that draws PDFs may send requests",
        "tests/integration/test_page_files.py::test_worker_of_pdfs_reaches_no_address",
        "api/http/page.py",
        (("_WORKER_POLICY = \"default-src 'none'; script-src 'self'\"", "_WORKER_POLICY = \"default-src 'self'\""),),
    ),
    Bug(
        "a shared answer is opened by another tenant",
        SHARED + "test_answer_is_not_found_without_access",
        "shared/ledger/feedback/shared_answers.sql",
        (("WHERE id = :id AND tenant = :tenant AND expires_at", "WHERE id = :id AND :tenant <> '' AND expires_at"),),
    ),
    Bug(
        "a forged text is shared as an answer",
        SHARED + "test_only_own_answer_of_server_is_shared",
        "shared/ledger/feedback/shared_answers.py",
        (("if query.answer_sha256 != digest_of(new.text, query.chunk_ids):", "if False:"),),
    ),
    Bug(
        "a shared answer is shown without its deleted passage",
        SHARED + "test_changed_document_hides_and_deletes_answer[delete]",
        "shared/ledger/feedback/shared_answers.sql",
        (("    AND {exists:d}", "    "),),
    ),
    Bug(
        "keys of a tenant share their conversations",
        CONVERSATIONS + "test_each_key_sees_only_own_conversations",
        "shared/ledger/feedback/conversations.sql",
        (("tenant = :tenant AND owner = :owner\n\n", "tenant = :tenant AND :owner <> ''\n\n"),),
    ),
    Bug(
        "keys of the settings share the conversations of their tenant",
        CONVERSATIONS + "test_each_key_sees_only_own_conversations",
        "api/access/auth.py",
        (('"local" if self.digest is None else f"settings:{self.digest}"', '"local"'),),
    ),
    Bug(
        "the server stores conversations although the operator does not allow it",
        CONVERSATIONS + "test_conversations_are_not_stored_by_default",
        "api/routes/conversations.py",
        (("if not (days := days_of(caller, settings)):", "if (days := days_of(caller, settings)) < 0:"),),
    ),
    Bug(
        "an outdated conversation replaces a later one",
        CONVERSATIONS + "test_later_change_wins_in_any_order",
        "shared/ledger/feedback/conversations.sql",
        (("WHERE conversations.changed_at <= excluded.changed_at", "WHERE true"),),
    ),
    Bug(
        "a browser with a clock ahead changes its conversation for ever",
        CONVERSATIONS + "test_clock_ahead_does_not_win_for_ever",
        "shared/ledger/feedback/conversations.sql",
        (("least(CAST(:changed_at AS timestamptz), now()))", "CAST(:changed_at AS timestamptz))"),),
    ),
    Bug(
        "a key stores any number of conversations",
        CONVERSATIONS + "test_oldest_conversation_above_hundred_is_deleted",
        "shared/ledger/feedback/conversations.py",
        (("await connection.execute(SQL.delete_oldest, ", "bool("),),
    ),
    Bug(
        "an expired conversation is listed until it is deleted",
        CONVERSATIONS + "test_conversation_expires_after_its_last_change",
        "shared/ledger/feedback/conversations.sql",
        (
            (
                " AND stored_at > now() - CAST(:age AS interval) AND NOT",
                " AND CAST(:age AS interval) IS NOT NULL AND NOT",
            ),
        ),
    ),
    Bug(
        "conversations of a revoked key stay",
        CONVERSATIONS + "test_ended_key_loses_its_conversations[revoke]",
        "shared/ledger/feedback/conversations.sql",
        ((" AND k.revoked_at IS NULL", ""),),
    ),
    Bug(
        "an erasure keeps conversations that cite the document",
        LATE_WRITERS + "test_document_erasure_deletes_questions_and_query_references",
        "shared/ledger/erasure/erasures.py",
        (("(CAST(:document_id AS uuid) = ANY(document_ids)\n", "(false\n"),),
    ),
    Bug(
        "a conversation that cites an erased document is stored again",
        CONVERSATIONS + "test_erased_document_deletes_citing_conversations[source]",
        "shared/ledger/feedback/conversations.py",
        (("if (await connection.execute(SQL.cites_erased, where)).scalar_one():", "if False:"),),
    ),
    Bug(
        "an uncited passage does not connect a conversation to its document",
        CONVERSATIONS + "test_erased_document_deletes_citing_conversations[passage]",
        "api/routes/conversations.py",
        (("documents.update(document_id for turn", "set(document_id for turn"),),
    ),
    Bug(
        "a new collection revives the conversations of an erased one",
        CONVERSATIONS + "test_erased_collection_deletes_its_conversations",
        "shared/ledger/feedback/conversations.sql",
        (("(e.collection IS NULL OR e.collection = ANY(c.collections))", "false"),),
    ),
    Bug(
        "a conversation is stored for the key that replaced its own",
        HISTORY + "test_revoked_keys_conversation_never_reaches_another_key",
        "api/web/api.js",
        (("if (only !== undefined && only !== usedKey)", "if (only !== undefined && !only)"),),
    ),
    Bug(
        "a conversation that the server cannot store is lost",
        HISTORY + "test_conversation_stays_in_browser_while_server_fails",
        "api/web/parts/server-conversations.js",
        (("problem.status >= 500) keep(latest, only);", "problem.status >= 500) void keep;"),),
    ),
    Bug(
        "a list that is read during a change hides the new conversation",
        HISTORY + "test_list_read_during_a_change_contains_it",
        "api/web/parts/server-conversations.js",
        (("await Promise.allSettled(running);", "await null;"),),
    ),
    Bug(
        "the page moves conversations to the server without a request",
        HISTORY + "test_browsers_conversations_are_moved_on_request_only",
        "api/web/parts/conversations.js",
        (
            (
                "    return read();\n",
                "    read();\n    return void (days && inBrowser().length && remote.move(usedKey));\n",
            ),
        ),
    ),
    Bug(
        "an erasure keeps answers that quote the document",
        LATE_WRITERS + "test_document_erasure_deletes_questions_and_query_references",
        "shared/ledger/erasure/erasures.py",
        ((' OR tenant = :tenant AND CAST(:document_id AS uuid) = ANY(document_ids)"', '"'),),
    ),
    Bug(
        "a question of a gap is embedded again after a restart",
        GAPS + "test_questions_are_embedded_once",
        "shared/query/gaps/finder.py",
        (("    return [question for question in unanswered if question.gap_id is None]", "    return unanswered"),),
    ),
    Bug(
        "concurrent requests embed a question twice",
        GAPS + "test_concurrent_requests_pay_and_group_once",
        "shared/query/gaps/finder.py",
        (("if collection.id in self._busy:", "if False:"),),
    ),
    Bug(
        "two processes make a gap twice",
        GAPS + "test_concurrent_processes_make_no_gap_twice",
        "shared/ledger/feedback/gaps.sql",
        (("SELECT pg_advisory_xact_lock(", "SELECT ("),),
    ),
    Bug(
        "a tenant changes the gaps of others",
        GAPS + "test_tenants_see_and_change_only_own_gaps",
        "shared/ledger/feedback/gaps.sql",
        (
            ("q.tenant = :tenant AND q.collection_id IN", "q.tenant <> '' AND q.collection_id IN"),
            ("collections WHERE tenant = :tenant AND name", "collections WHERE :tenant <> '' AND name"),
            ("WHERE gaps.tenant = :tenant AND gaps.collection = :name", ""),
        ),
    ),
    Bug(
        "a chunk lists questions of other chunks",
        GAPS + "test_chunk_lists_questions_that_found_it_first",
        "shared/ledger/feedback/query_log.sql",
        (("OR chunk_ids[1] = CAST(:chunk AS uuid)", "OR CAST(:chunk AS uuid) = ANY(chunk_ids)"),),
    ),
    Bug(
        "the score of an erased chunk becomes the score of another one",
        GAPS + "test_erased_document_leaves_no_score_of_its_chunk",
        "shared/ledger/erasure/erasures.sql",
        (("CASE WHEN q.chunk_ids[1] NOT IN (SELECT id FROM removed) THEN q.best_score END", "q.best_score"),),
    ),
    Bug(
        "changes of gaps are not recorded",
        GAPS + "test_changes_are_recorded_without_questions",
        "shared/ledger/postgres/migrations/versions/0021_gaps.py",
        (("IF changed = CAST('{}' AS jsonb) THEN", "IF changed IS NOT NULL THEN"),),
    ),
    Bug(
        "a claim of documents reads the whole table",
        "tests/integration/test_claim_costs.py::test_claim_reads_few_rows_of_many[queued]",
        "shared/ledger/work/claims.sql",
        (("WHERE w.id = ANY(ARRAY(SELECT id FROM due)) AND c.id", "WHERE w.id IN (SELECT id FROM due) AND c.id"),),
    ),
    Bug(
        "a claim to index reads the whole table",
        "tests/integration/test_claim_costs.py::test_claim_reads_few_rows_of_many[generated]",
        "shared/ledger/work/claims.sql",
        (("    FROM due WHERE w.id = ANY(ARRAY(SELECT id FROM due)) AND (w", "    FROM due WHERE (w"),),
    ),
    Bug(
        "a gap stays resolved when users ask again",
        GAPS + "test_resolved_gap_opens_when_asked_again",
        "shared/query/gaps/gap.py",
        (("resolved_at is not None and at <= resolved_at", "resolved_at is not None"),),
    ),
    Bug(
        "feedback on an old answer opens a resolved gap",
        GAPS + "test_resolved_gap_opens_when_asked_again",
        "shared/ledger/feedback/query_log.py",
        (("return self.helpful_at if self.found else self.last_at", "return self.last_at"),),
    ),
    Bug(
        "a gap ends a day before its last question",
        GAPS + "test_gap_lasts_as_long_as_its_question",
        "shared/query/gaps/finder.py",
        ((" or stored_at - since <= _DAY", ""),),
    ),
    Bug(
        "a provider that refuses everything makes each question a gap of its own",
        GAPS + "test_provider_that_refuses_everything_changes_nothing",
        "shared/query/gaps/finder.py",
        (
            ("if not self._accepted and len", "if len(texts) < 0 and len"),
            ("        if not self._accepted:\n", "        if False:\n"),
        ),
    ),
    Bug(
        "a gap stays resolved by a deleted document",
        GAPS + "test_gap_of_removed_document_is_open[delete]",
        "shared/ledger/feedback/gaps.sql",
        ((" AND {exists:d}", ""),),
    ),
    Bug(
        "an erasure keeps the resolution by the document",
        LATE_WRITERS + "test_document_erasure_deletes_questions_and_query_references",
        "shared/ledger/erasure/erasures.py",
        (('    "resolutions": _REOPEN_GAPS,', ""),),
    ),
    Bug(
        "assignments outlive their questions",
        GAPS + "test_gap_ends_with_its_last_question",
        "workers/scheduler.py",
        (("return await services.ledger.gaps.forget()", "return False"),),
    ),
    Bug(
        "a repeated question loses its gap with its first query",
        GAPS + "test_repeated_question_keeps_its_gap",
        "shared/query/gaps/finder.py",
        (("await self._gaps.carry(collection, due)", "pass"),),
    ),
    Bug(
        "a question is a formula in the table of gaps",
        GAPS + "test_table_contains_no_formulas",
        "api/routes/gaps.py",
        (('_FORMULA.sub("\'", written)', "written"),),
    ),
    Bug(
        "the existing gaps are hidden while the embedding is unavailable",
        GAPS + "test_unavailable_embedding_delays_new_gaps_only",
        "api/routes/gaps.py",
        (("except ForeaskError as error:", "except KeyError as error:"),),
    ),
    Bug(
        "grouping questions is not charged",
        GAPS + "test_used_up_budget_delays_new_gaps_only",
        "api/routes/gaps.py",
        (("if ungrouped(asked):", "if False:"),),
    ),
    Bug(
        "suggestions ignore the filter of a key",
        "tests/integration/test_suggestions.py::test_filter_and_scopes_of_a_key_apply",
        "api/routes/suggestions.py",
        (("if caller.filter is not None:", "if False:"),),
    ),
    Bug(
        "condensing a conversation is not charged",
        "tests/integration/test_conversation.py::test_condensing_counts_towards_the_usage",
        "api/routes/queries.py",
        (("retrieval.usage += usage", "pass"),),
    ),
    Bug(
        "a document is deleted after one listing",
        SYNC_HISTORIES,
        "shared/ledger/sources/syncs.py",
        (("i.missing_from <= y.started_at -", "y.started_at >= y.started_at -"),),
    ),
    Bug(
        "documents are deleted after a failed listing",
        SYNC_HISTORIES,
        "shared/maintenance/syncing/work.py",
        (
            (
                "await self._list(claim, sync)",
                'await __import__("asyncio").gather(self._list(claim, sync), return_exceptions=True)',
            ),
        ),
    ),
    Bug(
        "a failed listing counts as the first complete one",
        SYNCS + "test_failed_listing_does_not_count_as_complete",
        "shared/ledger/sources/listings.sql",
        (("SELECT e.listed_at FROM", "SELECT coalesce(e.listed_at, e.ended_at) FROM"),),
    ),
    Bug(
        "an item that is made during a listing is missing in it",
        SYNCS + "test_item_made_during_listing_is_not_missing[g2]",
        "shared/ledger/sources/listings.sql",
        ((" AND i.made_at < y.started_at", ""),),
    ),
    Bug(
        "a listing whose worker was killed starts from its first page",
        SYNC_KILLS + "test_killed_listing_continues_within_a_page",
        "shared/ledger/sources/listings.sql",
        (("SET after = :after, ", "SET "),),
    ),
    Bug(
        "a crawl whose worker was killed starts from its first page",
        "tests/integration/test_web_sources.py::test_interrupted_crawl_requests_no_page_again",
        "shared/sources/pages/crawl_state.py",
        (("        if page is None:", "        if True:"),),
    ),
    Bug(
        "a crawl whose workers die fails although it stores notes",
        SYNCS + "test_crawl_that_stores_notes_survives_many_deaths",
        "shared/ledger/sources/notes.sql",
        (("SET lost_leases = 0", "SET lost_leases = lost_leases"),),
    ),
    Bug(
        "a scheduler fails at a run of a newer release's kind",
        "tests/integration/test_runs.py::test_run_of_newer_release_is_left_alone",
        "shared/ledger/runs/run_claims.sql",
        (("{claimable} AND r.kind = ANY(CAST(:kinds AS text[]))", "{claimable} AND CAST(:kinds AS text[]) <> '{}'"),),
    ),
    Bug(
        "deletions have no bound",
        SYNCS + "test_many_deletions_wait_for_approval",
        "shared/ledger/sources/listings.py",
        (("deletes = found.deletable <= allowed", "deletes = True"),),
    ),
    Bug(
        "an empty listing deletes without approval",
        SYNCS + "test_empty_listing_always_needs_approval[3]",
        "shared/ledger/sources/listings.py",
        (("if listed.seen else 0", "if listed.seen >= 0 else 0"),),
    ),
    Bug(
        "a worker that lost its lease saves a part of a listing",
        SYNCS + "test_worker_without_lease_saves_nothing",
        "shared/ledger/sources/listings.sql",
        (("lost_leases = 0 WHERE id = :id AND token = :token", "lost_leases = 0 WHERE id = :id"),),
    ),
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
        (('"{content_is_free} AND', '"w.leased_by IS NULL AND {content_is_free} AND'),),
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
            ("self._release(member)", "pass"),
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
        (('"{content_is_free} AND', '"w.leased_by IS NULL AND {content_is_free} AND'),),
    ),
    Bug(
        "a stopped process keeps its locks",
        WORKERS + "test_worker_stalled_in_transaction_does_not_block_work",
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
            ("        if late:", "        if late and not stale:"),
            ("[s.id for s in sweeps if not s.again]", "[s.id for s in sweeps]"),
        ),
    ),
    Bug(
        "points are fenced only by their version",
        WORKERS + "test_stalled_indexing_worker_cannot_damage_live_version",
        "shared/vectors/filters.py",
        (('{"lte": token}', '{"lte": token + 1_000_000}'),),
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
        BROKER + "test_silent_broker_connections_are_replaced",
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
        "shared/vectors/errors.py",
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
        "chunks are claimed for the index while Qdrant rejects writes",
        QDRANT + "test_qdrant_rejecting_writes_loses_nothing",
        "shared/vectors/lifecycle.py",
        (("if self._rejecting:", "if False:"),),
    ),
    Bug(
        "parsers have the priority of queries",
        "tests/integration/test_parsing_sandbox.py::test_low_priority_of_child_counts_among_all_sessions",
        "shared/process/priority.py",
        (('"/proc/self/autogroup"', '"/proc/self/no-autogroup"'),),
    ),
    Bug(
        "the digest of an answer does not contain its passages",
        "tests/integration/test_shared_answers.py::test_document_erased_during_answer_cannot_be_shared",
        "shared/ledger/feedback/shared_answers.py",
        (("(*map(str, chunk_ids), answer)", "(answer,)"),),
    ),
    Bug(
        "a shared answer does not name the sentences that support it",
        SHARED + "test_shared_answer_has_supporting_sentences",
        "api/routes/shared_answers.py",
        (("support = supporting(answer.answer, passages)", "support = supporting('', passages)"),),
    ),
    Bug(
        "an answer is shared although its passages are larger than their chunks",
        "tests/integration/test_shared_answers.py::test_answer_of_larger_passages_is_not_shared",
        "api/routes/queries.py",
        (("text = answer.text if within else None", "text = answer.text"),),
    ),
    Bug(
        "a model is called for a conversation whose query is invalid",
        "tests/integration/test_conversation.py::test_invalid_query_of_conversation_calls_no_model",
        "api/routes/queries.py",
        (("    body, usage = within_limits(body, caller, services), Usage()", "    usage = Usage()"),),
    ),
    Bug(
        "a worker lowers the priority of a session that it does not lead",
        "tests/unit/test_priority.py::test_session_that_process_does_not_lead_is_unchanged",
        "shared/process/priority.py",
        (("if os.getsid(0) == os.getpid():", "if True:"),),
    ),
    Bug(
        "all requests that arrive together start in one iteration",
        "tests/unit/test_api_requests.py::test_few_requests_start_in_one_iteration",
        "api/http/middleware.py",
        (("_AT_ONCE = 4 ", "_AT_ONCE = 4_000 "),),
    ),
    Bug(
        "the requests of a loud tenant start before all other requests",
        "tests/unit/test_api_requests.py::test_requests_start_in_turns_of_their_keys",
        "api/http/middleware.py",
        (("self._waiting[key] = turns  #", "self._waiting = OrderedDict({key: turns, **self._waiting})  #"),),
    ),
    Bug(
        "a process that waits for migrations has a transaction",
        "tests/integration/test_pooler.py::test_process_that_waits_for_migrations_has_no_transaction",
        "shared/ledger/postgres/database.py",
        (("if await _try_lock(connection, which):", "if await lock(connection, which) is None:"),),
    ),
    Bug(
        "a collection of Qdrant that does not exist yet makes the chunk a dead letter",
        "tests/integration/test_qdrant_fails.py::test_collection_that_another_worker_creates_is_tried_again",
        "shared/vectors/lifecycle.py",
        (("            if error.status != ABSENT:", "            if True:"),),
    ),
    Bug(
        "a full disk of Qdrant makes the chunk a dead letter",
        QDRANT + "test_qdrant_rejecting_writes_loses_nothing",
        "shared/vectors/errors.py",
        (("if 400 <= error.status < 500 and", "if 400 <= error.status < 600 and"),),
    ),
    Bug(
        "writes during an optimization are not repeated",
        ENGINE + "test_writes_during_optimization_survive_kill_9",
        "embedded/qdrant/collection.py",
        (("self._replayed_bytes, end]", "self._replayed_bytes, self._replayed_bytes]"),),
    ),
    Bug(
        "files of a collection change while they are copied",
        ENGINE + "test_held_shard_changes_no_file",
        "embedded/qdrant/shard.py",
        (("if self._unflushed_since is None or self._held:", "if self._unflushed_since is None:"),),
    ),
    Bug(
        "a copy is made while a write is applied",
        ENGINE + "test_copy_has_every_write_that_is_not_recorded",
        "embedded/qdrant/collection.py",
        (("await self._process.ask(RequestKind.HOLD)", "pass"),),
    ),
    Bug(
        "scores are of vectors of a byte per number",
        ENGINE + "test_indexed_points_are_scored_by_full_vectors",
        "embedded/qdrant/queries.py",
        (("rescore=True", "rescore=False"),),
    ),
    Bug(
        "a reply is lost if its connection is closed",
        ENGINE + "test_closing_client_gets_whole_reply",
        "embedded/asgi.py",
        (("        self._flush()\n        self._transport.close()", "        self._transport.close()"),),
    ),
    Bug(
        "writes wait until no query is left",
        ENGINE + "test_queries_overtake_writes_which_end_nevertheless",
        "embedded/qdrant/serving.py",
        (("(overtaken < READS_AN_OPERATION or not is_writing)", "True"),),
    ),
    Bug(
        "queries wait until a write is complete",
        ENGINE + "test_queries_overtake_writes_which_end_nevertheless",
        "embedded/qdrant/serving.py",
        (("READS_AN_OPERATION = 8", "READS_AN_OPERATION = 0"),),
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
        "shared/query/retrieve/question_vectors.py",
        (
            (
                "embedder = self._embedders.of(collection.embedding_model)",
                "embedder = self._embedders.of(self._embedders.names[0])",
            ),
        ),
    ),
    Bug(
        "a tenant learns from the time of an answer that another has asked the same",
        "tests/integration/test_question_vectors.py::test_collections_remember_separately",
        "shared/query/retrieve/question_vectors.py",
        (("keys = [(collection.id, ", "keys = [(UUID(int=0), "),),
    ),
    Bug(
        "a repeated question is paid for again",
        "tests/integration/test_question_vectors.py::test_each_question_is_embedded_once",
        "shared/query/retrieve/question_vectors.py",
        (("if key not in self._remembered]", "if key]"),),
    ),
    Bug(
        "calls of models ignore the proxy",
        "tests/integration/test_provider_requests.py::test_requests_use_proxy_of_environment",
        "shared/providers/provider.py",
        ((", proxy=_proxy_of(self._url)", ""),),
    ),
    Bug(
        "a query is logged in the build that is live at its end",
        ONE_BUILD,
        "api/routes/queries.py",
        (
            (
                "                retrieval.collection, body.question,",
                "                await collection_cache.find(caller.tenant, body.collection), body.question,",
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
        "tests/integration/test_interleavings.py::test_edit_is_searchable_once_qdrant_shows_it",
        "shared/vectors/writes.py",
        (('yield _setting({"hidden": False}, hidden)', "pass"),),
    ),
    Bug(
        "a connection refused by PostgreSQL is treated as a bug",
        "tests/integration/test_database_errors.py::test_connections_are_preopened_only_if_ledger_answers",
        "shared/ledger/postgres/database.py",
        (
            ("    ConnectionError,", ""),
            ("    OSError,", ""),
        ),
    ),
    Bug(
        "a claim does not check whether its calls fit in a budget",
        BUDGETS + "test_claim_takes_chunks_that_fit_and_releases_others",
        "shared/ledger/budgets/holds.sql",
        (("WHERE amount_until > room", "WHERE false"),),
    ),
    Bug(
        "two claims read a budget at the same time",
        BUDGETS + "test_racing_claims_share_last_amount",
        "shared/ledger/budgets/holds.sql",
        (("ORDER BY b.id FOR NO KEY UPDATE", "ORDER BY b.id"),),
    ),
    Bug(
        "a settlement keeps its reservation",
        "tests/properties/test_budget_sums.py::test_sums_of_budgets_equal_reservations_and_bills",
        "shared/ledger/budgets/holds.sql",
        (("SET held = b.held - s.held, spent", "SET spent"),),
    ),
    Bug(
        "the reservation of a killed worker is freed although its call may be billed",
        BUDGETS + "test_expired_lease_costs_its_reservation_until_its_bill",
        "shared/ledger/budgets/budgets.sql",
        (("spent = {budget_spent:b} + s.held", "spent = {budget_spent:b}"),),
    ),
    Bug(
        "claims ignore exhausted budgets, and calls are not reserved",
        "tests/faults/test_budgets.py::test_killed_workers_neither_exceed_nor_waste_a_budget",
        "shared/ledger/work/work.py",
        (("and reserve_of is not None and", "and reserve_of is None and"),),
    ),
    Bug(
        "an unavailable ledger returns 500 instead of 503",
        LEDGER + "test_ledger_outage_delays_but_loses_nothing",
        "api/http/problems.py",
        (('Unavailable: ProblemKind(503, "unavailable"', 'Unavailable: ProblemKind(500, "unavailable"'),),
    ),
    Bug(
        "a run of a drain waits for its slowest item",
        "tests/unit/test_drain.py::test_next_run_does_not_wait_for_running_items",
        "shared/ingest/drain.py",
        (("continues = more and not self._stopping.is_set()", "continues = False"),),
    ),
    Bug(
        "the commit of a large document delays the others",
        "tests/unit/test_drain.py::test_large_outcome_delays_no_other_commit",
        "shared/ingest/drain.py",
        (("if self._stage.is_large(outcome)", "if False"),),
    ),
    Bug(
        "a worker that is stopped between two tasks abandons its calls",
        "tests/integration/test_tasks.py::test_stopped_worker_settles_calls_of_ended_task",
        "workers/loop.py",
        (("self.run(self.drain.close())", "pass"),),
    ),
    Bug(
        "files of a quiet tenant wait for the slow files of another",
        "tests/unit/test_fair_semaphore.py::test_slow_file_does_not_delay_other_tenant",
        "shared/ingest/parse/fair_semaphore.py",
        (("if not turn.comes.done()]:", "if not turn.comes.done() and self._free > 0]:"),),
    ),
    Bug(
        "one tenant's files take all slots of a parse worker",
        "tests/integration/test_parse_stage.py::test_tenant_leaves_slots_to_others",
        "shared/services/parse.py",
        (("slots_of_parser(settings) + _RESERVED_SLOTS", "slots_of_parser(settings)"),),
    ),
    Bug(
        "the first calibration of a collection searches during a load",
        "tests/integration/test_calibration_by_itself.py::test_first_calibration_during_load_searches_nothing",
        "shared/query/calibrate/calibrator.py",
        (("if is_first and claim.is_loading:", "if False:"),),
    ),
    Bug(
        "replies are discarded while the ledger is unavailable",
        LEDGER + "test_ledger_outage_beyond_lease_loses_nothing",
        "shared/ingest/drain.py",
        (("await asyncio.sleep(_LEDGER_PAUSE_SECONDS)", "return"),),
    ),
    Bug(
        "an extension of leases waits for settlements, which may wait for it",
        "tests/integration/test_ledger.py::test_extension_does_not_wait_for_locked_rows",
        "shared/ledger/work/leases.sql",
        ((" SKIP LOCKED\n)", "\n)"),),
    ),
    Bug(
        "a lease whose row is locked counts as extended",
        "tests/unit/test_drain.py::test_no_payment_under_lease_that_stays_locked",
        "shared/ingest/drain.py",
        (
            (
                "if not tokens.isdisjoint(extension.locked):\n            return\n",
                "until += 60 * len(extension.locked)\n",
            ),
            ("if tokens.isdisjoint(extension.extended) else", "if not tokens else"),
        ),
    ),
    Bug(
        "the lease on a large document expires while its chunks are stored",
        "tests/integration/test_ledger.py::test_slices_of_large_document_extend_its_lease",
        "shared/ledger/work/settlements.sql",
        (
            (
                "UPDATE documents SET due_at = now() + :lease\nWHERE id = :id",
                "UPDATE documents SET due_at = due_at + 0 * CAST(:lease AS interval)\nWHERE id = :id",
            ),
        ),
    ),
    Bug(
        "an extension of leases waits for its reply longer than the leases last",
        LEDGER + "test_silent_ledger_connections_pay_nothing_twice",
        "shared/ingest/drain.py",
        (("asyncio.timeout(max(_EXTEND_SECONDS, term / 3))", "asyncio.timeout(None)"),),
    ),
    Bug(
        "each process applies the limit separately",
        "tests/faults/test_limits.py::test_declared_limit_is_respected_and_used",
        "shared/providers/limiter/script.py",
        (("{{{self._terms.provider}}}", "{{{self._terms.provider}{__import__('os').getpid()}}}"),),
    ),
    Bug(
        "an emptied broker allows a burst of calls",
        "tests/faults/test_limits.py::test_declared_limit_is_respected_by_emptied_broker",
        "shared/providers/limiter/limiter.lua",
        (("values[name], values[name .. '_at'] = 0, now", "values[name], values[name .. '_at'] = bucket[2], now"),),
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
        "tests/faults/test_poison.py::test_poison_becomes_dead_letter_and_others_finish",
        "shared/domain/poison.py",
        (("if lost_leases >= SUSPECT_AFTER + DEATHS_ALONE:", "if lost_leases >= 1_000:"),),
    ),
    Bug(
        "a wake-up expires by the clock of the worker that receives it",
        "tests/faults/test_clock_jumps.py::test_clock_jumps_of_workers_change_no_result",
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
        PROVIDER + "test_texts_stay_searchable_during_language_model_outage",
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
        "an edit is live without a sweep of the older version",
        "tests/integration/test_interleavings.py::test_edit_is_searchable_once_qdrant_shows_it",
        "shared/ledger/work/settlements.sql",
        (("{becomes_live} AND d.version = 1 AND", "{becomes_live} AND"),),
    ),
    Bug(
        "a connection keeps plans of an empty ledger",
        "tests/unit/test_plans.py::test_plans_expire_before_a_table_triples",
        "shared/ledger/postgres/plans.py",
        (("if now < self.fresh_until:", "if self.fresh_until > self.since:"),),
    ),
    Bug(
        "a rollback leaves a connection in another mode than recorded",
        "tests/integration/test_plans.py::test_mode_is_set_again_after_rollback",
        "shared/ledger/postgres/plans.py",
        (("_plans(connection).generic = None", "pass"),),
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
        "the points that a stalled worker writes after an erasure remain",
        STALLED,
        "shared/ledger/work/work.py",
        (("            await self._sweep_late(connection, stale, taken_over)", "            pass"),),
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
    Bug(
        "the points of a late attempt that failed remain",
        LATE_WRITERS + "test_failed_late_write_after_erasure_leaves_no_points[tenant]",
        "shared/ledger/work/work.py",
        (("            await self._sweep_late(connection, stale)\n", ""),),
    ),
    Bug(
        "the points of a writer that died after an erasure remain",
        LATE_WRITERS + "test_points_of_writer_killed_after_erasure_are_deleted[tenant]",
        "shared/ledger/erasure/erasures.sql",
        (("WHERE recheck_at <= now()", "WHERE recheck_at IS NULL"),),
    ),
    Bug(
        "the checks of a parser's reply accept a NUL",
        "tests/unit/test_parse_replies.py::test_reply_with_one_wrong_value_is_invalid[a NUL in a text]",
        "shared/ingest/parse/replies.py",
        (('if "\\0" in text or', "if"),),
    ),
    Bug(
        "a run that is claimed while its worker stops is not released",
        "tests/integration/test_runs.py::test_run_claimed_during_stop_is_released",
        "shared/maintenance/runs/runner.py",
        (("        if self._stopping:", "        if False:"),),
    ),
    Bug(
        "an item whose settlements fail is released as if its worker were sound",
        "tests/unit/test_drain.py::test_failed_drain_counts_its_leases_as_lost",
        "shared/ingest/drain.py",
        (("await self._stage.expire(leases)", "await self._stage.release(leases)"),),
    ),
    Bug(
        "a disconnected client does not pay for the received part of an answer",
        "tests/unit/test_metering.py::test_closed_stream_reports_prompt_and_received_pieces",
        "shared/query/metering.py",
        (("pieces += 1", "pieces += 0"),),
    ),
    Bug(
        "a header that arrives in pieces may have any length",
        "tests/unit/test_api_protocol.py::test_large_headers_are_refused[long in pieces]",
        "api/http/protocol.py",
        (("if self._unfinished_bytes > MAX_HEADER_BYTES:", "if False:"),),
    ),
    Bug(
        "the refusal of a request is written into a response",
        "tests/unit/test_api_protocol.py::test_refusal_is_not_written_into_a_response",
        "api/http/protocol.py",
        (("        if self._is_idle:", "        if True:"),),
    ),
    Bug(
        "the tokens of running queries do not count",
        "tests/integration/test_query_budgets.py::test_tokens_count_before_being_sent_to_broker",
        "api/access/query_budgets.py",
        (("self.tokens + unsent >= tokens", "self.tokens >= tokens"),),
    ),
    Bug(
        "a key may retract the questions of other keys",
        OF_KEYS + "test_key_retracts_only_its_own_questions",
        "shared/ledger/feedback/feedback.sql",
        (("(CAST(:key AS uuid) IS NULL OR accepted_by = :key)", "true"),),
    ),
    Bug(
        "accepted questions belong to editors after a rebuild",
        OF_KEYS + "test_owner_of_question_survives_a_rebuild",
        "shared/ledger/documents/acceptance.py",
        (('"accepted_by": question.accepted_by', '"accepted_by": None'),),
    ),
    Bug(
        "replies to a public key contain the questions of other users",
        OF_KEYS + "test_users_questions_are_shown_only_with_read_scope",
        "api/routes/queries.py",
        (("if not caller.reads_users_questions:", "if False:"),),
    ),
    Bug(
        "a process with a blocked loop is reported as live",
        "tests/integration/test_liveness.py::test_blocked_loop_is_reported_by_port_and_socket",
        "shared/process/metrics.py",
        (("if pulse.is_live else", "if True else"),),
    ),
    Bug(
        "a process that waits for the schema fails while the ledger is unavailable",
        "tests/integration/test_schema.py::test_wait_outlasts_unavailable_ledger_until_its_time",
        "shared/ledger/postgres/revision.py",
        (("except (SchemaOutdated, Unavailable):", "except SchemaOutdated:"),),
    ),
    Bug(
        "an erasure finishes before a settlement that writes paid results",
        "tests/integration/test_erasure.py::test_unfinished_late_settlement_delays_erasure",
        "shared/ledger/work/costs.sql",
        (("ORDER BY id FOR SHARE", "ORDER BY id"),),
    ),
    Bug(
        "a copy that starts while a pack is rewritten is renamed",
        "tests/integration/test_erasure.py::test_copies_started_during_rewriting_keep_pack",
        "shared/ledger/documents/unreferenced_objects.py",
        (("        if len(found) <= len(locked):", "        if True:"),),
    ),
    Bug(
        "the bytes of a document that is erased during the check of its pack remain",
        "tests/integration/test_erasure.py::test_erasure_during_pack_check_deletes_all_bytes",
        "shared/ledger/documents/unreferenced_objects.py",
        (("            if list(named) == list(parts):", "            if True:"),),
    ),
    Bug(
        "the late result of a message replaces the result of its retry",
        "tests/integration/test_webhooks.py::test_late_result_does_not_replace_result_of_retry",
        "shared/ledger/tenants/webhooks.sql",
        ((" AND due_at = :claimed_until RETURNING", " AND (due_at = :claimed_until OR true) RETURNING"),),
    ),
    Bug(
        "a batch is created without a look at the list",
        BATCHES + "[after the create of a batch]",
        "shared/ingest/batches/lane.py",
        (("listed = await self.api.list_since(batch.created_at)", "listed = []"),),
    ),
    Bug(
        "a create is repeated before the list must show the batch",
        LANE + "test_create_is_repeated_only_after_list_lag",
        "shared/ingest/batches/lane.py",
        (("batch.since_tried < self.terms.list_lag:", "batch.since_tried < timedelta():"),),
    ),
    Bug(
        "the time of a create is recorded after it",
        BATCHES + "[after the create of a batch]",
        "shared/ingest/batches/lane.py",
        (("                await self.batches.try_create(batch)", "                pass"),),
    ),
    Bug(
        "the leases of lines end while their batch runs",
        BATCHES + "[after a poll of a batch]",
        "shared/ledger/work/batches.py",
        (("_LINES_LEASE = timedelta(days=7)", "_LINES_LEASE = timedelta(seconds=1)"),),
    ),
    Bug(
        "a delayed create of a lost claim succeeds",
        LANE + "test_delayed_create_of_lost_claim_makes_no_batch",
        "shared/ingest/batches/lane.py",
        (("await self.api.delete_file(batch.file_id)", "pass"),),
    ),
    Bug(
        "an upload waits for the batch of a replaced version",
        LANE + "test_edit_during_batch_waits_unless_interactive[edited0]",
        "shared/ledger/work/claims.sql",
        (("(NOT {is_interactive_lane:w} OR NOT EXISTS", "(TRUE OR NOT EXISTS"),),
    ),
    Bug(
        "a useless reply in a batch is paid for again",
        LANE + "test_useless_reply_is_repaired_without_second_payment[share_malformed]",
        "shared/ingest/batches/lines.py",
        (("completion.usage, () if reply is None else (reply,))", "completion.usage, ())"),),
    ),
    Bug(
        "an erasure finishes while the provider has the texts",
        LANE + "test_erasure_cancels_batch_and_restores_nothing[tenant]",
        "shared/ledger/erasure/erasures.sql",
        (("b.cancelled_at IS NOT NULL AND {OPEN_BATCHES:b})", "false)"),),
    ),
    Bug(
        "an erasure misses the parts of a batch that is being divided",
        REJECTED + "test_erasure_during_division_cancels_parts",
        "shared/ledger/erasure/erasures.py",
        (('    await connection.execute(SQL.lock_batches, {"tenant": parameters["tenant"]})\n', ""),),
    ),
    Bug(
        "the parts of a cancelled batch are sent",
        REJECTED + "test_cancellation_before_division_reaches_parts",
        "shared/ledger/work/batches.sql",
        (("b.job_ids, b.cancelled_at\n", "b.job_ids, NULL\n"),),
    ),
    Bug(
        "the leases of lines end while their batches are divided",
        REJECTED + "test_division_keeps_reservations_and_renews_leases",
        "shared/ingest/batches/lane.py",
        (("await self.batches.renew_leases(batch)", "pass"),),
    ),
    Bug(
        "the numbers of another file make lines fail",
        REJECTED + "test_numbers_of_another_file_name_no_line",
        "shared/ingest/batches/lane.py",
        (('known.input_file_id in ("", batch.file_id) and not batch.settled', "not batch.settled"),),
    ),
    Bug(
        "numbers count the lines that a killed division has left",
        REJECTED + "test_killed_division_is_continued",
        "shared/ingest/batches/lane.py",
        ((" and not batch.settled", ""),),
    ),
    Bug(
        "a named line stays in its batch",
        REJECTED + "test_named_line_fails_and_others_are_asked_together",
        "shared/ingest/batches/rejections.py",
        (("if _are_reasons(named, lines) else ()", "if not _are_reasons(named, lines) else ()"),),
    ),
    Bug(
        "an error of the account divides a batch",
        REJECTED + "test_rejection_of_account_divides_no_batch",
        "shared/ingest/batches/lane.py",
        ((" or isinstance(self.api.rejection(first), Transient)", ""),),
    ),
    Bug(
        "the results of a batch that broke are paid for again",
        REJECTED + "test_batch_that_breaks_keeps_its_results",
        "shared/providers/batches.py",
        (('return self.status == "failed" and not (', 'return self.status == "failed" or not ('),),
    ),
    Bug(
        "divisions of a batch that always fails do not end early",
        "tests/unit/test_batch_rejections.py::test_many_failures_of_one_root_end_divisions",
        "shared/ingest/batches/rejections.py",
        (("failures >= MOST_FAILURES or ", ""),),
    ),
    Bug(
        "a rejected batch is sent again as a whole",
        "tests/unit/test_batch_rejections.py::test_halving_isolates_line_within_log2_rounds",
        "shared/ingest/batches/rejections.py",
        (("ceil(others / 2)", "others - 1"),),
    ),
    Bug(
        "a line that a cancelled batch did not execute uses up an attempt",
        SHOWN + "test_cancelled_batch_keeps_results_and_plans_others_again",
        "shared/ingest/batches/collector.py",
        (("if isinstance(result, NotDone):", "if False:"),),
    ),
    Bug(
        "a client cancels an ended batch",
        SHOWN + "test_ended_batch_cannot_be_cancelled",
        "shared/ledger/work/shown_batches.sql",
        ((" AND {END_BATCH.applies:b}", ""),),
    ),
    Bug(
        "a tenant sees the batches of another",
        SHOWN + "test_other_tenant_and_reader_cannot_cancel",
        "shared/ledger/work/shown_batches.sql",
        (("FROM batches b WHERE b.tenant = :tenant", "FROM batches b WHERE (b.tenant = :tenant OR true)"),),
    ),
    Bug(
        "a pointer of Git LFS becomes a document",
        GIT + "test_pointer_of_lfs_is_refused[partial clone]",
        "shared/sources/git/repositories.py",
        (("return len(content) < SMALL_BYTES and LFSPointer.from_bytes(content) is not None", "return False"),),
    ),
    Bug(
        "a symbolic link becomes a document",
        GIT + "test_links_and_submodules_are_left_out[folder]",
        "shared/sources/git/tree.py",
        (("if stat.S_ISREG(mode) or stat.S_ISDIR(mode):", "if True:"),),
    ),
    Bug(
        "replaced names of a tree break the order of its keys",
        GIT + "test_unusable_names_are_refused_in_order[folder]",
        "shared/sources/git/tree.py",
        (("return dict(sorted(nodes.items()))", "return nodes"),),
    ),
    Bug(
        "a folder has the rank of its name",
        GIT_ORDER + "test_files_follow_byte_order_of_paths",
        "shared/sources/git/tree.py",
        (('(f"{self.key}/" if self.is_folder else self.key)', "self.key"),),
    ),
    Bug(
        "a file that the options exclude is found",
        GIT + "test_excluded_file_is_not_found[folder]",
        "shared/sources/git/repositories.py",
        ((" or not self._selects(key) else node", " else node"),),
    ),
    Bug(
        "a redirect carries the login to another server",
        GIT + "test_redirect_to_other_server_carries_no_credentials",
        "shared/sources/git/server.py",
        (("if _server(url) != self._server:", "if False:"),),
    ),
    Bug(
        "a server that refuses the secret is treated as unavailable",
        GIT + "test_refused_secret_is_reported_not_shown[secret1]",
        "shared/sources/git/server.py",
        (("if reply.status in _NO_ACCESS:", "if False:"),),
    ),
    Bug(
        "a file of any size is unpacked in memory",
        GIT + "test_file_beyond_memory_is_too_large_alone",
        "shared/sources/git/remote.py",
        (("max_bytes=_MAX_OBJECT_BYTES", "max_bytes=1 << 60"),),
    ),
    Bug(
        "the size of a delta's result is not checked",
        GIT_PACKS + "test_delta_is_bounded_by_its_result",
        "shared/sources/git/packs.py",
        (("if kind in (_OFFSET_DELTA, _REFERENCE_DELTA):", "if False:"),),
    ),
    Bug(
        "the files of a failed download remain",
        GIT + "test_cut_connection_is_error_without_leftovers[1000]",
        "shared/process/temporary_folders.py",
        (("shutil.rmtree(self.path, ignore_errors=True)", "pass"),),
    ),
    Bug(
        "a folder of the roots leads to objects outside of them",
        GIT + "test_folder_that_reads_another_repository_is_refused",
        "shared/sources/git/local.py",
        (("any((folder / name).exists() for name in _LEADS_ELSEWHERE)", "False"),),
    ),
    Bug(
        "a tag precedes the branch of the same name",
        GIT + "test_branch_precedes_tag_of_same_name[partial clone]",
        "shared/sources/git/repository.py",
        (('[b"refs/heads/" + wanted, b"refs/tags/" + wanted]', '[b"refs/tags/" + wanted, b"refs/heads/" + wanted]'),),
    ),
    Bug(
        "a source moves to a newer commit while it is listed",
        GIT + "test_source_stays_at_its_first_commit[folder]",
        "shared/sources/git/repositories.py",
        (("if self._opened is None:", "if True:"),),
    ),
    Bug(
        "each file of a first sync is requested alone",
        GIT + "test_first_sync_needs_few_requests",
        "shared/sources/git/remote.py",
        (("min(2 * self.count, _MOST_FILES)", "1"),),
    ),
    Bug(
        "a changed file is fetched together with unchanged ones",
        GIT + "test_single_changes_are_fetched_alone",
        "shared/sources/git/remote.py",
        (("if 2 * len(self.used) >= self.count else 1", ""),),
    ),
    Bug(
        "the whole history of a repository is fetched",
        GIT + "test_history_is_not_fetched",
        "shared/sources/git/remote.py",
        (("                depth=1,\n", ""),),
    ),
    Bug(
        "a closed source continues its download",
        GIT + "test_closed_source_stops_its_download",
        "shared/sources/git/remote.py",
        (("self._stopped.is_set() or ", ""),),
    ),
    Bug(
        "two threads use a repository at the same time",
        GIT + "test_listing_and_closing_can_overlap",
        "shared/sources/git/repositories.py",
        (("with self._thread, self._repository.reading():", "with self._repository.reading():"),),
    ),
    Bug(
        "a reply of any size is stored",
        GIT + "test_large_reply_is_an_error",
        "shared/sources/git/remote.py",
        (("if self.written > _MAX_PACK_BYTES:", "if False:"),),
    ),
    Bug(
        "errors show the token of a repository",
        GIT_ADDRESSES + "test_login_has_no_text",
        "shared/sources/git/address.py",
        (('return "Login(…)"', 'return f"Login({self.password})"'),),
    ),
    Bug(
        "a repository that a server does not have is treated as unavailable",
        GIT + "test_status_of_server_decides_error",
        "shared/sources/git/server.py",
        (("if reply.status in _MISSING:", "if False:"),),
    ),
    Bug(
        "a query may write",
        POSTGRESQL + "test_query_other_than_one_reading_select_is_refused",
        "shared/sources/postgres/connection.py",
        (("readonly=True", "readonly=False"),),
    ),
    Bug(
        "rows without an id are listed after all others",
        POSTGRESQL + "test_rows_without_id_are_one_refused_entry",
        "shared/sources/postgres/listing.sql",
        (("NULLS FIRST", "NULLS LAST"),),
    ),
    Bug(
        "the entry of rows without ids breaks the order of keys",
        POSTGRESQL + "test_rows_without_id_are_one_refused_entry",
        "shared/sources/postgres/rows.py",
        (('if without_id and row["id"].encode() >= _NO_ID.encode():', "if without_id:"),),
    ),
    Bug(
        "several rows with one id are several entries",
        POSTGRESQL + "test_duplicate_id_is_one_refused_entry",
        "shared/sources/postgres/rows.py",
        (("if previous is not None and entry.key == previous.key:", "if False:"),),
    ),
    Bug(
        "one of the rows with an id is fetched",
        POSTGRESQL + "test_duplicate_id_is_one_refused_entry",
        "shared/sources/postgres/rows.py",
        (("if len(rows) > 1:", "if False:"),),
    ),
    Bug(
        "a version depends on the time zone of the role",
        POSTGRESQL + "test_version_does_not_depend_on_settings_of_role[timezone = 'Asia/Tokyo']",
        "shared/sources/postgres/session.sql",
        (("SET LOCAL timezone = 'UTC';\n", ""),),
    ),
    Bug(
        "a version depends on the role's number of digits",
        POSTGRESQL + "test_version_does_not_depend_on_settings_of_role[extra_float_digits = 0]",
        "shared/sources/postgres/session.sql",
        (("SET LOCAL extra_float_digits = 1;\n", ""),),
    ),
    Bug(
        "a version depends on the role's format of intervals",
        POSTGRESQL + "test_version_does_not_depend_on_settings_of_role[intervalstyle = 'sql_standard']",
        "shared/sources/postgres/session.sql",
        (("SET LOCAL intervalstyle = 'iso_8601';\n", ""),),
    ),
    Bug(
        "a version depends on the role's format of bytes",
        POSTGRESQL + "test_version_does_not_depend_on_settings_of_role[bytea_output = 'escape']",
        "shared/sources/postgres/session.sql",
        (("SET LOCAL bytea_output = 'hex';\n", ""),),
    ),
    Bug(
        "a quote in a column's name ends the name",
        POSTGRESQL + "test_quotes_in_names_are_part_of_names",
        "shared/sources/postgres/statements.py",
        (("name.replace('\"', '\"\"')", "name"),),
    ),
    Bug(
        "other columns do not change a version",
        POSTGRESQL + "test_hash_covers_used_columns_only",
        "shared/sources/postgres/statements.py",
        (("f\"'{options.fingerprint()}-' || {version}\"", "version"),),
    ),
    Bug(
        "a statement has no time limit",
        POSTGRESQL + "test_slow_query_is_cancelled",
        "shared/sources/postgres/session.sql",
        (("{timeout_milliseconds}", "0"),),
    ),
    Bug(
        "another text of the same number finds a row",
        POSTGRESQL + "test_ids_of_any_type_follow_byte_order",
        "shared/sources/postgres/row.sql",
        ((' AND {id}::text COLLATE "C" = $1', ""),),
    ),
    Bug(
        "an error quotes a row",
        POSTGRESQL + "test_error_about_values_does_not_quote_them",
        "shared/sources/postgres/connection.py",
        (("cannot compute a value of a row: {kind}.", "cannot compute a value of a row: {sentence}."),),
    ),
    Bug(
        "settings of the user's environment choose the server",
        POSTGRESQL + "test_environment_and_files_of_user_are_not_read",
        "shared/sources/postgres/connection.py",
        (('                target_session_attrs="any",\n', ""),),
    ),
    Bug(
        "a certificate of another host is accepted",
        POSTGRESQL + "test_certificate_is_checked_as_mode_says[verify-full-elsewhere-True-False]",
        "shared/sources/postgres/connection.py",
        (('mode == "verify-full"', "False"),),
    ),
    Bug(
        "a lost connection is kept",
        POSTGRESQL + "test_lost_connection_is_opened_again",
        "shared/sources/postgres/connection.py",
        (
            ("await self.aclose()  # asyncpg", "pass  # asyncpg"),
            ("if self._connection is None or self._connection.is_closed():", "if self._connection is None:"),
        ),
    ),
    Bug(
        "metadata contains columns without a value",
        POSTGRESQL + "test_row_becomes_item_with_title_and_metadata",
        "shared/sources/postgres/rows.py",
        ((" if value is not None}", "}"),),
    ),
    Bug(
        "two tasks use a connection at the same time",
        CONTRACT + "test_concurrent_fetches_return_their_contents[table]",
        "shared/sources/postgres/rows.py",
        (("async with self._alone, self._connection.reading()", "async with self._connection.reading()"),),
    ),
    Bug(
        "a row whose version column is NULL has no version",
        POSTGRESQL + "test_version_column_may_be_null",
        "shared/sources/postgres/statements.py",
        (("f\"coalesce({_column(options.version)}::text, '')\"", 'f"{_column(options.version)}::text"'),),
    ),
    Bug(
        "a row that cannot be computed looks deleted",
        POSTGRESQL + "test_row_that_cannot_be_computed_is_not_missing",
        "shared/sources/postgres/rows.py",
        (("if _is_about_a_value(error) and not await self._is_value(key):", "if _is_about_a_value(error):"),),
    ),
    Bug(
        "requests to a host overlap",
        WEB + "test_requests_to_a_host_never_overlap",
        "shared/sources/pages/visitor.py",
        (("        async with host.lock:", "        if True:"),),
    ),
    Bug(
        "the pause that a site demands is ignored",
        WEB + "test_crawl_delay_separates_requests",
        "shared/sources/pages/visitor.py",
        (("(host.pause or self._manners", "(self._manners"),),
    ),
    Bug(
        "a busy server is asked again at once",
        WEB + "test_busy_server_is_asked_again_later",
        "shared/sources/pages/visitor.py",
        (("= time.monotonic() + min(retry_after", "= 0 * min(retry_after"),),
    ),
    Bug(
        "pages that robots.txt forbids are read",
        WEB + "test_robots_txt_that_changes_is_obeyed",
        "shared/sources/pages/examination.py",
        (
            (
                "        if not await self._visitor.allows(address):\n            return Visit",
                "        if False:\n            return Visit",
            ),
        ),
    ),
    Bug(
        "an unavailable robots.txt allows everything",
        WEB + "test_unavailable_robots_txt_stops_the_run[503]",
        "shared/sources/pages/visitor.py",
        (("if reply.status in _CLIENT_ERRORS or reply.status in _REDIRECTS:", "if True:"),),
    ),
    Bug(
        "a site leads a crawl to private addresses",
        WEB + "test_redirect_to_private_address_sends_no_request",
        "shared/outside/addresses.py",
        (("if not private and not all(", "if False and not all("),),
    ),
    Bug(
        "pages with the same text are several documents",
        WEB + "test_crawl_lists_each_text_once",
        "shared/sources/pages/crawl_statements.sql",
        (("WHERE outcome = 'listed' AND address > (", "WHERE outcome = 'nothing' AND address > ("),),
    ),
    Bug(
        "two pages that name each other as canonical are lost",
        WEB + "test_canonical_page_replaces_others",
        "shared/sources/pages/crawl_statements.sql",
        ((" AND target.outcome = 'listed' AND target.canonical IS NULL)", " AND target.outcome = 'listed')"),),
    ),
    Bug(
        "a duplicate replaces its failing first page",
        WEB + "test_failing_first_page_keeps_its_duplicates",
        "shared/sources/pages/crawl_statements.sql",
        (("first.outcome IN ('listed', 'refused'))", "first.outcome IN ('listed'))"),),
    ),
    Bug(
        "the links of an unchanged page are forgotten",
        WEB + "test_links_of_unchanged_page_are_remembered",
        "shared/sources/pages/crawl.py",
        (("self._state.known_children(page.digest) if visit.unchanged else visit.links", "visit.links"),),
    ),
    Bug(
        "a page with many parents is lost when some change",
        WEB + "test_page_with_many_parents_stays_when_some_change",
        "shared/sources/pages/crawl.py",
        (("            self._state.add_linked_by_more()", "            pass"),),
    ),
    Bug(
        "a calendar is read without an end",
        WEB + "test_calendar_is_bounded",
        "shared/sources/pages/crawl.py",
        (("if self._by_pattern[page.pattern] >= self._plan.same_pattern:", "if False:"),),
    ),
    Bug(
        "pages after the limit of a run look deleted",
        WEB + "test_page_limit_deletes_nothing",
        "shared/sources/pages/crawl.py",
        (("        self._state.refuse_unvisited(reason, also_unfound=limited)\n", ""),),
    ),
    Bug(
        "a server that is down is asked for every page",
        WEB + "test_server_that_fails_in_between_ends_the_run",
        "shared/sources/pages/crawl.py",
        (("if self._faults[host] >= _MOST_FAULTS:", "if False:"),),
    ),
    Bug(
        "an unavailable host of a list stops the run",
        WEB + "test_other_unavailable_host_refuses_only_its_pages",
        "shared/sources/pages/crawl.py",
        (("if error.component != COMPONENT or is_own:", "if True:"),),
    ),
    Bug(
        "an error page with status 200 becomes a document",
        WEB + "test_page_that_only_looks_existent_is_not_listed",
        "shared/sources/pages/examination.py",
        (("if await self._soft_errors.contains(address, page.text):", "if False:"),),
    ),
    Bug(
        "a page that must not be indexed is listed",
        WEB + "test_hidden_page_is_followed_but_not_listed",
        "shared/sources/pages/examination.py",
        (("if not facts.rules.index:", "if False:"),),
    ),
    Bug(
        "entries that left a feed are deleted",
        WEB + "test_entries_that_left_a_feed_stay",
        "shared/sources/pages/plans.py",
        (("    keeps_known = True", "    keeps_known = False"),),
    ),
    Bug(
        "a packed page is unpacked without a limit",
        WEB + "test_unpacked_page_is_bounded",
        "shared/sources/pages/bodies.py",
        (("    if len(content) > max_bytes:", "    if False:"),),
    ),
    Bug(
        "a sitemap may declare entities",
        WEB + "test_unusable_sitemap_fails_the_run",
        "shared/sources/pages/reading/elements.py",
        (("    parser.EntityDeclHandler = _refuse_entity\n", ""),),
    ),
    Bug(
        "markup without an end is read forever",
        WEB_READING + "test_hostile_markup_takes_linear_time",
        "shared/domain/text/tags.py",
        (("return found + len(mark) if found >= 0 else -1", "return found + len(mark) if found >= 0 else start"),),
    ),
    Bug(
        "a page of any redirect depth is followed",
        WEB + "test_long_chain_of_redirects_is_refused",
        "shared/sources/pages/crawl.py",
        (("if page.hops >= _MOST_HOPS:", "if False:"),),
    ),
    Bug(
        "a page that failed and has not changed loses its text",
        WEB + "test_failing_first_page_keeps_its_duplicates",
        "shared/sources/pages/examination.py",
        (("text_hash = note.text_hash if note else None\n", "text_hash = None\n"),),
    ),
    Bug(
        "settlements of the last two pages of a document miss each other",
        READ + "test_concurrent_settlements_of_last_pages_advance_document",
        "shared/ledger/work/pages.sql",
        (("ORDER BY d.id FOR NO KEY UPDATE\n\n-- part: read_rows", "ORDER BY d.id\n\n-- part: read_rows"),),
    ),
    Bug(
        "a late settlement restores an erased text of a page",
        READ + "test_erasure_deletes_texts_of_pages",
        "shared/ledger/work/pages.sql",
        (("AND (EXISTS (SELECT 1 FROM pages p WHERE p.key", "AND (true OR EXISTS (SELECT 1 FROM pages p WHERE p.key"),),
    ),
    Bug(
        "tenants share texts of pages",
        READ + "test_other_tenant_reads_same_file_itself",
        "shared/domain/pages.py",
        (("parts = (tenant, file_hash", 'parts = ("", file_hash'),),
    ),
    Bug(
        "a tenant reads more pages than its limit allows",
        READ + "test_later_claims_take_rest_of_limit",
        "shared/ledger/work/claims.sql",
        (("c.position + {read_today:c} <= coalesce(", "0 <= coalesce("),),
    ),
    Bug(
        "a late failure ends the claim of another worker on a page",
        READ + "test_lost_lease_is_neither_extended_nor_failed",
        "shared/ledger/work/pages.sql",
        (
            (
                "WHERE p.id = v.id AND p.lease_token = v.token AND p.leased_by IS NOT NULL AND {FAIL_",
                "WHERE p.id = v.id AND {FAIL_",
            ),
        ),
    ),
    Bug(
        "a lost claim on a page is extended",
        READ + "test_lost_lease_is_neither_extended_nor_failed",
        "shared/ledger/work/leases.sql",
        (
            (" AND t.lease_token = v.token AND t.leased_by IS NOT NULL\n)", "\n)"),
            (" AND t.lease_token = v.lease_token AND t.leased_by IS NOT NULL", ""),
        ),
    ),
    Bug(
        "a page whose text exists is read again",
        READ + "test_text_that_appears_after_parsing_is_found",
        "shared/ingest/read/stage.py",
        (("if page.has_text:", "if False:"),),
    ),
    Bug(
        "two documents with the same file read its pages at the same time",
        READ + "test_same_file_uploaded_twice_is_read_once",
        "shared/ledger/work/claims.sql",
        (
            ("AND o.leased_by IS NOT NULL AND o.id <> w.id OFFSET 0)", "AND false OFFSET 0)"),
            ("DISTINCT ON (key) id", "id"),
        ),
    ),
    Bug(
        "a shared text counts as a page of the day",
        READ + "test_shared_text_uses_no_page_of_day",
        "shared/ledger/work/pages.py",
        (("for outcome in read if outcome.text is not None)", "for outcome in read)"),),
    ),
    Bug(
        "a document with an unread page is ready",
        READ + "test_dead_page_leaves_document_degraded",
        "shared/ledger/work/settlements.sql",
        (("AND p.state = {PageState.DEAD}))", "AND false))"),),
    ),
    Bug(
        "a model asks questions about misread words",
        READ + "test_uncertain_text_asks_no_questions",
        "shared/ingest/parse/stage.py",
        (("if ready_made is None and content.uncertain else", "if False else"),),
    ),
    Bug(
        "an erasure leaves the texts of pages",
        READ + "test_erasure_deletes_texts_of_pages",
        "shared/ledger/erasure/erasures.py",
        (("count = await page_texts.delete_unused(connection, tenant)", "count = 0"),),
    ),
    Bug(
        "a page with ink but without words is empty without an error",
        PAGES + "test_ink_without_words_is_an_error",
        "shared/ingest/parse/scans/reading.py",
        (("return self.found is not None and not self.failure", "return self.found is not None"),),
    ),
    Bug(
        "a page is not read again at 300 dpi",
        PAGES + "test_small_letters_are_read_at_300_dpi",
        "shared/ingest/parse/scans/reading.py",
        (("if not attempts[0].is_sure:", "if False:"),),
    ),
    Bug(
        "a page is read without the filter",
        PAGES + "test_noisy_page_is_read_through_filter",
        "shared/ingest/parse/scans/reading.py",
        ((".filter(ImageFilter.GaussianBlur(FILTER_PIXELS))", ""),),
    ),
    Bug(
        "the first frame of an animation is read as a page",
        PAGES + "test_hostile_picture_fails_with_reason",
        "shared/ingest/parse/scans/pictures.py",
        (('if image.format in ("GIF", "WEBP", "PNG") and', 'if image.format == "" and'),),
    ),
    Bug(
        "a picture may have any number of pixels",
        PAGES + "test_hostile_picture_fails_with_reason",
        "shared/ingest/parse/scans/pictures.py",
        (("width * height > MAX_DECODED", "width * height < 0"),),
    ),
    Bug(
        "a page of a PDF without area is drawn",
        PAGES + "test_hostile_picture_fails_with_reason",
        "shared/ingest/parse/scans/pdf_pages.py",
        (("if min(width, height) * scale < LEAST_SIDE:", "if False:"),),
    ),
    Bug(
        "a process that has read a page of one tenant reads a page of another one",
        PAGES + "test_reader_of_one_tenant_serves_no_other",
        "shared/ingest/parse/sandbox.py",
        (("self.tenant in (None, task.tenant)", "task.tenant is not None"),),
    ),
    Bug(
        "a page has the time of a file",
        PAGES + "test_slow_page_ends_at_its_clock",
        "shared/ingest/parse/sandbox.py",
        (("timeout=self._page_timeout,", "timeout=self._timeout,"),),
    ),
    Bug(
        "a prompt of a shell is quoted as a sentence",
        QUOTES + "test_code_and_headings_are_not_quoted[$ pip install httpx]",
        "shared/query/answer/quotes.py",
        (("if any(map(_PROMPT.match, lines)):", "if False:"),),
    ),
    Bug(
        "a listed heading is quoted as a sentence",
        QUOTES + "test_code_and_headings_are_not_quoted[Install httpx]",
        "shared/query/answer/quotes.py",
        (("or _plain(words) in headings:", "or False:"),),
    ),
    Bug(
        "the user's own question is quoted as its answer",
        QUOTES + "test_answer_of_repeated_question_is_quoted",
        "shared/query/answer/extractive.py",
        (("if not quote.is_question:", "if True:"),),
    ),
    Bug(
        "an uncertain answer looks certain",
        QUOTES + "test_uncertain_answer_shows_three_best_passages",
        "shared/query/answer/extractive.py",
        (("if self._scale(best) < self._certain:", "if best < self._certain:"),),
    ),
    Bug(
        "a citation after the final mark belongs to the next sentence",
        "tests/unit/test_answering_support.py::test_each_citation_is_supported_by_its_own_statement",
        "shared/query/answer/support.py",
        (("statement = before or statement", "statement = statement or before"),),
    ),
    Bug(
        "a sentence of a long passage is compared without a limit",
        "tests/unit/test_answering_support.py::test_long_passages_are_compared_in_bounded_time",
        "shared/query/answer/support.py",
        (("_COMPARED // len(cited)", "None"),),
    ),
    Bug(
        "the chart passes every setting to processes that read untrusted files",
        CHART + "test_parse_and_read_receive_variables_of_compose",
        "deploy/helm/foreask/templates/_environment.tpl",
        (("{{- $given = $few -}}", "{{- $given = merge $few $given -}}"),),
    ),
    Bug(
        "processes that read untrusted files may reach every address",
        CHART + "test_network_policies_are_networks_of_compose",
        "deploy/helm/foreask/templates/network.yaml",
        (("  policyTypes: [Ingress, Egress]", "  policyTypes: [Ingress]"),),
    ),
    Bug(
        "a pod receives the credentials of the database's owner",
        CHART + "test_only_schema_job_has_owner_credentials",
        "deploy/helm/foreask/templates/_environment.tpl",
        (
            (
                '"FOREASK_PARSE_DATABASE_URL" "FOREASK_APP_DATABASE_URL")',
                '"FOREASK_PARSE_DATABASE_URL" "FOREASK_OWNER_DATABASE_URL")',
            ),
        ),
    ),
    Bug(
        "the schema Job keeps its name when its specification changes",
        CHART + "test_schema_job_changes_name_with_its_specification",
        "deploy/helm/foreask/templates/schema.yaml",
        (("{{ sha256sum $spec | trunc 8 }}", "job"),),
    ),
    Bug(
        "the connections of an update are not counted",
        CHART + "test_connections_include_pods_of_an_update",
        "deploy/helm/foreask/templates/_workloads.tpl",
        (("(div (add $pods 3) 4)", "0"),),
    ),
    Bug(
        "a volume of one node is used by pods on several nodes",
        CHART + "test_wrong_value_is_refused_with_its_name[several nodes with one volume]",
        "deploy/helm/foreask/templates/_checks.tpl",
        (('(list "api" "parse")', '(list "none")'),),
    ),
    Bug(
        "large numbers are rendered as floating point numbers",
        CHART + "test_large_number_of_values_is_not_rounded",
        "deploy/helm/foreask/templates/_names.tpl",
        (('(printf "%.0f" .)', "(toString .)"),),
    ),
    Bug(
        "workers are removed one by one",
        CHART + "test_sixteen_workers_become_one_within_five_minutes",
        "deploy/helm/foreask/templates/autoscaling.yaml",
        (("- {type: Pods, value: 4, periodSeconds: 60}", "- {type: Pods, value: 1, periodSeconds: 60}"),),
    ),
)


def misfits(bug: Bug) -> list[str]:
    """Return the reasons why the bug cannot be planted: a text that does not occur exactly once, or a missing test."""
    path = ROOT / bug.file
    code = path.read_text() if path.exists() else ""
    counts = {old: code.count(old) for old, _ in bug.edits}
    file, _, test = bug.caught_by.partition("::")
    wrong = [
        f"{bug.file} contains {old!r} {count} times instead of once" for old, count in counts.items() if count != 1
    ]
    tests = (ROOT / file).read_text() if (ROOT / file).exists() else ""
    if f"def {test.partition('[')[0]}(" not in tests:
        wrong.append(f"{file} does not contain {test}")
    return wrong


def plant(bug: Bug, tree: Path) -> None:
    path = tree / bug.file
    code = path.read_text()
    for old, new in bug.edits:
        code = code.replace(old, new)
    path.write_text(code)


def control(tests: Sequence[str]) -> Run:
    """Run tests in a copy of the tree without a bug."""
    with copied() as folder:
        return run(tests, folder, _MIN_SECONDS * len(tests))


def planted(bug: Bug, sound: Run) -> tuple[Result, str, float]:
    """Run the test of a bug in a copy of the tree; return the result, its reason, and the duration in seconds.

    Args:
        bug: the bug.
        sound: the run of the test, and of others, without a bug.
    """
    name = bug.caught_by.partition("::")[2]
    before = [seconds for test, seconds in sound.times.items() if _is_of(test, name)]
    if reason := failure_without_bug(name, sound):
        return Result.NOT_RUN, reason, 0.0
    with copied() as folder:
        plant(bug, folder / "tree")
        done = run([bug.caught_by], folder, max(_MIN_SECONDS, _TIMES_SLOWER * sum(before)))
    return *judged(done), done.seconds


def failure_without_bug(name: str, sound: Run) -> str:
    """Return why a test proves nothing: it fails or does not run without a bug. Empty if it passes."""
    failures = [failure for test, failure in sound.failures.items() if _is_of(test, name)]
    if failures:
        return f"the test fails without the bug: {failures[0]}"
    if not any(_is_of(test, name) for test in sound.times):
        return f"the test does not run without the bug: {sound.trouble or 'it is not selected'}"
    return ""


def judged(done: Run) -> tuple[Result, str]:
    """Return the result on a run with a bug, and its reason.

    A timeout proves nothing, because any test may be too slow on a busy machine.
    """
    if done.timed_out:
        return Result.NOT_RUN, f"unexpected timeout after {done.seconds:.0f} s"
    if done.failures:
        failure = next(iter(done.failures.values()))
        return (Result.NOT_RUN if failure.startswith(_INVALID) else Result.CAUGHT), failure
    if done.trouble:
        return Result.NOT_RUN, done.trouble
    return Result.MISSED, "the test passes"


def run(tests: Sequence[str], folder: Path, seconds: float) -> Run:
    """Run tests in the copy of the tree in a folder.

    Args:
        tests: node ids of the tests.
        folder: the folder; pytest's files are written there, too.
        seconds: time limit.
    """
    tree, report = folder / "tree", folder / "report.xml"
    options = ["-p", "no:cacheprovider", f"--basetemp={folder / 'run'}", f"--junit-xml={report}"]
    if {HISTORIES, SYNC_HISTORIES} & set(tests):
        options += ["--histories", "100"]  # the default number is too small to find each bug
    options += ["-o", "junit_family=xunit1"]  # the scenarios record properties, which xunit2 does not allow
    # Installed packages may import the original tree.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(tree / path) for path in ("", *_CLIENTS))}
    started = time.monotonic()
    with (folder / "output").open("w+") as output:
        process = subprocess.Popen(
            guarded([sys.executable, "-m", "pytest", *tests, *options], death_signal=signal.SIGINT),
            cwd=tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        timed_out = not _ends_within(process, seconds)
        output.seek(0)
        text = output.read()
    duration = time.monotonic() - started
    trouble = "" if process.returncode in _RAN else _end_of(text)
    if not report.exists():
        return Run(duration, trouble=trouble or _end_of(text), timed_out=timed_out)
    failures, times, errors = read_report(report.read_text())
    return Run(duration, failures, times, trouble or next(iter(errors.values()), ""), timed_out)


def read_report(report: str) -> tuple[dict[str, str], dict[str, float], dict[str, str]]:
    """Return the failures of a JUnit report, the times of passed tests and the errors of fixtures, each by test."""
    failures: dict[str, str] = {}
    times: dict[str, float] = {}
    errors: dict[str, str] = {}
    for case in ET.fromstring(report).iter("testcase"):
        name = case.get("name", "")
        if (failure := case.find("failure")) is not None:
            failures[name] = _first_line(failure)
        elif (error := case.find("error")) is not None:
            errors[name] = _first_line(error)
        elif case.find("skipped") is None:
            times[name] = float(case.get("time", "0"))
    return failures, times, errors


def _first_line(element: ET.Element) -> str:
    lines = element.get("message", "").strip().splitlines()
    return lines[0][:120] if lines else "no message"


def _end_of(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "pytest printed nothing"


def _is_of(case: str, name: str) -> bool:
    """Return whether a test of a report has this name; without parameters a name means all tests of its function."""
    return case == name or case.partition("[")[0] == name


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for a run; at its time limit interrupt it, so that it stops its engines, and kill it if it does not stop."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return False
    return True


@contextmanager
def copied() -> Iterator[Path]:
    """Yield a folder with a copy of the working tree: files that git tracks, and new files that it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    with tempfile.TemporaryDirectory(prefix="planted-", ignore_cleanup_errors=True) as folder:
        tree = Path(folder) / "tree"
        for name in filter(None, listed.stdout.split("\0")):
            if (source := ROOT / name).exists():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, tree / name)
        yield Path(folder)


def chosen(names: Sequence[str]) -> list[Bug]:
    return [bug for bug in BUGS if not names or any(name in bug.caught_by + bug.means for name in names)]


def by_file(bugs: Sequence[Bug]) -> dict[str, list[str]]:
    """Return the distinct tests of bugs by their file: tests of a file share engines in the run without a bug."""
    tests: dict[str, list[str]] = {}
    for test in dict.fromkeys(bug.caught_by for bug in bugs):
        tests.setdefault(test.partition("::")[0], []).append(test)
    return tests


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.mutations")
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a test's name or of a bug's meaning")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="number of tests that run at the same time")
    options = parser.parse_args(arguments)
    bugs = chosen(options.names)
    unfit = {bug: wrong for bug in bugs if (wrong := misfits(bug))}
    results = [_report(bug, Result.NOT_RUN, "; ".join(wrong), 0.0) for bug, wrong in unfit.items()]
    fit = [bug for bug in bugs if bug not in unfit]
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        files = by_file(fit)
        sound = dict(zip(files, pool.map(control, files.values()), strict=True))

        def judge(bug: Bug) -> Result:
            return _report(bug, *planted(bug, sound[bug.caught_by.partition("::")[0]]))

        results += pool.map(judge, fit)
    print(", ".join(f"{results.count(result)} {result}" for result in Result))
    return 0 if set(results) <= {Result.CAUGHT} else 1


def _report(bug: Bug, result: Result, reason: str, seconds: float) -> Result:
    scenario = bug.caught_by.partition("::")[2].removeprefix("test_")
    print(f"{scenario}: {bug.means}: {result}: {reason} ({seconds:.0f} s)", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
