// Sources: schedules as words and cron expressions, options of each kind, and the form.

import assert from "node:assert/strict";
import test from "node:test";
import { attribute, drawn, elements, openPage, pass, settled, stopClock } from "./browser.mjs";

const SYNC = {
  id: "1", source: "wiki", collection: "handbook", state: "done", seen: 1250, created: 12, changed: 0, unchanged: 1238, readers_changed: 0, missing: 2, deleted: 0, withheld: 0,
  refused: 0, refused_entries: [], waiting: null, approved: null, error: null, created_at: "2026-10-01T03:00:00Z", listed_at: null, ended_at: "2026-10-01T03:00:22Z",
};
const SOURCE = {
  name: "wiki", collection: "handbook", kind: "folder", uri: "file:///srv/wiki", options: { include: ["*.md", "*.txt"], later: 1 }, secret_name: null,
  schedule: "30 3 * * *", time_zone: "Europe/Berlin", max_delete_share: 0.1, created_at: "2026-09-30T12:00:00Z", next_sync_at: null, schedule_error: null,
  newest_sync: SYNC, newest_lookup: null, removing: false,
};
const field = (name, value, more = {}) => ({ name, value, ...more });

/** Open the screen; `sent` has its requests; `refuse` returns the problem of a request, if any. */
async function openSources({ sources = [], refuse = () => null, check = () => null } = {}) {
  const sent = [];
  const load = openPage({
    replies: (path, { method, body }) => {
      if (path.startsWith("/v1/source-checks/")) return check();
      if (method === "GET") return path === "/v1/sources" ? { items: sources, next_cursor: null } : { items: [] };
      sent.push([method, path, body && JSON.parse(body)]);
      const problem = refuse(sent.at(-1));
      if (path === "/v1/source-checks") return check();
      return problem ? Response.json(problem, { status: problem.status }) : SOURCE;
    },
  });
  const screen = await load("routes/sources.js");
  await screen.load();
  const dialog = await load("kit/dialog.js");
  const draw = () => drawn(screen.view());
  const submit = async (...elements) => {
    draw().handler("submit")({ preventDefault() {}, target: { elements, reset() {} } });
    await settled();
  };
  return { screen, sent, draw, submit, dialog };
}

test("schedule of words is the same cron expression", async () => {
  const { choiceOf, cronOf, scheduleWords } = await openPage()("parts/schedule.js");
  const known = [["15 * * * *", "every hour"], ["30 3 * * *", "every day at 03:30"], ["0 18 * * 0", "every Sunday at 18:00"], ["5 0 * * 1", "every Monday at 00:05"]];
  for (const [cron, words] of known) {
    assert.equal(scheduleWords(cron), words);
    assert.equal(cronOf(choiceOf(cron)), cron);
  }
  assert.equal(scheduleWords("0 18 * * 7"), "every Sunday at 18:00");
});

test("other cron expressions are shown and kept", async () => {
  const { choiceOf, cronOf, scheduleWords } = await openPage()("parts/schedule.js");
  for (const cron of ["*/10 * * * *", "0 3 1 * *", "0 25 * * *", "99 * * * *", "0 3 * * 1-5", "0 * * * 1"]) {
    assert.equal(choiceOf(cron).every, "custom", cron);
    assert.equal(scheduleWords(cron), cron);
    assert.equal(cronOf({ every: "custom", schedule: cron }), cron);
  }
  assert.equal(cronOf(choiceOf(null)), null);
});

test("form offers the options of the server", async () => {
  const { KINDS } = await openPage()("parts/source-kinds.js");
  const names = Object.fromEntries(KINDS.map(({ name, options }) => [name, options.map((each) => each.name).sort()]));
  assert.deepEqual(names, JSON.parse(process.env.SOURCE_OPTIONS ?? "null") ?? names);
  assert.ok(KINDS.length === 10 && KINDS.every(({ options, pushed }) => pushed || options.length >= 3));
});

test("options without values are not sent", async () => {
  const { KINDS, addressOf, kindOf, optionsOf } = await openPage()("parts/source-kinds.js");
  assert.ok(KINDS.length > 5);
  const folder = kindOf("folder");
  assert.deepEqual(optionsOf(folder, { include: "*.md, , guides/*", exclude: null, hidden: false, copy_files: true }), { include: ["*.md", "guides/*"], copy_files: true });
  assert.deepEqual(optionsOf(folder, { include: null, hidden: false }, { include: ["*.md"], hidden: true, later: 1 }), { hidden: false, later: 1 });
  const addresses = [["folder", "/srv/a", "file:///srv/a"], ["git", "/srv/a", "git+file:///srv/a"], ["git", "https://x.org/a.git", "git+https://x.org/a.git"], ["git", "git+https://x.org/a", "git+https://x.org/a"], ["objects", "s3://a/b", "s3://a/b"], ["push", "crm", "push://crm"], ["push", "push://crm", "push://crm"]];
  for (const [kind, typed, address] of addresses) assert.equal(addressOf(kind, typed), address);
});

test("rules of readers are shown as lines", async () => {
  const { kindOf, optionsOf, shownOption } = await openPage()("parts/source-kinds.js");
  const rules = [
    { match: "legal/**", readable_by: ["group:legal", "user:ada"] }, { match: "dc/**", readable_by: ["group:cn=hr,dc=x"] },
    { match: "b", readable_by: "group:a, group:b" }, { match: "**", readable_by: [] },
  ];
  assert.equal(shownOption(rules), 'legal/** = group:legal, user:ada\ndc/** = ["group:cn=hr,dc=x"]\nb = group:a, group:b\n** = ');
  assert.equal(shownOption("** = everyone"), "** = everyone");
  assert.equal(shownOption([]), "");
  const typed = { readers: "** = everyone", permissions: false };
  assert.deepEqual(optionsOf(kindOf("folder"), typed, { readers: rules }), { readers: "** = everyone" });
});

test("screen without sources offers to add one", async () => {
  const { draw } = await openSources();
  assert.match(draw().text, /^No sources yet .* Add a source$/);
  draw().handler("click", "Add a source")();
  assert.match(draw().text, /Add a source Kind Folder .* Database .* Name .* Add and sync Test Cancel$/);
});

test("test shows the first entries of the typed source", async (t) => {
  const check = { id: "c1", state: "queued", seen: 0, refused: 0, complete: false, keys: [], refusal: null, error: null, created_at: "", ended_at: null };
  const replies = [check, { ...check, state: "done", seen: 2, complete: true, keys: ["a.md", "b.md"], ended_at: "2026-10-01T08:00:01Z" }];
  const { draw, sent } = await openSources({ check: () => replies.shift() });
  stopClock(t, "2026-10-01T08:00:00Z");
  draw().handler("click", "Add a source")();
  globalThis.document.getElementById = () => ({ elements: [field("kind", "folder", { checked: true }), field("uri", "/srv/a"), field("options.include", "*.md")] });
  draw().handler("click", "Test")();
  await settled();
  assert.deepEqual(sent, [["POST", "/v1/source-checks", { kind: "folder", uri: "file:///srv/a", options: { include: ["*.md"] }, secret_name: null }]]);
  assert.match(draw().text, /Cancel The test waits for a worker\.$/);
  await pass(t, 1000);
  assert.match(draw().text, /Cancel 2 entries listed\. a\.md and b\.md$/);
});

test("test without an address asks for one", async () => {
  const { draw, sent } = await openSources();
  draw().handler("click", "Add a source")();
  globalThis.document.getElementById = () => ({ elements: [field("uri", "")] });
  draw().handler("click", "Test")();
  await settled();
  assert.match(draw().text, /Enter an address first\./);
  assert.deepEqual(sent, []);
});

test("source is added with its options and schedule", async () => {
  const { draw, submit, sent } = await openSources();
  draw().handler("click", "Add a source")();
  await submit(
    field("kind", "folder", { checked: true }), field("kind", "git", { checked: false }), field("uri", "/srv/wiki"), field("name", "wiki"), field("collection", ""),
    field("every", "day"), field("options.include", "*.md"), field("options.exclude", ""), field("options.hidden", "true", { checked: true }), field("max_delete_share", "20"),
  );
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  assert.deepEqual(sent, [["POST", "/v1/sources", {
    name: "wiki", kind: "folder", uri: "file:///srv/wiki", options: { include: ["*.md"], hidden: true }, secret_name: null, schedule: "0 3 * * *", time_zone: zone, max_delete_share: 0.2,
  }], ["POST", "/v1/sources/wiki/sync", undefined]]);
  assert.doesNotMatch(draw().text, /Cancel/);
});

test("source is named after its address", async () => {
  const { nameFrom } = await openPage()("parts/source-form.js");
  const names = {
    "/srv/Staff Handbook/": "staff-handbook", "https://www.example.org/": "example-org", "https://example.org/docs/sitemap.xml?a=1": "sitemap",
    "git+https://x.org/team/wiki.git": "wiki", "s3://bucket/2026/notes": "notes", "": "", "/srv/\u00dcbersicht_2": "bersicht_2",
  };
  assert.deepEqual(Object.fromEntries(Object.keys(names).map((each) => [each, nameFrom(each)])), names);
});

test("refused address is explained at its field", async () => {
  const { draw, submit } = await openSources({ refuse: () => ({ status: 422, detail: "The operator does not allow this address.", field: "uri" }) });
  draw().handler("click", "Add a source")();
  await submit(field("kind", "folder", { checked: true }), field("uri", "/etc"), field("name", "wiki"));
  const [address] = elements(draw().html, "div").filter((each) => each.includes('name="uri"'));
  assert.match(address, /does not allow this address/);
  assert.match(draw().text, /Cancel$/);
});

test("refused rare option opens the other options", async () => {
  const { draw, submit } = await openSources({ refuse: () => ({ status: 422, detail: "The option copy_files cannot be used.", field: "options.copy_files" }) });
  draw().handler("click", "Add a source")();
  const more = () => /<details class="kit-more"( open)?/.exec(draw().html)[0];
  assert.doesNotMatch(more(), /open/);
  await submit(field("kind", "folder", { checked: true }), field("uri", "/srv"), field("name", "wiki"));
  assert.match(more(), /open/);
});

test("changed listing is sent again after confirmation only", async () => {
  for (const isSure of [false, true]) {
    const refuse = ([, , body]) => (body.confirm ? null : { status: 409, detail: "Confirm." });
    const { draw, submit, sent, dialog } = await openSources({ sources: [SOURCE], refuse });
    draw().handler("click", "Change")({ currentTarget: { closest: () => null } });
    assert.equal(attribute(/<input[^>]*name="options.include"[^>]*>/s.exec(draw().html)[0], "value"), "*.md, *.txt");
    const saved = submit(field("uri", "file:///srv/other"), field("every", "hour"), field("options.include", "*.md, *.txt"));
    await settled();
    drawn(dialog.confirmation()).handler("click", isSure ? "Change the source" : "Cancel")({ target: {} });
    await saved;
    await settled();
    const definition = { uri: "file:///srv/other", options: SOURCE.options, secret_name: null, schedule: "0 * * * *", time_zone: "Europe/Berlin" };
    assert.deepEqual(sent[0], ["PATCH", "/v1/sources/wiki", definition]);
    assert.deepEqual(sent.slice(1), isSure ? [["PATCH", "/v1/sources/wiki", { ...definition, confirm: true }]] : []);
    assert.equal(draw().text.includes("Save Test Cancel"), !isSure); // the form stays open
  }
});

test("source is removed after confirmation only", async () => {
  for (const isSure of [false, true]) {
    const { draw, sent, dialog } = await openSources({ sources: [SOURCE] });
    draw().handler("click", "Remove with documents")({ currentTarget: { closest: () => null } });
    assert.match(drawn(dialog.confirmation()).text, /All its documents are deleted from handbook/);
    drawn(dialog.confirmation()).handler("click", isSure ? "Remove with documents" : "Cancel")({ target: {} });
    await settled();
    assert.deepEqual(sent.map(([method, path]) => [method, path]), isSure ? [["DELETE", "/v1/sources/wiki?documents=delete"]] : []);
  }
});

test("source of a program has no schedule, test or sync", async () => {
  const pushed = { ...SOURCE, name: "crm", kind: "push", uri: "push://crm", options: {}, schedule: null };
  const { draw, submit, sent } = await openSources({ sources: [pushed] });
  assert.match(draw().text, /Program in handbook .* sent by a program/);
  assert.doesNotMatch(draw().text, /Sync now/);
  draw().handler("click", "Change")({ currentTarget: { closest: () => null } });
  assert.doesNotMatch(draw().text, / Test |Add and sync|every day/);
  await submit(field("uri", "push://crm"), field("options.readers", "** = everyone"), field("max_delete_share", "10"));
  assert.deepEqual(sent, [["PATCH", "/v1/sources/crm", {
    uri: "push://crm", options: { readers: "** = everyone" }, secret_name: null, schedule: null, time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone, max_delete_share: 0.1,
  }]]);
});
