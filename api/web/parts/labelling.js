// Labelling: for a question that users asked, select the documents that answer it.

import { html, nothing } from "../vendor/lit-html.js";
import { get, post } from "../api.js";
import { redraw } from "../store.js";
import { clamp, clampToggle } from "./clamp.js";
import { ago, count, plural, nameOf, opening } from "./format.js";
import { problemCard } from "./notice.js";
import { say } from "./words.js";

const CANDIDATES = 9; // one digit key each

/**
 * @typedef {{
 *   collection: string,
 *   set: string,
 *   waiting: Api["AskedQuestionView"][],
 *   found: Api["RetrievedChunkView"][] | null,
 *   ticked: Set<string>,
 *   done: number,
 *   problem: any,
 *   loaded: boolean,
 *   saving: boolean,
 *   again: () => Promise<void>,
 * }} Labelling
 */

/** @type {Labelling | null} */
let open = null;
let saved = () => {};

/**
 * Start with the users' questions that are not labelled yet.
 * @param {string} collection @param {string} set @param {Set<string>} labelled questions of the set
 * @param {() => void} onSaved called after each saved question
 */
export async function label(collection, set, labelled, onSaved) {
  saved = onSaved;
  /** @type {Labelling} */
  const session = (open = {
    collection,
    set,
    waiting: [],
    found: null,
    ticked: new Set(),
    done: 0,
    problem: null,
    loaded: false,
    saving: false,
    again: async () => {},
  });
  redraw();
  session.again = async () => {
    try {
      /** @type {Api["AskedQuestionPage"]} */
      const page = await get(`/v1/collections/${encodeURIComponent(collection)}/queries?limit=200`);
      const waiting = page.items.filter((each) => !labelled.has(each.question));
      Object.assign(session, { waiting, loaded: true, problem: null });
      session.again = () => next(session);
      await session.again();
    } catch (problem) {
      session.problem = problem;
    }
    redraw();
  };
  await session.again();
}

export const isLabelling = () => open !== null;
export const stopLabelling = () => ((open = null), redraw());

/** @param {Labelling} session */
async function next(session) {
  session.found = null;
  session.ticked = new Set();
  redraw();
  try {
    await candidates(session);
    session.problem = null;
  } catch (problem) {
    session.problem = problem;
  }
  redraw();
  document.getElementById("labelling")?.focus();
}

/** @param {Labelling} session */
async function candidates(session) {
  const [question] = session.waiting;
  if (question) {
    const body = { question: question.question, collection: session.collection, top_k: 20, record: false };
    /** @type {Api["RetrieveReply"]} */
    const { chunks } = await post("/v1/retrieve", body);
    const documents = new Map(chunks.map((chunk) => /** @type {const} */ ([chunk.external_id, chunk])).reverse());
    session.found = [...documents.values()].reverse().slice(0, CANDIDATES);
  }
}

/** @param {Labelling} session */
async function settle(session) {
  const [question] = session.waiting;
  if (!question || session.saving) return;
  session.saving = true;
  try {
    if (session.ticked.size) {
      const questions = [{ question: question.question, external_ids: [...session.ticked] }];
      await post(
        `/v1/collections/${encodeURIComponent(session.collection)}/labelled-sets/${session.set}/questions`,
        { questions },
      );
      session.done += 1;
      saved();
    }
    session.waiting.shift();
    session.problem = null;
    await next(session);
  } catch (problem) {
    session.problem = problem;
    redraw();
  } finally {
    session.saving = false;
  }
}

/** @param {Labelling} session @param {string} name */
function tick(session, name) {
  if (!session.ticked.delete(name)) session.ticked.add(name);
  redraw();
}

/** @param {Labelling} session @param {KeyboardEvent} event */
function pressed(session, event) {
  const chunk = session.found?.[Number(event.key) - 1];
  if (event.repeat || /** @type {Element} */ (event.target).closest("button, input")) return; // a held key counts once
  if (chunk) tick(session, chunk.external_id);
  else if (event.key === " " && session.found) settle(session);
  else return;
  event.preventDefault();
}

export function labelling() {
  if (!open) return nothing;
  const session = open;
  const [question] = session.waiting;
  /** @param {KeyboardEvent} event */
  const keyed = (event) => pressed(session, event);
  const facts = [
    say`${plural(session.waiting.length, "question")} left`,
    say`${count(session.done)} labelled`,
    say`press 1–9 to select, Space for the next question`,
  ];
  return html`<section class="labelling" id="labelling" tabindex="-1"
      aria-label=${say`Label questions`} @keydown=${keyed}>
    ${problemCard(session.problem, session.again)}
    ${question ? one(session, question) : session.loaded ? ended(session) : nothing}
    <div class="tools"><button @click=${stopLabelling}>${say`Done`}</button>
      <span class="soft small">${facts.join(" \u00b7 ")}</span></div>
  </section>`;
}

/** @param {Labelling} session */
function ended({ done }) {
  const labelled = done ? html`${say`${plural(done, "question")} labelled.`} ` : nothing;
  const words = say`No more questions to label. Recent questions are kept for a few days.`;
  return html`<p class="empty soft">${labelled}${words}</p>`;
}

/** @param {Labelling} session @param {Api["AskedQuestionView"]} question */
function one(session, question) {
  const { found, ticked } = session;
  const text = question.question;
  return html`<h2 dir="auto" class=${clamp(text)}>${text}</h2>${clampToggle(text)}
    <p class="soft small">${plural(question.times, "time")} \u00b7 ${ago(question.last_at)}</p>
    ${found === null ? html`<p class="soft">${say`Searching\u2026`}</p>` : nothing}
    <ul role="list" class="candidates">${(found ?? []).map((chunk, index) => html`<li><label>
      <input type="checkbox" .checked=${ticked.has(chunk.external_id)}
        @change=${() => tick(session, chunk.external_id)}>
      <span class="number soft">${index + 1}</span>
      <span class="grow"><span class="name" dir="auto">${nameOf(chunk)}</span
        ><span class="soft small" dir="auto">${opening(chunk.text, 220)}</span></span></label></li>`)}</ul>
    <button class="main" ?disabled=${found === null} @click=${() => settle(session)}
      >${ticked.size ? say`Save and continue` : say`None of these: skip`}</button>`;
}
