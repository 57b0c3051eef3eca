// An answer: what readers must know about it.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, openPage } from "./browser.mjs";

const NOTICE = "The index has lost points of finished documents: results are incomplete.";
const METADATA = { query_id: null, question: "How many days?", usage: { prompt_tokens: 0, completion_tokens: 0 }, milliseconds: { total: 8 } };

test("notice about a damaged index is shown with the answer", async () => {
  const load = openPage({ replies: () => ({ items: [] }) });
  const { newTurn, apply } = await load("parts/turns.js");
  const { answerView } = await load("parts/answer.js");
  const turn = newTurn("How many days?", "default", []);
  const view = () => drawn(answerView(turn, null, false, false, { show() {}, again() {} })).text;

  apply(turn, "retrieved", { chunks: [], metadata: METADATA });
  assert.ok(!view().includes(NOTICE));
  apply(turn, "retrieved", { chunks: [], metadata: { ...METADATA, notice: NOTICE } });
  assert.ok(view().includes(NOTICE));
});
