// Polling of a screen, and replies that arrive late.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, openPage, pass, settled, stopClock } from "./browser.mjs";

const NOW = "2026-10-02T05:00:00Z";

test("screen closed during a read sends no more", async (t) => {
  stopClock(t, NOW);
  const { polling } = await openPage()("parts/polling.js");
  const reply = Promise.withResolvers();
  let reads = 0;
  const { start, stop, poll } = polling({ problem: null }, () => (reads++, reply.promise));
  start();
  stop();
  reply.resolve();
  await pass(t, 60_000);
  await poll();
  assert.equal(reads, 1);
});

test("hidden screen is read when it is visible again", async (t) => {
  stopClock(t, NOW);
  const { polling } = await openPage()("parts/polling.js");
  let reads = 0;
  document.hidden = true;
  polling({ problem: null }, async () => reads++).start();
  await pass(t, 2000);
  assert.equal(reads, 0);
  document.hidden = false;
  await pass(t, 2000);
  assert.equal(reads, 1);
});

test("poll waits as long as the server demands", async (t) => {
  stopClock(t, NOW);
  const load = openPage();
  const [{ polling }, { Problem }] = [await load("parts/polling.js"), await load("api.js")];
  const refusal = new Problem({ status: 429, detail: "Too many requests." }, () => "5");
  const state = { problem: null };
  let reads = 0;
  polling(state, async () => {
    reads += 1;
    if (reads === 1) throw refusal;
  }).start();
  await pass(t, 4999);
  assert.deepEqual([reads, state.problem], [1, refusal]);
  await pass(t, 1);
  assert.deepEqual([reads, state.problem], [2, null]);
});

test("earlier reply never replaces a later one", async () => {
  const { latest } = await openPage()("api.js");
  const newest = latest();
  const [early, late] = [Promise.withResolvers(), Promise.withResolvers()];
  const shown = [];
  newest(early.promise).then((reply) => shown.push(reply), (problem) => shown.push(problem));
  newest(late.promise).then((reply) => shown.push(reply));
  late.resolve("late");
  await settled();
  early.reject("early");
  await settled();
  assert.deepEqual(shown, ["late"]);
});

const ASKED = { state: "certain", query_id: "q1", question: "How many days of leave?", found: true, helpful: null, times: 1, last_at: NOW, best_score: null };

test("late list is not shown under another tab", async () => {
  const asked = Promise.withResolvers();
  const page = (items) => ({ items, next_cursor: null, retention_days: 90 });
  const collections = page([{ name: "default", documents: {}, points: 0 }]);
  const load = openPage({ replies: (path) => (path.includes("/queries?") ? asked.promise : path.startsWith("/v1/collections?") ? collections : page([])) });
  const screen = await load("routes/questions.js");
  screen.load({ query: new URLSearchParams() });
  await settled();
  drawn(screen.view()).handler("click", "Accepted")();
  await settled();
  assert.match(drawn(screen.view()).text, /No accepted questions yet\./);
  asked.resolve(page([ASKED]));
  await settled();
  assert.match(drawn(screen.view()).text, /No accepted questions yet\./);
});
