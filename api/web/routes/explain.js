// Explain: the results of each channel for a question, and the effect of other weights.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { live } from "../vendor/directives/live.js";
import { ROOT, get, latest, post } from "../api.js";
import { redraw } from "../store.js";
import { bar } from "../parts/bars.js";
import { collectionPicker, collections, loadCollections } from "../parts/collections.js";
import { count, decimal, nameOf, opening, path, plural, score } from "../parts/format.js";
import { CHANNELS, FUSIONS, fused } from "../parts/fusion.js";
import { icon } from "../parts/icon.js";
import { may } from "../parts/permissions.js";
import { asRequest } from "../parts/request.js";
import { suggest, suggestions } from "../parts/suggestions.js";
import { notify, problemCard } from "../parts/notice.js";
import { say } from "../parts/words.js";

export const title = say`Explain`;
export const titled = true;
const SHOWN = 20;
const MOST = 100; // candidates requested for keys without the read scope, which cannot load chunks later
const NAMES = { questions: say`questions`, text: say`text`, bm25: say`words` };

const WHY = {
  absent: say`Not searchable: the passage belongs to another collection or is not indexed yet.`,
  filter: say`Excluded by the filter.`,
  min_score: say`Its score is below the minimum score.`,
  top_k: say`Other passages rank higher.`,
  max_tokens: say`Its text duplicates another result or does not fit the token budget.`,
};
/**
 * @typedef {{chunk_id: string, score: number}} Ranked
 * @typedef {{
 *   expected: Api["ExpectedChunkView"] | null,
 *   near: import("../parts/similarity.js").Row[] | null,
 *   opened: {document: Api["DocumentView"], chunks: Api["ChunkView"][]} | null,
 *   found: Api["DocumentView"][] | null,
 *   question: string,
 *   submitted: string,
 *   collection: string,
 *   candidates: Api["CandidatesView"] | null,
 *   chunks: Map<string, any>,
 *   before: Map<string, number>,
 *   own: Record<string, number> | null,
 *   weights: Record<string, number> | null,
 *   problem: any,
 *   busy: boolean,
 * }} Explained
 */

/** @returns {Explained} */
const newState = () => ({
  expected: null,
  near: null,
  opened: null,
  found: null,
  question: "",
  submitted: "",
  collection: "",
  candidates: null,
  chunks: new Map(),
  before: new Map(),
  own: null,
  weights: null,
  problem: null,
  busy: false,
});
const FUSION_WORDS = {
  scores: say`default (scores)`,
  mean: say`mean score`,
  rrf: say`rank fusion (RRF)`,
  max: say`highest score`,
};
/** @type {typeof import("../parts/similarity.js") | null} */
let similarity = null;
let seen = newState();
let fusion = "scores";

export async function load() {
  await loadCollections().then(() => seen.submitted || (seen.problem = null), (problem) => (seen.problem = problem));
  const fragment = new URLSearchParams(location.hash.slice(1)); // servers and proxies do not log the fragment
  const [given, weights] = [fragment.get("q"), fragment.get("weights")];
  if (given && (given !== seen.submitted || collections.chosen !== seen.collection)) await explain(given);
  if (weights && seen.own && given === seen.submitted) {
    const values = weights.split(",");
    seen.weights = Object.fromEntries(CHANNELS.map((channel, index) => [channel, Number(values[index]) || 0]));
  }
  redraw();
  if (!seen.submitted) await suggest();
}

export function unload() {}

/** @param {string} question */
async function explain(question, typed = question) {
  if (!question.trim()) return;
  /** @type {Explained} */
  const now = (seen = {
    ...newState(),
    question: typed,
    submitted: question,
    collection: collections.chosen,
    busy: true,
  });
  history.replaceState(null, "", `${location.pathname}${location.search}#q=${encodeURIComponent(question)}`);
  redraw();
  /** @type {Api["RetrieveBody"]} */
  const body = {
    question,
    collection: collections.chosen,
    top_k: may("read") ? SHOWN : MOST,
    explain: "candidates",
    record: false,
    rerank: false,
  };
  try {
    const reply = await post("/v1/retrieve", body);
    if (now !== seen) return; // a newer question replaced this one
    const explained = reply.metadata.explain;
    const own = Object.fromEntries(CHANNELS.map((channel) => [channel, explained?.weights[channel] ?? 0]));
    Object.assign(now, {
      candidates: explained?.candidates ?? null,
      own,
      weights: { ...own },
      chunks: new Map(reply.chunks.map((chunk) => [chunk.chunk_id, chunk])),
    });
    fuse(fusion);
  } catch (problem) {
    now.problem = problem;
  }
  now.busy = false;
  redraw();
}

/** Select a fusion method. Rank changes are relative to the collection's weights. @param {string} method */
function fuse(method) {
  fusion = method;
  const { candidates, own } = seen;
  if (candidates && own) {
    seen.before = new Map(fused(candidates, own, fusion).map((each, index) => [each.chunk_id, index]));
  }
  redraw();
}

/** Return a candidate's chunk, which is loaded on first use. @param {string} id */
function named(id) {
  if (!seen.chunks.has(id) && may("read")) {
    seen.chunks.set(id, null);
    const { chunks } = seen;
    get(`/v1/chunks/${id}?before=0&after=0`).then(
      ({ chunk, document: { id: document_id, external_id } }) => {
        chunks.set(id, { ...chunk, external_id, document_id });
        redraw();
      },
      () => {},
    );
  }
  return seen.chunks.get(id);
}

/** Find the rank of an expected chunk, however low. @param {string} id */
async function expect(id) {
  const now = seen;
  const body = {
    question: now.submitted,
    collection: now.collection,
    top_k: SHOWN,
    explain: true,
    expected: [id],
    record: false,
    rerank: false,
  };
  try {
    const reply = await post("/v1/retrieve", body);
    Object.assign(now, { expected: reply.metadata.explain?.expected?.[0] ?? null, near: null });
    if (now === seen) named(id);
  } catch (problem) {
    notify(problem.message);
  }
  redraw();
}

/** Compare the question with each question of a chunk and with its text. @param {string} id */
async function compare(id) {
  const now = seen;
  try {
    similarity ??= await import("../parts/similarity.js");
    const body = { questions: [now.submitted], collection: now.collection, chunk_ids: [id] };
    const { chunks } = await post("/v1/similarity", body);
    if (now.expected?.chunk_id !== id) return;
    const [chunk] = chunks;
    if (chunk) now.near = rowsOf(chunk);
    else notify(WHY.absent);
  } catch (problem) {
    notify(problem.message);
  }
  redraw();
}

/** @param {Api["ChunkSimilarityView"]} chunk */
function rowsOf({ questions, text, words }) {
  const userMark = html`<span class="soft small">${say`from a user`}</span>`;
  /** @type {import("../parts/similarity.js").Row[]} */
  const rows = questions.map((each) => ({
    words: each.text ?? say`another user's question`,
    mark: each.source === "user" ? userMark : nothing,
    kind: "questions",
    values: each.cosines,
  }));
  if (text) rows.push({ words: say`chunk text`, mark: nothing, kind: "text", values: text });
  rows.push({ words: say`shared words`, mark: nothing, kind: "bm25", values: words });
  return rows;
}

const newest = latest();

/** Search documents by name. @param {string} words */
async function search(words) {
  const now = seen;
  now.opened = null;
  const query = new URLSearchParams({ collection: now.collection, q: words, limit: "8", metadata: "false" });
  const reply = words.trim() ? get(`/v1/documents?${query}`).then(({ items }) => items) : Promise.resolve(null);
  now.found = await newest(reply);
  redraw();
}

/** @param {Api["DocumentView"]} document */
async function open(document) {
  const now = seen;
  const page = await get(`/v1/documents/${document.id}/chunks?version=live&limit=100`);
  now.opened = { document, chunks: page.items };
  redraw();
}

let typing = 0;
/** @param {On<HTMLInputElement>} event */
const typed = (event) => {
  clearTimeout(typing);
  typing = window.setTimeout(() => search(event.target.value).catch((problem) => notify(problem.message)), 250);
};

function missing() {
  const { opened } = seen;
  return html`<section class="missing"><h2>${say`Expected a different result?`}</h2>
    <label class="inline">${say`Document`}
      <input type="search" placeholder=${say`Search by name`} @input=${typed}></label>
    ${seen.found && !seen.opened ? documents(seen.found) : nothing}
    ${opened
      ? html`<ul role="list" class="passages">${opened.chunks.map((chunk) => html`<li><button class="quiet" dir="auto"
          aria-pressed=${String(seen.expected?.chunk_id === chunk.id)} @click=${() => expect(chunk.id)}>
          <span class="name">${path(chunk.heading_path, nameOf(opened.document))}</span>
          <span class="soft small">${opening(chunk.text, 100)}</span></button></li>`)}</ul>`
      : nothing}
    ${seen.expected ? expectedChunk(seen.expected) : nothing}</section>`;
}

/** @param {Api["DocumentView"][]} items found by their names */
function documents(items) {
  return html`<ul role="list">${items.map((each) => html`<li><button class="quiet" dir="auto"
      @click=${() => open(each).catch((problem) => notify(problem.message))}>${nameOf(each)}</button></li>`)}</ul>
    ${items.length ? nothing : html`<p class="soft">${say`No document with that name.`}</p>`}`;
}

/** @param {Api["ExpectedChunkView"]["channels"]} channels */
function ranks(channels) {
  return html`<table class="channels"><caption class="hidden">${say`Ranks in the channels`}</caption><tbody>
    ${CHANNELS.map((channel) => {
      const match = channels[channel];
      const rank = match?.rank ? say`rank ${count(match.rank)}` : say`below 1,000`;
      return html`<tr>
        <th scope="row">${NAMES[channel]}</th>
        <td>${bar(match?.score ?? 0, channel)}</td>
        <td class="number">${match ? score(match.score) : "\u2013"}</td>
        <td class="soft">${match ? rank : say`not found`}</td>
      </tr>`;
    })}</tbody></table>`;
}

/** @param {Api["ExpectedChunkView"]} expected */
function expectedChunk({ chunk_id: id, rank, score: value, channels, question, left_out: why }) {
  const chunk = named(id);
  const place = value === null ? say`Not found by any channel` : say`Ranked below 1,000`;
  const title = html`<strong>${rank ? say`Rank ${count(rank)} of all passages` : place}</strong>`;
  return html`<div class="card" role="status">
    <p>${value === null ? say`${title}.` : say`${title}, score ${score(value)}.`}
      ${why ? WHY[why] : say`It is in the list above.`}</p>
    ${Object.keys(channels).length ? ranks(channels) : nothing}
    ${question ? html`<p class="small">${say`Closest question: ${html`<q dir="auto">${question}</q>`}`}</p>` : nothing}
    ${seen.near && similarity ? similarity.nearest(seen.submitted, 0, seen.near) : nothing}
    <p class="tools">${may("manage") && why !== "absent"
        ? html`<button @click=${() => accept(id)}>${say`Add this question to the passage`}</button>`
        : nothing}
      ${chunk
        ? html`<a class="button" href=${`${ROOT}/documents/${chunk.document_id}?chunk=${id}`}>${say`Open passage`}</a>`
        : nothing}
      ${seen.near || why === "absent"
        ? nothing
        : html`<button @click=${() => compare(id)}>${say`Compare with its questions`}</button>`}
      <button class="quiet" @click=${() => expect(id)}>${say`Refresh`}</button></p></div>`;
}

/** @param {string} id */
async function accept(id) {
  try {
    await post(
      `/v1/collections/${encodeURIComponent(seen.collection)}/accepted-questions`,
      { question: seen.submitted, chunk_id: id },
    );
    notify(say`Question added. It now finds this passage.`);
  } catch (problem) {
    notify(problem.message);
  }
}

export function view() {
  /** @param {Event} event */
  const submit = (event) => (event.preventDefault(), explain(seen.question));
  /** @param {On<HTMLTextAreaElement>} event */
  const written = (event) => (seen.question = event.target.value);
  /** @param {KeyboardEvent} event */
  const pressed = (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && submit(event);
  return html`<section class="column wide">
    <form class="ask-form" role="search" @submit=${submit}>
      ${collectionPicker(() => (seen.submitted ? explain(seen.submitted, seen.question) : suggest()))}
      <div class="ask-field">
        <textarea id="question" rows="1" dir="auto" maxlength="10000" aria-label=${say`Question`}
          placeholder=${say`Enter a question to see how it is ranked`}
          .value=${live(seen.question)} @input=${written} @keydown=${pressed}></textarea>
        <button class="main" type="submit">${say`Explain`}</button></div>
    </form>
    ${problemCard(seen.problem, () => (seen.submitted ? explain(seen.submitted, seen.question) : load()))}
    ${seen.candidates && seen.weights
      ? found(seen.candidates, seen.weights)
      : seen.busy ? html`<p class="empty soft">${say`Searching\u2026`}</p>` : start()}
  </section>`;
}

function start() {
  const words = say`Shows every candidate passage, its score in each channel, and the effect of other weights.`;
  return html`<p class="empty soft">${words}</p>
    ${suggestions((question) => explain((seen.question = question)))}`;
}

/** @param {Api["CandidatesView"]} candidates @param {Record<string, number>} weights */
function found(candidates, weights) {
  const ranked = fused(candidates, weights, fusion);
  if (!ranked.length) {
    return html`<p class="empty soft">${say`No results in any channel.`}</p>${may("all") ? missing() : nothing}`;
  }
  const channels = new Map(candidates.chunks.map((each) => /** @type {const} */ ([each.chunk_id, each.channels])));
  /** @param {On<HTMLSelectElement>} event */
  const chosen = (event) => fuse(event.target.value);
  /** @param {Ranked} each @param {number} index */
  const drawn = (each, index) => row(each, index, channels.get(each.chunk_id));
  const address = `${ROOT}/collections/${encodeURIComponent(collections.chosen)}`;
  const link = html`<a href=${address}>${say`Calibrate the collection`}</a>`;
  const request = { question: seen.submitted, collection: seen.collection, explain: "candidates", weights };
  return html`<div class="tools weights">${CHANNELS.map((channel) => slider(channel, weights))}
      <label class="inline">${say`Fusion`} <select .value=${live(fusion)} @change=${chosen}>
        ${FUSIONS.map(
          (name) => html`<option value=${name} ?selected=${name === fusion}>${FUSION_WORDS[name]}</option>`,
        )}</select></label>
      <button class="quiet"
        @click=${() => ((seen.weights = { ...seen.own }), redraw())}>${say`Reset weights`}</button></div>
    <div class="scrolls" tabindex="0" role="region" aria-label=${say`Passages`}><table class="explained">
      <thead><tr><th scope="col">#</th><th scope="col">${say`passage`}</th>
        <th scope="col" class="of-all">${say`score`}</th>
        ${CHANNELS.map((channel) => html`<th scope="col">${NAMES[channel]}</th>`)}
        <th scope="col"><span class="hidden">${say`actions`}</span></th></tr></thead>
      <tbody>${repeat(ranked.slice(0, SHOWN), idOf, drawn)}</tbody>
    </table></div>
    <p class="soft small">${say`${plural(ranked.length, "candidate")}. Changing weights here affects only this view.`}
      ${may("manage") ? say`${link} to change them permanently.` : nothing}</p>
    ${may("all") ? missing() : nothing}
    ${asRequest("POST", "/v1/retrieve", request)}`;
}

/** @param {Ranked} each */
const idOf = (each) => each.chunk_id;

/** @param {typeof CHANNELS[number]} channel @param {Record<string, number>} weights */
function slider(channel, weights) {
  /** @param {On<HTMLInputElement>} event */
  const moved = (event) => {
    seen.weights = { ...(seen.weights ?? weights), [channel]: Number(event.target.value) };
    redraw();
  };
  return html`<label class="inline weight ${channel}">${NAMES[channel]}
    <input type="range" min="0" max="2" step="0.1" .value=${live(String(weights[channel]))} @input=${moved}>
    <span class="number">${decimal(weights[channel], 1)}</span></label>`;
}

/** @param {Ranked} match @param {number} index @param {Record<string, Api["ChannelRankView"]>} [channels] */
function row({ chunk_id: id, score: value }, index, channels = {}) {
  const chunk = named(id);
  const name = chunk && path(chunk.heading_path, chunk.title ?? chunk.external_id);
  const address = chunk ? `${ROOT}/documents/${chunk.document_id}?chunk=${id}` : `${ROOT}/documents`;
  const rise = (seen.before.get(id) ?? index) - index;
  const arrow = icon(rise > 0 ? "arrow-up" : "arrow-down");
  const moved = rise ? html`<span class=${rise > 0 ? "good" : "bad"}>${arrow}${Math.abs(rise)}</span>` : nothing;
  const addition = html`<button class="quiet" @click=${() => accept(id)}>${say`Add question`}</button>`;
  return html`<tr><td class="rank number">${index + 1} ${moved}</td>
    <td class="passage-cell">${may("read") ? html`<a dir="auto" href=${address}>${name ?? "\u2026"}</a>`
      : html`<span dir="auto">${name ?? say`This key cannot read the passage`}</span>`}
      <span class="soft small clip" dir="auto">${chunk?.matched_question ?? opening(chunk?.text ?? "", 90)}</span></td>
    <td class="of-all"><span class="column-name">${say`score`}</span><span class="number">${score(value)}</span></td>
    ${CHANNELS.map((channel) => cell(channel, channels[channel]))}
    <td class="of-row">${may("manage") ? addition : nothing}</td></tr>`;
}

/** @param {typeof CHANNELS[number]} channel @param {Api["ChannelRankView"]} [match] */
function cell(channel, match) {
  const shown = match
    ? html`${bar(match.score, channel)}<span class="soft small number"
        >${score(match.score)} \u00b7 #${match.rank}</span>`
    : html`<span class="soft small">\u2013</span>`;
  return html`<td><span class="column-name">${NAMES[channel]}</span>${shown}</td>`;
}
