// Lab, Try: a text, its chunks, and the questions that the model writes for each; nothing is stored.

import { html, nothing } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { Problem, follow, post } from "../api.js";
import { changed } from "../store.js";
import { bar } from "../parts/bars.js";
import { collectionPicker, collections, loadCollections } from "../parts/collections.js";
import { counted, duration, money, path, score } from "../parts/format.js";
import { say, trouble } from "../parts/notice.js";

export const title = "Try";
const MOST = 20_000; // characters that the server tries
const EXAMPLE = `# Berlin

Berlin is the capital and largest city of Germany, by area and by population. With 3.7 million inhabitants it has the highest population within its city limits of any city in the European Union. The state of Brandenburg surrounds the city, and Potsdam, Brandenburg's capital, is nearby. The urban area of Berlin has over 4.6 million inhabitants and is the most populous in Germany.`;

const HEATS = [0.1, 0.25, 0.4, 0.55, 0.7, 0.85]; // where a cell's colour changes
const MOST_ASKED = 12;

/**
 * @typedef {Api["TrialChunkEvent"] & {questions: any[], judged: boolean, error: string | null}} Tried
 * @type {{asked: string[], likeness: any[] | null, text: string, prompt: string, count: string, chunks: Tried[], done: Api["TrialDoneEvent"] | null, problem: any, stopped: boolean}}
 */
const trial = { asked: [], likeness: null, text: EXAMPLE, prompt: "", count: "", chunks: [], done: null, problem: null, stopped: false };
/** @type {AbortController | null} */
let running = null;

export async function load() {
  await loadCollections().catch((problem) => (trial.problem = problem));
  changed();
}

export function leave() {
  running?.abort();
}

async function run(event) {
  event?.preventDefault();
  running?.abort();
  const control = (running = new AbortController());
  Object.assign(trial, { chunks: [], done: null, problem: null, stopped: false, likeness: null });
  changed();
  const known = collections.items.some((each) => each.name === collections.chosen);
  /** @type {Record<string, any>} */
  const body = { text: trial.text };
  if (known) body.collection = collections.chosen;
  if (trial.prompt.trim()) body.prompt = trial.prompt;
  if (trial.count) body.questions_per_chunk = Number(trial.count);
  try {
    await follow("POST", "/v1/try", heard, { body, signal: control.signal });
  } catch (problem) {
    if (control.signal.aborted) trial.stopped = true;
    else trial.problem = problem;
  }
  if (running === control) running = null;
  changed();
}

function heard(name, data) {
  if (name === "chunk") trial.chunks[data.chunk] = { ...data, questions: [], judged: false, error: null };
  else if (name === "question") trial.chunks[data.chunk].questions.push({ text: data.text, passed: null, reason: null, similarity: null });
  else if (name === "screened") Object.assign(trial.chunks[data.chunk], { questions: data.questions, judged: true, error: data.error });
  else if (name === "done") trial.done = data;
  else if (name === "error") trial.problem = new Problem(data);
  changed();
}

/** Compare the questions that were put with each chunk's text and with its questions. */
async function compare(question) {
  if (question?.trim()) trial.asked = [...trial.asked.filter((each) => each !== question), question].slice(-MOST_ASKED);
  if (!trial.asked.length || !trial.chunks.length) return;
  const texts = trial.chunks.map((each) => ({ text: each.text, questions: each.questions.map(({ text }) => text).slice(0, 20) }));
  const known = collections.items.some((each) => each.name === collections.chosen);
  try {
    const body = { questions: trial.asked, texts, ...(known ? { collection: collections.chosen } : {}) };
    trial.likeness = (await post("/v1/similarity", body)).items;
    trial.problem = null;
  } catch (problem) {
    trial.problem = problem;
  }
  changed();
}

function put(event) {
  event.preventDefault();
  const field = event.target.elements.namedItem("asked");
  compare(field.value);
  field.value = "";
}

async function keep() {
  try {
    const document = await post("/v1/documents", { text: trial.text, collection: collections.chosen });
    say(`It is a document of \u201c${document.collection}\u201d now.`);
  } catch (problem) {
    say(problem.message);
  }
}

async function dropped(event) {
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (!file) return;
  trial.text = (await file.text()).slice(0, MOST);
  changed();
}

export function view() {
  return html`<section class="column wide" @dragover=${(event) => event.preventDefault()} @drop=${dropped}>
    <p class="soft">What would be asked about a text? Nothing is stored; the model's calls are paid for as at ingest.</p>
    <form class="trial" @submit=${run}>
      <label>Text<textarea id="question" rows="9" dir="auto" maxlength=${MOST} .value=${live(trial.text)}
        @input=${(event) => ((trial.text = event.target.value), changed())}></textarea></label>
      <div class="tools">
        ${collectionPicker(() => {})}
        <label class="inline">Questions a chunk <input type="number" min="1" max="20" .value=${live(trial.count)}
          placeholder="auto" @input=${(event) => (trial.count = event.target.value)}></label>
        <span class="grow soft small number">${counted(trial.text.length, "character")}</span>
        ${running ? html`<button type="button" @click=${() => running?.abort()}>Stop</button>`
          : html`<button class="main" type="submit" ?disabled=${!trial.text.trim()}>Write questions</button>`}
      </div>
      <details><summary>Another prompt</summary>
        <label><span class="hidden">Prompt</span><textarea rows="4" dir="auto" placeholder="Write {count} questions that the text answers. Text: {text}" .value=${live(trial.prompt)}
          @input=${(event) => (trial.prompt = event.target.value)}></textarea></label></details>
    </form>
    ${trouble(trial.problem, run)}
    ${trial.stopped ? html`<p class="soft">You stopped it here.</p>` : nothing}
    ${trial.done ? summary(trial.done) : nothing}
    ${trial.done ? html`<form class="bar-line" @submit=${put}><label class="grow"><span class="hidden">Ask it</span>
        <input name="asked" class="whole" dir="auto" maxlength="10000" placeholder="Ask it, as a user would"></label><button type="submit">Compare</button></form>` : nothing}
    ${trial.chunks.map(chunk)}
  </section>`;
}

/** @param {Api["TrialDoneEvent"]} done */
function summary(done) {
  const tokens = done.usage.prompt_tokens + done.usage.completion_tokens;
  const parts = [`${done.passed} of ${counted(done.questions, "question")} kept`, counted(done.calls, "call"), counted(tokens, "token")];
  if (done.cost !== null) parts.push(money(done.cost));
  parts.push(duration(done.milliseconds / 1000));
  return html`<p class="bar-line soft small" role="status"><span class="grow">${parts.join(" \u00b7 ")}${done.cut ? ` \u00b7 only the first ${counted(done.characters, "character")} were tried` : ""}</span>
    <button @click=${keep}>Keep as a document</button></p>`;
}

/** @param {Tried} each */
function chunk(each) {
  return html`<article class="card">
    <h3><span class="soft">Chunk ${each.chunk + 1}</span> <span dir="auto">${path(each.heading_path)}</span></h3>
    <div class="reading"><p class="marked" dir="auto">${each.text}</p></div>
    ${trial.likeness?.[each.chunk] ? heat(each, trial.likeness[each.chunk])
      : html`<ul class="questions" role="list" aria-busy=${String(!each.judged)}>${each.questions.map(question)}</ul>`}
    ${each.error ? html`<p class="bad">${each.error}</p>` : !each.questions.length && running ? html`<p class="soft">Being written\u2026</p>` : nothing}
  </article>`;
}

/** Each question that was put as a column: how near are the chunk's questions, its text, its words? */
function heat(each, likeness) {
  const rows = [
    ...each.questions.slice(0, 20).map((own, place) => ({ words: own.text, mark: verdict(own), values: likeness.questions.map((cosines) => cosines[place]) })),
    { words: "the chunk\u2019s text", mark: nothing, values: likeness.text },
    { words: "its words", mark: nothing, values: likeness.words },
  ];
  const best = trial.asked.map((_, column) => Math.max(...rows.map((row) => row.values[column])));
  return html`<div class="scrolls" tabindex="0" role="region" aria-label="Similarities"><table class="heat">
    <thead><tr><th>asked</th>${trial.asked.map((asked) => html`<th scope="col" dir="auto">${asked}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr><th scope="row" dir="auto">${row.mark} ${row.words}</th>${row.values.map((value, column) => html`<td
      class="number heat-${HEATS.filter((from) => value >= from).length} ${value === best[column] ? "best" : ""}">${score(value)}</td>`)}</tr>`)}</tbody></table></div>`;
}

function verdict(each) {
  if (each.passed === null) return html`<span class="soft" aria-label="not judged yet">\u25d0</span>`;
  return each.passed ? html`<span class="good" aria-label="kept">\u2713</span>` : html`<span class="bad" aria-label="dropped">\u2715</span>`;
}

function question(each) {
  return html`<li class=${each.passed === false ? "dropped" : ""}>${verdict(each)}
    <span class="grow"><span dir="auto">${each.text}</span>${each.reason ? html`<span class="soft small">${each.reason}</span>` : nothing}</span>
    ${each.similarity === null ? nothing : html`<span class="similarity">${bar(each.similarity, "questions")}</span><span class="small number">${score(each.similarity)}</span>`}</li>`;
}
