// The screen of gaps: when it reads, and its texts.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, elements, openPage, pass, settled, stopClock, textOf } from "./browser.mjs";

const GAP = {
  id: "5b0f2a0e-8d4c-4a52-9a0e-6f0b8a1f7c11", question: "May a cat come along?", state: "open", times: 7, distinct_questions: 2, per_day: [0, 2, 5], last_week: 7, week_before: 0,
  last_at: "2026-10-02T04:00:00Z", assigned_to: null, resolved_by: null, nearest: null, questions: [{ question: "May a cat come along?", times: 7 }],
};
const RESOLVED = { ...GAP, state: "resolved", resolved_by: { document_id: "d", external_id: "cats.md", at: GAP.last_at } };

const COLLECTIONS = { items: [{ name: "handbook", documents: {}, points: 0 }], next_cursor: null };

/** Open the screen; `screen.read` counts its requests for gaps. @param {object} more fields of the reply @param {(path: string, request: any) => unknown} other replies */
async function openGaps(gap, more = {}, other = () => undefined) {
  const counts = { open: 1, assigned: 0, resolved: 0 };
  const screen = { reads: 0 };
  const load = openPage({
    path: "/gaps",
    replies: (path, request) => {
      screen.reads += path.includes("/gaps?state=");
      if (path.includes("/gaps?")) {
        const page = { items: [gap], counts, ungrouped: 0, delayed_by: null, retention_days: 90, next_cursor: null };
        return other(path, request) ?? { ...page, ...more };
      }
      const otherwise = path.startsWith("/v1/collections?") ? COLLECTIONS : { items: [], next_cursor: null };
      return other(path, request) ?? otherwise;
    },
  });
  return Object.assign(screen, await load("routes/gaps.js"), await load("parts/notice.js"));
}

const opened = (screen, show = "open") => screen.load({ query: new URLSearchParams({ show }) });

/** Show the details of the gap. */
const opens = (screen) => drawn(screen.view()).handler("click", GAP.question)();

test("delayed grouping is read every ten seconds", async (t) => {
  stopClock(t, "2026-10-02T05:00:00Z");
  const screen = await openGaps(GAP, { ungrouped: 3, delayed_by: "The budget is used up." });
  await opened(screen);
  assert.match(drawn(screen.view()).text, /3 questions still to be grouped: The budget is used up\./);
  for (let second = 2; second < 10; second += 2) await pass(t, 2000);
  assert.equal(screen.reads, 1);
  await pass(t, 2000);
  assert.equal(screen.reads, 2);
});

test("running grouping is read every two seconds", async (t) => {
  stopClock(t, "2026-10-02T05:00:00Z");
  const screen = await openGaps(GAP, { ungrouped: 3 });
  await opened(screen);
  await pass(t, 2000);
  assert.equal(screen.reads, 2);
});

test("screen closed before its list starts never polls", async (t) => {
  stopClock(t, "2026-10-02T05:00:00Z");
  const collections = Promise.withResolvers();
  const screen = await openGaps(GAP, {}, (path) => (path.includes("/collections?") ? collections.promise : undefined));
  const loading = opened(screen);
  screen.unload();
  collections.resolve(COLLECTIONS);
  await loading;
  await pass(t, 20_000);
  assert.equal(screen.reads, 0);
});

test("late change does not poll a closed screen", async (t) => {
  stopClock(t, "2026-10-02T05:00:00Z");
  const change = Promise.withResolvers();
  const screen = await openGaps(RESOLVED, {}, (_, { method }) => (method === "PATCH" ? change.promise : undefined));
  await opened(screen, "resolved");
  opens(screen);
  drawn(screen.view()).handler("click", "Reopen")();
  await settled();
  screen.unload();
  history.replaceState = () => assert.fail("the address of another screen is changed");
  change.resolve(GAP);
  await pass(t, 1000);
  assert.match(drawn(screen.notice()).text, /The gap is open again\./);
  await pass(t, 20_000);
  assert.equal(screen.reads, 1);
});

for (const [replied, notice] of [
  [RESOLVED, "The gap stays resolved. Its questions were answered when they were asked last."],
  [GAP, "The gap is open again."],
]) {
  test(`reopened gap that is then ${replied.state} says so`, async () => {
    const screen = await openGaps(RESOLVED, {}, (_, { method }) => (method === "PATCH" ? replied : undefined));
    await opened(screen, "resolved");
    opens(screen);
    assert.match(drawn(screen.view()).text, /Resolved by cats\.md/);
    drawn(screen.view()).handler("click", "Reopen")();
    await settled();
    assert.ok(drawn(screen.notice()).text.startsWith(notice));
    screen.unload();
  });
}

test("gap days are dates in UTC", async (t) => {
  const zone = process.env.TZ;
  process.env.TZ = "Pacific/Honolulu"; // where it is still the evening before
  t.after(() => (zone === undefined ? delete process.env.TZ : (process.env.TZ = zone)));
  stopClock(t, "2026-10-02T05:00:00Z");
  const screen = await openGaps(GAP);
  await opened(screen);
  opens(screen);
  const { html, text } = drawn(screen.view());
  assert.match(text, /30 Sept 2 Oct 7 times in the last 7 days/);
  const table = elements(html, "table").find((each) => each.includes("Queries per day"));
  assert.deepEqual(elements(elements(table, "tbody")[0], "tr").map(textOf), ["2 Oct 5", "1 Oct 2"]);
  screen.unload();
});

test("empty server is not asked for gaps and names the days", async () => {
  const asked = [];
  const screen = await openGaps(GAP, {}, (path) => {
    asked.push(path);
    if (path.startsWith("/v1/collections?")) return { items: [], next_cursor: null };
    return path === "/v1/me" ? { scopes: ["manage"], query_retention_days: 90 } : undefined;
  });
  await opened(screen);
  await settled();
  assert.deepEqual(asked.filter((path) => path.startsWith("/v1/collections/")), []);
  assert.match(drawn(screen.view()).text, /No open gaps\. .* Questions are listed for 90 days\./);
});

test("gap that the address names is opened in its tab", async () => {
  const screen = await openGaps({ ...GAP, id: "other", question: "Another?" }, {}, (path) =>
    (path.endsWith(`/gaps/${GAP.id}`) ? { ...GAP, state: "assigned", assigned_to: "Ann" } : undefined));
  await screen.load({ query: new URLSearchParams({ gap: GAP.id }) });
  await settled();
  const { html, text } = drawn(screen.view());
  assert.match(text, /May a cat come along\?.* Unassign .* Another\?/);
  assert.equal(elements(html, "button").find((each) => textOf(each).startsWith("Assigned")).includes('aria-pressed="true"'), true);
  screen.unload();
});

test("gap is answered from the list, unless it is resolved or open", async () => {
  const screen = await openGaps(GAP);
  await opened(screen);
  const button = () => elements(drawn(screen.view()).html, "button").some((each) => each.includes(`Write answer: ${GAP.question}`));
  assert.ok(button());
  drawn(screen.view()).handler("click", "Write answer")();
  assert.match(drawn(screen.view()).text, /These questions find it: May a cat come along\?/);
  opens(screen);
  assert.ok(!button());
  const resolved = await openGaps(RESOLVED);
  await opened(resolved, "resolved");
  assert.doesNotMatch(drawn(resolved.view()).text, /Write answer/);
});

test("written answer is a document with the questions of the gap", async () => {
  const sent = [];
  const gap = { ...GAP, questions: [...GAP.questions, { question: "Are cats allowed?", times: 1, query_id: "q2" }] };
  const screen = await openGaps(gap, {}, (path, { method, body }) => {
    if (method === "GET" || !body) return undefined;
    sent.push([method, path, JSON.parse(body)]);
    return method === "POST" ? { id: "saved", external_id: "cats" } : { ...gap, ...RESOLVED };
  });
  await opened(screen);
  opens(screen);
  drawn(screen.view()).handler("click", "Write the answer")();
  const { html, text, handler } = drawn(screen.view());
  assert.match(text, /These questions find it: May a cat come along\? Are cats allowed\?/);
  assert.match(html, /value="May a cat come along"/);
  const controls = [{ name: "title", value: "Cats, caf\u00e9s & co" }, { name: "text", value: "Cats may come along." }];
  const form = elements(html, "form").find((each) => each.includes('name="title"'));
  await handler("submit", textOf(form))({ preventDefault() {}, target: { elements: controls, reset() {} } });
  await settled();
  const [[, posted, document], [, patched, change]] = sent;
  assert.deepEqual([posted, patched], ["/v1/documents", `/v1/collections/handbook/gaps/${GAP.id}`]);
  assert.deepEqual(change, { resolved_by: "saved" });
  assert.deepEqual(document.questions, ["May a cat come along?", "Are cats allowed?"]);
  assert.deepEqual([document.collection, document.title, document.text], ["handbook", "Cats, caf\u00e9s & co", "Cats may come along."]);
  assert.match(document.external_id, /^answers\/cats-caf\u00e9s-co-5b0f2a0e-\w+\.md$/);
  assert.doesNotMatch(drawn(screen.view()).text, /Save the answer/);
  screen.unload();
});
