// The upload queue: three files at a time, each with a progress bar.

import { html, nothing } from "../vendor/lit-html.js";
import { upload } from "../api.js";
import { redraw } from "../store.js";
import { bar } from "./bars.js";
import { count, plural, size } from "./format.js";
import { say } from "./words.js";

const AT_ONCE = 3;
const MAX_FINISHED = 200; // finished uploads that stay in the list
const SHOWN = 40;
const RETRIED = [0, 408, 429, 502, 503, 504]; // statuses after which the upload is retried; a file that arrived is not stored twice
const PAUSE = 2000; // milliseconds before the next attempt

/** @typedef {{name: string, bytes: number, share: number, state: keyof typeof WORDS, problem: string | null, control: AbortController, file: File, fields: Record<string, string>}} Upload */

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
    files.push({ name, bytes: file.size, share: 0, file, control: new AbortController(),
      fields: { ...fields, external_id: name }, state: large ? "refused" : "waiting",
      problem: large ? say`The file is ${size(file.size)}. The server accepts at most ${size(most)}.` : null });
  }
  next();
  redraw();
}

function next() {
  while (running < AT_ONCE) {
    const file = files.find((each) => each.state === "waiting");
    if (!file) return;
    running += 1;
    run(file).finally(() => {
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
      redraw();
      await new Promise((resolve) => {
        const clock = setTimeout(resolve, Math.max(PAUSE, problem.again - Date.now()));
        each.control.signal.addEventListener("abort", () => (clearTimeout(clock), resolve(null)), { once: true });
      });
    }
  }
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
