// The screen Work: the bottleneck in words, and its announcements to screen readers.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, elements, openPage, pass, stopClock, textOf } from "./browser.mjs";

const STAGE = { in_flight: 0, due: 3, delayed: 0, oldest_seconds: 40 };
const EMPTY = { in_flight: 0, due: 0, delayed: 0, oldest_seconds: null };
const WORKING = { cause: "working", message: "Working.", values: {}, workers: { read: 0 }, down: [] };
const STATUS = {
  stages: { parse: STAGE, read: EMPTY, generate: STAGE, index: STAGE }, documents: { ready: 1 }, limits: [],
  budgets: [], usage: [], chunks_per_minute: 24, eta_seconds: 300, pace: WORKING,
};
const NO_WORKER = { ...WORKING, cause: "no_worker", values: { stage: "generate", waiting: 3 } };
const BROKER = { ...WORKING, cause: "component_down", values: {}, down: ["broker"] };
const SPOKEN = {
  working: "About 5 min left, at 24 chunks per minute.",
  no_worker: "No worker generates questions: 3 chunks waiting.",
  component_down: "No answer from the broker.",
};

/** Open the screen; `screen.status` is the API's status. */
async function openWork(status, languages = ["en"]) {
  const screen = { status: { ...STATUS, ...status } };
  const load = openPage({
    languages, path: "/work",
    replies: (path) => {
      if (path === "/v1/status") return screen.status;
      if (path === "/v1/me") return { scopes: ["read", "manage"] };
      return { items: path === "/v1/dead-letters/reasons" ? REASONS : [] };
    },
  });
  Object.assign(screen, await load("routes/work.js"));
  await screen.load();
  return screen;
}

const sentence = ({ html }) => textOf(elements(html, "p").find((each) => each.includes('class="pace"')));
const spoken = ({ html }) => textOf(elements(html, "p").find((each) => each.includes('role="status"')));

test("each cause has its sentence in every language", async () => {
  const LLM = { component: "llm", reason: "It says \"no credit\".", pause_seconds: 60 };
  const cases = [
    [WORKING, { eta_seconds: null }, "24 chunks per minute. The time left is not known yet.", "24 Abschnitte pro Minute. Die Restzeit ist noch nicht bekannt."],
    [WORKING, {}, SPOKEN.working, "Noch etwa 5 min (24 Abschnitte pro Minute)."],
    [NO_WORKER, { eta_seconds: null }, SPOKEN.no_worker, "Kein Worker erzeugt Fragen. Wartend: 3 Abschnitte."],
    [BROKER, { eta_seconds: null }, SPOKEN.component_down, "Keine Antwort von: dem Broker."],
    [{ ...WORKING, cause: "idle" }, { eta_seconds: null }, "No work is waiting.", "Keine Arbeit wartet."],
    [{ ...WORKING, cause: "breaker", values: LLM }, { eta_seconds: null },
      "The language model's provider fails. Its calls continue when it answers again.",
      "Der Anbieter des Sprachmodells ist gestört. Die Aufrufe gehen weiter, sobald er wieder antwortet."],
    [{ ...WORKING, cause: "cooldown", values: LLM }, {},
      "The language model's provider requires a pause: the next call is made in 60 s. About 5 min left, at 24 chunks per minute.",
      "Der Anbieter des Sprachmodells verlangt eine Pause: nächster Aufruf in 60 s. Noch etwa 5 min (24 Abschnitte pro Minute)."],
    [{ ...WORKING, cause: "limit", values: { limit: "llm requests", used: 91, most: 100, unit: "per_minute" } }, { eta_seconds: null },
      "A limit slows the work, language model requests: 91 of 100 per minute are used.",
      "Ein Limit bremst die Arbeit (Sprachmodell: Anfragen): 91 von 100 pro Minute sind genutzt."],
    [{ ...WORKING, cause: "stalled", values: { in_progress: 2, due: 4, delayed: 0 } }, { eta_seconds: null },
      "No chunk has finished in the last minute: 2 in progress and 4 due.",
      "In der letzten Minute wurde kein Abschnitt fertig: 2 in Arbeit und 4 fällig."],
  ];
  for (const [pace, facts, english, german] of cases) {
    for (const [language, expected] of [["en", english], ["de", german]]) {
      const screen = await openWork({ pace, ...facts }, [language]);
      assert.equal(sentence(drawn(screen.view())), expected);
      screen.unload();
    }
  }
});

test("words of a provider are shown as they are", async () => {
  const pace = { ...WORKING, cause: "breaker", values: { component: "llm", reason: "It says \"no credit\"." } };
  const screen = await openWork({ pace, eta_seconds: null }, ["de"]);
  const words = elements(drawn(screen.view()).html, "p").find((each) => each.includes('lang="en"'));
  assert.equal(textOf(words), 'It says "no credit".');
  screen.unload();
});

test("stages are hidden while no work waits", async () => {
  const stages = { parse: EMPTY, read: EMPTY, generate: EMPTY, index: EMPTY };
  const screen = await openWork({ stages, pace: { ...WORKING, cause: "idle" }, eta_seconds: null });
  assert.ok(!drawn(screen.view()).text.includes("Parsing"));
  screen.status = { ...STATUS };
  await screen.load();
  assert.match(drawn(screen.view()).text, /Parsing running 0 due 3 oldest waiting 40 s/);
  screen.unload();
});

const REASONS = [
  { reason: "The file is damaged.", documents: 2, pages: 0, chunks: 0, collections: ["handbook"] },
  { reason: "No credit & more.", documents: 0, pages: 0, chunks: 9, collections: ["docs", "handbook"] },
];

test("failures lead to their documents", async () => {
  const screen = await openWork({});
  const links = elements(drawn(screen.view()).html, "a").filter((each) => each.includes("reason="));
  assert.deepEqual(links.map(textOf), ["The file is damaged.", "docs", "handbook"]);
  assert.ok(links[0].includes("/documents?collection=handbook&amp;reason=The+file+is+damaged."));
  assert.ok(links[1].includes("/documents?collection=docs&amp;reason=No+credit+%26+more."));
  screen.unload();
});

test("embedded models are free", async () => {
  const calls = { collection: "default", kind: "embed", model: "minilm", tier: "standard", prompt_tokens: 10, completion_tokens: 0, cached_tokens: 0, calls: 3 };
  const screen = await openWork({ usage: [{ ...calls, cost: 0 }, { ...calls, model: "other", cost: null }] });
  const { text } = drawn(screen.view());
  assert.match(text, /minilm embedding \u00b7 standard 3 10 free/);
  assert.match(text, /other embedding \u00b7 standard 3 10 price not set/);
  screen.unload();
});

const DAMAGED = { collection: "handbook", cause: "lost_points", since: "2026-10-01T07:00:00Z", message: "The index has lost points: results are incomplete." };

test("damaged collection is shown with its repair", async () => {
  const screen = await openWork({ damaged: [DAMAGED] });
  const { text } = drawn(screen.view());
  assert.match(text, /handbook\s*:\s*The index has lost points of finished documents: it is being repaired, and results are incomplete\. Progress:\s*foreask verify --repair --collection handbook/);
  screen.unload();
});

test("another language says that the index is repaired", async () => {
  const screen = await openWork({ damaged: [DAMAGED] }, ["de"]);
  assert.match(drawn(screen.view()).text, /handbook\s*:\s*Der Index hat Punkte fertiger Dokumente verloren: Er wird repariert/);
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
  assert.equal(spoken(drawn(screen.view())), SPOKEN.working);
  screen.status.eta_seconds = 200; // the same cause
  for (let seconds = 0; seconds < 8; seconds += 2) await pass(t, 2000);
  assert.equal(spoken(drawn(screen.view())), SPOKEN.working);
  Object.assign(screen.status, { pace: NO_WORKER, eta_seconds: null });
  await pass(t, 2000);
  assert.equal(spoken(drawn(screen.view())), SPOKEN.no_worker);
  screen.status.pace = BROKER;
  await pass(t, 2000);
  await pass(t, 2000);
  assert.equal(spoken(drawn(screen.view())), SPOKEN.no_worker);
  await pass(t, 2000);
  assert.equal(spoken(drawn(screen.view())), SPOKEN.component_down);
  screen.unload();
});
