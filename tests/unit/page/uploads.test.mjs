// The queue of uploads.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, openPage as page, pass, settled, stopClock } from "./browser.mjs";

const missing = () => Response.json({ status: 404, detail: "Unknown." }, { status: 404 });

/** Open a page whose server opens and closes jobs; `jobs` has the requests, and `read` returns a job. */
function openPage(jobs = [], answer = () => ({ id: `job-${jobs.length}` }), read = missing) {
  return page({
    replies: (path, { body, method }) => {
      if (method === "GET") return read(path);
      jobs.push(body ? { path, ...JSON.parse(body) } : { path });
      return answer(path);
    },
  });
}

/**
 * Answer each upload with the status that `reply` returns for its file name; without one, it waits. Lines of a request
 * are answered one by one; `ofLines` may answer the whole request instead. Returns the names of each request's files.
 */
function answering(reply, ofLines = () => null) {
  const requests = Object.assign([], { jobs: [] });
  globalThis.XMLHttpRequest = class extends EventTarget {
    upload = new EventTarget();
    response = "{}";
    headers = {};
    open(_method, address) { this.address = address; }
    setRequestHeader() {}
    getResponseHeader(name) { return this.headers[name] ?? null; }
    abort() { this.dispatchEvent(new Event("abort")); }
    async send(body) {
      const lines = body instanceof FormData ? null : (await body.text()).trim().split("\n").map((line) => JSON.parse(line));
      const names = lines ? lines.map((line) => line.filename) : [body.get("file").name];
      requests.push(names);
      requests.jobs.push(lines ? new URL(this.address, "http://foreask.test").searchParams.get("job") : body.get("job"));
      if (lines) assert.match(this.address, /documents:batch\?lane=interactive&/);
      const answer = lines ? ofLines(requests.length) ?? { status: 200, response: names.map(reply) } : reply(names[0], requests.length);
      if (!answer) return;
      const response = lines && Array.isArray(answer.response) ? answer.response.map((each) => JSON.stringify(each)).join("\n") : JSON.stringify(answer.response ?? {});
      this.dispatchEvent(Object.assign(this, answer, { response }) && new Event("load"));
    }
  };
  return requests;
}

const files = (...names) => names.map((name) => ({ file: new File([""], name), path: name }));
const numbered = (count) => Array.from({ length: count }, (_, index) => `${index}`);

test("waiting uploads are never dropped", async () => {
  const sent = answering(() => ({ status: 202 }));
  const { send } = await openPage()("parts/uploads.js");
  send(files(...numbered(420)), {}, 0, () => {});
  send(files(...numbered(5)), {}, 0, () => {});
  while (sent.flat().length < 425) await settled();
  assert.equal(sent.flat().length, 425);
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
  assert.deepEqual([...sent], [["patient.txt"], ["patient.txt"]]);
});

test("small files share requests", async () => {
  const sent = answering(() => ({ status: 202 }));
  const { send, uploads } = await openPage()("parts/uploads.js");
  let refreshed = 0;
  send(files(...numbered(250)), { collection: "notes" }, 0, () => (refreshed += 1));
  while (sent.flat().length < 250) await settled();
  await settled();
  assert.match(drawn(uploads()).text, /250 files uploaded/);
  assert.deepEqual(sent.map((names) => names.length).sort(), [100, 100, 50]);
  assert.equal(refreshed, 3);
});

test("large files are uploaded alone", async () => {
  const sent = answering(() => ({ status: 202 }));
  const { send } = await openPage()("parts/uploads.js");
  const large = numbered(25).map((name) => ({ file: new File(["x".repeat(70_000)], name), path: name }));
  send(large, { collection: "notes" }, 0, () => {});
  while (sent.length < 25) await settled();
  assert.deepEqual([...sent], numbered(25).map((name) => [name]));
});

test("file that its request did not accept is uploaded alone", async () => {
  const sent = answering((name) => (name === "7" ? { status: 413, response: { detail: "Enough." } } : { status: name === "8" ? 200 : 202 }));
  const { send, uploads } = await openPage()("parts/uploads.js");
  send(files(...numbered(30)), { collection: "notes" }, 0, () => {});
  while (sent.length < 2) await settled();
  await settled();
  const { text } = drawn(uploads());
  assert.match(text, /29 files uploaded, 1 rejected.*7 Enough\..*8 already uploaded/s);
  assert.deepEqual(sent[1], ["7"]);
});

test("files without a reply are uploaded alone", async () => {
  const failed = { status: 200, response: [{ status: 202 }, { status: 503 }] }; // an error ended the request
  const sent = answering(() => ({ status: 202 }), (number) => (number === 1 ? failed : null));
  const { send, uploads } = await openPage()("parts/uploads.js");
  send(files(...numbered(30)), { collection: "notes" }, 0, () => {});
  while (sent.flat().length < 59) await settled();
  await settled();
  assert.match(drawn(uploads()).text, /30 files uploaded/);
  assert.deepEqual(sent.slice(1).map((names) => names.length), Array(29).fill(1));
});

test("request of small files is retried", async (t) => {
  stopClock(t, "2026-10-01T08:00:00Z");
  const sent = answering(() => ({ status: 202 }), (number) => (number === 1 ? { status: 503, response: { detail: "The server is starting." } } : null));
  const { send, uploads } = await openPage()("parts/uploads.js");
  send(files(...numbered(40)), { collection: "notes" }, 0, () => {});
  while (!sent.length) await settled();
  await settled();
  assert.match(drawn(uploads()).text, /40 files uploading.*The server is starting\./s);
  await pass(t, 2000);
  while (sent.length < 2) await settled();
  await settled();
  assert.match(drawn(uploads()).text, /40 files uploaded/);
  assert.deepEqual(sent.map((names) => names.length), [40, 40]);
});

test("stopped request of small files uploads nothing more", async () => {
  const sent = answering(() => ({ status: 202 }), () => ({ status: 429, response: { detail: "Enough for today." }, headers: { "retry-after": "43200" } }));
  const { send, uploads } = await openPage()("parts/uploads.js");
  send(files(...numbered(25)), { collection: "notes" }, 0, () => {});
  while (!sent.length) await settled();
  await settled();
  drawn(uploads()).handler("click", "Stop")();
  await settled();
  assert.match(drawn(uploads()).text, /0 files uploaded, 25 cancelled/);
  assert.equal(sent.length, 1);
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
  assert.deepEqual([...sent], []);
});

test("files of one drop are one job", async () => {
  const jobs = [];
  const sent = answering(() => ({ status: 202 }));
  const { send } = await openPage(jobs)("parts/uploads.js");
  const large = { file: new File(["x".repeat(70_000)], "large"), path: "large" };
  send([...files(...numbered(150)), large, { file: new File(["x".repeat(80_000)], "refused"), path: "refused" }], { collection: "notes" }, 75_000, () => {});
  while (sent.flat().length < 151 || jobs.length < 2) await settled();
  assert.deepEqual(jobs, [
    { path: "/v1/jobs", kind: "load", collection: "notes", documents: 151 }, { path: "/v1/jobs/job-1/close" },
  ]);
  assert.ok(sent.jobs.every((job) => job === "job-1"));
});

/** Return a job of three documents in some states. */
const jobOf = (documents, state = "running", more = {}) => ({
  id: "job-1", kind: "load", collection: "notes", state, total: 3, done: documents.ready ?? 0, documents, chunks_done: null,
  chunks_total: null, points: null, eta_seconds: null, cost: 0, ...more,
});

test("documents of an upload are followed until they are finished", async (t) => {
  stopClock(t, "2026-10-01T08:00:00Z");
  const states = [
    jobOf({ queued: 3 }), jobOf({ ready: 1, searchable: 1, parsing: 1 }, "running", { eta_seconds: 90, cost: 0.02 }),
    jobOf({ ready: 2, failed: 1 }, "done_with_errors", { done: 3, cost: 0.03 }),
  ];
  answering(() => ({ status: 202 }));
  const read = (path) => (path === "/v1/jobs/job-1" ? states.shift() : missing());
  const { send, uploads } = await openPage([], () => ({ id: "job-1" }), read)("parts/uploads.js");
  send(files("a", "b", "c"), { collection: "notes" }, 0, () => {});
  await settled();
  assert.match(drawn(uploads()).text, /3 files uploaded Show progress Close 0 of 3 documents$/);
  await pass(t, 2000);
  const { text, html } = drawn(uploads());
  assert.match(text, /1 of 3 documents · about 2 min left · \$0\.02 You can ask now\. More is found/);
  assert.match(html, /href="[^"]*\/ask\?collection=notes"/);
  await pass(t, 2000);
  assert.match(drawn(uploads()).text, /3 of 3 documents · \$0\.03 · 1 with errors You can ask about these documents now\./);
  await pass(t, 60_000);
  assert.equal(states.length, 0);
  drawn(uploads()).handler("click", "Close")();
  assert.equal(drawn(uploads()).text, "");
});

test("files that the server has already can be asked about", async () => {
  answering(() => ({ status: 200 }));
  const done = jobOf({}, "done", { total: 0 });
  const { send, uploads } = await openPage([], () => ({ id: "job-1" }), () => done)("parts/uploads.js");
  send(files("a"), { collection: "notes" }, 0, () => {});
  await settled();
  assert.match(drawn(uploads()).text, /Close You can ask about these documents now\. Ask a question a already uploaded$/);
});

test("refused job of an upload is read once", async (t) => {
  stopClock(t, "2026-10-01T08:00:00Z");
  let reads = 0;
  answering(() => ({ status: 202 }));
  const read = (path) => ((reads += path.startsWith("/v1/jobs/")), missing());
  const { send, uploads } = await openPage([], () => ({ id: "job-1" }), read)("parts/uploads.js");
  send(files("a"), { collection: "notes" }, 0, () => {});
  await settled();
  await pass(t, 60_000);
  assert.equal(reads, 1);
  assert.match(drawn(uploads()).text, /1 file uploaded Show progress Close$/);
});

test("each drop has a job of its own", async () => {
  const jobs = [];
  const sent = answering(() => ({ status: 202 }));
  const { send } = await openPage(jobs)("parts/uploads.js");
  send(files(...numbered(30)), { collection: "notes" }, 0, () => {});
  send(files("other"), { collection: "notes" }, 0, () => {});
  while (sent.flat().length < 31 || jobs.length < 4) await settled();
  assert.deepEqual(jobs.filter(({ kind }) => kind).map(({ documents }) => documents), [30, 1]);
  assert.equal(new Set(sent.jobs).size, 2);
});

test("refused job stops no upload", async () => {
  const refused = () => Response.json({ status: 409, detail: "100 jobs are open." }, { status: 409 });
  const sent = answering(() => ({ status: 202 }));
  const { send, uploads } = await openPage([], refused)("parts/uploads.js");
  send(files("a", "b"), { collection: "notes" }, 0, () => {});
  while (sent.flat().length < 2) await settled();
  await settled();
  assert.match(drawn(uploads()).text, /2 files uploaded/);
  assert.deepEqual(sent.jobs, [null, null]);
});

test("unavailable server delays job and uploads", async (t) => {
  stopClock(t, "2026-10-01T08:00:00Z");
  const jobs = [];
  const answer = () => (jobs.length === 1 ? Response.json({ status: 503, detail: "The server is starting." }, { status: 503 }) : { id: "job" });
  const sent = answering(() => ({ status: 202 }));
  const { send } = await openPage(jobs, answer)("parts/uploads.js");
  send(files("a"), { collection: "notes" }, 0, () => {});
  await settled();
  assert.equal(sent.length, 0);
  await pass(t, 2000);
  while (!sent.length) await settled();
  assert.deepEqual(sent.jobs, ["job"]);
});

/** Offer files with an estimate for each number of files, and return the requests and the sent names. */
async function offering(estimateOf) {
  const seen = { counts: [], sent: [] };
  const replies = (_path, { body }) => {
    seen.counts.push(Number(body.get("count")));
    return { estimate: estimateOf(seen.counts.at(-1)), left_out: [] };
  };
  const load = page({ replies });
  const { offer, offering: shown } = await load("parts/estimate.js");
  seen.offer = (names) => offer(files(...names), "notes", true, (chosen) => seen.sent.push(...chosen.map(({ path }) => path)));
  seen.card = () => drawn(shown());
  return seen;
}

const ESTIMATE = { calls: 2, prompt_tokens: 10, completion_tokens: 5, llm_cost: 0.5, embedding_cost: null, seconds: null };

test("files without an estimate need no confirmation", async () => {
  const seen = await offering(() => null);
  await seen.offer(["a", "b"]);
  assert.deepEqual([seen.sent, seen.card().text], [["a", "b"], ""]);
});

test("file removed before the upload is not uploaded", async () => {
  const seen = await offering((number) => ({ ...ESTIMATE, calls: number }));
  await seen.offer(["a", "b", "c"]);
  assert.match(seen.card().text, /3 files.* about 3 calls .* a .* b .* c /s);
  seen.card().handler("click", "Remove b")();
  await settled();
  assert.match(seen.card().text, /2 files.* about 2 calls/s);
  seen.card().handler("click", "Upload")();
  assert.deepEqual([seen.counts, seen.sent, seen.card().text], [[3, 2], ["a", "c"], ""]);
});

test("last removed file closes the estimate", async () => {
  const seen = await offering(() => ESTIMATE);
  await seen.offer(["a"]);
  seen.card().handler("click", "Remove a")();
  await settled();
  assert.deepEqual([seen.counts, seen.card().text], [[1], ""]);
});

test("late estimate uploads no cancelled files", async () => {
  const held = Promise.withResolvers();
  const seen = await offering(() => null);
  const { fetch: answer } = globalThis;
  globalThis.fetch = async (...request) => (await held.promise, answer(...request));
  const offered = seen.offer(["a"]);
  seen.card().handler("click", "Cancel")();
  held.resolve();
  await offered;
  assert.deepEqual(seen.sent, []);
});
