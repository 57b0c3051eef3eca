// The upload queue: three requests at a time, each with one file and its progress, or with many small files.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, upload } from "../api.js";
import { redraw } from "../store.js";
import { bar } from "./bars.js";
import { count, plural, size } from "./format.js";
import { Load, RETRIED } from "./load.js";
import { followJob, jobProgress } from "./load-progress.js";
import { say } from "./words.js";

const AT_ONCE = 3;
const MAX_FINISHED = 200; // finished uploads that stay in the list
const SHOWN = 40;
const SMALL = 65_536; // bytes: a request takes longer than storing such a file
const FEW = 20; // fewer small files are uploaded one by one
const TOGETHER = 100; // most files of a request
const PAUSE = 2000; // milliseconds before the next attempt

/**
 * @typedef {{name: string, bytes: number, share: number, state: keyof typeof WORDS, problem: string | null,
 *   control: AbortController, file: File, fields: Record<string, string>, alone: boolean, load: Load}} Upload
 */

/** @type {Upload[]} */
let files = [];
let running = 0;
/** @param {Upload} each */
const isOpen = (each) => each.state === "waiting" || each.state === "sending";
let finished = () => {};

// A job of which files are left is closed with the page: no more of them follow.
addEventListener("pagehide", () => {
  for (const { load } of files.filter(isOpen)) load.close();
});

// Reloading the page discards the files that are not uploaded yet, so the browser asks first.
addEventListener("beforeunload", (event) => files.some(isOpen) && event.preventDefault());

/**
 * @param {Iterable<{file: File, path: string}>} chosen @param {Record<string, string>} fields form fields
 * @param {number} most maximum size of a file, in bytes; 0: no limit
 * @param {() => void} uploaded called after each uploaded file
 */
export function send(chosen, fields, most, uploaded) {
  finished = uploaded;
  files = [...files.filter((each) => !isOpen(each)).slice(-MAX_FINISHED), ...files.filter(isOpen)];
  const accepted = [...chosen].filter(({ file }) => !most || file.size <= most).length;
  const load = new Load(fields.collection, accepted);
  for (const { file, path: name } of chosen) {
    const large = most && file.size > most;
    files.push({ name, bytes: file.size, share: 0, file, load, control: new AbortController(), alone: file.size > SMALL,
      fields: { ...fields, external_id: name }, state: large ? "refused" : "waiting",
      problem: large ? say`The file is ${size(file.size)}. The server accepts at most ${size(most)}.` : null });
  }
  next();
  redraw();
}

function next() {
  while (running < AT_ONCE) {
    const waiting = files.filter((each) => each.state === "waiting");
    if (!waiting.length) return;
    const small = waiting.filter((each) => !each.alone && each.load === waiting[0].load);
    running += 1;
    run(small.length < FEW ? [waiting[0]] : small.slice(0, TOGETHER)).finally(() => {
      running -= 1;
      close(small[0]?.load ?? waiting[0].load);
      next();
      redraw();
    });
  }
}

/** Close the job of a load whose files have all been uploaded. @param {Load} load */
function close(load) {
  if (files.some((each) => each.load === load && isOpen(each))) return;
  load.close();
  if (load === files.at(-1)?.load) followJob(load.id);
}

/**
 * Upload a file, or small files in one request. A small file that is not accepted is then uploaded alone.
 * @param {Upload[]} group
 */
async function run(group) {
  const [first] = group;
  const { signal } = first.control; // all uploads are stopped together
  /** @param {Partial<Upload>} changes */
  const change = (changes) => {
    for (const each of group) Object.assign(each, changes);
    redraw();
  };
  change({ state: "sending" });
  for (;;) {
    try {
      await first.load.opened(signal);
      const statuses = await sent(group, (share) => change({ share, problem: null }), signal);
      for (const [index, each] of group.entries()) {
        const status = statuses[index]; // none after an error that ended the request
        Object.assign(each, status < 300 ? { state: status === 200 ? "unchanged" : "uploaded", problem: null } : ALONE);
      }
      return finished();
    } catch (problem) {
      const lost = !signal.aborted && !problem.status && !(await isReadable(first.file));
      const words = lost ? say`The file was moved or changed. Select it again.` : problem.message;
      change({ share: 0, problem: signal.aborted ? null : words });
      if (signal.aborted) return change({ state: "stopped" });
      if (lost || !RETRIED.includes(problem.status)) return change(group.length > 1 ? ALONE : { state: "refused" });
      await new Promise((resolve) => {
        const clock = setTimeout(resolve, Math.max(PAUSE, problem.again - Date.now()));
        signal.addEventListener("abort", () => (clearTimeout(clock), resolve(null)), { once: true });
      });
    }
  }
}

/** @param {File} file */
const isReadable = (file) => file.slice(0, 1).arrayBuffer().then(() => true, () => false);

/** @type {Partial<Upload>} */
const ALONE = { state: "waiting", alone: true, share: 0, problem: null };

/**
 * Send files, and return the status of each.
 * @param {Upload[]} group @param {(share: number) => void} onProgress @param {AbortSignal} signal
 * @returns {Promise<number[]>}
 */
async function sent(group, onProgress, signal) {
  const [{ file, load }] = group;
  /** @type {Record<string, string>} */
  const fields = { ...group[0].fields, ...(load.id ? { job: load.id } : {}) };
  if (group.length > 1) {
    const body = new Blob(await Promise.all(group.map(lineOf)), { type: "application/x-ndjson" });
    /** @type {Record<string, string>} */
    const job = load.id ? { job: load.id } : {};
    const query = new URLSearchParams({ lane: "interactive", collection: fields.collection, ...job });
    const reply = await upload(`/v1/documents:batch?${query}`, body, onProgress, signal);
    return reply.response.trim().split("\n").map((/** @type {string} */ line) => JSON.parse(line).status);
  }
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append("file", file, file.name);
  return [(await upload("/v1/documents", form, onProgress, signal)).status];
}

/** @param {Upload} each */
async function lineOf({ name, file }) {
  let content = "";
  for (const byte of new Uint8Array(await file.arrayBuffer())) content += String.fromCharCode(byte);
  const type = file.type ? { media_type: file.type } : {};
  return `${JSON.stringify({ external_id: name, filename: file.name, ...type, content_base64: btoa(content) })}\n`;
}

const WORDS = {
  waiting: say`waiting`, sending: "", uploaded: say`uploaded`, unchanged: say`already uploaded`,
  stopped: say`cancelled`, refused: "",
};

export function uploads() {
  if (!files.length) return nothing;
  const open = files.filter(isOpen);
  /** @param {...Upload["state"]} states */
  const of = (...states) => files.filter((each) => states.includes(each.state));
  const refused = of("refused");
  const shown = [...refused, ...of("sending", "waiting", "stopped", "unchanged")].slice(0, SHOWN);
  const rejected = refused.length ? [say`${count(refused.length)} rejected`] : [];
  const ended = [say`${plural(of("uploaded", "unchanged").length, "file")} uploaded`, ...rejected];
  if (of("stopped").length) ended.push(say`${count(of("stopped").length)} cancelled`);
  const stop = () => {
    for (const each of open) {
      each.control.abort();
      each.state = "stopped";
    }
    for (const load of new Set(open.map((each) => each.load))) close(load);
  };
  const dismiss = () => ((files = []), followJob(null), redraw());
  const hasJob = files.some((each) => each.load.id);
  const jobs = hasJob ? html`<a class="small" href=${`${ROOT}/jobs`}>${say`Show progress`}</a>` : nothing;
  const warning = html`<p class="soft small">${say`Keep this page open until the upload finishes.`}</p>`;
  const said = open.length ? [say`${plural(open.length, "file")} uploading`, ...rejected] : ended;
  return html`<section class="uploads" aria-label=${say`Uploads`}>
    <p class="bar-line"><span class="grow">${said.join(", ")}</span>
      ${open.length ? html`<button class="quiet" @click=${() => (stop(), redraw())}>${say`Stop`}</button>`
        : html`${jobs} <button class="quiet" @click=${dismiss}>${say`Close`}</button>`}</p>
    ${open.length ? warning : jobProgress(of("unchanged").length > 0)}
    <ul role="list">${shown.map((each) => html`<li class="bar-line small">
      <span class="grow clip" dir="auto">${each.name}</span>
      ${each.state === "sending" ? bar(each.share, "working") : nothing}
      <span class=${each.state === "refused" ? "bad" : "soft"}>${each.problem ?? WORDS[each.state]}</span>
    </li>`)}</ul>
  </section>`;
}
