// Lab, Try: a text, its chunks, and the questions that the model writes for each, by one prompt or by two; nothing is stored.

import { html, nothing } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { post } from "../api.js";
import { changed } from "../store.js";
import { collectionPicker, collections, loadCollections } from "../parts/collections.js";
import { counted, path } from "../parts/format.js";
import { compared, heat, nearest } from "../parts/likeness.js";
import { may } from "../parts/me.js";
import { say, trouble } from "../parts/notice.js";
import { fields, handed, newSide, outcome, unjudged, verdict, write, written } from "../parts/trial.js";

export const title = "Try";
const MOST = 20_000; // characters that the server tries
const MOST_ASKED = 12;
const NAMES = ["A", "B"];
const EXAMPLE = `# Berlin

Berlin is the capital and largest city of Germany, by area and by population. With 3.7 million inhabitants it has the highest population within its city limits of any city in the European Union. The state of Brandenburg surrounds the city, and Potsdam, Brandenburg's capital, is nearby. The urban area of Berlin has over 4.6 million inhabitants and is the most populous in Germany.`;

/**
 * @typedef {import("../parts/trial.js").Tried} Tried
 * @typedef {import("../parts/trial.js").Side} Side
 */
/** @type {{sides: Side[], asked: string[], likeness: import("../parts/likeness.js").Likeness[] | null, bars: boolean, text: string, problem: any}} */
const trial = { sides: [newSide()], asked: [], likeness: null, bars: false, text: EXAMPLE, problem: null };
let comparisons = 0;

export async function load() {
  if (handed.text !== null) {
    for (const side of trial.sides) Object.assign(side, { chunks: [], done: null, problem: null, stopped: false });
    Object.assign(trial, { text: handed.text.slice(0, MOST), likeness: null, asked: [] });
    handed.text = null;
  }
  await loadCollections().then(() => (trial.problem = null), (problem) => (trial.problem = problem));
  changed();
}

export function leave() {
  stop();
}

function stop() {
  for (const side of trial.sides) side.running?.abort();
}

/** The collection whose options and embedding are used; none where there is none yet. */
function collection() {
  return collections.items.some((each) => each.name === collections.chosen) ? collections.chosen : undefined;
}

/** @param {Event} event */
async function run(event) {
  event.preventDefault();
  comparisons += 1;
  Object.assign(trial, { problem: null, likeness: null });
  await Promise.all(trial.sides.map(again));
  if (!trial.sides.some((side) => side.running)) await compare();
}

/** @param {Side} side */
const again = (side) => write(side, { text: trial.text, collection: collection() });

/** @param {Side} side */
async function retry(side) {
  comparisons += 1;
  trial.likeness = null;
  await again(side);
  if (!trial.sides.some((each) => each.running)) await compare();
}

/** The chunks, which are the same for both prompts. */
const chunks = () => trial.sides.map((side) => side.chunks).reduce((most, each) => (each.length > most.length ? each : most));

/** The questions of a chunk, those of the first prompt first. @param {number} place */
const questionsOf = (place) => trial.sides.flatMap((side, number) =>
  (side.chunks[place]?.questions ?? []).map((each) => ({ ...each, side: trial.sides.length > 1 && !each.typed ? NAMES[number] : "" })));

/** Compare the questions that were put with each chunk's text and with its questions. @param {string} [question] another one */
async function compare(question) {
  if (question?.trim()) trial.asked = [...trial.asked.filter((each) => each !== question), question].slice(-MOST_ASKED);
  const tried = chunks();
  if (!trial.asked.length || !tried.length) return;
  const comparison = ++comparisons;
  try {
    const texts = tried.map((each, place) => ({ text: each.text, questions: questionsOf(place).map(({ text }) => text) }));
    const likeness = await compared(trial.asked, texts, collection());
    if (comparison !== comparisons) return; // another text is tried by now
    trial.likeness = likeness;
    trial.problem = null;
  } catch (problem) {
    if (comparison === comparisons) trial.problem = problem;
  }
  changed();
}

/** @param {On<HTMLFormElement & {elements: {asked: HTMLInputElement}}>} event */
function put(event) {
  event.preventDefault();
  const field = event.target.elements.asked;
  compare(field.value);
  field.value = "";
}

/** A question of one's own takes part in the comparison. @param {On<HTMLFormElement & {elements: {typed: HTMLInputElement}}>} event @param {number} place */
function type(event, place) {
  event.preventDefault();
  const field = event.target.elements.typed;
  const chunk = trial.sides[0].chunks[place] ?? trial.sides[1]?.chunks[place];
  if (field.value.trim()) chunk.questions.push(unjudged(field.value.trim(), true));
  field.value = "";
  trial.likeness = null;
  changed();
  compare();
}

function twoSides() {
  if (trial.sides.length > 1) trial.sides.pop()?.running?.abort();
  else trial.sides.push(newSide());
  comparisons += 1;
  trial.likeness = null;
  changed();
}

async function keep() {
  try {
    const document = await post("/v1/documents", { text: trial.text, collection: collections.chosen });
    say(`Saved as a document in \u201c${document.collection}\u201d.`);
  } catch (problem) {
    say(problem.message);
  }
}

/** @param {Dropped} event */
async function dropped(event) {
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (!file) return;
  trial.text = (await file.text()).slice(0, MOST);
  changed();
}

export function view() {
  const { sides } = trial;
  const running = sides.some((side) => side.running);
  const tried = chunks();
  /** @param {Event} event */
  const over = (event) => event.preventDefault();
  /** @param {On<HTMLTextAreaElement>} event */
  const changes = (event) => ((trial.text = event.target.value), changed());
  return html`<section class="column wide" @dragover=${over} @drop=${dropped}>
    <p class="soft">See the questions that the model writes for a text. Nothing is stored. Model calls are billed as in ingest.</p>
    <form class="trial" @submit=${run}>
      <label>Text<textarea id="question" rows="9" dir="auto" maxlength=${MOST} .value=${live(trial.text)}
        @input=${changes}></textarea></label>
      <details ?open=${sides.length > 1}><summary>Another prompt</summary>
        <div class=${sides.length > 1 ? "sides" : ""}>${sides.map((side, number) => sides.length > 1
          ? html`<fieldset><legend>${NAMES[number]}</legend>${fields(side)}</fieldset>` : html`<div class="side">${fields(side)}</div>`)}</div>
        <button type="button" class="quiet" @click=${twoSides}>${sides.length > 1 ? "Use one prompt" : "Compare two prompts"}</button></details>
      <div class="tools">
        ${collectionPicker(() => {})}
        <span class="grow soft small number">${counted(trial.text.length, "character")}</span>
        ${running ? html`<button type="button" @click=${stop}>Stop</button>`
          : html`<button class="main" type="submit" ?disabled=${!trial.text.trim()}>Generate questions</button>`}
      </div>
    </form>
    ${trouble(trial.problem, () => load().then(() => compare()))}
    ${sides.map((side, number) => outcome(side, sides.length > 1 ? NAMES[number] : "", () => retry(side)))}
    ${tried.length && !running ? asking() : nothing}
    ${tried.map(chunk)}
  </section>`;
}

function asking() {
  /** @param {boolean} bars @param {string} words */
  const shape = (bars, words) => html`<button type="button" aria-pressed=${String(trial.bars === bars)} @click=${() => ((trial.bars = bars), changed())}>${words}</button>`;
  return html`<form class="bar-line" @submit=${put}><label class="grow"><span class="hidden">Question</span>
      <input name="asked" class="whole" dir="auto" maxlength="10000" placeholder="Ask a question as a user would"></label><button type="submit">Compare</button>
      ${trial.likeness ? html`<span class="switch" role="group" aria-label="Chart type">${shape(false, "Heat map")}${shape(true, "Bars")}</span>` : nothing}
      ${may("write") ? html`<button type="button" class="quiet" @click=${keep}>Save as document</button>` : nothing}</form>`;
}

/** @param {Tried} each @param {number} place */
function chunk(each, place) {
  const { sides, likeness } = trial;
  /** @param {Parameters<typeof type>[0]} event */
  const typed = (event) => type(event, place);
  return html`<article class="card">
    <h3><span class="soft">Chunk ${place + 1}</span> <span dir="auto">${path(each.heading_path)}</span></h3>
    <div class="reading"><p class="marked" dir="auto">${each.text}</p></div>
    ${likeness?.[place] ? alike(place, likeness[place])
      : sides.length === 1 ? written(sides[0].chunks[place], sides[0])
        : html`<div class="sides">${sides.map((side, number) => html`<section aria-label=${NAMES[number]}><h4>${NAMES[number]}</h4>${written(side.chunks[place], side)}</section>`)}</div>`}
    <form class="bar-line" @submit=${typed}><label class="grow"><span class="hidden">Your own question about chunk ${place + 1}</span>
      <input name="typed" class="whole quiet" dir="auto" maxlength="1000" placeholder="Add your own question about this chunk"></label><button type="submit" class="quiet">Add</button></form>
  </article>`;
}

/** @param {number} place @param {import("../parts/likeness.js").Likeness} likeness */
function alike(place, likeness) {
  /** @type {import("../parts/likeness.js").Row[]} */
  const rows = questionsOf(place).map((own, row) => ({ words: own.text, mark: html`${own.side ? html`<b class="side-name">${own.side}</b> ` : nothing}${verdict(own)}`, kind: "questions", values: likeness.questions.map((cosines) => cosines[row]) }));
  rows.push({ words: "chunk text", mark: nothing, kind: "text", values: likeness.text });
  rows.push({ words: "shared words", mark: nothing, kind: "bm25", values: likeness.words });
  if (!trial.bars) return heat(trial.asked.slice(0, likeness.text.length), rows);
  return trial.asked.slice(0, likeness.text.length).map((asked, column) => nearest(asked, column, rows)).reverse();
}
