// Conversations of a key: in the browser's store, or on the server.

import assert from "node:assert/strict";
import test from "node:test";
import { Store, drawn, openPage, settled } from "./browser.mjs";

const KEY = "key-of-ours";
const TURN = { question: "How many days?", answer: "Thirty [1].", collection: "default", sources: [], stopped: false };
const conversation = (id, at, turns = [TURN]) => ({ id, name: `The ${id}`, at, turns });
const viewOf = ({ id, name, at, turns }) => ({ id, name, changed_at: new Date(at).toISOString(), turns });
const UNAVAILABLE = () => Response.json({ status: 503, detail: "The database is unavailable." }, { status: 503 });

/** Open a page whose API stores conversations for `days`; `server.stored` has those of the key, by id. */
async function opened({ days = 0, store = new Store(), change = async () => undefined } = {}) {
  const server = { stored: new Map(), days, store, visits: 0 };
  const load = openPage({
    store,
    replies: async (path, { method, body }) => {
      if (path === "/v1/me") return server.visits++, { conversation_retention_days: server.days };
      if (method === "GET") return { items: [...server.stored.values()], next_cursor: null };
      const refused = await change(path, method);
      if (refused) return refused;
      const id = path.split("/")[3];
      if (method === "DELETE") return server.stored.delete(id), new Response(null, { status: 204 });
      server.stored.set(id, { id, ...JSON.parse(body) });
      return server.stored.get(id);
    },
  });
  sessionStorage.setItem("foreask.key", KEY);
  const conversations = await load("parts/conversations.js");
  await conversations.loadConversations();
  return { ...conversations, server, api: await load("api.js") };
}

const inStore = (store) => Object.keys(store).filter((name) => name.startsWith("foreask.conversation."));

test("full store drops the oldest conversations", async () => {
  const { store, stored, server } = await opened({ store: new Store(2000) });
  const long = [{ ...TURN, answer: "x".repeat(400) }];
  for (let at = 1; at <= 8; at += 1) await store(conversation(`${at}`, at, long));
  const ids = stored.items.map(({ id }) => id);
  assert.deepEqual(ids, ["8", "7", "6"]);
  assert.equal(inStore(server.store).length, 3);
});

test("conversation without room stays until the page closes", async () => {
  const { store, stored } = await opened({ store: new Store(300) });
  await store(conversation("1", 1, [{ ...TURN, answer: "x".repeat(400) }]));
  assert.deepEqual(stored.items, []);
});

test("at most a hundred conversations are stored", async () => {
  const { store, stored, MOST } = await opened();
  for (let at = 0; at < MOST + 3; at += 1) await store(conversation(`${at}`, at));
  assert.equal(stored.items.length, MOST);
  assert.equal(stored.items.at(-1).id, "3");
});

test("stored turn has sources but no passages", async () => {
  const { fromStored, newTurn, toStored } = await openPage()("parts/turns.js");
  const chunk = { chunk_id: "c", document_id: "d", external_id: "leave.md", title: null, filename: null, heading_path: [], page: null, text: "Everybody has thirty days." };
  const turn = { ...newTurn("How many days?", "default", []), answer: "Thirty [1].", cited: [{ number: 1, chunk, sentences: [[0, 9]] }] };
  const stored = toStored(turn);
  assert.ok(!JSON.stringify(stored).includes("Everybody"));
  assert.deepEqual(fromStored(stored).cited[0].chunk.chunk_id, "c");
});

test("answer that was cut says so, also when it was stored", async () => {
  const load = openPage();
  const [{ fromStored, newTurn, toStored, apply }, { answerView }] = [await load("parts/turns.js"), await load("parts/answer.js")];
  const metadata = { usage: { prompt_tokens: 1, completion_tokens: 1 }, milliseconds: { total: 10 } };
  for (const [cut, words] of [["length", /reached its token limit/], ["content_filter", /content filter/], ["interrupted", /interrupted/], [null, /^(?!.*incomplete)/s]]) {
    const turn = newTurn("How many days?", "default", []);
    apply(turn, "done", { answer: "Thirty, bu", found: true, form: "generative", certain: !cut, incomplete_reason: cut, citations: [], removed_citations: [], chunks: [], metadata });
    for (const shown of [turn, fromStored(toStored(turn))]) assert.match(drawn(answerView(shown, null, true, false, {})).text, words);
  }
});

test("conversations are found by all words of a search", async () => {
  const { matching, store } = await opened();
  await store(conversation("days", 1));
  await store(conversation("travel", 2, [{ ...TURN, question: "Who travels?", answer: "Nobody." }]));
  for (const [words, ids] of [["", ["travel", "days"]], ["THIRTY many", ["days"]], ["the travels", ["travel"]], ["thirty nobody", []]]) {
    assert.deepEqual(matching(words).map(({ id }) => id), ids, words);
  }
});

test("server without the setting gets no conversation", async () => {
  const { store, server } = await opened();
  await store(conversation("1", 1));
  assert.equal(server.stored.size, 0);
  assert.equal(inStore(server.store).length, 1);
});

test("stored name never contains the key", async () => {
  const { store, server } = await opened();
  await store(conversation("1", 1));
  assert.ok(!JSON.stringify(Object.entries(server.store)).includes(KEY));
});

test("server that stores conversations leaves none in the browser", async () => {
  const { store, server } = await opened({ days: 30 });
  await store(conversation("1", 1));
  assert.deepEqual([...server.stored.keys()], ["1"]);
  assert.deepEqual(inStore(server.store), []);
});

test("conversation stays in the browser while the server fails", async () => {
  let fails = true;
  const { store, stored, server } = await opened({ days: 30, change: async () => (fails ? UNAVAILABLE() : undefined) });
  await store(conversation("1", 1));
  await settled();
  assert.equal(stored.inBrowser, 1);
  fails = false;
  await store(conversation("1", 2));
  await settled();
  assert.deepEqual([stored.inBrowser, ...server.stored.keys()], [0, "1"]);
});

test("browsers conversations move only on request", async () => {
  const store = new Store();
  const before = await opened({ store });
  await before.store(conversation("1", 1));
  const { loadConversations, moveToServer, stored, server } = await opened({ store, days: 30 });
  await loadConversations(true);
  await settled();
  assert.deepEqual([stored.inBrowser, server.stored.size], [1, 0]);
  await moveToServer();
  assert.deepEqual([stored.inBrowser, ...server.stored.keys()], [0, "1"]);
});

test("list read during a change contains it", async () => {
  const held = Promise.withResolvers();
  const { loadConversations, store, stored, server } = await opened({ days: 30, change: () => held.promise });
  server.stored.set("1", viewOf(conversation("1", 1)));
  await loadConversations(true);
  const storing = store({ ...conversation("1", 2), name: "Days off" });
  await settled();
  const { visits } = server;
  const reading = loadConversations(true);
  while (server.visits === visits) await settled(); // the digest of the key is computed in a thread
  await settled();
  held.resolve();
  await Promise.all([storing, reading]);
  assert.deepEqual(stored.items.map(({ name }) => name), ["Days off"]);
});

test("conversation is never sent with another key", async () => {
  let sent = 0;
  const revoked = async () => (++sent === 1 ? Response.json({ status: 401 }, { status: 401 }) : undefined);
  const { store, server, api } = await opened({ days: 30, change: revoked });
  api.onKeyRequired(async () => sessionStorage.setItem("foreask.key", "key-of-another"));
  await store(conversation("1", 1));
  await settled();
  assert.deepEqual([sent, server.stored.size], [1, 0]);
});
