// Ask: a question, its streamed answer, and the cited passages.

import { html, nothing } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { Problem, ROOT, follow, get, post } from "../api.js";
import { redraw } from "../store.js";
import { collectionPicker, collections, loadCollections } from "../parts/collections.js";
import { plural, duration, path } from "../parts/format.js";
import { notify, problemCard } from "../parts/notice.js";
import { may } from "../parts/permissions.js";
import { prose } from "../parts/prose.js";
import { asRequest } from "../parts/request.js";
import { sourcePanel } from "../parts/source.js";

export const title = "Ask";

/**
 * @typedef {{question: string, submitted: string, phase: string, answer: string, chunks: Api["RetrievedChunkView"][],
 *   reply: Api["QueryReply"] | null, queryId: string | null, problem: any, open: number | null,
 *   helpful: Map<string, boolean>, stopped: boolean, collection: string}} Asking
 */

/** @returns {Asking} */
const newState = () => ({
  question: "", submitted: "", phase: "idle", answer: "", chunks: [], reply: null, queryId: null, problem: null, open: null,
  helpful: new Map(), stopped: false, collection: "",
});
let ask = newState();
/** @type {{of: string, questions: string[]}} of a collection */
let examples = { of: "", questions: [] };
let loaded = false;
/** @type {AbortController | null} */
let running = null;
/** @type {HTMLElement | null} */
let opener = null; // element that gets the focus when the passage is closed

export async function load() {
  try {
    await loadCollections();
    loaded = true;
    if (!ask.submitted) ask.problem = null;
    await findExamples();
  } catch (problem) {
    ask.problem = problem;
  }
  redraw();
}

export function unload() {
  running?.abort();
}

/** Load three generated questions as examples. A key with only the `ask` scope gets none. */
async function findExamples() {
  const of = collections.chosen;
  if (examples.of === of) return;
  examples = { of, questions: [] };
  const questions = await written(of).catch(() => []);
  if (examples.of === of) examples.questions = questions;
  redraw();
}

/** @param {string} collection @returns {Promise<string[]>} */
async function written(collection) {
  const name = encodeURIComponent(collection);
  const documents = await get(`/v1/documents?collection=${name}&state=ready&limit=6&metadata=false`);
  /** @type {string[]} */
  const found = [];
  for (const document of documents.items) {
    const chunks = await get(`/v1/documents/${document.id}/chunks?limit=3`);
    const passed = chunks.items.flatMap((chunk) => chunk.questions).find((question) => question.passed);
    if (passed && !found.includes(passed.text)) found.push(passed.text);
    if (found.length === 3) break;
  }
  return found;
}

/** @param {string} question */
async function submit(question) {
  if (!question.trim()) return;
  running?.abort();
  const control = (running = new AbortController());
  ask = { ...newState(), question, submitted: question, collection: collections.chosen, phase: "searching" };
  redraw();
  const body = { question, collection: collections.chosen, top_k: 8, explain: true, stream: true };
  try {
    await follow("POST", "/v1/query", (name, data) => running === control && onEvent(name, data), { body, signal: control.signal });
    if (ask.phase !== "done" && !ask.problem) throw new Problem({ detail: "The answer was interrupted." });
  } catch (problem) {
    if (running !== control) return; // a newer question replaced this one
    if (control.signal.aborted) ask.stopped = ask.phase !== "done";
    else ask.problem = problem;
  }
  if (running === control) {
    running = null;
    ask.phase = "done";
    redraw();
  }
}

/** @param {string} name @param {any} data of an event of that name */
function onEvent(name, data) {
  if (name === "retrieved") {
    ask = { ...ask, phase: "writing", chunks: data.chunks, queryId: data.metadata.query_id };
  } else if (name === "token") {
    ask = { ...ask, answer: ask.answer + data.text };
  } else if (name === "done") {
    const opened = sources()[ask.open ?? -1]?.chunk.chunk_id; // the list changes from all results to the cited ones
    ask = { ...ask, phase: "done", answer: data.answer, reply: data, chunks: data.chunks };
    const index = sources().findIndex((each) => each.chunk.chunk_id === opened);
    ask.open = index < 0 ? null : index;
    if (data.citations.length && ask.open === null && matchMedia("(min-width: 64rem)").matches) ask.open = 0;
  } else if (name === "error") {
    ask = { ...ask, problem: new Problem(data) };
  }
  redraw();
}

/**
 * Return the listed sources: the cited chunks, the closest ones if nothing was found, or all results while the answer is
 * incomplete.
 * @returns {{number: number, chunk: Api["RetrievedChunkView"], sentences: [number, number][]}[]}
 */
function sources() {
  const { reply, chunks } = ask;
  const byId = new Map(chunks.map((chunk) => [chunk.chunk_id, chunk]));
  if (!reply?.found) return (reply ? chunks.slice(0, 3) : chunks).map((chunk, index) => ({ number: index + 1, chunk, sentences: [] }));
  return reply.citations.flatMap(({ number, chunk_id: id, sentences }) => {
    const chunk = byId.get(id);
    return chunk ? [{ number, chunk, sentences }] : [];
  });
}

/** @param {boolean} helpful */
async function rate(helpful, id = (sources()[ask.open ?? 0] ?? sources()[0])?.chunk.chunk_id, queryId = ask.queryId, ratings = ask.helpful) {
  if (!id || !queryId) return;
  try {
    const { outcome } = await post("/v1/feedback", { query_id: queryId, chunk_id: id, helpful });
    ratings.set(id, helpful);
    const messages = { accepted: "Thanks. Your question now finds this passage.",
      already_accepted: "Your question is already linked to this passage.", already_asked: "Your question is already linked to this passage.",
      taken_back: "Your question was removed from this passage.", not_accepted: "Thanks for your feedback.",
      chunk_full: "Thanks for your feedback.", held: "Thanks. An editor will review your question." };
    const undo = outcome === "accepted" ? () => rate(false, id, queryId, ratings) : undefined;
    notify(messages[outcome], { undo, seconds: 8 });
  } catch (problem) {
    notify(problem.message);
  }
  redraw();
}

/** @param {number} number */
function cite(number) {
  const index = sources().findIndex((each) => each.number === number);
  if (index < 0) return html`<span class="cited soft">[${number}]</span>`;
  return html`<button class="cited" aria-label=${`Source ${number}`} aria-pressed=${String(index === ask.open)}
    @click=${() => show(index)}>${number}</button>`;
}

/** @param {number} index */
function show(index) {
  const from = document.activeElement;
  if (from instanceof HTMLElement && !from.closest(".detail")) opener = from;
  ask.open = index;
  redraw();
  requestAnimationFrame(() => document.getElementById("source-title")?.focus());
}

function close() {
  ask.open = null;
  redraw();
  requestAnimationFrame(() => opener?.focus());
}

/** @param {KeyboardEvent & On<HTMLTextAreaElement>} event */
const keys = (event) => {
  if (event.key === "Escape") running?.abort();
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit(event.target.value);
  }
};

export function view() {
  const busy = running !== null;
  const open = ask.open === null ? null : sources()[ask.open];
  /** @param {Event} event */
  const submitted = (event) => (event.preventDefault(), submit(ask.question));
  /** @param {On<HTMLTextAreaElement>} event */
  const typed = (event) => (ask.question = event.target.value);
  return html`<div class="split ${open ? "with-detail" : ""}">
    <section class="column">
      <form class="ask-form" role="search" @submit=${submitted}>
        ${collectionPicker(findExamples)}
        <textarea id="question" rows="2" maxlength="10000" placeholder="Ask your documents" aria-label="Question" dir="auto"
          .value=${live(ask.question)} @input=${typed} @keydown=${keys}></textarea>
        ${busy
          ? html`<button type="button" @click=${() => running?.abort()}>Stop</button>`
          : html`<button class="main" type="submit">Ask</button>`}
      </form>
      ${ask.submitted ? answered(busy) : start()}
    </section>
    ${open && ask.open !== null
      ? sourcePanel(open, sources().length, ask.open, show, close)
      : nothing}
  </div>`;
}

function start() {
  if (ask.problem) return problemCard(ask.problem, load);
  if (!loaded) return nothing;
  if (!collections.items.length) {
    return html`<div class="empty"><h2>No documents yet</h2>
      <p>Upload documents to start. A model writes the questions that each part answers, and your questions are matched with them.</p>
      <p><a class="button main" href=${`${ROOT}/documents`}>Add documents</a></p></div>`;
  }
  if (!examples.questions.length) return nothing;
  return html`<div class="empty"><h2>Try one of these</h2>
    <ul class="examples">${examples.questions.map(
      (text) => html`<li><button class="quiet" dir="auto" @click=${() => submit(text)}>${text}</button></li>`,
    )}</ul></div>`;
}

/** @param {boolean} busy */
function answered(busy) {
  const { reply, phase } = ask;
  return html`<article class="answer" aria-busy=${String(busy)}>
    <h2 class="question-title" dir="auto">${ask.submitted}</h2>
    ${phase === "searching" ? html`<p class="soft">Searching\u2026</p>` : nothing}
    <p class="hidden" role="status">${spoken()}</p>
    <div class="written">${prose(ask.answer, cite)}</div>
    ${ask.stopped ? html`<p class="soft">Stopped.</p>` : nothing}
    ${problemCard(ask.problem, () => submit(ask.submitted))}
    ${reply ? facts(reply) : nothing}
    ${sourceList()}
    ${reply?.citations.length && ask.queryId ? feedback() : nothing}
    ${reply ? asRequest("POST", "/v1/query", { question: ask.submitted, collection: ask.collection, top_k: 8 }) : nothing}
  </article>`;
}

/** Return the announcement for screen readers: the phase, then the complete answer. */
function spoken() {
  if (ask.phase === "done") return ask.answer;
  return ask.phase === "writing" ? "Writing the answer." : "Searching.";
}

/** @param {Api["QueryReply"]} reply */
function facts(reply) {
  const { usage, milliseconds } = reply.metadata;
  const origin = reply.form === "extractive" ? "Quoted from documents" : "Written by a model";
  const tokens = usage.prompt_tokens + usage.completion_tokens;
  const parts = [origin, plural(reply.chunks.length, "passage"), duration(milliseconds.total / 1000)];
  if (!reply.certain) parts.push("uncertain");
  if (tokens) parts.push(plural(tokens, "token"));
  if (reply.removed_citations.length) parts.push(`${plural(reply.removed_citations.length, "invalid citation")} removed`);
  return html`<p class="facts soft small">${parts.join(" \u00b7 ")}</p>`;
}

function sourceList() {
  const list = sources();
  if (!list.length) return nothing;
  return html`<h3>${ask.reply && !(ask.reply.found && ask.reply.certain) ? "Closest passages" : ask.reply ? "Sources" : "Results"}</h3>
    <ol class="sources">
      ${list.map(
        ({ number, chunk }, index) => html`<li><button class="source" aria-current=${String(index === ask.open)}
          @click=${() => show(index)}>
          <span class="cited" aria-hidden="true">${number}</span>
          <span><span class="name" dir="auto">${path(chunk.heading_path, chunk.title ?? chunk.external_id)}</span>
            <span class="soft small" dir="auto">${chunk.matched_question ?? (chunk.matched_question_source ? "matched by another user's question" : "matched by text")}</span></span>
        </button></li>`,
      )}
    </ol>`;
}

function feedback() {
  const chunk = (sources()[ask.open ?? 0] ?? sources()[0])?.chunk;
  const helpful = chunk ? ask.helpful.get(chunk.chunk_id) : undefined;
  return html`<p class="feedback">
    ${may("feedback") ? html`<button aria-pressed=${String(helpful === true)} @click=${() => rate(true)}>\u2713 Helpful</button>
    <button aria-pressed=${String(helpful === false)} @click=${() => rate(false)}>\u2715 Not helpful</button>` : nothing}
    <a href=${`${ROOT}/lab/explain?collection=${encodeURIComponent(ask.collection)}#q=${encodeURIComponent(ask.submitted)}`}>Explain</a>
  </p>`;
}
