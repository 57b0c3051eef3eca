// The list of documents: the rows that it reads and draws.

import assert from "node:assert/strict";
import test from "node:test";
import { attribute, drawn, openPage, pass, settled, stopClock, textOf } from "./browser.mjs";

const TOTAL = 250;
const ROW = 48; // pixels
const documentOf = (number) => ({
  id: `${number}`, external_id: `paper-${number}`, title: null, filename: null, state: "ready", error: null, updated_at: "2026-10-01T08:00:00Z", questions: 3,
  chunks: { total: 1, indexed: 1, searchable: 1, dead: 0 }, pages: 0, pages_read: 0, pages_unread: 0, losses: [], unread: [], outdated: false,
  usage: { calls: 1, cost: null },
});
const from = (start, end) => Array.from({ length: end - start }, (_, index) => documentOf(start + index));
const REFUSAL = () => Response.json({ status: 429, detail: "Too many requests." }, { status: 429, headers: { "retry-after": "0" } });

/** Open the list; `screen.later` answers requests for rows after the first hundred, and `screen.requested` counts these. */
async function openDocuments(later, { query = "", state = null, rows = from(0, 100) } = {}) {
  const screen = { requested: 0, later, addresses: [], sent: [] };
  const load = openPage({
    path: `/documents?${query}`,
    replies: (path, { method, keepalive }) => {
      screen.sent.push({ method, path, keepalive });
      if (path === "/v1/events") return new Promise(() => {});
      if (path.startsWith("/v1/collections")) return { items: [{ name: "default", documents: { ready: TOTAL }, points: TOTAL }], next_cursor: null };
      if (!path.startsWith("/v1/documents?")) return {};
      const cursor = new URLSearchParams(path.split("?")[1]).get("cursor");
      screen.requested += Boolean(cursor);
      return cursor ? screen.later() : { items: rows, next_cursor: rows.length === 100 ? "100" : null, hits: 7 };
    },
  });
  const replaceState = (...[, , address]) => address && screen.addresses.push(address);
  globalThis.history = { state, replaceState };
  Object.assign(screen, await load("routes/documents.js"));
  await screen.load({ query: new URLSearchParams(query) });
  screen.scroll = async (row) => {
    drawn(screen.view()).handler("scroll")({ currentTarget: { scrollTop: row * ROW, clientHeight: 800, isConnected: true } });
    drawn(screen.view());
    await settled();
  };
  return screen;
}

const positions = ({ html }) => [...html.matchAll(/aria-posinset="(\d+)"/g)].map(([, position]) => Number(position));

test("only the rows in the window are drawn", async () => {
  const screen = await openDocuments(() => ({ items: from(100, TOTAL), next_cursor: null }));
  assert.deepEqual([positions(drawn(screen.view()))[0], screen.requested], [1, 0]);
  await screen.scroll(90);
  assert.equal(screen.requested, 1);
  await screen.scroll(TOTAL);
  const shown = positions(drawn(screen.view()));
  assert.equal(shown.at(-1), TOTAL);
  assert.ok(shown.length <= 40);
  screen.unload();
});

test("refused rows are read again only on request", async () => {
  const screen = await openDocuments(REFUSAL);
  await screen.scroll(90);
  for (let times = 0; times < 3; times += 1) await screen.scroll(95);
  assert.equal(screen.requested, 1);
  assert.match(drawn(screen.view()).text, /Too many requests\./);
  screen.later = () => ({ items: from(100, TOTAL), next_cursor: null });
  drawn(screen.view()).handler("click", "Try again")();
  await settled();
  await screen.scroll(TOTAL);
  assert.equal(positions(drawn(screen.view())).at(-1), TOTAL);
  assert.equal(screen.requested, 2);
  screen.unload();
});

test("address selects the documents", async () => {
  const screen = await openDocuments(null, { query: "q=paper+1&state=open&sort=name" });
  const { path } = screen.sent.find((each) => each.path.startsWith("/v1/documents?"));
  const { q, state, sort, count } = Object.fromEntries(new URLSearchParams(path.split("?")[1]));
  assert.deepEqual([q, state, sort, count], ["paper 1", "queued,parsing,reading,indexing,searchable", "name", "true"]);
  const shown = drawn(screen.view());
  assert.match(shown.text, /7 hits/);
  shown.handler("change")({ target: { value: "default" } }); // the picker of collections reads the list again
  assert.equal(new URL(screen.addresses.at(-1), "http://foreask.test").search, "?q=paper+1&state=open&sort=name");
  await settled();
  screen.unload();
});

test("wrong values in the address are ignored", async () => {
  const screen = await openDocuments(null, { query: "state=broken&sort=price" });
  const { path } = screen.sent.find((each) => each.path.startsWith("/v1/documents?"));
  const query = new URLSearchParams(path.split("?")[1]);
  assert.deepEqual([query.get("state"), query.get("sort")], [null, "newest"]);
  screen.unload();
});

test("entry of the history restores the scroll position", async () => {
  const screen = await openDocuments(() => ({ items: from(100, TOTAL), next_cursor: null }), { state: { top: 180 * ROW } });
  assert.equal(screen.requested, 1);
  assert.ok(positions(drawn(screen.view())).includes(185));
  screen.unload();
});

test("removed list does not lose its size", async () => {
  const screen = await openDocuments(() => ({ items: from(100, TOTAL), next_cursor: null }));
  const scroll = drawn(screen.view()).handler("scroll");
  await screen.scroll(40);
  const before = positions(drawn(screen.view()));
  scroll({ currentTarget: { scrollTop: 0, clientHeight: 0, isConnected: false } });
  assert.deepEqual(positions(drawn(screen.view())), before);
  screen.unload();
});

test("event of the former collection adds no row", async () => {
  const held = Promise.withResolvers();
  const event = `event: document\ndata: ${JSON.stringify({ ...documentOf(9), collection: "first", created_at: "2026-10-02T08:00:00Z" })}\n\n`;
  const items = ["first", "second"].map((name) => ({ name, documents: { ready: 1 }, points: 1 }));
  const load = openPage({
    path: "/documents?collection=first",
    replies: async (path) => {
      if (path === "/v1/events") return new Response(new ReadableStream({ start: (stream) => stream.enqueue(new TextEncoder().encode(event)) }));
      if (path.startsWith("/v1/collections")) return { items, next_cursor: null };
      if (!path.startsWith("/v1/documents?")) return {};
      if (path.includes("collection=first")) await held.promise;
      return { items: [{ ...documentOf(1), collection: "second", created_at: "2026-10-01T08:00:00Z" }], next_cursor: null, hits: null };
    },
  });
  globalThis.history = { state: null, replaceState: (_state, _title, address) => (location.href = new URL(address, location.href).href) };
  const screen = await load("routes/documents.js");
  screen.load({ query: new URLSearchParams("collection=first") });
  await settled();
  drawn(screen.view()).handler("change")({ target: { value: "second" } });
  await settled();
  held.resolve();
  await settled();
  assert.deepEqual(positions(drawn(screen.view())), [1]);
  screen.unload();
});

/** Draw a list of one document. */
async function rowOf(changes) {
  const screen = await openDocuments(null, { rows: [{ ...documentOf(1), ...changes }] });
  const { html } = drawn(screen.view());
  screen.unload();
  const row = html.slice(html.indexOf("<li"), html.indexOf("</li>"));
  return { row, text: textOf(row.replace(/<span class="hidden">.*?<\/span>/g, "")) };
}

test("queued document has dashes instead of zeros", async (t) => {
  stopClock(t, "2026-10-01T08:00:00Z"); // the row says how many days ago it was updated
  const none = { total: 0, indexed: 0, searchable: 0, dead: 0 };
  const { text } = await rowOf({ state: "queued", chunks: none, questions: 0, usage: { calls: 0, cost: 0 } });
  assert.match(text, /queued \u2013 \u2013 \u2013/);
  assert.ok(!text.includes("0"));
});

test("name of a document is shown once", async () => {
  const { text } = await rowOf({ title: "Travel Policy", external_id: "travel-policy.md" });
  assert.equal(text.match(/travel/gi).length, 1);
  const other = await rowOf({ title: "Travel Policy", external_id: "hr/travel.md" });
  assert.match(other.text, /Travel Policy hr\/travel\.md/);
});

test("degraded document says why", async () => {
  const losses = [{ location: "page 3", missing: 2, sample: ["quay", "tide"] }];
  const { row, text } = await rowOf({ state: "degraded", losses, unread: ["The attachment is encrypted."], pages: 9, pages_unread: 1 });
  const reasons = /1 page of 9 could not be read\. \u00b7 page 3: 2 missing words \(quay and tide\) \u00b7 The attachment is encrypted\./;
  assert.match(text, reasons);
  assert.match(attribute(row.slice(row.indexOf("<a")), "title"), reasons);
});

test("only a newer reader makes a retry of a failed file useful", async () => {
  const { remedyOf } = await openPage()("parts/state.js");
  const failed = { ...documentOf(1), state: "failed" };
  assert.deepEqual([remedyOf(failed), remedyOf({ ...failed, outdated: true }), remedyOf(documentOf(1))], ["replace", "retry", null]);
  const degraded = { ...documentOf(1), state: "degraded" };
  assert.deepEqual([remedyOf(degraded), remedyOf({ ...degraded, pages_unread: 1 })], ["replace", "retry"]);
});

test("page that is closed sends its pending deletions", async () => {
  const screen = await openDocuments(() => ({ items: from(100, TOTAL), next_cursor: null }));
  await screen.scroll(90);
  drawn(screen.view()).handler("change", "Select all documents")();
  assert.match(drawn(screen.view()).text, /250 documents selected/);
  drawn(screen.view()).handler("click", "Delete 250")();
  assert.equal(positions(drawn(screen.view())).length, 0);
  const deletions = () => screen.sent.filter(({ method }) => method === "DELETE");
  assert.equal(deletions().length, 0);
  dispatchEvent(new Event("pagehide"));
  assert.deepEqual(deletions().map(({ keepalive }) => keepalive), [true, true, true]); // before any other work
  const ids = deletions().flatMap(({ path }) => new URLSearchParams(path.split("?")[1]).getAll("id"));
  assert.deepEqual(ids, from(0, TOTAL).map(({ id }) => id));
  screen.unload();
});

test("refused deletion shows its documents again", async (t) => {
  stopClock(t, "2026-10-01T08:00:00Z");
  const { deleteDocuments, deleting } = await openPage({ replies: (path) => (path.includes("id=150") ? REFUSAL() : { deleted: 100 }) })("parts/deletion.js");
  deleteDocuments(from(0, 200), () => {});
  assert.equal(deleting.size, 200);
  await pass(t, 8_000);
  assert.deepEqual([deleting.size, deleting.has("99"), deleting.has("100")], [100, true, false]);
});

test("undone deletion sends nothing", async (t) => {
  stopClock(t, "2026-10-01T08:00:00Z");
  const sent = [];
  const load = openPage({ replies: (path) => sent.push(path) });
  const { deleteDocuments, deleting } = await load("parts/deletion.js");
  const { notice } = await load("parts/notice.js");
  deleteDocuments(from(0, 2), () => {});
  drawn(notice()).handler("click", "Undo")();
  await pass(t, 20_000);
  dispatchEvent(new Event("pagehide"));
  await settled();
  assert.deepEqual([deleting.size, sent], [0, []]);
});

test("excerpt has the forms of the searched words", async () => {
  const { excerpt, wordsOf } = await openPage()("parts/text-search.js");
  const text = `${"Nothing of interest. ".repeat(20)}The lodgings are paid by the office. ${"More. ".repeat(100)}`;
  const part = excerpt(text, wordsOf("lodging"));
  assert.match(part, /^\u2026 .*The lodgings are paid by the office\..* \u2026$/);
  const marked = (q, words) => words.match(wordsOf(q));
  assert.deepEqual(marked("Lodging, subject3", "lodgings and subject3, not subject33"), ["lodgings", "subject3"]);
  assert.deepEqual(marked("pay", "They pay for payrolls"), ["pay"]);
  assert.deepEqual(marked("年假", "员工有年假。"), ["年假"]);
  assert.equal(wordsOf("?!"), null);
});

test("list without a collection is empty without a request", async () => {
  const requested = [];
  const load = openPage({
    path: "/documents",
    replies: (path) => {
      requested.push(path.split("?")[0]);
      if (path === "/v1/events") return new Promise(() => {});
      return path.startsWith("/v1/collections") ? { items: [], next_cursor: null } : {};
    },
  });
  const screen = await load("routes/documents.js");
  await screen.load({ query: new URLSearchParams() });
  await settled();
  assert.ok(!requested.includes("/v1/documents"));
  assert.match(drawn(screen.view()).text, /No documents yet/);
  screen.unload();
});

test("missing collection is shown as an empty screen", async () => {
  const problem = { type: "urn:foreask:problem:no-collection", status: 404, detail: "The collection 'default' has no documents yet." };
  const load = openPage({ path: "/questions", replies: (path) => (path.startsWith("/v1/collections?") ? { items: [{ name: "default", documents: {}, points: 0 }], next_cursor: null } : Response.json(problem, { status: 404 })) });
  const screen = await load("routes/questions.js");
  await screen.load({ query: new URLSearchParams() });
  await settled();
  const { html, text } = drawn(screen.view());
  assert.match(text, /No documents yet/);
  assert.match(text, /This collection has no documents yet\./);
  assert.ok(!html.includes('role="alert"'));
  screen.unload();
});
