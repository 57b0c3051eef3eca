// Labelling: a question that users asked on one side, the documents that were found on the other; who knows ticks what answers.

import { html, nothing } from "../vendor/lit-html.js";
import { get, post } from "../api.js";
import { changed } from "../store.js";
import { ago, counted, nameOf } from "./format.js";
import { trouble } from "./notice.js";

const CANDIDATES = 9; // a key for each

/**
 * @typedef {{collection: string, set: string, waiting: Api["AskedQuestionView"][], found: Api["RetrievedChunkView"][] | null,
 *   ticked: Set<string>, done: number, problem: any, loaded: boolean, saving: boolean, again: () => Promise<void>}} Labelling
 */

/** @type {Labelling | null} */
let open = null;
let saved = () => {};

/**
 * Begin with what users have asked and nobody has labelled.
 * @param {string} collection @param {string} set @param {Set<string>} known questions of the set @param {() => void} told of each that is saved
 */
export async function label(collection, set, known, told) {
  saved = told;
  /** @type {Labelling} */
  const begun = (open = { collection, set, waiting: [], found: null, ticked: new Set(), done: 0, problem: null, loaded: false, saving: false, again: async () => {} });
  changed();
  begun.again = async () => {
    try {
      /** @type {Api["AskedQuestionPage"]} */
      const asked = await get(`/v1/collections/${encodeURIComponent(collection)}/queries?limit=200`);
      Object.assign(begun, { waiting: asked.items.filter((each) => !known.has(each.question)), loaded: true, problem: null });
      begun.again = () => next(begun);
      await begun.again();
    } catch (problem) {
      begun.problem = problem;
    }
    changed();
  };
  await begun.again();
}

export const isLabelling = () => open !== null;
export const stopLabelling = () => ((open = null), changed());

/** @param {Labelling} begun */
async function next(begun) {
  begun.found = null;
  begun.ticked = new Set();
  changed();
  try {
    await candidates(begun);
    begun.problem = null;
  } catch (problem) {
    begun.problem = problem;
  }
  changed();
  document.getElementById("labelling")?.focus();
}

/** @param {Labelling} begun */
async function candidates(begun) {
  const [question] = begun.waiting;
  if (question) {
    const body = { question: question.question, collection: begun.collection, top_k: 20, record: false };
    /** @type {Api["RetrieveReply"]} */
    const { chunks } = await post("/v1/retrieve", body);
    const documents = new Map(chunks.map((chunk) => /** @type {const} */ ([chunk.external_id, chunk])).reverse());
    begun.found = [...documents.values()].reverse().slice(0, CANDIDATES);
  }
}

/** @param {Labelling} begun */
async function settle(begun) {
  const [question] = begun.waiting;
  if (!question || begun.saving) return;
  begun.saving = true;
  try {
    if (begun.ticked.size) {
      const questions = [{ question: question.question, external_ids: [...begun.ticked] }];
      await post(`/v1/collections/${encodeURIComponent(begun.collection)}/labelled/${begun.set}/questions`, { questions });
      begun.done += 1;
      saved();
    }
    begun.waiting.shift();
    begun.problem = null;
    await next(begun);
  } catch (problem) {
    begun.problem = problem;
    changed();
  } finally {
    begun.saving = false;
  }
}

/** @param {Labelling} begun @param {string} name */
function tick(begun, name) {
  if (!begun.ticked.delete(name)) begun.ticked.add(name);
  changed();
}

/** @param {Labelling} begun @param {KeyboardEvent} event */
function pressed(begun, event) {
  const chunk = begun.found?.[Number(event.key) - 1];
  if (event.repeat || /** @type {Element} */ (event.target).closest("button, input")) return; // a key that is held means one question
  if (chunk) tick(begun, chunk.external_id);
  else if (event.key === " " && begun.found) settle(begun);
  else return;
  event.preventDefault();
}

export function labelling() {
  if (!open) return nothing;
  const begun = open;
  const [question] = begun.waiting;
  /** @param {KeyboardEvent} event */
  const keyed = (event) => pressed(begun, event);
  return html`<section class="labelling" id="labelling" tabindex="-1" aria-label="Label questions" @keydown=${keyed}>
    ${trouble(begun.problem, begun.again)}
    ${question ? one(begun, question) : !begun.loaded ? nothing : html`<p class="empty soft">${begun.done ? `${counted(begun.done, "question")} labelled. ` : ""}No more questions to label. Recent questions are kept for a few days.</p>`}
    <div class="tools"><button @click=${stopLabelling}>Done</button>
      <span class="soft small">${counted(begun.waiting.length, "question")} left \u00b7 ${begun.done} labelled \u00b7 press 1–9 to select, Space for the next question</span></div>
  </section>`;
}

/** @param {Labelling} begun @param {Api["AskedQuestionView"]} question */
function one(begun, question) {
  const { found, ticked } = begun;
  return html`<h2 dir="auto">${question.question}</h2><p class="soft small">${counted(question.times, "time")} \u00b7 ${ago(question.last_at)}</p>
    ${found === null ? html`<p class="soft">Searching\u2026</p>` : nothing}
    <ul role="list" class="candidates">${(found ?? []).map((chunk, place) => html`<li><label>
      <input type="checkbox" .checked=${ticked.has(chunk.external_id)} @change=${() => tick(begun, chunk.external_id)}>
      <span class="number soft">${place + 1}</span>
      <span class="grow"><span class="name" dir="auto">${nameOf(chunk)}</span><span class="soft small" dir="auto">${chunk.text.slice(0, 220)}</span></span></label></li>`)}</ul>
    <button class="main" ?disabled=${found === null} @click=${() => settle(begun)}>${ticked.size ? "Save and continue" : "None of these: skip"}</button>`;
}
