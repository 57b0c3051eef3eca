// A shared answer, with its sources.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, get, latest } from "../api.js";
import { redraw } from "../store.js";
import { answerView } from "../parts/answer.js";
import { dateOf } from "../parts/format.js";
import { problemCard } from "../parts/notice.js";
import { entered, isOfPanel, leave, restored } from "../parts/panel.js";
import { sourcePanel } from "../parts/source.js";
import { fromStored, sourcesOf } from "../parts/turns.js";
import { say } from "../parts/words.js";

/** @import { Turn } from "../parts/turns.js" */

export const title = say`Shared answer`;

/** @returns {{answer: Api["SharedAnswerView"] | null, turn: Turn | null, open: number | null, problem: any}} */
const newState = () => ({ answer: null, turn: null, open: null, problem: null });
let seen = newState();
let id = "";
const newest = latest();
/** @type {HTMLElement | null} */
let opener = null; // element that gets the focus when the passage is closed

/** @param {{id: string}} route */
export async function load(route) {
  const { turn } = seen;
  if (route.id === id && turn && isOfPanel()) return restoreSource(turn);
  id = route.id;
  seen = newState();
  redraw();
  await read();
}

export function unload() {}

/** Open or close a source as the entry of the history says. @param {Turn} turn */
function restoreSource(turn) {
  const source = restored(closed);
  const index = sourcesOf(turn).findIndex(({ chunk }) => chunk.chunk_id === source);
  if (index >= 0) show(turn, index);
}

async function read() {
  try {
    const answer = await newest(get(`/v1/shared-answers/${encodeURIComponent(id)}`));
    const { question, collection, form, sources } = answer;
    const said = { question, searched: question, collection, form, answer: answer.answer };
    const turn = fromStored({ ...said, found: true, stopped: false, queryId: null, sources });
    seen = { answer, turn, open: null, problem: null };
  } catch (problem) {
    seen = { ...newState(), problem };
  }
  redraw();
}

/** @param {Turn} turn @param {number} index */
function show(turn, index) {
  const from = document.activeElement;
  if (from instanceof HTMLElement && !from.closest(".detail") && from.id !== "main") opener = from;
  seen.open = index;
  redraw();
  entered(sourcesOf(turn)[index].chunk.chunk_id);
}

function closed() {
  seen.open = null;
  redraw();
  requestAnimationFrame(() => opener?.focus());
}

const close = () => leave(closed);

/** @param {string} text */
const name = (text) => html`<span dir="auto">${text}</span>`;

/** @param {Turn} turn */
const copy = async (turn) => (await import("../parts/transcript.js")).copy([turn], say`Answer copied as Markdown.`);

export function view() {
  const { answer, turn, open, problem } = seen;
  if (!answer || !turn) {
    return html`<section class="column">${problemCard(problem, problem?.status === 404 ? undefined : read)}
      ${problem ? html`<p><a class="button" href=${`${ROOT}/ask`}>${say`Ask a question`}</a></p>` : nothing}</section>`;
  }
  const another = `${ROOT}/ask?collection=${encodeURIComponent(answer.collection)}`;
  /** @type {any[]} with their passages */
  const sources = sourcesOf(turn);
  return html`<div class="split ${open === null ? "" : "with-detail"}">
    <section class="column">
      <p class="soft small">${answer.shared_by ? say`Shared by ${name(answer.shared_by)}` : say`Shared`}
        \u00b7 ${say`expires on ${dateOf(answer.expires_at)}`} \u00b7 ${say`collection ${name(answer.collection)}`}</p>
      ${answerView(turn, open, false, false, { show, copy })}
      <p><a class="button" href=${another}>${say`Ask another question`}</a></p>
    </section>
    ${open === null ? nothing : sourcePanel(sources[open], sources.length, open, show.bind(null, turn), close)}
  </div>`;
}
