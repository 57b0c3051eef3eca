// The queue of uploads.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, openPage, pass, settled, stopClock } from "./browser.mjs";

/** Answer each upload with the status that `reply` returns for its file name; without one, it waits. */
function answering(reply) {
  const sent = [];
  globalThis.XMLHttpRequest = class extends EventTarget {
    upload = new EventTarget();
    response = {};
    headers = {};
    open() {}
    setRequestHeader() {}
    getResponseHeader(name) { return this.headers[name] ?? null; }
    abort() { this.dispatchEvent(new Event("abort")); }
    send(form) {
      const { name } = form.get("file");
      sent.push(name);
      const answer = reply(name, sent.length);
      if (answer) queueMicrotask(() => this.dispatchEvent(Object.assign(this, answer) && new Event("load")));
    }
  };
  return sent;
}

const files = (...names) => names.map((name) => ({ file: new File([""], name), path: name }));
const numbered = (count) => Array.from({ length: count }, (_, index) => `${index}`);

test("waiting uploads are never dropped", async () => {
  const sent = answering(() => ({ status: 202 }));
  const { send } = await openPage()("parts/uploads.js");
  send(files(...numbered(420)), {}, 0, () => {});
  send(files(...numbered(5)), {}, 0, () => {});
  while (sent.length < 425) await settled();
  assert.equal(sent.length, 425);
});

test("proxy without server loses no file", async (t) => {
  stopClock(t, "2026-10-01T08:00:00Z");
  const sent = answering((_, number) => (number === 1 ? { status: 502, response: null } : { status: 202 }));
  const { send, uploads } = await openPage()("parts/uploads.js");
  send(files("patient.txt"), {}, 0, () => {});
  await settled();
  assert.match(drawn(uploads()).text, /1 file uploading.*The server did not respond\./);
  await pass(t, 2000);
  assert.match(drawn(uploads()).text, /1 file uploaded/);
  assert.deepEqual(sent, ["patient.txt", "patient.txt"]);
});

test("stopped uploads free their slots", async () => {
  const sent = answering((name) => (name.startsWith("stop") ? { status: 429, response: { detail: "Enough for today." }, headers: { "retry-after": "43200" } } : { status: 202 }));
  const { send, uploads } = await openPage()("parts/uploads.js");
  send(files("stop-0", "stop-1", "stop-2", "stop-3"), {}, 0, () => {});
  await settled();
  assert.equal(sent.length, 3);
  const { text, handler } = drawn(uploads());
  assert.match(text, /Enough for today\./);
  handler("click", "Stop")();
  await settled();
  assert.match(drawn(uploads()).text, /0 files uploaded, 4 cancelled/);
  send(files("next"), {}, 0, () => {});
  await settled();
  assert.match(drawn(uploads()).text, /1 file uploaded, 4 cancelled/);
});

test("too large file is refused before its upload", async () => {
  const sent = answering(() => ({ status: 202 }));
  const { send, uploads } = await openPage()("parts/uploads.js");
  send([{ file: new File(["12345678901"], "large"), path: "large" }], {}, 10, () => {});
  await settled();
  assert.match(drawn(uploads()).text, /1 rejected.*The file is 11 B\. The server accepts at most 10 B\./);
  assert.deepEqual(sent, []);
});
