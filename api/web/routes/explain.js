// Lab, Explain: what each channel found for a question, and what other weights would do.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { live } from "../vendor/directives/live.js";
import { ROOT, get, post } from "../api.js";
import { changed } from "../store.js";
import { bar } from "../parts/bars.js";
import { collectionPicker, collections, loadCollections } from "../parts/collections.js";
import { path, score } from "../parts/format.js";
import { CHANNELS, fused } from "../parts/fusion.js";
import { may } from "../parts/me.js";
import { say, trouble } from "../parts/notice.js";

export const title = "Explain";
const SHOWN = 20;
const NAMES = { questions: "questions", text: "text", bm25: "words" };

const fresh = () => ({ question: "", asked: "", candidates: null, known: new Map(), before: new Map(), own: null, weights: null, problem: null, busy: false });
let seen = fresh();

/** @param {{query: URLSearchParams}} place */
export async function load() {
  await loadCollections().catch((problem) => (seen.problem = problem));
  const given = new URLSearchParams(location.hash.slice(1)).get("q"); // behind #: no server or proxy logs it
  if (given && given !== seen.asked) await explain(given);
  changed();
}

export function leave() {}

async function explain(question) {
  if (!question.trim()) return;
  seen = { ...fresh(), question, asked: question, busy: true };
  history.replaceState(null, "", `${location.pathname}#q=${encodeURIComponent(question)}`);
  changed();
  const body = { question, collection: collections.chosen, top_k: SHOWN, explain: "candidates", record: false, rerank: false };
  try {
    const reply = await post("/v1/retrieve", body);
    const { candidates, weights } = reply.metadata.explain;
    const own = Object.fromEntries(CHANNELS.map((channel) => [channel, weights[channel] ?? 0]));
    Object.assign(seen, { candidates, own, weights: { ...own }, known: new Map(reply.chunks.map((chunk) => [chunk.chunk_id, chunk])) });
    seen.before = new Map(fused(candidates, own).map((each, place) => [each.chunk_id, place]));
  } catch (problem) {
    seen.problem = problem;
  }
  seen.busy = false;
  changed();
}

/** What a candidate is, read when it comes into sight. */
function named(id) {
  if (!seen.known.has(id)) {
    seen.known.set(id, null);
    const { known } = seen;
    get(`/v1/chunks/${id}?before=0&after=0`).then(({ chunk, document }) => (known.set(id, { ...chunk, external_id: document.external_id, document_id: document.id }), changed()), () => {});
  }
  return seen.known.get(id);
}

async function accept(id) {
  try {
    await post(`/v1/collections/${encodeURIComponent(collections.chosen)}/accepted`, { question: seen.asked, chunk_id: id });
    say("The question is one of this passage now: whoever asks it finds it.");
  } catch (problem) {
    say(problem.message);
  }
}

export function view() {
  const submit = (event) => (event.preventDefault(), explain(seen.question));
  return html`<section class="column wide">
    <form class="asking" role="search" @submit=${submit}>
      ${collectionPicker(() => seen.asked && explain(seen.asked))}
      <textarea id="question" rows="1" dir="auto" maxlength="10000" aria-label="Question" placeholder="Why is something found, or not?"
        .value=${live(seen.question)} @input=${(event) => (seen.question = event.target.value)}
        @keydown=${(event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && submit(event)}></textarea>
      <button class="main" type="submit">Explain</button>
    </form>
    ${trouble(seen.problem, () => explain(seen.asked))}
    ${seen.candidates ? found() : html`<p class="empty soft">${seen.busy ? "Searching\u2026" : "Every passage that a channel found, with its score in each, and what other weights would do."}</p>`}
  </section>`;
}

function found() {
  const ranked = fused(seen.candidates, seen.weights);
  if (!ranked.length) return html`<p class="empty soft">No channel found anything.</p>`;
  const channels = new Map(seen.candidates.chunks.map((each) => [each.chunk_id, each.channels]));
  return html`<div class="tools">${CHANNELS.map(slider)}
      <button class="quiet" @click=${() => ((seen.weights = { ...seen.own }), changed())}>As the collection has them</button></div>
    <div class="scrolls" tabindex="0" role="region" aria-label="Passages"><table class="explained">
      <thead><tr><th>#</th><th>score</th>${CHANNELS.map((channel) => html`<th>${NAMES[channel]}</th>`)}<th>passage</th><th><span class="hidden">what to do</span></th></tr></thead>
      <tbody>${repeat(ranked.slice(0, SHOWN), (each) => each.chunk_id, (each, place) => row(each, place, channels.get(each.chunk_id)))}</tbody>
    </table></div>
    <p class="soft small">${ranked.length} candidates. Weights are moved here alone; <a href=${`${ROOT}/docs`}>calibrate</a> a collection to keep others.</p>`;
}

function slider(channel) {
  const moved = (event) => ((seen.weights = { ...seen.weights, [channel]: Number(event.target.value) }), changed());
  return html`<label class="inline weight ${channel}">${NAMES[channel]}
    <input type="range" min="0" max="2" step="0.1" .value=${live(String(seen.weights[channel]))} @input=${moved}>
    <span class="number">${seen.weights[channel].toFixed(1)}</span></label>`;
}

function row({ chunk_id: id, score: value }, place, channels) {
  const chunk = named(id);
  const rise = (seen.before.get(id) ?? place) - place;
  const moved = rise ? html`<span class=${rise > 0 ? "good" : "bad"}>${rise > 0 ? "\u25b2" : "\u25bc"}${Math.abs(rise)}</span>` : nothing;
  return html`<tr><td class="number">${place + 1} ${moved}</td><td class="number">${score(value)}</td>
    ${CHANNELS.map((channel) => cell(channel, channels[channel]))}
    <td class="told"><a dir="auto" href=${chunk ? `${ROOT}/documents/${chunk.document_id}?chunk=${id}` : `${ROOT}/documents`}>${chunk ? path(chunk.heading_path, chunk.title ?? chunk.external_id) : "\u2026"}</a>
      <span class="soft small clip" dir="auto">${chunk?.matched_question ?? chunk?.text?.slice(0, 90) ?? ""}</span></td>
    <td>${may("manage") ? html`<button class="quiet" @click=${() => accept(id)}>Accept into it</button>` : nothing}</td></tr>`;
}

function cell(channel, place) {
  return html`<td>${place ? html`${bar(place.score, channel)}<span class="soft small number">${score(place.score)} \u00b7 ${place.rank}.</span>` : html`<span class="soft small">\u2013</span>`}</td>`;
}
