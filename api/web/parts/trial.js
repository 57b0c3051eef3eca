// One trial: the questions that the model writes for a text with one prompt, and the result of the question filter.

import { html, nothing } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { Problem, follow } from "../api.js";
import { redraw } from "../store.js";
import { bar } from "./bars.js";
import { count, plural, duration, money, score } from "./format.js";
import { icon } from "./icon.js";
import { problemCard } from "./notice.js";
import { say } from "./words.js";

/**
 * @typedef {{
 *   text: string,
 *   passed: boolean | null,
 *   reason: string | null,
 *   similarity: number | null,
 *   typed?: boolean,
 * }} Written
 * @typedef {Api["TrialChunkEvent"] & {questions: Written[], checked: boolean, error: string | null}} TriedChunk
 * @typedef {{
 *   prompt: string | null, count: string, chunks: TriedChunk[], done: Api["TrialDoneEvent"] | null, problem: any,
 *   stopped: boolean, running: AbortController | null,
 * }} Side
 *   prompt: null for the one in use
 */

/** @typedef {{prompt: string, version: string} | null} InUse the collection's prompt; null: no collection exists */

/** @returns {Side} */
export const newSide = () => ({
  prompt: null, count: "", chunks: [], done: null, problem: null, stopped: false, running: null,
});

/**
 * Return the prompt that a side has instead of the one in use; null: it has that one.
 * @param {Side} side @param {InUse} inUse
 */
export function ownPrompt({ prompt }, inUse) {
  const own = prompt?.trim();
  return own && own !== inUse?.prompt.trim() ? own : null;
}

/**
 * Generate questions for a text with the prompt of a side. An earlier trial of the side is cancelled.
 * @param {Side} side @param {{text: string, collection?: string}} text @param {InUse} inUse
 */
export async function write(side, text, inUse) {
  side.running?.abort();
  const control = (side.running = new AbortController());
  Object.assign(side, { chunks: [], done: null, problem: null, stopped: false });
  redraw();
  /** @type {Record<string, any>} */
  const body = { ...text };
  const prompt = ownPrompt(side, inUse);
  if (prompt) body.prompt = prompt;
  if (side.count) body.questions_per_chunk = Number(side.count);
  try {
    await follow("POST", "/v1/trials", (name, data) => side.running === control && onEvent(side, name, data), {
      body,
      signal: control.signal,
    });
  } catch (problem) {
    if (side.running !== control) return;
    if (control.signal.aborted) side.stopped = true;
    else side.problem = problem;
  }
  if (side.running === control) side.running = null;
  redraw();
}

/** @param {Side} side @param {string} name @param {any} data */
function onEvent(side, name, data) {
  if (name === "chunk") side.chunks[data.chunk] = { ...data, questions: [], checked: false, error: null };
  else if (name === "question") side.chunks[data.chunk].questions.push(unchecked(data.text));
  else if (name === "screened") {
    const chunk = side.chunks[data.chunk];
    const typed = chunk.questions.filter((each) => each.typed);
    Object.assign(chunk, { questions: [...data.questions, ...typed], checked: true, error: data.error });
  } else if (name === "done") side.done = data;
  else if (name === "error") side.problem = new Problem(data);
  redraw();
}

/** @param {string} text @returns {Written} */
export const unchecked = (text, typed = false) => ({ text, passed: null, reason: null, similarity: null, typed });

/**
 * Render the form fields of a side.
 * @param {Side} side @param {InUse} inUse @param {(prompt: string) => unknown} keep renders a button to store it
 */
export function fields(side, inUse, keep) {
  const own = ownPrompt(side, inUse);
  /** @param {On<HTMLTextAreaElement>} event */
  const prompted = (event) => ((side.prompt = event.target.value), redraw());
  /** @param {On<HTMLInputElement>} event */
  const numbered = (event) => (side.count = event.target.value);
  const back = () => ((side.prompt = null), redraw());
  const example = say`Write {count} questions that the text answers. Text: {text}`;
  const backButton = html`<button type="button" class="quiet" @click=${back}>
    ${say`Back to the prompt in use`}</button>`;
  return html`<label><span>${say`Prompt`} <span class="soft small">${origin(own, inUse)}</span></span>
      <textarea class="prompt" rows=${inUse ? 8 : 3} dir="auto" placeholder=${example}
        .value=${live(side.prompt ?? inUse?.prompt ?? "")} @input=${prompted}></textarea></label>
    ${own ? html`<p class="tools">${inUse ? backButton : nothing}${keep(own)}</p>` : nothing}
    <label class="inline">${say`Questions per chunk`} <input type="number" min="1" max="20" .value=${live(side.count)}
      placeholder=${say`auto`} @input=${numbered}></label>`;
}

/** Name the origin of a prompt. @param {string | null} own @param {InUse} inUse */
function origin(own, inUse) {
  if (own) return say`changed`;
  return inUse ? say`in use, version ${inUse.version}` : say`the server\u2019s prompt is used if the field is empty`;
}

/**
 * Render the summary of a side.
 * @param {Side} side
 * @param {string} name name of the side, or empty if there is only one
 * @param {() => void} again
 */
export function outcome(side, name, again) {
  const { done } = side;
  const marked = name ? html`<b class="side-name">${name}</b>` : nothing;
  if (side.problem) return html`${marked}${problemCard(side.problem, again)}`;
  if (side.stopped) return html`<p class="soft">${marked} ${say`Stopped.`}</p>`;
  if (!done) return nothing;
  const tokens = done.usage.prompt_tokens + done.usage.completion_tokens;
  const parts = [
    say`${count(done.passed)} of ${plural(done.questions, "question")} kept`,
    plural(done.calls, "call"),
    plural(tokens, "token"),
  ];
  if (done.cost !== null) parts.push(money(done.cost));
  parts.push(duration(done.milliseconds / 1000));
  if (done.truncated) parts.push(say`only the first ${plural(done.characters, "character")} were used`);
  return html`<p class="soft small" role="status">${marked} ${parts.join(" \u00b7 ")}</p>`;
}

/** Render the questions of a chunk. @param {TriedChunk | undefined} chunk @param {Side} side */
export function written(chunk, side) {
  const generating = html`<p class="soft">${say`Generating\u2026`}</p>`;
  if (!chunk) return side.running ? generating : html`<p class="soft">${say`No questions yet.`}</p>`;
  const isAwaited = !chunk.questions.length && side.running;
  return html`<ul class="questions" role="list"
      aria-busy=${String(!chunk.checked && !!side.running)}>${chunk.questions.map(question)}</ul>
    ${chunk.error ? html`<p class="bad">${chunk.error}</p>` : isAwaited ? generating : nothing}`;
}

/** @param {Written} each */
function question(each) {
  return html`<li class=${each.passed === false ? "dropped" : ""}>${checkMark(each)}
    <span class="grow"><span dir="auto">${each.text}</span>${each.reason
      ? html`<span class="soft small">${each.reason}</span>`
      : nothing}</span>
    ${each.similarity === null
      ? nothing
      : html`<span class="similarity">${bar(each.similarity, "questions")}</span>
          <span class="small number">${score(each.similarity)}</span>`}</li>`;
}

/** @param {Written} each */
export function checkMark(each) {
  if (each.typed) return html`<span class="soft" role="img" aria-label=${say`yours`}>${icon("pencil")}</span>`;
  if (each.passed === null) {
    return html`<span class="soft" role="img" aria-label=${say`not checked yet`}>${icon("circle-dashed")}</span>`;
  }
  return each.passed
    ? html`<span class="good" role="img" aria-label=${say`kept`}>${icon("check")}</span>`
    : html`<span class="bad" role="img" aria-label=${say`dropped`}>${icon("x")}</span>`;
}
