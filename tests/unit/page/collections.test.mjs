// Collections: their list, the options in force, builds next to each other, and screens without a collection.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, elements, openPage, pass, settled, stopClock, textOf } from "./browser.mjs";

const NOW = "2026-10-01T08:00:00Z";
const DEFAULTS = {
  questions_per_chunk: "auto", prompt: "Write {count} questions.\n\n{text}\n", instructions: "You write questions.", prompt_version: "2",
  chunk_max_chars: 2000, chunk_overlap_chars: 100, prepend_questions: false, section_max_chars: null, ocr_languages: null, captions: false, context: false,
};
const NONE = Object.fromEntries(Object.keys(DEFAULTS).filter((name) => name !== "instructions" && name !== "prompt_version").map((name) => [name, null]));
const COLLECTION = {
  name: "handbook", description: "Rules for staff", embedding_model: "e5", options: { ...NONE, questions_per_chunk: 5, filterable: {} }, created_at: NOW,
  languages: [], metadata_fields: [], notice: null, documents: { ready: 12, searchable: 3 }, points: 310, points_age_seconds: 0, chunks: 48, calibration: null,
  builds: [{ build: 1, state: "live" }], effective: { ...DEFAULTS, questions_per_chunk: 5 }, defaults: DEFAULTS,
};
const BUILD = {
  build: 1, state: "live", embedding_model: "e5", options: COLLECTION.options, effective: COLLECTION.effective, created_at: NOW, live_until: null,
  source_documents: 15, copied: 15, documents: { ready: 15 }, eta_seconds: null, cost: null, gate: null,
};
const OTHER = {
  ...BUILD, build: 2, state: "following", effective: { ...DEFAULTS, prompt: "Ask about {text}" }, documents: { ready: 5, searchable: 10 }, eta_seconds: 240, cost: 0.5,
};
const ROW = { strategy: "default", "ndcg@10": 0.8, "ndcg@10_low": 0.7, "ndcg@10_high": 0.9 };

/** Open a screen of a server with these collections and builds; `screen.requested` has the addresses of its requests. */
async function openScreen(name, { id = "", items = [COLLECTION], builds = [BUILD], runs = [], query = "", replies = () => null } = {}) {
  const screen = { requested: [], builds };
  const load = openPage({
    path: `/${query}`,
    replies: (path, request) => {
      screen.requested.push(path);
      const given = replies(path, request);
      if (given) return given;
      if (path.startsWith("/v1/collections?")) return { items, next_cursor: null };
      if (path.endsWith("/builds")) return { items: screen.builds };
      if (path.endsWith("/labelled-sets")) return { items: [{ set: "helpdesk", questions: 32, changed_at: NOW }] };
      if (path.endsWith("/evaluations")) return { items: runs, strategies: ["default", "all rrf"] };
      return items.find((each) => path === `/v1/collections/${each.name}`) ?? { items: [], next_cursor: null };
    },
  });
  Object.assign(screen, await load(`routes/${name}.js`));
  await screen.load({ id, query: new URLSearchParams(query) });
  await settled();
  return screen;
}

test("list shows numbers and states of collections", async (t) => {
  stopClock(t, NOW);
  const empty = { ...COLLECTION, name: "new", description: null, documents: {}, points: 0, chunks: 0 };
  const filling = { ...COLLECTION, name: "wiki", points: null, chunks: null, builds: [{ build: 1, state: "live" }, { build: 2, state: "filling" }] };
  const { view, unload } = await openScreen("collections", { items: [COLLECTION, empty, filling] });
  const rows = elements(elements(drawn(view()).html, "tbody")[0], "tr").map(textOf).map((each) => each.replace(/ Ask Show documents.*/, ""));
  assert.deepEqual(rows, [
    "handbook Rules for staff 15 48 262 3 in progress",
    "new 0 0 0 empty",
    "wiki Rules for staff 15 \u2013 \u2013 build 2 is being filled",
  ]);
  unload();
});

for (const [name, id, words] of [["collections", "", "No collections yet"], ["compare", "", "No collections yet"], ["collection", "default", "There is no collection"], ["try", "", "Preview"]]) {
  test(`screen ${name} requests no missing collection`, async (t) => {
    stopClock(t, NOW);
    const { view, unload, requested } = await openScreen(name, { id, items: [] });
    await pass(t, 10_000);
    assert.ok(requested.length > 0 && requested.every((path) => path === "/v1/me" || path.startsWith("/v1/collections?")), requested.join());
    const { html, text } = drawn(view());
    assert.ok(text.includes(words), text);
    assert.ok(!html.includes('role="alert"'));
    unload();
  });
}

test("point count says when it was counted", async (t) => {
  stopClock(t, NOW);
  for (const [seconds, words] of [[0, "(counted just now)"], [12.4, "(counted 12 s ago)"], [400, "(counted 7 min ago)"]]) {
    const { view, unload } = await openScreen("collection", { id: "handbook", items: [{ ...COLLECTION, points_age_seconds: seconds }] });
    const { text } = drawn(view());
    assert.ok(text.includes(`310 points ${words}`), text);
    unload();
  }
});

test("options show values in force and which are defaults", async (t) => {
  stopClock(t, NOW);
  const { view, unload } = await openScreen("collection", { id: "handbook" });
  const { html, text } = drawn(view());
  assert.ok(html.includes("Write {count} questions.\n\n{text}"));
  assert.match(text, /Prompt version 2 default/);
  assert.match(text, /Questions per chunk 1 to 20, .* Default: auto: 3 to 10, by the length of the chunk\./);
  assert.match(text, /Maximum chunk length default characters/);
  assert.ok(html.includes('value="5"') && html.includes('value="2000"'));
  unload();
});

test("only changed options are sent and defaults are null", async () => {
  const { changesOf } = await openPage()("parts/options.js");
  const own = { ...NONE, questions_per_chunk: 5, prompt: "Mine {text}", captions: true };
  const inForce = { ...DEFAULTS, ...own, chunk_max_chars: 2000, chunk_overlap_chars: 100, prepend_questions: false, context: false };
  const shown = { questions_per_chunk: "5", prompt: "Mine {text}", chunk_max_chars: "2000", chunk_overlap_chars: "100", section_max_chars: null, ocr_languages: null, prepend_questions: false, captions: true, context: false };
  const changes = (change) => changesOf({ ...shown, ...change }, own, inForce, DEFAULTS);
  assert.deepEqual(changes({}), {});
  assert.deepEqual(changes({ questions_per_chunk: null, chunk_max_chars: "900", context: true }), { questions_per_chunk: null, chunk_max_chars: 900, context: true });
  assert.deepEqual(changes({ questions_per_chunk: "auto", captions: false, prompt: DEFAULTS.prompt.trim() }), { questions_per_chunk: null, captions: null, prompt: null });
  assert.throws(() => changes({ chunk_max_chars: "2,000" }), (problem) => {
    return problem.field === "chunk_max_chars" && problem.message.startsWith("\u201c2,000\u201d is not a whole number.");
  });
});

test("build shows its progress without a reload", async (t) => {
  stopClock(t, NOW);
  const screen = await openScreen("collection", { id: "handbook", builds: [BUILD, OTHER] });
  const card = () => textOf(/aria-label="Build 2".*?<\/section>/s.exec(drawn(screen.view()).html)[0]);
  assert.match(card(), /Build 2 being filled .*their questions are being written.* 5 of 15 documents \u00b7 about 4 min left .*Cost \$0\.50/);
  assert.match(card(), /Questions per chunk: auto: 3 to 10, by the length of the chunk instead of 5 .*Prompt Ask about \{text\}/);
  screen.builds = [BUILD, { ...OTHER, documents: { ready: 15 }, eta_seconds: null, gate: { open: true, reasons: [], notes: [] } }];
  await pass(t, 2000);
  assert.match(card(), /receives every change\. Users do not see it until you make it live\..*The gate is open.*answers come from build 2\. Build 1 stays complete.*Make live/);
  screen.unload();
});

test("quality of builds is shown side by side", async (t) => {
  stopClock(t, NOW);
  const interval = (mean) => ({ mean, low: mean - 0.1, high: mean + 0.1 });
  const gate = { open: true, reasons: [], notes: [], quality: { source: "labelled", questions: 32, live: interval(0.6), build: interval(0.7) }, latency: { live_milliseconds: 8, build_milliseconds: 9 } };
  const run = (build, mean, id) => ({ id, build, labelled_set: "helpdesk", questions: 32, state: "done", results: { rows: [{ ...ROW, "ndcg@10": mean }] } });
  const runs = [run(2, 0.85, "c"), run(1, 0.75, "b"), run(1, 0.5, "a")]; // newest first
  const { view, unload } = await openScreen("collection", { id: "handbook", builds: [BUILD, { ...OTHER, gate }], runs });
  const rows = elements(elements(drawn(view()).html, "tbody")[0], "tr").map(textOf);
  assert.deepEqual(rows, [
    "nDCG@10 of the gate, 32 labelled questions 0.60 [0.50, 0.70] 0.70 [0.60, 0.80]",
    "95\u00a0% of the queries take at most 8 ms 9 ms".replace("\u00a0", " "),
    "nDCG@10 of helpdesk, 32 questions 0.75 [0.70, 0.90] 0.85 [0.70, 0.90]",
  ]);
  unload();
});

test("trial starts with the prompt in use", async (t) => {
  stopClock(t, NOW);
  const bodies = [];
  const replies = (path, { body }) => (path === "/v1/trials" ? (bodies.push(JSON.parse(body)), new Response("")) : null);
  const { view, unload } = await openScreen("try", { replies });
  const { html, text } = drawn(view());
  assert.ok(html.includes(DEFAULTS.prompt) && text.includes("Prompt in use, version 2"));
  const submit = async () => {
    drawn(view()).handler("submit")({ preventDefault() {} });
    await settled();
  };
  await submit();
  const { write, newSide } = await openPage({ replies })("parts/trial.js");
  for (const prompt of ["Ask about {text}", DEFAULTS.prompt.trim()]) {
    await write({ ...newSide(), prompt }, { text: "a" }, { prompt: DEFAULTS.prompt, version: "2" });
  }
  assert.deepEqual(bodies.map((each) => each.prompt), [undefined, "Ask about {text}", undefined]);
  unload();
});

test("run searches the chosen build", async (t) => {
  stopClock(t, NOW);
  const bodies = [];
  const replies = (_path, { method, body }) => (method === "POST" ? (bodies.push(JSON.parse(body)), { id: "a", build: 2, labelled_set: "helpdesk", questions: 32, state: "queued", strategy: null, done: 0, total: 0, created_at: NOW, results: null }) : null);
  const items = [{ ...COLLECTION, builds: [{ build: 1, state: "live" }, { build: 2, state: "following" }, { build: 3, state: "filling" }] }];
  const { view, unload } = await openScreen("compare", { items, query: "?collection=handbook&build=2", replies });
  const { text, handler } = drawn(view());
  assert.match(text, /default The search of users: .*all rrf Questions, text and words, merged by rank\./);
  assert.match(text, /Build 1, live 2 Run/);
  handler("click", "Run")();
  await settled();
  assert.equal(bodies[0].build, 2);
  assert.match(drawn(view()).text, /helpdesk 32 questions \u00b7 build 2/);
  unload();
});

test("declared fields need names", async () => {
  const { declared } = await openPage()("parts/collection-dialogs.js");
  assert.equal(declared(), null);
  assert.deepEqual(declared({ 0: { name: "year", type: "integer" }, 1: { name: null, type: "keyword" } }), { year: "integer" });
});
