// The reader: the questions of a chunk, and its reasons.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, openPage, settled } from "./browser.mjs";

const QUESTION = {
  passed: true, reason: null, similarity: 0.5, accepted: null, disabled: false, disabled_by: null, disabled_at: null,
};
const OFF = { disabled: true, disabled_by: "editor", disabled_at: "2026-10-01T08:00:00Z" };
const OWN = { id: "own", state: "indexed", query_id: null, at: "2026-10-01T08:00:00Z" };
const CHUNK = {
  id: "chunk", ordinal: 0, text: "All staff get 30 days.", heading_path: [], page: null, confidence: null, span: [0, 22], state: "indexed",
  error: null, attempts: [], usage: { calls: 1, prompt_tokens: 600, completion_tokens: 33, cost: 0.0004 },
  disabled_questions: 0,
  questions: [
    { ...QUESTION, text: "How many days of leave are there?", source: "generated" },
    { ...QUESTION, text: "How long is the holiday?", source: "user", accepted: OWN },
  ],
};
const DOCUMENT = {
  id: "leave", external_id: "leave.md", collection: "handbook", title: "Leave", filename: "leave.md", media_type: null, state: "ready", error: null, outdated: false,
  readable_by: null, version: 1, live_version: 1, updated_at: "2026-10-01T08:00:00Z", questions: 2, pages: 0, pages_read: 0, pages_unread: 0, losses: [], unread: [],
  chunks: { total: 1, searchable: 1, indexed: 1, dead: 0 }, usage: { calls: 1, cost: 0.0004 },
};

/** Open a document's first chunk; `sent` has the requests that change something. */
async function read({ chunk = {}, document = {}, refusal = null } = {}) {
  const sent = [];
  const load = openPage({
    path: "/documents/leave",
    replies: (path, { method, body }) => {
      if (method !== "GET") sent.push([method, path, body && JSON.parse(body)]);
      if (method === "DELETE") return new Response(null, { status: 204 });
      if (method === "POST") return { outcome: "accepted" };
      if (path === "/v1/events") return new Promise(() => {});
      if (method === "PATCH") return refusal ?? {};
      if (path.startsWith("/v1/documents/leave/chunks")) return { items: [{ ...CHUNK, ...chunk }], next_cursor: null, previous_cursor: null };
      if (path === "/v1/documents/leave") return { ...DOCUMENT, ...document };
      return { items: [], next_cursor: null };
    },
  });
  const reader = await load("routes/document.js");
  await reader.load({ id: "leave", query: new URLSearchParams() });
  await settled();
  return { ...reader, sent, shown: () => drawn(reader.view()) };
}

test("question is added to a chunk", async () => {
  const { shown, sent, unload } = await read();
  shown().handler("click", "Add question")();
  shown().handler("input", "Question that this chunk answers")({ target: { value: " What is the holiday? " } });
  shown().handler("submit")({ preventDefault: () => {} });
  await settled();
  assert.deepEqual(sent, [["POST", "/v1/collections/handbook/accepted-questions", { question: "What is the holiday?", chunk_id: "chunk" }]]);
  assert.match(shown().text, /Add question/);
  unload();
});

test("changed question replaces the former one", async () => {
  const { shown, sent, unload } = await read();
  shown().handler("click", "Edit")();
  shown().handler("input", "Question that this chunk answers")({ target: { value: "How many holidays?" } });
  shown().handler("submit")({ preventDefault: () => {} });
  await settled();
  const base = "/v1/collections/handbook/accepted-questions";
  assert.deepEqual(sent, [["POST", base, { question: "How many holidays?", chunk_id: "chunk" }], ["DELETE", `${base}/own`, undefined]]);
  unload();
});

test("unchanged question is neither added nor removed", async () => {
  const { shown, sent, unload } = await read();
  shown().handler("click", "Edit")();
  shown().handler("submit")({ preventDefault: () => {} });
  await settled();
  assert.deepEqual(sent, []);
  unload();
});

test("only own questions can be removed", async () => {
  const { shown, sent, unload } = await read();
  assert.equal(shown().html.match(/>Remove</g).length, 1);
  shown().handler("click", "Remove")();
  await settled();
  assert.deepEqual(sent, [["DELETE", "/v1/collections/handbook/accepted-questions/own", undefined]]);
  unload();
});

test("generated question is switched off", async () => {
  const { shown, sent, unload } = await read();
  assert.equal(shown().html.match(/>Switch off</g).length, 1);
  shown().handler("click", "Switch off: How many days of leave are there?")();
  await settled();
  const body = { question: "How many days of leave are there?", disabled: true };
  assert.deepEqual(sent, [["PATCH", "/v1/chunks/chunk/questions", body]]);
  unload();
});

test("question that is off says so and can be switched on", async () => {
  const questions = [
    { ...QUESTION, ...OFF, text: "May I fly?", source: "generated" },
    { ...QUESTION, ...OFF, disabled_by: null, text: "May I sail?", source: "given" },
    { ...QUESTION, passed: false, reason: "too short", text: "Fly?", source: "generated" },
    { ...QUESTION, passed: null, text: "Is it new?", source: "generated" },
  ];
  const { shown, sent, unload } = await read({ chunk: { questions, disabled_questions: 2 } });
  const { html, text } = shown();
  assert.equal(html.match(/<li class="off"/g).length, 2);
  assert.equal(html.match(/role="img" aria-label="switched off"/g).length, 2);
  assert.match(text, /May I fly\?\s+switched off by editor/);
  assert.match(text, /May I sail\?\s+switched off \u00b7 supplied with the document/);
  assert.match(text, /0 kept/);
  assert.match(text, /1 dropped\s*2 off/);
  assert.deepEqual(html.match(/Switch (on|off): [^"]*/g), ["Switch on: May I fly?", "Switch on: May I sail?"]);
  shown().handler("click", "Switch on: May I fly?")();
  await settled();
  assert.deepEqual(sent, [["PATCH", "/v1/chunks/chunk/questions", { question: "May I fly?", disabled: false }]]);
  unload();
});

test("cost of a chunk is one line without its characters", async () => {
  const { shown, unload } = await read();
  assert.match(shown().text, /1 call \u00b7 633 tokens \u00b7 \$0\.0004/);
  assert.ok(!shown().text.includes("0\u201322"));
  unload();
});

test("reason of a failure is shown once", async () => {
  const error = "The provider's content filter stopped the reply.";
  const attempts = ["2026-10-01T08:00:00Z", "2026-10-01T09:00:00Z"].map((at, index) => ({ at, attempt: index + 1, error }));
  const { shown, unload } = await read({ chunk: { state: "dead", error, attempts, questions: [] }, document: { error, state: "searchable" } });
  const { text } = shown();
  assert.equal(text.split(error).length, 2);
  assert.match(text, /2 attempts/);
  unload();
});

test("damaged file is replaced rather than read again", async () => {
  const error = "The PDF file is damaged.";
  const { shown, unload } = await read({ chunk: {}, document: { state: "failed", error } });
  const { html, text } = shown();
  assert.match(html, /<button class="main" @click="\d+">Replace file<\/button>/);
  assert.match(html, /<button @click="\d+">Try again<\/button>/);
  assert.equal(text.split(error).length, 2);
  unload();
});
