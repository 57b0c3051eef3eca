// Batches on the screen Jobs.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, elements, openPage, settled, textOf } from "./browser.mjs";

const BATCH = {
  id: "0e6f", lines: 1, state: "running", done: 0, settled: 0, bytes: 2100, cost: null, error: null, cancelled_at: null, created_at: "2026-10-01T08:00:00Z", ended_at: null,
};

/** Open the screen; `screen.posted` has the addresses of its changes. */
async function openJobs(batches) {
  const screen = { posted: [], batches };
  const load = openPage({
    replies: (path, { method }) => {
      if (method === "POST") screen.posted.push(path);
      if (method === "POST") screen.batches = screen.batches.map((each) => ({ ...each, cancelled_at: "2026-10-01T08:01:00Z" }));
      return path.startsWith("/v1/batches") ? { items: screen.batches } : { items: [], next_cursor: null };
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
