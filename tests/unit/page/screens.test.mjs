// All screens: a closed one is quiet.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import test from "node:test";
import { openPage, pass, settled, stopClock } from "./browser.mjs";

const FOLDER = new URL("../../../api/web/routes/", import.meta.url);
const NOW = "2026-10-01T08:00:00Z";
const QUIET = ["gallery.js", "missing.js", "signed-in.js", "try.js"]; // they request nothing when they are opened

for (const name of readdirSync(FOLDER)) {
  test(`closed screen of ${name} sends no requests`, async (t) => {
    stopClock(t, NOW);
    const reply = Promise.withResolvers();
    let requests = 0;
    const load = openPage({ replies: () => (requests++, reply.promise) });
    const screen = await load(`routes/${name}`);
    screen.load({ id: "default", query: new URLSearchParams() });
    await settled();
    const before = requests;
    assert.ok(before > 0 || QUIET.includes(name));
    screen.unload();
    reply.resolve(Response.json({ status: 503, detail: "Unavailable." }, { status: 503 }));
    await pass(t, 60_000);
    await pass(t, 60_000);
    assert.ok(requests <= before + 1, `${requests - before} requests after it was closed`); // the load itself may need a second one
  });
}
