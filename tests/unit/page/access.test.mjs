// Readers of documents, their review, and documents as a person sees them.

import assert from "node:assert/strict";
import test from "node:test";
import { Store, drawn, openPage, settled } from "./browser.mjs";

const ME = { tenant: "acme", key: "admin", scopes: ["read", "ask", "feedback", "write", "manage", "delegate"] };
const PERSON = { user: "Zoë, ada@example.org", groups: ["legal", "R&D, Bonn"] };

/** Return a store of a tab that views as a person. @param {object} person */
function viewing(person) {
  const session = new Store();
  session.setItem("foreask.viewed", JSON.stringify(person));
  return session;
}

test("fields become the readers of a document", async () => {
  const { choiceOf, readersFrom } = await openPage()("parts/readers.js");
  const none = { groups: null, users: null };
  for (const [choice, readers] of [["everyone", ["everyone"]], ["nobody", []], ["unset", null]]) {
    assert.deepEqual(readersFrom({ ...none, choice }), readers);
    assert.equal(choiceOf(readers), choice);
  }
  const named = { choice: "named", groups: " legal\n\nlegal\nhr ", users: "ada" };
  assert.deepEqual(readersFrom(named), ["group:legal", "group:hr", "user:ada"]);
  assert.equal(choiceOf(["group:legal"]), "named");
  assert.throws(() => readersFrom({ ...none, choice: "named" }), { field: "groups" });
  assert.throws(() => readersFrom({ ...none, choice: "named", users: "a".repeat(257) }), { field: "users" });
});

test("readers of a document are words", async () => {
  const { readersWords } = await openPage()("parts/reader-words.js");
  assert.equal(readersWords(["everyone"]), "every person");
  assert.equal(readersWords([]), "no person");
  assert.equal(readersWords(null, "everyone"), "not set (every person reads it)");
  assert.equal(readersWords(null, "nobody"), "not set (no person reads it)");
  assert.equal(readersWords(["group:legal", "user:group:x"]), "group legal, user group:x");
  assert.match(readersWords(["a", "b", "c", "d", "e", "f"].map((name) => `user:${name}`)), /user d and 2 more$/);
});

test("check says why a person reads a document", async () => {
  const { reasonOf } = await openPage()("parts/readers.js");
  const said = (readable, readable_by, matches = []) =>
    reasonOf("ada", { readable, versions: [{ live: false, readable_by: [] }, { live: true, readable_by, matches }] });
  assert.match(said(true, ["group:hr", "group:legal"], ["group:legal"]), /^ada reads .* group legal\.$/);
  assert.match(said(false, ["group:hr"]), /does not read .* group hr\.$/);
  assert.match(said(false, []), /does not read .* no person\.$/);
  assert.match(said(true, null), /ada reads the document: it names no readers/);
  assert.match(said(false, null), /does not read the document: it names no readers/);
  assert.match(reasonOf("ada", { readable: false, versions: [{ live: false, readable_by: null }] }), /No query/);
});

test("review links to documents and marks unknown groups", async () => {
  const items = [
    { reader: "unset", documents: 7, seen_at: null },
    { reader: "group:legal & hr", documents: 3, seen_at: new Date().toISOString() },
    { reader: "group:lega", documents: 1, seen_at: null },
  ];
  const asked = [];
  let names = ["handbook"];
  const replies = (path) => {
    asked.push(path);
    if (path.startsWith("/v1/collections")) return { items: names.map((name) => ({ name })), next_cursor: null };
    return path.startsWith("/v1/access-review") ? { readable_by_default: "everyone", items } : ME;
  };
  const screen = await openPage({ path: "/access", replies })("routes/access.js");
  await screen.load();
  await settled();
  const { html, text } = drawn(screen.view());
  assert.match(html, /documents\?collection=handbook&amp;readable_by=group%3Alegal\+%26\+hr"/);
  assert.equal(text.match(/no person has this group/g).length, 1);

  names = ["handbook", "contracts"];
  await screen.load();
  await settled();
  assert.doesNotMatch(drawn(screen.view()).html, /readable_by=/);
  drawn(screen.view()).handler("change")({ target: { value: "contracts" } });
  await settled();
  assert.ok(asked.includes("/v1/access-review?collection=contracts"));
  assert.match(drawn(screen.view()).html, /collection=contracts&amp;readable_by=unset/);
});

test("list of documents shows one reader until it is removed", async () => {
  const load = openPage({ path: "/documents?readable_by=group%3Alegal&state=ready" });
  globalThis.history = { state: null, replaceState: (_state, _title, to) => (location.href = new URL(to, location).href) };
  const { narrowed, narrowing } = await load("parts/narrowing.js");
  assert.deepEqual(narrowed(), [["readable_by", "group:legal"]]);
  const shown = drawn(narrowing(() => {}));
  assert.match(shown.text, /Readers:\s+group legal/);
  shown.handler("click", "Show all documents")();
  assert.deepEqual([narrowed(), location.search], [[], "?state=ready"]);
});

test("every request of a view names the person", async () => {
  const sent = [];
  const replies = (path, { headers }) => (sent.push([path, headers]), path.endsWith("content") ? new Response("x") : {});
  const load = openPage({ session: viewing(PERSON), replies });
  const { bytes, follow, get, post } = await load("api.js");
  await get("/v1/documents");
  await post("/v1/query", {});
  await bytes("/v1/documents/1/content");
  await follow("POST", "/v1/query", () => {}, { body: {} });
  assert.equal(sent.length, 4);
  for (const [path, headers] of sent) {
    assert.equal(headers["x-foreask-user"], "Zo%C3%AB%2C%20ada%40example.org", path);
    assert.equal(headers["x-foreask-groups"], "legal,R%26D%2C%20Bonn", path);
  }
});

test("upload of a view names the person", async () => {
  const sent = {};
  globalThis.XMLHttpRequest = class extends EventTarget {
    upload = new EventTarget();
    status = 200;
    open() {}
    setRequestHeader(name, value) { sent[name] = value; }
    send() { queueMicrotask(() => this.dispatchEvent(new Event("load"))); }
  };
  const { upload } = await openPage({ session: viewing({ user: "ada", groups: [] }) })("api.js");
  await upload("/v1/documents", new FormData(), () => {}, new AbortController().signal);
  assert.deepEqual(sent, { "x-foreask-user": "ada" });
});

test("view offers only what a person may do", async () => {
  const load = openPage({ session: viewing(PERSON), replies: () => ({ ...ME, person: PERSON }) });
  const { loadPermissions, may } = await load("parts/permissions.js");
  const { allowedScreens } = await load("parts/navigation.js");
  const check = () => {
    assert.deepEqual(allowedScreens().map(({ path }) => path), ["/ask", "/documents", "/api"]);
    assert.ok(!may("feedback") && !may("delegate") && !may("write"));
  };
  check(); // before the server has answered
  await loadPermissions();
  check();
});

test("view of another person receives no events of all documents", async () => {
  const { readsAll } = await openPage({ session: viewing(PERSON) })("parts/permissions.js");
  assert.equal(await readsAll(), false);
});

test("view neither reads nor stores conversations", async () => {
  const asked = [];
  const store = new Store();
  const replies = (path) => (asked.push(path), { ...ME, conversation_retention_days: 30 });
  const own = await openPage({ store, replies: () => ME })("parts/conversations.js");
  await own.loadConversations();
  await own.store({ id: "own", name: "Mine", at: 1, turns: [] });
  assert.equal(Object.keys(store).length, 1);

  const page = await openPage({ store, session: viewing(PERSON), replies })("parts/conversations.js");
  await page.loadConversations(true);
  assert.deepEqual(page.stored.items, []);
  await page.store({ id: "theirs", name: "Theirs", at: 2, turns: [] });
  assert.deepEqual(page.stored.items.map(({ id }) => id), ["theirs"]);
  assert.equal(Object.keys(store).length, 1);
  assert.ok(!asked.some((path) => path.startsWith("/v1/conversations")));
});

test("view starts and ends with a load of the page", async () => {
  const session = new Store();
  const { startViewing } = await openPage({ session })("api.js");
  startViewing(PERSON);
  const load = openPage({ session });
  const { ROOT, viewed } = await load("api.js");
  const { viewBanner } = await load("parts/view-banner.js");
  assert.deepEqual(viewed, PERSON);
  const banner = drawn(viewBanner(viewed));
  assert.match(banner.text, /Zoë, ada@example\.org.*legal, R&D, Bonn.*audit log/);
  const opened = [];
  globalThis.location = { assign: (address) => opened.push(address) };
  banner.handler("click", "Stop viewing")();
  assert.deepEqual([opened, session.getItem("foreask.viewed")], [[`${ROOT}/access`], null]);
});

test("sign-out ends the view", async () => {
  const session = viewing(PERSON);
  const { signOut } = await openPage({ session, replies: () => ({}) })("parts/sign-in.js");
  globalThis.location = Object.assign(new URL("http://foreask.test/"), { assign: () => {} });
  await signOut();
  assert.equal(session.getItem("foreask.viewed"), null);
});

test("removed key ends the view, and another key does not", async () => {
  const session = viewing(PERSON);
  const { forgetKey, storeKey } = await openPage({ session })("api.js");
  storeKey("another", false);
  assert.ok(session.getItem("foreask.viewed"));
  forgetKey();
  assert.equal(session.getItem("foreask.viewed"), null);
});
