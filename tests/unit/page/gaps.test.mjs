// The screen of gaps: when it reads, and its texts.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, elements, openPage, pass, settled, stopClock, textOf } from "./browser.mjs";

const GAP = {
  id: "5b0f2a0e-8d4c-4a52-9a0e-6f0b8a1f7c11", question: "May a cat come along?", state: "open", times: 7, distinct_questions: 2, per_day: [0, 2, 5], last_week: 7, week_before: 0,
  last_at: "2026-10-02T04:00:00Z", assigned_to: null, resolved_by: null, nearest: null, questions: [{ question: "May a cat come along?", times: 7 }],
};
const RESOLVED = { ...GAP, state: "resolved", resolved_by: { document_id: "d", external_id: "cats.md", at: GAP.last_at } };

/** Open the screen; `screen.read` counts its requests for gaps. @param {object} more fields of the reply @param {(path: string, request: any) => unknown} other replies */
async function openGaps(gap, more = {}, other = () => undefined) {
  const counts = { open: 1, assigned: 0, resolved: 0 };
  const screen = { reads: 0 };
  const load = openPage({
    path: "/gaps",
    replies: (path, request) => {
      screen.reads += path.includes("/gaps?state=");
      return other(path, request) ?? (path.includes("/gaps?") ? { items: [gap], counts, ungrouped: 0, delayed_by: null, retention_days: 90, next_cursor: null, ...more } : { items: [], next_cursor: null });
    },
  });
  return Object.assign(screen, await load("routes/gaps.js"), await load("parts/notice.js"));
}

const opened = (screen, show = "open") => screen.load({ query: new URLSearchParams({ show }) });
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
  collections.resolve({ items: [], next_cursor: null });
  await loading;
  await pass(t, 20_000);
  assert.equal(screen.reads, 0);
});

test("late change does not poll a closed screen", async (t) => {
  stopClock(t, "2026-10-02T05:00:00Z");
  const change = Promise.withResolvers();
  const screen = await openGaps(RESOLVED, {}, (_, { method }) => (method === "PATCH" ? change.promise : undefined));
  await opened(screen, "resolved");
  drawn(screen.view()).handler("click", "Reopen")();
  await settled();
  screen.unload();
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
  const { html } = drawn(screen.view());
  const table = elements(html, "table").find((each) => each.includes("Queries per day"));
  assert.deepEqual(elements(elements(table, "tbody")[0], "tr").map(textOf), ["2 Oct 5", "1 Oct 2"]);
  screen.unload();
});
