// Try: the chunks of a text and the questions that the model writes for each, with one prompt or two. Nothing is
// stored.

import { html, nothing } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { get, latest, post, send } from "../api.js";
import { confirmed } from "../kit/dialog.js";
import { redraw } from "../store.js";
import { collectionPicker, collections, isListed, loadCollections } from "../parts/collections.js";
import { plural, path } from "../parts/format.js";
import { passage } from "../parts/prose.js";
import { compared, heat, nearest } from "../parts/similarity.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { pendingText } from "../parts/handover.js";
import { fields, newSide, outcome, unchecked, checkMark, write, written } from "../parts/trial.js";
import { say } from "../parts/words.js";

export const title = say`Try`;
export const titled = true;
const MOST = 20_000; // maximum length of a text, in characters
const MAX_QUESTIONS = 12;
const NAMES = ["A", "B"]; // of the two prompts
const EXAMPLE = say`# Berlin

Berlin is the capital and largest city of Germany, by area and by population. With 3.7 million inhabitants it has the \
highest population within its city limits of any city in the European Union. The state of Brandenburg surrounds the \
city, and Potsdam, Brandenburg's capital, is nearby. The urban area of Berlin has over 4.6 million inhabitants and is \
the most populous in Germany.`;

/**
 * @typedef {import("../parts/trial.js").TriedChunk} TriedChunk
 * @typedef {import("../parts/trial.js").Side} Side
 */
/**
 * @type {{
 *   sides: Side[], questions: string[], similarity: import("../parts/similarity.js").Similarity[] | null,
 *   bars: boolean, text: string, inUse: import("../parts/trial.js").InUse, problem: any,
 * }}
 */
const trial = {
  sides: [newSide()], questions: [], similarity: null, bars: false, text: EXAMPLE, inUse: null, problem: null,
};
const newest = latest();
const newestPrompt = latest();

export async function load() {
  if (pendingText.text !== null) {
    for (const side of trial.sides) Object.assign(side, { chunks: [], done: null, problem: null, stopped: false });
    Object.assign(trial, { text: pendingText.text.slice(0, MOST), similarity: null, questions: [] });
    pendingText.text = null;
  }
  visible = true;
  await loadCollections().then(() => (trial.problem = null), (problem) => (trial.problem = problem));
  redraw();
  await readPrompt();
}

export function unload() {
  visible = false;
  newestPrompt();
  stop();
}

let visible = false;

/** Read the prompt of the chosen collection. */
async function readPrompt() {
  const name = collection();
  if (!visible) return;
  trial.inUse = null;
  try {
    if (!name || !may("read")) return redraw();
    const { effective } = await newestPrompt(get(`/v1/collections/${encodeURIComponent(name)}`));
    if (effective) trial.inUse = { prompt: effective.prompt, version: effective.prompt_version };
  } catch (problem) {
    trial.problem = problem;
  }
  redraw();
}

/** Make a prompt the collection's prompt. @param {string} prompt */
async function store(prompt) {
  const name = collections.chosen;
  const isSure = await confirmed({
    title: say`Use this prompt in \u201c${name}\u201d?`,
    text: say`New documents get their questions with it. Existing documents keep theirs until you rebuild the \
collection, which its screen offers.`,
    action: say`Use this prompt`,
  });
  if (!isSure) return;
  try {
    const address = /** @type {const} */ (`/v1/collections/${encodeURIComponent(name)}`);
    await send("PUT", address, { body: { ...(await get(address)).options, prompt } });
    notify(say`New documents in \u201c${name}\u201d use this prompt.`);
    await readPrompt();
  } catch (problem) {
    notify(problem.message);
  }
}

/** @param {string} prompt */
const keepPrompt = (prompt) => (may("manage") && collection() ? html`<button type="button" class="quiet"
  @click=${() => store(prompt)}>${say`Use this prompt in \u201c${collections.chosen}\u201d`}</button>` : nothing);

function stop() {
  for (const side of trial.sides) side.running?.abort();
}

/**
 * Return the collection whose options and embedding model are used, or undefined before the first collection exists.
 */
function collection() {
  return isListed() ? collections.chosen : undefined;
}

/** @param {Event} event */
async function run(event) {
  event.preventDefault();
  newest(); // drop a running comparison
  Object.assign(trial, { problem: null, similarity: null });
  await Promise.all(trial.sides.map(again));
  if (!trial.sides.some((side) => side.running)) await compare();
}

/** @param {Side} side */
const again = (side) => write(side, { text: trial.text, collection: collection() }, trial.inUse);

/** @param {Side} side */
async function retry(side) {
  newest(); // drop a running comparison
  trial.similarity = null;
  await again(side);
  if (!trial.sides.some((each) => each.running)) await compare();
}

/** Return the chunks, which are the same for both prompts. */
const chunks = () =>
  trial.sides.map((side) => side.chunks).reduce((most, each) => (each.length > most.length ? each : most));

/** Return the questions of a chunk, the first prompt's first. @param {number} index */
const questionsOf = (index) => trial.sides.flatMap((side, number) =>
  (side.chunks[index]?.questions ?? []).map((each) => ({
    ...each,
    side: trial.sides.length > 1 && !each.typed ? NAMES[number] : "",
  })));

/** Compare the entered questions with each chunk's text and questions. @param {string} [question] a new question */
async function compare(question) {
  if (question?.trim()) {
    const others = trial.questions.filter((each) => each !== question);
    trial.questions = [...others, question].slice(-MAX_QUESTIONS);
  }
  const tried = chunks();
  if (!trial.questions.length || !tried.length) return;
  try {
    const texts = tried.map((each, index) => ({
      text: each.text,
      questions: questionsOf(index).map(({ text }) => text),
    }));
    trial.similarity = await newest(compared(trial.questions, texts, collection()));
    trial.problem = null;
  } catch (problem) {
    trial.problem = problem;
  }
  redraw();
}

/** @param {On<HTMLFormElement & {elements: {question: HTMLInputElement}}>} event */
function put(event) {
  event.preventDefault();
  const field = event.target.elements.question;
  compare(field.value);
  field.value = "";
}

/**
 * Add the user's own question to the comparison.
 * @param {On<HTMLFormElement & {elements: {typed: HTMLInputElement}}>} event
 * @param {number} index
 */
function type(event, index) {
  event.preventDefault();
  const field = event.target.elements.typed;
  const chunk = trial.sides[0].chunks[index] ?? trial.sides[1]?.chunks[index];
  if (field.value.trim()) chunk.questions.push(unchecked(field.value.trim(), true));
  field.value = "";
  trial.similarity = null;
  redraw();
  compare();
}

function twoSides() {
  if (trial.sides.length > 1) trial.sides.pop()?.running?.abort();
  else trial.sides.push(newSide());
  newest(); // drop a running comparison
  trial.similarity = null;
  redraw();
}

async function keep() {
  try {
    const document = await post("/v1/documents", { text: trial.text, collection: collections.chosen });
    notify(say`Saved as a document in \u201c${document.collection}\u201d.`);
  } catch (problem) {
    notify(problem.message);
  }
}

/** @param {Dropped} event */
async function dropped(event) {
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (!file) return;
  trial.text = (await file.text()).slice(0, MOST);
  redraw();
}

export function view() {
  const { sides } = trial;
  const running = sides.some((side) => side.running);
  const tried = chunks();
  /** @param {Event} event */
  const over = (event) => event.preventDefault();
  /** @param {On<HTMLTextAreaElement>} event */
  const changes = (event) => ((trial.text = event.target.value), redraw());
  const purpose = say`Preview the questions that the model writes for a text. Nothing is stored. Model calls are billed as during ingestion.`;
  return html`<section class="column wide" @dragover=${over} @drop=${dropped}>
    <p class="soft">${purpose}</p>
    <form class="trial" @submit=${run}>
      <label>${say`Text`}<textarea id="question" rows="9" dir="auto" maxlength=${MOST} .value=${live(trial.text)}
        @input=${changes}></textarea></label>
      <div class=${sides.length > 1 ? "sides" : ""}>${sides.map((side, number) => sides.length > 1
        ? html`<fieldset><legend>${NAMES[number]}</legend>${fields(side, trial.inUse, keepPrompt)}</fieldset>`
        : html`<div class="side">${fields(side, trial.inUse, keepPrompt)}</div>`)}</div>
      <p><button type="button" class="quiet" @click=${twoSides}>${sides.length > 1 ? say`Use one prompt`
        : say`Compare two prompts`}</button></p>
      <div class="tools">
        ${collections.items.length ? collectionPicker(readPrompt) : nothing}
        <span class="grow soft small number">${plural(trial.text.length, "character")}</span>
        ${running ? html`<button type="button" @click=${stop}>${say`Stop`}</button>`
          : html`<button class="main" type="submit"
              ?disabled=${!trial.text.trim()}>${say`Generate questions`}</button>`}
      </div>
    </form>
    ${problemCard(trial.problem, () => load().then(() => compare()))}
    ${sides.map((side, number) => outcome(side, sides.length > 1 ? NAMES[number] : "", () => retry(side)))}
    ${tried.length && !running ? asking() : nothing}
    ${tried.map(chunk)}
  </section>`;
}

function asking() {
  /** @param {boolean} bars @param {string} words */
  const shape = (bars, words) => html`<button type="button" aria-pressed=${String(trial.bars === bars)}
    @click=${() => ((trial.bars = bars), redraw())}>${words}</button>`;
  return html`<form class="bar-line" @submit=${put}><label class="grow"><span class="hidden">${say`Question`}</span>
      <input name="question" class="whole" dir="auto" maxlength="10000"
        placeholder=${say`Ask a question as a user would`}></label>
      <button type="submit">${say`Compare`}</button>
      ${trial.similarity
        ? html`<span class="switch" role="group" aria-label=${say`Chart type`}
            >${shape(false, say`Heat map`)}${shape(true, say`Bars`)}</span>`
        : nothing}
      ${may("write")
        ? html`<button type="button" class="quiet" @click=${keep}>${say`Save as document`}</button>`
        : nothing}</form>`;
}

/** @param {TriedChunk} each @param {number} index */
function chunk(each, index) {
  const { sides, similarity } = trial;
  /** @param {Parameters<typeof type>[0]} event */
  const typed = (event) => type(event, index);
  return html`<article class="card">
    <h3><span class="soft">${say`Chunk ${index + 1}`}</span> <span dir="auto">${path(each.heading_path)}</span></h3>
    <div class="reading"><div class="marked">${passage(each.text)}</div></div>
    ${similarity?.[index] ? comparison(index, similarity[index])
      : sides.length === 1 ? written(sides[0].chunks[index], sides[0])
        : html`<div class="sides">${sides.map((side, number) => html`<section aria-label=${NAMES[number]}>
            <h4>${NAMES[number]}</h4>${written(side.chunks[index], side)}</section>`)}</div>`}
    <form class="bar-line" @submit=${typed}>
      <label class="grow"><span class="hidden">${say`Your own question about chunk ${index + 1}`}</span>
        <input name="typed" class="whole quiet" dir="auto" maxlength="1000"
          placeholder=${say`Add your own question about this chunk`}></label>
      <button type="submit" class="quiet">${say`Add`}</button></form>
  </article>`;
}

/** @param {number} index @param {import("../parts/similarity.js").Similarity} similarity */
function comparison(index, similarity) {
  /** @type {import("../parts/similarity.js").Row[]} */
  const rows = questionsOf(index).map((own, row) => ({
    words: own.text,
    mark: html`${own.side ? html`<b class="side-name">${own.side}</b> ` : nothing}${checkMark(own)}`,
    kind: "questions",
    values: similarity.questions.map((cosines) => cosines[row]),
  }));
  rows.push({ words: say`chunk text`, mark: nothing, kind: "text", values: similarity.text });
  rows.push({ words: say`shared words`, mark: nothing, kind: "bm25", values: similarity.words });
  const questions = trial.questions.slice(0, similarity.text.length);
  if (!trial.bars) return heat(questions, rows);
  return questions.map((question, column) => nearest(question, column, rows)).reverse();
}
