// The screen Jobs: jobs with their progress and links, and batches.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, elements, openPage, settled, textOf } from "./browser.mjs";

const BATCH = {
  id: "0e6f", lines: 1, state: "running", done: 0, settled: 0, bytes: 2100, cost: null, error: null, cancelled_at: null, created_at: "2026-10-01T08:00:00Z", ended_at: null,
};

/** Open the screen; `screen.posted` has the addresses of its changes. */
async function openJobs(batches, jobs = []) {
  const screen = { posted: [], batches };
  const load = openPage({
    replies: (path, { method }) => {
      if (method === "POST") screen.posted.push(path);
      if (method === "POST") screen.batches = screen.batches.map((each) => ({ ...each, cancelled_at: "2026-10-01T08:01:00Z" }));
      return path.startsWith("/v1/batches") ? { items: screen.batches } : { items: jobs, next_cursor: null };
    },
  });
  Object.assign(screen, await load("routes/jobs.js"), await load("kit/dialog.js"));
  await screen.load();
  screen.unload();
  return screen;
}

test("batches show their states and amounts", async () => {
  const done = { ...BATCH, id: "1", lines: 3, state: "done", done: 3, settled: 3, cost: 0.5, ended_at: "2026-10-01T09:00:00Z" };
  const { view } = await openJobs([BATCH, done]);
  const [running, finished] = elements(drawn(view()).html, "li").map(textOf);
  assert.match(running, /^Batch of 1 request running · planned .* Cancel 0 done at the provider · 0 settled · 2 kB The provider works on it, for up to 24 hours\.$/);
  assert.match(finished, /^Batch of 3 requests done · planned .* · ended .* 3 done at the provider · 3 settled · 2 kB · \$0\.50$/);
});

test("batch is cancelled after confirmation", async () => {
  for (const isSure of [false, true]) {
    const screen = await openJobs([BATCH]);
    drawn(screen.view()).handler("click", "Cancel")();
    drawn(screen.confirmation()).handler("click", isSure ? "Cancel the batch" : "Cancel")({ target: {} });
    await settled();
    assert.deepEqual(screen.posted, isSure ? ["/v1/batches/0e6f/cancel"] : []);
    assert.equal(drawn(screen.view()).text.includes("It is being cancelled"), isSure);
    assert.equal(drawn(screen.view()).html.includes("<button"), !isSure);
  }
});

const JOB = {
  id: "j1", kind: "load", state: "running", collection: "handbook", pause_reason: null, budget_id: null, closed: true,
  done: 14, total: 15, documents: { ready: 11, failed: 1, degraded: 2, searchable: 1 }, points: null, chunks_done: 100,
  chunks_total: 400, eta_seconds: 240, cost: 0.25, message: null, error: null, created_at: "2026-10-01T08:00:00Z",
  ended_at: null,
};
const card = async (job) => {
  const { view } = await openJobs([], [{ ...JOB, ...job }]);
  const [found] = elements(drawn(view()).html, "li");
  return { html: found, text: textOf(found) };
};

test("progress of a job is counted in chunks", async () => {
  const { html, text } = await card({});
  assert.match(text, /14 of 15 documents · 100 of 400 chunks · about 4 min left · \$0\.25 · 3 with errors$/);
  assert.match(html, /class="fill" width="?25"?/);
});

test("job without known chunks counts documents", async () => {
  const { html, text } = await card({ chunks_done: 10, chunks_total: null, done: 3, total: 4, eta_seconds: null });
  assert.match(html, /class="fill" width="?75"?/);
  assert.match(text, /3 of 4 documents · \$0\.25/);
});

test("finished job has no bar", async () => {
  const { html } = await card({ state: "done", chunks_done: null, chunks_total: null, eta_seconds: null, ended_at: JOB.created_at });
  assert.ok(!html.includes("<svg"));
});

test("job leads to its documents and its errors", async () => {
  const { html } = await card({});
  const links = elements(html, "a").map((each) => /href="?([^" >]+)/.exec(each)[1].replace(/^.*\/documents/, "/documents"));
  assert.deepEqual(links.slice(1), ["/documents?collection=handbook&amp;job=j1", "/documents?collection=handbook&amp;job=j1&amp;errors=true"]);
});

test("reason of a pause is translated by the page", async () => {
  const { text } = await card({ state: "running", pause_reason: "provider", message: "The llm provider fails.", eta_seconds: null });
  assert.match(text, /waiting for the provider .* The provider fails or pauses: no questions are generated\.$/);
  const open = await card({ closed: false, done: 2, documents: { ready: 2 }, message: "All 2 uploaded documents are finished." });
  assert.match(open.text, /The uploaded documents are finished\. The job ends when no more documents follow/);
});

test("address narrows the list of documents", async () => {
  for (const [search, expected] of [
    ["", []],
    ["?collection=handbook&job=j1", [["job", "j1"]]],
    ["?job=j1&errors=true", [["job", "j1"], ["state", "failed,degraded"]]],
    ["?reason=No+credit+%26+more.", [["reason", "No credit & more."]]],
  ]) {
    const { narrowed } = await openPage({ path: `/documents${search}` })("parts/narrowing.js");
    assert.deepEqual(narrowed(), expected);
  }
});

test("narrowed list can show all documents again", async () => {
  const { narrowing } = await openPage({ path: "/documents?collection=handbook&job=j1&errors=true" })("parts/narrowing.js");
  const addresses = [];
  globalThis.history.replaceState = (_state, _title, address) => addresses.push(address);
  let ended = 0;
  const { text, handler } = drawn(narrowing(() => (ended += 1)));
  assert.match(text, /Failed and incomplete documents of one job/);
  handler("click", "Show all documents")();
  assert.deepEqual([addresses, ended], [["/documents?collection=handbook"], 1]);
});
