// The limits of a tenant with their use.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, openPage } from "./browser.mjs";

const LIMITS = [
  { name: "documents", limit: 20, used: 19 },
  { name: "collections", limit: null, used: 3 },
  { name: "cost_per_day", limit: 2.5, used: 0.5 },
  { name: "query_tokens_per_day", limit: 1000, used: null },
  { name: "tokens_per_day", limit: null, used: null },
];

test("limits are shown with their use", async () => {
  const { limitTable } = await openPage()("parts/limits.js");
  const { html, text } = drawn(limitTable(LIMITS, "Limits"));
  assert.match(text, /Documents\s+19\s+20/);
  assert.match(text, /Collections\s+3\s+unlimited/);
  assert.match(text, /Cost of the ingest per day\s+\$0\.50\s+\$2\.50/);
  assert.match(text, /Tokens of queries per day\s+\u2013\s+1,000/);
  assert.doesNotMatch(text, /Tokens of the ingest/);
  assert.deepEqual([...html.matchAll(/class="bar (\w+)"/g)].map(([, kind]) => kind), ["degraded", "working"]);
});
