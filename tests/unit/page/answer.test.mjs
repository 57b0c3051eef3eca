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

test("notice has the language of the page if its codes are known", async () => {
  const load = openPage({ languages: ["de"], replies: () => ({ items: [] }) });
  const { newTurn, apply } = await load("parts/turns.js");
  const { resultNotice } = await load("parts/result-notice.js");
  const { default: german } = await load("words/de.js");
  const turn = newTurn("Wie viele Tage?", "default", []);
  const shown = (codes) => {
    apply(turn, "retrieved", { chunks: [], metadata: { ...METADATA, notice: NOTICE, notice_codes: codes } });
    return drawn(resultNotice(turn)).text.trim();
  };
  assert.equal(shown(["no_documents"]), german["This collection has no documents yet."]);
  assert.equal(shown(["no_documents", "of_next_release"]), NOTICE);
  assert.equal(shown([]), NOTICE);
});
