// The screen Work: the bottleneck in words, and its announcements to screen readers.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, elements, openPage, pass, stopClock, textOf } from "./browser.mjs";

const STAGE = { in_flight: 0, due: 3, delayed: 0, oldest_seconds: 40 };
const STATUS = {
  stages: { parse: STAGE, read: { ...STAGE, due: 0 }, generate: STAGE, index: STAGE }, documents: { ready: 1 }, limits: [], budgets: [], usage: [],
  pace: { cause: "working", message: "3 calls are running.", workers: { read: 0 }, down: [] },
};
const NO_WORKER = { ...STATUS.pace, cause: "no_worker", message: "No generate worker is alive, and 3 chunks wait." };
const BROKER = { ...STATUS.pace, cause: "component_down", message: "The broker does not answer.", down: ["broker"] };

/** Open the screen; `screen.status` is the API's status. */
async function openWork(status, languages = ["en"]) {
  const screen = { status: { ...STATUS, ...status } };
  const load = openPage({
    languages, path: "/work",
    replies: (path) => (path === "/v1/status" ? screen.status : path === "/v1/me" ? { scopes: ["read", "manage"] } : { items: [] }),
  });
  Object.assign(screen, await load("routes/work.js"));
  await screen.load();
  return screen;
}

const sentence = ({ html }) => textOf(elements(html, "p").find((each) => each.includes('class="pace"')));
const spoken = ({ html }) => textOf(elements(html, "p").find((each) => each.includes('role="status"')));

test("bottleneck is the sentence of the server", async () => {
  for (const pace of [STATUS.pace, NO_WORKER, BROKER]) {
    const screen = await openWork({ pace });
    assert.equal(sentence(drawn(screen.view())), pace.message);
    screen.unload();
  }
});

test("another language names the cause first", async () => {
  const screen = await openWork({ pace: NO_WORKER }, ["de"]);
  assert.equal(sentence(drawn(screen.view())), `Für einen Teil der Arbeit läuft kein Worker. ${NO_WORKER.message}`);
  screen.unload();
});

const DAMAGED = { collection: "handbook", cause: "lost_points", since: "2026-10-01T07:00:00Z", message: "The index has lost points: results are incomplete." };

test("damaged collection is shown with its repair", async () => {
  const screen = await openWork({ damaged: [DAMAGED] });
  const { text } = drawn(screen.view());
  assert.match(text, /handbook\s*:\s*The index is being repaired\. Progress:\s*foreask verify --repair --collection handbook/);
  assert.ok(text.includes(DAMAGED.message));
  screen.unload();
});

test("another language says that the index is repaired", async () => {
  const screen = await openWork({ damaged: [DAMAGED] }, ["de"]);
  assert.match(drawn(screen.view()).text, /handbook\s*:\s*Der Index wird repariert\. .*The index has lost points/s);
  screen.unload();
});

test("limits are unknown without the broker", async () => {
  const screen = await openWork({ pace: BROKER, limits: null });
  assert.match(drawn(screen.view()).text, /Unknown: the broker is unavailable\./);
  screen.unload();
});

test("budget names its unit, period and state", async () => {
  const budget = { collection: "elsewhere", job_id: null, unit: "tokens", period: "month", limit: 2_000_000, spent: 1, reserved: 0, exhausted: false };
  const screen = await openWork({ budgets: [budget, { ...budget, collection: null, unit: "money", limit: 5, exhausted: true }] });
  const { text } = drawn(screen.view());
  assert.match(text, /elsewhere 1 0 2,000,000 tokens a month available/);
  assert.match(text, /everything \$1\.00 \$0\.00 \$5\.00 a month used up/);
  screen.unload();
});

test("bottleneck is announced once in five seconds", async (t) => {
  stopClock(t, "2026-10-01T08:00:00Z");
  const screen = await openWork({});
  assert.equal(spoken(drawn(screen.view())), STATUS.pace.message);
  screen.status.pace = { ...STATUS.pace, message: "2 calls are running." }; // the same cause
  for (let seconds = 0; seconds < 8; seconds += 2) await pass(t, 2000);
  assert.equal(spoken(drawn(screen.view())), STATUS.pace.message);
  screen.status.pace = NO_WORKER;
  await pass(t, 2000);
  assert.equal(spoken(drawn(screen.view())), NO_WORKER.message);
  screen.status.pace = BROKER;
  await pass(t, 2000);
  await pass(t, 2000);
  assert.equal(spoken(drawn(screen.view())), NO_WORKER.message);
  await pass(t, 2000);
  assert.equal(spoken(drawn(screen.view())), BROKER.message);
  screen.unload();
});
