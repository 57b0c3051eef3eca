// An answer: its words, its sources and their numbers, as readers see, hear and copy them.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, elements, openPage, settled, textOf } from "./browser.mjs";

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

const TITLE = "Employee handbook 2026";
const DOCUMENT = { document_id: "d", external_id: "handbook.pdf", filename: "handbook.pdf", title: TITLE };
const CHUNK = { ...DOCUMENT, page: 2, heading_path: [TITLE, "2 Annual leave"], text: "Words." };
const UNMATCHED = { matched_question: null, matched_question_source: null };
const chunk = (id, more = {}) => ({ ...CHUNK, ...UNMATCHED, chunk_id: id, ...more });

/** Return an answered turn of a new page, and its parts of the screen. */
async function answered(answer, { cited, chunks, languages, scopes, ...more } = {}) {
  const load = openPage({ languages, replies: () => ({ items: [], scopes }) });
  await (await load("parts/permissions.js")).loadPermissions();
  const turns = await load("parts/turns.js");
  const { answerView } = await load("parts/answer.js");
  const { copy } = await load("parts/transcript.js");
  const turn = turns.newTurn("How many days?", "default", []);
  const citations = cited.map((number) => ({ number, chunk_id: `c${number}`, sentences: [] }));
  const metadata = { ...METADATA, milliseconds: { total: 1400 } };
  const complete = { form: "extractive", found: true, certain: true, incomplete_reason: null, removed_citations: [] };
  turns.apply(turn, "done", { ...complete, answer, chunks, citations, metadata, ...more });
  const view = () => drawn(answerView(turn, null, false, false, { show() {}, copy() {} }));
  view();
  await settled(); // the parser of Markdown is loaded
  return { turn, turns, copy, ...view() };
}

const EIGHT = Array.from({ length: 8 }, (_, index) => chunk(`c${index + 1}`));

test("sources are numbered in the order of their citations", async () => {
  const facts = { cited: [1, 7], chunks: EIGHT, form: "generative" };
  const { html, turn, copy } = await answered("Thirty [7]. Pro rata [1], as always [7].", facts);
  const citations = elements(html, "button").filter((each) => each.startsWith('<button class="cited"'));
  assert.deepEqual(citations.map(textOf), ["1", "2", "1"]);
  let copied = "";
  navigator.clipboard = { writeText: async (text) => void (copied = text) };
  await copy([turn], "");
  assert.match(copied, /Thirty \[1\]\. Pro rata \[2\], as always \[1\]\./);
  assert.match(copied, /1\. Employee handbook 2026 · p\. 2 · 2 Annual leave: <[^>]*chunk=c7>\n2\. .*chunk=c1>/);
});

test("copy of a key that only asks has no links", async () => {
  const copied = [];
  for (const scopes of [["ask"], ["ask", "read"]]) {
    const { turn, copy } = await answered("Thirty [1].", { cited: [1], chunks: EIGHT, scopes });
    navigator.clipboard = { writeText: async (text) => void copied.push(text) };
    await copy([turn], "");
  }
  assert.deepEqual(copied.map((text) => text.includes("/documents/")), [false, true]);
});

test("results of a running answer keep the numbers of its citations", async () => {
  const { newTurn, apply, sourcesOf } = await openPage()("parts/turns.js");
  const turn = newTurn("How many days?", "default", []);
  apply(turn, "retrieved", { chunks: EIGHT, metadata: METADATA });
  apply(turn, "token", { text: "Thirty [6], or [2]" });
  assert.deepEqual(sourcesOf(turn).map(({ number }) => number), [6, 2, 1, 3, 4, 5, 7, 8]);
});

test("source names document, page, heading and matched question", async () => {
  const asked = { matched_question: "How much leave is there?" };
  for (const [more, words] of [
    [asked, `1 ${TITLE} · p. 2 · 2 Annual leave Matched question: How much leave is there?`],
    [{ matched_question_source: "user" }, `1 ${TITLE} · p. 2 · 2 Annual leave Matched another user's question`],
    [{ page: null, heading_path: [], title: null }, "1 handbook.pdf Matched by its text"],
    [{ matched_question: undefined, heading_path: ["Leave", "First year"] }, `1 ${TITLE} · p. 2 · Leave › First year`],
  ]) {
    const { html } = await answered("Thirty [1].", { cited: [1], chunks: [chunk("c1", more)] });
    assert.equal(textOf(elements(html, "ol")[0]), words);
  }
});

test("quotations are said once, in the language of the page", async () => {
  const answer = "Quoted from the documents:\n\n> Thirty days. [1]\n> Pro rata. [2]";
  const english = await answered(answer, { cited: [1, 2], chunks: EIGHT });
  const shown = textOf(english.html.replace(/<p class="hidden" role="status">.*?<\/p>/, ""));
  assert.equal(shown.match(/quoted/gi).length, 1);
  assert.match(english.text, /2 of 8 passages cited · 1\.4 s/);
  assert.equal(elements(english.html, "blockquote").length, 2);
  const german = await answered(answer, { cited: [1, 2], chunks: EIGHT, languages: ["de"] });
  assert.match(german.text, /Aus den Dokumenten zitiert:/);
  const none = await answered("The documents do not answer this question.", { cited: [], chunks: EIGHT, found: false });
  assert.doesNotMatch(none.text, /quoted|written/i);
  assert.match(none.text, /0 of 8 passages cited/);
});

test("screen reader hears words without marks", async () => {
  const answer = "**In short:** see\n\n> Full-time staff. [1]\n\n- `one` [2]\n\nYes [1][2].";
  const { html } = await answered(answer, { cited: [1, 2], chunks: EIGHT, form: "generative" });
  assert.match(html, /role="status">In short: see Full-time staff\. one Yes\.</);
});

test("long question is shortened until all is wanted", async () => {
  const load = openPage({ replies: () => ({ items: [] }) });
  const { newTurn } = await load("parts/turns.js");
  const { answerView } = await load("parts/answer.js");
  const turn = (question) => ({ ...newTurn(question, "default", []), phase: "done" });
  const view = (question) => drawn(answerView(turn(question), null, false, false, { show() {} }));
  const long = "Why? ".repeat(300);
  assert.match(view(long).html, /class="question-title clamped"/);
  view(long).handler("click", "Show all")();
  assert.doesNotMatch(view(long).html, /clamped/);
  assert.ok(view(long).text.includes("Show less"));
  assert.doesNotMatch(view("Why?").text, /Show/);
});

test("answer that says that nothing was found has the language of the page", async () => {
  const load = openPage({ languages: ["de"], replies: () => ({ items: [] }) });
  const { shownAnswer } = await load("parts/turns.js");
  const { default: german } = await load("words/de.js");
  const said = "The documents do not answer this question.";
  const written = { form: "generative", found: false, certain: false };
  assert.equal(shownAnswer({ ...written, answer: said }), german[said]);
  assert.equal(shownAnswer({ ...written, answer: `${said} They name others.` }), `${said} They name others.`);
});

test("sharing that is turned off is explained in the menu", async () => {
  const { turn } = await answered("Thirty days [1].", { cited: [1], chunks: [chunk("c1")], query_id: "q" });
  const { answerView } = await openPage()("parts/answer.js");
  const shown = (actions) => drawn(answerView({ ...turn, queryId: "q" }, null, false, false, { show() {}, copy() {}, ...actions }));
  let explained = 0;
  const off = shown({ explainSharing: () => (explained += 1) });
  assert.match(off.text, /Explain Share$/);
  off.handler("click", "Share")({ currentTarget: { closest: () => null } });
  assert.equal(explained, 1);
  assert.doesNotMatch(shown({}).text, /Share/);
});
