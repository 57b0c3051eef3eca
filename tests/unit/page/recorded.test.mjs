// Recorded changes in words.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, openPage } from "./browser.mjs";

const ENTRY = {
  id: "1", created_at: "2026-10-01T09:30:00.123456Z", actor: { kind: "key", name: "admin", key_id: null },
  action: "change", object: "collection", object_name: "handbook",
  changes: { "options.filterable": { before: null, after: [] }, "limits.max_tokens": { before: 5000, after: null } },
};

test("fields have names and values without brackets", async () => {
  const { changes, written } = await openPage()("parts/recorded.js");
  const { text } = drawn(changes(ENTRY));
  assert.match(text, /fields for filters:\s*none/);
  assert.match(text, /tokens per reply:\s*5,000\s*→\s*–/);
  assert.equal(written("expires_at", "2026-10-01T09:30:00.123456+00:00").includes("123456"), false);
  assert.equal(written("scopes", ["ask", "read"]), "ask and read");
  assert.equal(written("approved", true), "yes");
});

test("change links to its object unless that was deleted", async () => {
  const { described } = await openPage()("parts/recorded.js");
  assert.match(drawn(described(ENTRY)).html, /href="\/?.*collections\/handbook"/);
  assert.doesNotMatch(drawn(described({ ...ENTRY, action: "erase" })).html, /href/);
  assert.match(drawn(described({ ...ENTRY, object: "build", object_name: "handbook, build 2" })).html, /collections\/handbook"/);
});

test("operator and programs are authors", async () => {
  const { actorOf } = await openPage()("parts/recorded.js");
  assert.equal(actorOf(ENTRY), "admin");
  assert.equal(actorOf({ actor: { kind: "operator", name: "night-shift" } }), "night-shift (operator)");
  assert.equal(actorOf({ actor: { kind: "command line", name: null } }), "command line");
});
