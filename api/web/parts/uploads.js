// The upload queue: three requests at a time, each with one file and its progress, or with many small files.

import { html, nothing } from "../vendor/lit-html.js";
import { upload, uploadTogether } from "../api.js";
import { redraw } from "../store.js";
import { bar } from "./bars.js";
import { count, plural, size } from "./format.js";
import { say } from "./words.js";

const AT_ONCE = 3;
const MAX_FINISHED = 200; // finished uploads that stay in the list
const SHOWN = 40;
const RETRIED = [0, 408, 429, 502, 503, 504]; // statuses after which the upload is retried; a file that arrived is not stored twice
const SMALL = 65_536; // bytes: a request takes longer than storing such a file
const FEW = 20; // fewer small files are uploaded one by one
const TOGETHER = 100; // most files of a request
const PAUSE = 2000; // milliseconds before the next attempt

/** @typedef {{name: string, bytes: number, share: number, state: keyof typeof WORDS, problem: string | null, control: AbortController, file: File, fields: Record<string, string>, alone: boolean}} Upload */

/** @type {Upload[]} */
let files = [];
let running = 0;
/** @param {Upload} each */
const isOpen = (each) => each.state === "waiting" || each.state === "sending";
let finished = () => {};

// Reloading the page discards the files that are not uploaded yet, so the browser asks first.
addEventListener("beforeunload", (event) => files.some(isOpen) && event.preventDefault());

/**
 * @param {Iterable<{file: File, path: string}>} chosen @param {Record<string, string>} fields form fields @param {number} most maximum size of a file, in bytes; 0: no limit
 * @param {() => void} uploaded called after each uploaded file
 */
export function send(chosen, fields, most, uploaded) {
  finished = uploaded;
  files = [...files.filter((each) => !isOpen(each)).slice(-MAX_FINISHED), ...files.filter(isOpen)];
  for (const { file, path: name } of chosen) {
    const large = most && file.size > most;
    files.push({ name, bytes: file.size, share: 0, file, control: new AbortController(), alone: file.size > SMALL,
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
    const small = waiting.filter((each) => !each.alone && each.fields.collection === waiting[0].fields.collection);
    running += 1;
    (small.length < FEW ? run(waiting[0]) : runTogether(small.slice(0, TOGETHER))).finally(() => {
      running -= 1;
      next();
      redraw();
    });
  }
}

/** @param {Upload} each */
async function run(each) {
  each.state = "sending";
  for (;;) {
    try {
      /** @param {number} share */
      const onProgress = (share) => (Object.assign(each, { share, problem: null }), redraw());
      const reply = await upload(each.file, each.fields, onProgress, each.control.signal);
      Object.assign(each, { state: reply.unchanged ? "unchanged" : "uploaded", problem: null });
      return finished();
    } catch (problem) {
      const stopped = each.control.signal.aborted;
      if (!stopped && !problem.status && !(await each.file.slice(0, 1).arrayBuffer().then(() => true, () => false))) {
        Object.assign(each, { share: 0, state: "refused", problem: say`The file was moved or changed. Select it again.` });
        return;
      }
      Object.assign(each, { share: 0, problem: stopped ? null : problem.message });
      if (stopped || !RETRIED.includes(problem.status)) {
        each.state = stopped ? "stopped" : "refused";
        return;
      }
      await pause(problem, each.control.signal);
    }
  }
}

/**
 * Upload small files in one request, until it is answered. A file that was not accepted is uploaded alone, which reports
 * its problem.
 * @param {Upload[]} group
 */
async function runTogether(group) {
  for (const each of group) each.state = "sending";
  const lines = await Promise.all(group.map(lineOf));
  const sent = group.filter((_, index) => lines[index]);
  const { signal } = group[0].control; // all uploads are stopped together
  /** @param {number} share */
  const onProgress = (share) => {
    for (const each of sent) Object.assign(each, { share, problem: null });
    redraw();
  };
  while (sent.length && !signal.aborted) {
    try {
      const results = await uploadTogether(lines.filter((line) => line !== null), sent[0].fields.collection, onProgress, signal);
      results.forEach((result, index) => {
        if (result.status < 300) Object.assign(sent[index], { state: result.status === 200 ? "unchanged" : "uploaded", problem: null });
      });
      finished();
      break;
    } catch (problem) {
      if (signal.aborted || !RETRIED.includes(problem.status)) break;
      for (const each of sent) Object.assign(each, { share: 0, problem: problem.message });
      await pause(problem, signal);
    }
  }
  for (const each of group.filter(isOpen)) {
    Object.assign(each, { state: each.control.signal.aborted ? "stopped" : "waiting", share: 0, problem: null, alone: true });
  }
}

/** Return the line of a file; null if it cannot be read any more. @param {Upload} each */
async function lineOf(each) {
  const content = await each.file.arrayBuffer().catch(() => null);
  if (!content) return null;
  const encoded = btoa(Array.from(new Uint8Array(content), (byte) => String.fromCharCode(byte)).join(""));
  const type = each.file.type ? { media_type: each.file.type } : {};
  return { external_id: each.name, filename: each.file.name, ...type, content_base64: encoded };
}

/** Wait until an upload may be tried again, or is stopped. @param {{again: number}} problem @param {AbortSignal} signal */
async function pause(problem, signal) {
  redraw();
  await new Promise((resolve) => {
    const clock = setTimeout(resolve, Math.max(PAUSE, problem.again - Date.now()));
    signal.addEventListener("abort", () => (clearTimeout(clock), resolve(null)), { once: true });
  });
}

const WORDS = { waiting: say`waiting`, sending: "", uploaded: say`uploaded`, unchanged: say`already uploaded`, stopped: say`cancelled`, refused: "" };

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
  };
  return html`<section class="uploads" aria-label=${say`Uploads`}>
    <p class="bar-line"><span class="grow">${(open.length ? [say`${plural(open.length, "file")} uploading`, ...rejected] : ended).join(", ")}</span>
      ${open.length ? html`<button class="quiet" @click=${() => (stop(), redraw())}>${say`Stop`}</button>`
        : html`<button class="quiet" @click=${() => ((files = []), redraw())}>${say`Close`}</button>`}</p>
    ${open.length ? html`<p class="soft small">${say`Keep this page open until the upload finishes.`}</p>` : nothing}
    <ul role="list">${shown.map((each) => html`<li class="bar-line small">
      <span class="grow clip" dir="auto">${each.name}</span>
      ${each.state === "sending" ? bar(each.share, "working") : nothing}
      <span class=${each.state === "refused" ? "bad" : "soft"}>${each.problem ?? WORDS[each.state]}</span>
    </li>`)}</ul>
  </section>`;
}
