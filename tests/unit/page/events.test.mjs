// The stream of events of a tab.

import assert from "node:assert/strict";
import test from "node:test";
import { openPage, pass, settled, stopClock } from "./browser.mjs";

/** Listen in a tab that is alone; `tab.open` counts its open streams, and `tab.send` sends an event. */
async function listening(t, events = []) {
  stopClock(t, "2026-10-01T08:00:00Z");
  const tab = { open: 0, started: 0, headers: [], connections: [] };
  const load = openPage({
    replies: (_, { signal, headers }) => {
      tab.open += 1;
      tab.started += 1;
      tab.headers.push(headers);
      return new Response(new ReadableStream({
        start: (stream) => {
          tab.send = (id) => stream.enqueue(new TextEncoder().encode(`id: ${id}\nevent: document\ndata: {"n":${id}}\n\n`));
          tab.end = () => (tab.open--, stream.close());
          signal.addEventListener("abort", () => (tab.open--, stream.error(signal.reason)), { once: true });
        },
      }));
    },
  });
  const handlers = [];
  document.addEventListener = (_name, handle) => handlers.push(handle);
  tab.hide = (hidden) => {
    document.hidden = hidden;
    for (const handle of handlers) handle();
  };
  const { listen } = await load("events.js");
  tab.close = listen((name, data) => events.push(data.n ?? name), (isConnected) => tab.connections.push(isConnected));
  await settled();
  return tab;
}

test("tab hidden and shown again keeps one stream", async (t) => {
  const tab = await listening(t);
  tab.send(1);
  await settled();
  for (const hidden of [true, false, true, false]) tab.hide(hidden);
  await pass(t, 2500); // longer than the pause before another connection
  await pass(t, 2500);
  assert.equal(tab.open, 1);
  tab.close();
  await settled();
  assert.equal(tab.open, 0);
});

test("lost stream continues after its last event", async (t) => {
  const events = [];
  const tab = await listening(t, events);
  tab.send(7);
  await settled();
  tab.end();
  await settled();
  assert.deepEqual([tab.started, tab.connections.at(-1)], [1, false]);
  await pass(t, 2000);
  assert.deepEqual([tab.started, tab.headers.at(-1)["last-event-id"]], [2, "7"]);
  tab.send(8);
  await settled();
  assert.deepEqual([events, tab.connections.at(-1)], [[7, 8], true]);
  tab.close();
});

test("tab hidden before its first event is read again", async (t) => {
  const events = [];
  const tab = await listening(t, events);
  tab.hide(true);
  await settled();
  assert.equal(tab.open, 0);
  tab.hide(false);
  await settled();
  assert.deepEqual(events, ["reset"]);
  tab.close();
});
