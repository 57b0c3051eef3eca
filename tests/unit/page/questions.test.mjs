// The list of questions, and the page of a question.

import assert from "node:assert/strict";
import test from "node:test";
import { attribute, drawn, elements, openPage, settled, textOf } from "./browser.mjs";

const NOW = "2026-10-02T05:00:00Z";
const ASKED = { query_id: "q1", question: "May a cat come along?", state: "uncertain", times: 2, last_at: NOW, helpful: null,
  best_score: 0.4, key_id: "k1", key_name: "intranet" };
const PASSAGE = { number: 1, chunk_id: "c1", score: 0.4, cited: true, source: { document_id: "d1", external_id: "pets.md",
  filename: "pets.md", title: "Pets", heading_path: ["Cats"], page: 3, text: "# Cats\n\nCats stay at home." } };
const QUERY = { query_id: "q1", collection: "handbook", question: ASKED.question, state: "uncertain", answer: "No. [1]",
  answers_stored: true, form: "generative", incomplete_reason: null, passages: [PASSAGE, { ...PASSAGE, number: 2, source: null }],
  helpful: null, helpful_chunk_id: null, gap_id: null, key_id: "k1", key_name: "intranet",
  milliseconds: { search: 400, answer: 1000, total: 1500 }, usage: { prompt_tokens: 90, completion_tokens: 10 }, cost: 0.02,
  created_at: NOW };
const ME = { scopes: ["read", "ask", "write", "manage"], query_retention_days: 90 };

/** Open a screen; `screen.asked` has the paths of its requests. */
async function openScreen(module, { path = "/questions", names = ["handbook"], replies = () => undefined } = {}) {
  const asked = [];
  const collections = { items: names.map((name) => ({ name, documents: {}, points: 0 })), next_cursor: null };
  const load = openPage({ path, replies: (requested) => {
    asked.push(requested);
    if (requested === "/v1/me") return ME;
    if (requested.startsWith("/v1/collections?")) return collections;
    return replies(requested) ?? { items: [], next_cursor: null, total: 0 };
  } });
  return Object.assign({ asked }, await load(module));
}

async function openList(search = "", options = {}) {
  const replies = (path) => (path.includes("/queries?") ? { items: [ASKED], total: 1, next_cursor: null, retention_days: 90 }
    : path.startsWith("/v1/keys") ? { items: [{ id: "k1", name: "intranet" }], from_settings: [] } : undefined);
  const screen = await openScreen("routes/questions.js", { replies, ...options });
  await screen.load({ query: new URLSearchParams(search) });
  await settled();
  return screen;
}

const requested = ({ asked }) => asked.filter((path) => path.startsWith("/v1/collections/"));

async function openQuestion(query) {
  const screen = await openScreen("routes/question.js", { path: "/questions/q1", replies: (path) => (path === "/v1/queries/q1" ? query : undefined) });
  await screen.load({ id: "q1" });
  await settled();
  return screen;
}

test("filters of the address are filters of the request", async () => {
  const screen = await openList("state=none&feedback=any&key=k1&days=7&q=cat");
  const [path] = requested(screen);
  const query = new URLSearchParams(path.split("?")[1]);
  assert.deepEqual(["state", "feedback", "key_id", "q"].map((name) => query.get(name)), ["none", "any", "k1", "cat"]);
  const days = (Date.now() - Date.parse(query.get("since"))) / 86_400_000;
  assert.ok(days >= 7 && days < 7.1);
});

test("filter is put into the address and read at once", async () => {
  const screen = await openList();
  let address = "";
  history.replaceState = (_state, _title, url) => (address = url);
  const { html, handler } = drawn(screen.view());
  const select = elements(html, "select").find((each) => attribute(each, "aria-label") === "Result");
  handler("change", textOf(select))({ target: { value: "uncertain" } });
  await settled();
  assert.match(address, /\/questions\?(.*&)?state=uncertain$/);
  assert.match(requested(screen).at(-1), /state=uncertain/);
});

test("row links to its page and agrees with certainty", async () => {
  const { html, text } = drawn((await openList()).view());
  assert.match(text, /1 question /);
  assert.match(text, /May a cat come along\? uncertain \u00b7 2 times .* intranet/);
  const mark = elements(html, "span").find((each) => attribute(each, "role") === "img");
  assert.deepEqual([attribute(mark, "class"), attribute(mark, "aria-label")], ["unsure", "uncertain"]);
  assert.match(attribute(elements(html, "a").find((each) => textOf(each) === ASKED.question), "href"), /\/questions\/q1$/);
});

test("empty server is not asked for questions and names the days", async () => {
  for (const show of ["asked", "accepted"]) {
    const screen = await openList(`show=${show}`, { names: [] });
    assert.deepEqual(requested(screen), []);
    const { text, html } = drawn(screen.view());
    assert.match(text, show === "asked" ? /Questions are listed for 90 days\./ : /No accepted questions yet\./);
    assert.ok(!html.includes('role="alert"'));
  }
});

test("question page shows answer, passages, time and costs", async () => {
  const { html, text } = drawn((await openQuestion(QUERY)).view());
  assert.match(text, /uncertain \u00b7 2 Oct 2026, .* \u00b7 1\.5 s \u00b7 Key intranet/);
  assert.match(text, /Cats Pets \u00b7 pets\.md \u00b7 page 3 \u00b7 cited Cats stay at home\. 0\.40/);
  assert.match(text, /This passage was changed or deleted\./);
  assert.match(text, /Tokens 100 tokens Cost \$0\.02 Key intranet/);
  assert.match(text, /Search 400 ms Answer 1 s/);
  const links = elements(html, "a").map((each) => attribute(each, "href").replace(/^.*?(?=\/(ask|lab|documents|questions))/, ""));
  const question = encodeURIComponent(QUERY.question);
  for (const link of [`/ask?collection=handbook#q=${question}`, `/lab/explain?collection=handbook#q=${question}`,
    "/documents/d1?chunk=c1", "/questions?collection=handbook"]) assert.ok(links.includes(link), link);
});

for (const [change, words] of [
  [{ answers_stored: false }, /Not stored: FOREASK_QUERY_ANSWERS is off\. Ask again to read an answer\./],
  [{}, /Not stored then, or a passage that it cites was changed or deleted since\./],
  [{ form: null, state: "passages" }, /Only passages were requested, and no answer was written\./],
  [{ form: null, state: "none", passages: [] }, /No passage was found, and no answer was written\./],
]) {
  test(`missing answer has its reason: ${words.source.slice(0, 20)}`, async () => {
    assert.match(drawn((await openQuestion({ ...QUERY, answer: null, ...change })).view()).text, words);
  });
}

test("question of a gap links to it", async () => {
  const { html } = drawn((await openQuestion({ ...QUERY, gap_id: "g1" })).view());
  const gap = elements(html, "a").find((each) => textOf(each) === "Gap");
  assert.match(attribute(gap, "href"), /\/gaps\?collection=handbook&gap=g1$/);
});
