// Compare: evaluations of search strategies with labelled questions.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, get, post, send } from "../api.js";
import { redraw, remember, remembered } from "../store.js";
import { bar } from "../parts/bars.js";
import { field } from "../kit/field.js";
import { collectionPicker, collections, isListed, loadCollections } from "../parts/collections.js";
import { ago, count, plural, score } from "../parts/format.js";
import { noCollections } from "../parts/no-collections.js";
import { notify, problemCard } from "../parts/notice.js";
import { report, runsCompared } from "../parts/report.js";
import { describe } from "../parts/strategies.js";
import { trend } from "../parts/trend.js";
import { say } from "../parts/words.js";

export const title = say`Compare`;
export const titled = true;
/** @type {Record<string, string>} */
const STATES = {
  queued: say`queued`,
  running: say`running`,
  done: say`done`,
  failed: say`failed`,
  cancelled: say`cancelled`,
};
const INTERVAL = 1000; // milliseconds between two polls
const MOST = 1000;
const USUAL = ["default", "text", "bm25", "text+bm25 rrf"];

/**
 * @typedef {import("../parts/report.js").Results} Results
 * @typedef {Omit<Api["EvaluationView"], "results"> & {results: Partial<Results> | null}} Run
 *   runs in a list have only the `rows` of their results
 * @typedef {{
 *   sets: Api["LabelledSetSizeView"][] | null,
 *   set: string,
 *   build: number | null,
 *   runs: Run[],
 *   strategies: string[],
 *   run: Run | null,
 *   file: {name: string, results: Results} | null,
 *   against: Api["DifferenceView"][] | null,
 *   chosen: string,
 *   problem: any,
 *   again?: () => void,
 * }} Comparing
 */

/** @returns {Comparing} */
const newState = () => ({
  sets: null, set: "", build: null, runs: [], strategies: [], run: null, file: null, against: null, chosen: "",
  problem: null,
});
let seen = newState();
const picked = new Set(USUAL);
let clock = 0;
let visit = 0; // number of the latest visit; replies to earlier ones are dropped
let starting = false;
/** @type {typeof import("../parts/labelling.js") | null} loaded when labelling starts */
let labeller = null;

/** @param {Run | null} run whether a worker does it, or will */
const isOpen = (run) => run?.state === "queued" || run?.state === "running";

/** @returns {`/v1/collections/${string}`} */
const base = () => `/v1/collections/${encodeURIComponent(collections.chosen)}`;

/** @param {{id: string, query: URLSearchParams}} route */
export async function load({ id, query }) {
  startVisit();
  const now = visit;
  seen = { ...newState(), sets: seen.sets, runs: seen.runs, strategies: seen.strategies, set: seen.set };
  await loadCollections().catch((problem) => Object.assign(seen, { problem, again: listAgain }));
  const requested = query.get("collection");
  if (now !== visit) return;
  if (requested && isListed(requested)) collections.chosen = requested;
  const number = Number(query.get("build"));
  if (searchable().some((each) => each.build === number)) seen.build = number;
  await Promise.all([refresh(), id && isListed() ? poll(id) : null]);
}

export function unload() {
  startVisit();
  labeller?.stopLabelling();
}

function startVisit() {
  clearTimeout(clock);
  visit += 1;
}

/** Show the sets and runs of another collection. */
function showCollection() {
  startVisit();
  seen = newState();
  history.replaceState(null, "", `${ROOT}/lab/compare?collection=${encodeURIComponent(collections.chosen)}`);
  refresh();
}

/** Return the builds of the chosen collection that have all documents. */
function searchable() {
  const { builds = [] } = collections.items.find((each) => each.name === collections.chosen) ?? {};
  return builds.filter(({ state }) => state === "live" || state === "following");
}

async function refresh() {
  const now = visit;
  if (collections.isRead && !isListed()) { // the server would answer 404
    seen.sets = [];
    return redraw();
  }
  try {
    const [sets, runs] = await Promise.all([get(`${base()}/labelled-sets`), get(`${base()}/evaluations`)]);
    if (now !== visit) return;
    Object.assign(seen, { sets: sets.items, runs: runs.items, strategies: runs.strategies });
    if (seen.again === listAgain) Object.assign(seen, { problem: null, again: undefined });
    const names = sets.items.map((each) => each.set);
    if (!names.includes(seen.set)) seen.set = names.includes(remembered("set")) ? remembered("set") : names[0] ?? "";
  } catch (problem) {
    if (now !== visit) return;
    Object.assign(seen, { problem, sets: seen.sets ?? [], again: listAgain });
  }
  redraw();
}

const listAgain = () => loadCollections().catch(() => {}).then(refresh);

/** Poll a run until it has finished. The run does not depend on the polling. @param {string} id */
async function poll(id) {
  const now = visit;
  clearTimeout(clock);
  let again = 0;
  try {
    const run = await get(`${base()}/evaluations/${id}`);
    if (now !== visit || (seen.run && seen.run.id !== id)) return;
    seen.run = run;
    if (seen.again !== listAgain) Object.assign(seen, { problem: null, again: undefined });
  } catch (problem) {
    if (now !== visit) return;
    Object.assign(seen, { problem, again: () => poll(id) });
    again = problem.again - Date.now();
  }
  const { run } = seen;
  if (isOpen(run)) clock = window.setTimeout(poll, Math.max(INTERVAL, again), id);
  else {
    if (run?.results && !seen.chosen) seen.chosen = firstOf(run.results);
    if (seen.runs.some((each) => each.id === id && isOpen(each))) await refresh();
  }
  redraw();
}

/** @param {Partial<Results>} results @returns {string} */
const firstOf = ({ rows = [], baseline, default: usual }) => {
  const own = rows.find((row) => row.strategy === usual);
  return (own ?? rows.find((row) => row.strategy !== baseline) ?? rows[0])?.strategy ?? "";
};

/** @param {() => Promise<unknown>} action */
async function attempt(action) {
  try {
    await action();
    seen.problem = null;
  } catch (problem) {
    Object.assign(seen, { problem, again: undefined }); // the user repeats the action with its button
  }
  redraw();
}

const run = () => starting || attempt(async () => {
  const now = visit;
  starting = true;
  const strategies = seen.strategies.filter((name) => picked.has(name));
  const work = { labelled_set: seen.set, strategies, build: seen.build };
  const started = await post(`${base()}/evaluations`, work).finally(() => (starting = false));
  if (now !== visit) return; // the run continues and is listed
  history.pushState(null, "", `${ROOT}/lab/compare/${started.id}?collection=${encodeURIComponent(collections.chosen)}`);
  Object.assign(seen, { run: started, file: null, against: null, chosen: "", runs: [started, ...seen.runs] });
  clearTimeout(clock);
  clock = window.setTimeout(poll, INTERVAL / 4, started.id);
});

/** @param {Run} each */
const forget = (each) => attempt(async () => {
  if (isOpen(each)) {
    const run = await get(`${base()}/evaluations/${each.id}`);
    if (!isOpen(run)) { // it has finished: Stop must not delete its results
      notify(say`The run had already finished.`);
      if (seen.run?.id === each.id) await poll(each.id);
      return refresh();
    }
  }
  await send("DELETE", `${base()}/evaluations/${each.id}`);
  if (seen.run?.id === each.id) seen.run = null;
  notify(isOpen(each) ? say`Run stopped.` : say`Run deleted.`);
  await refresh();
});

/** @param {string} id */
const compareWith = (id) => attempt(async () => {
  seen.against = id ? (await get(`${base()}/evaluations/${seen.run?.id}/compare/${id}`)).items : null;
});

/**
 * Open a file: JSON lines with questions become a set, a `results.json` is shown as a report.
 * @param {File | undefined} file
 */
const open = (file) => attempt(async () => {
  if (!file) return;
  const text = await file.text();
  const whole = read(text);
  if (whole?.rows && whole?.per_query) {
    const shownFile = { name: file.name, results: whole };
    return Object.assign(seen, { file: shownFile, run: null, chosen: firstOf(whole) });
  }
  const questions = text
    .split("\n")
    .filter((line) => line.trim())
    .map((line, number) => read(line) ?? wrong(say`Line ${number + 1} of ${file.name} is not JSON.`));
  if (questions.length > MOST) {
    const [many, most] = [count(questions.length), count(MOST)];
    wrong(say`${file.name} has ${many} questions, but a set holds at most ${most}. Use a sample.`);
  }
  const name = file.name.replace(/\.[^.]*$/, "").replace(/[^\w.-]+/g, "-").slice(0, 64) || "questions";
  await send("PUT", `${base()}/labelled-sets/${encodeURIComponent(name)}`, { body: { questions } });
  choose(name);
  notify(say`Saved ${plural(questions.length, "question")} from ${file.name} as set ${name}.`);
  await refresh();
});

/** Parse JSON, or return null if the text is not JSON. @param {string} text @returns {any} */
function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** @param {string} message @returns {never} */
function wrong(message) {
  throw new Error(message);
}

/** @param {string} name */
function choose(name) {
  seen.set = name;
  remember("set", name);
  redraw();
}

const startLabelling = () => attempt(async () => {
  const set = seen.set || "asked";
  const labelled = seen.set ? (await get(`${base()}/labelled-sets/${set}`)).questions.map((each) => each.question) : [];
  labeller = await import("../parts/labelling.js");
  await labeller.label(collections.chosen, set, new Set(labelled), () => ((seen.set = set), refresh()));
});

export function view() {
  if (labeller?.isLabelling()) return html`<section class="column wide">${labeller.labelling()}</section>`;
  return html`<section class="column wide">
    ${collections.isRead && !isListed() ? nothing : html`<div class="tools">${collectionPicker(showCollection)}
      ${seen.sets && tools(seen.sets)}</div>`}
    ${problemCard(seen.problem, seen.again)}
    ${seen.sets === null ? nothing : !isListed() && !seen.problem ? missing()
      : seen.set ? form() : seen.file ? nothing : explanation()}
    ${seen.file ? html`<h2 dir="auto">${seen.file.name}</h2>${report(seen.file.results, seen.chosen, pick)}` : nothing}
    ${seen.run ? shown(seen.run) : nothing}
    ${seen.runs.length ? earlier() : nothing}
  </section>`;
}

/**
 * Render the tools in one step, so that no button moves under the pointer.
 * @param {Api["LabelledSetSizeView"][]} sets
 */
function tools(sets) {
  /** @param {On<HTMLSelectElement>} event */
  const chosen = (event) => choose(event.target.value);
  /** @param {On<HTMLInputElement & {files: FileList}>} event */
  const given = (event) => (open(event.target.files[0]), (event.target.value = ""));
  return html`${sets.length
      ? html`<label class="inline">${say`Set`} <select @change=${chosen}>${sets.map(
          (each) => html`<option value=${each.set} ?selected=${each.set === seen.set}
            >${each.set} (${count(each.questions)})</option>`,
        )}</select></label>`
      : nothing}
    <label class="button">${say`Open file`}<input class="hidden" type="file"
      accept=".jsonl,.json,.ndjson" @change=${given}></label>
    <button @click=${startLabelling}>${say`Label user questions`}</button>`;
}

/** @param {string} strategy */
const pick = (strategy) => ((seen.chosen = strategy), redraw());

function explanation() {
  const purpose = say`Measure whether question matching beats plain search on your documents. Thirty labelled questions show large differences; a few hundred show small ones.`;
  const results = html`<code>results.json</code>`;
  const command = html`<code>foreask eval</code>`;
  return html`<div class="empty"><p>${purpose}</p>
    <p class="soft">${say`Label questions that users asked, or open a file with one question per line:`}</p>
    <pre>{"question": "How much leave do I get?", "external_ids": ["leave.md"]}</pre>
    <p class="soft">${say`You can also open the ${results} of ${command}.`}</p></div>`;
}

const missing = () => noCollections(say`Here you measure how well questions find their documents, with several search \
strategies and in several builds.`);

function form() {
  /** @param {string} name @param {HTMLInputElement} control */
  const toggle = (name, control) => ((control.checked ? picked.add(name) : picked.delete(name)), redraw());
  const some = seen.strategies.some((name) => picked.has(name));
  const options = seen.strategies.map((name) => /** @type {const} */ ([name, name, describe(name)]));
  const label = say`Strategies`;
  return html`<div class="strategies">
    ${field({ name: "strategies", label, type: "checks", value: [...picked], changed: toggle, options })}
    <p class="kit-actions">${buildPicker()}
      <button class="main" ?disabled=${!some || isOpen(seen.run)} @click=${run}>${say`Run`}</button></p></div>`;
}

/** Choose the build to search, if there are several. */
function buildPicker() {
  const builds = searchable();
  if (builds.length < 2) return nothing;
  /** @param {On<HTMLSelectElement>} event */
  const chosen = (event) => ((seen.build = Number(event.target.value) || null), redraw());
  /** @param {Api["NumberedStateView"]} each */
  const option = ({ build, state }) => (state === "live"
    ? html`<option value="" ?selected=${seen.build === null}>${say`${build}, live`}</option>`
    : html`<option value=${build} ?selected=${seen.build === build}>${build}</option>`);
  return html`<label class="inline">${say`Build`} <select @change=${chosen}>${builds.map(option)}</select></label>`;
}

/** @param {Record<string, any> | undefined} row of the best strategy */
const bestWords = (row) => (row ? ` \u00b7 ${say`best: ${row.strategy} ${score(row["ndcg@10"])}`}` : "");

/** @param {Run} each */
const buildOf = (each) => (each.build ? ` \u00b7 ${say`build ${each.build}`}` : "");

/** @param {Run} each */
function shown(each) {
  const facts = html`${plural(each.questions, "question")}${buildOf(each)} \u00b7 ${ago(each.created_at)}`;
  const heading = html`<h2>${each.labelled_set ?? say`Questions`} <span class="soft small">${facts}</span></h2>`;
  if (isOpen(each)) {
    const searched = each.total
      ? say`${count(each.done)} of ${plural(each.total, "query", "queries")}`
      : plural(each.done, "query", "queries");
    const progress = [searched, each.strategy].filter(Boolean).join(", ");
    return html`${heading}<div class="bar-line" role="status">${bar(each.done / (each.total || 1), "")}
      <span class="number">${each.state === "queued" ? say`queued` : progress}</span>
      <button class="quiet" @click=${() => forget(each)}>${say`Stop`}</button></div>
      <p class="soft small">${say`The run continues if you leave this page.`}</p>`;
  }
  if (!each.results?.per_query) {
    return html`${heading}<p class="trouble">${each.error ?? say`The run failed. Run it again.`}</p>`;
  }
  const others = seen.runs.filter((other) => other.state === "done" && other.id !== each.id);
  /** @param {On<HTMLSelectElement>} event */
  const chosen = (event) => compareWith(event.target.value);
  return html`${heading}${report(/** @type {Results} */ (each.results), seen.chosen, pick)}
    ${others.length ? html`<label class="inline">${say`Compare with run`} <select @change=${chosen}>
      <option value="">\u2013</option>${others.map((other) => html`<option value=${other.id}>${ago(other.created_at)},
        ${other.labelled_set ?? say`questions`}${buildOf(other)}</option>`)}</select></label>` : nothing}
    ${seen.against ? runsCompared(seen.against) : nothing}`;
}

function earlier() {
  /** @param {Run} each */
  const address = (each) => `${ROOT}/lab/compare/${each.id}?collection=${encodeURIComponent(collections.chosen)}`;
  /** @param {Run} each */
  const best = (each) => [...(each.results?.rows ?? [])].sort((one, other) => other["ndcg@10"] - one["ndcg@10"])[0];
  return html`${trend(seen.runs, seen.set)}
    <h2>${say`Runs`}</h2><ul class="questions" role="list">${seen.runs.map((each) => html`<li>
    <span class="grow"><a href=${address(each)}>${each.labelled_set ?? say`Questions`}, ${ago(each.created_at)}</a>
      <span class="soft small">${plural(each.questions, "question")}${buildOf(each)}
        \u00b7 ${STATES[each.state] ?? each.state}${bestWords(best(each))}</span></span>
    <button class="quiet"
      @click=${() => forget(each)}
      aria-label=${isOpen(each)
        ? say`Stop the run of ${ago(each.created_at)}`
        : say`Delete the run of ${ago(each.created_at)}`}
      >${isOpen(each) ? say`Stop` : say`Delete`}</button></li>`)}</ul>`;
}
