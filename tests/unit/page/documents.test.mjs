// The list of documents: the rows that it reads and draws.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, openPage, settled } from "./browser.mjs";

const TOTAL = 250;
const ROW = 48; // pixels
const documentOf = (number) => ({
  id: `${number}`, external_id: `paper-${number}`, title: null, filename: null, state: "ready", error: null, updated_at: "2026-10-01T08:00:00Z", questions: 3,
  chunks: { total: 1, indexed: 1, searchable: 1 }, usage: { cost: null },
});
const from = (start, end) => Array.from({ length: end - start }, (_, index) => documentOf(start + index));
const REFUSAL = () => Response.json({ status: 429, detail: "Too many requests." }, { status: 429, headers: { "retry-after": "0" } });

/** Open the list; `screen.later` answers requests for rows after the first hundred, and `screen.requested` counts these. */
async function openDocuments(later) {
  const screen = { requested: 0, later };
  const load = openPage({
    path: "/documents",
    replies: (path) => {
      if (path === "/v1/events") return new Promise(() => {});
      if (path.startsWith("/v1/collections")) return { items: [{ name: "default", documents: { ready: TOTAL }, points: TOTAL }], next_cursor: null };
      if (!path.startsWith("/v1/documents?")) return {};
      const cursor = new URLSearchParams(path.split("?")[1]).get("cursor");
      screen.requested += Boolean(cursor);
      return cursor ? screen.later() : { items: from(0, 100), next_cursor: "100" };
    },
  });
  Object.assign(screen, await load("routes/documents.js"));
  await screen.load();
  screen.scroll = async (row) => {
    drawn(screen.view()).handler("scroll")({ currentTarget: { scrollTop: row * ROW, clientHeight: 800 } });
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
  await screen.load();
  await settled();
  assert.ok(!requested.includes("/v1/documents"));
  assert.match(drawn(screen.view()).text, /No documents yet/);
  screen.unload();
});

test("missing collection is shown as an empty screen", async () => {
  const problem = { type: "urn:foreask:problem:no-collection", status: 404, detail: "The collection 'default' has no documents yet." };
  const load = openPage({ path: "/questions", replies: (path) => (path.startsWith("/v1/collections?") ? { items: [], next_cursor: null } : Response.json(problem, { status: 404 })) });
  const screen = await load("routes/questions.js");
  await screen.load({ query: new URLSearchParams() });
  await settled();
  const { html, text } = drawn(screen.view());
  assert.match(text, /No documents yet/);
  assert.match(text, /The collection 'default' has no documents yet\./);
  assert.ok(!html.includes('role="alert"'));
  screen.unload();
});
