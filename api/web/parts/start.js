// The start of the Ask screen: add documents, wait for them, or try a suggested question.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT } from "../api.js";
import { redraw, remember } from "../store.js";
import { collections, loadCollections } from "./collections.js";
import { count, plural } from "./format.js";
import { icon } from "./icon.js";
import { notify, problemCard } from "./notice.js";
import { may } from "./permissions.js";
import { OPEN } from "./state.js";
import { hasSuggestions, suggest, suggestions } from "./suggestions.js";
import { say } from "./words.js";

const PAUSE = 3000; // milliseconds between two requests while documents are processed

const seen = { loaded: false, problem: /** @type {any} */ (null), isAdding: false };
let clock = 0;
let visible = false;
/** @type {typeof import("./drop.js") | null} loaded while there are no documents */
let drop = null;
const loadDrop = () => import("./drop.js").then((loaded) => ((drop = loaded), redraw()), () => {});

/** Load the collections and the suggested questions. They are loaded again while documents are processed. */
export async function loadStart() {
  visible = true;
  try {
    await loadCollections();
    Object.assign(seen, { loaded: true, problem: null });
    await suggest();
  } catch (problem) {
    seen.problem = problem;
  }
  redraw();
  watch();
}

export function unloadStart() {
  visible = false;
  window.clearTimeout(clock);
}

/** Return the numbers of documents of the chosen collection, or null if they are unknown. */
function counts() {
  const chosen = collections.items.find((each) => each.name === collections.chosen);
  if (!may("all")) return chosen ? null : { all: 0, open: 0, ready: 0 };
  const states = Object.entries(chosen?.documents ?? {});
  /** @param {(state: string) => boolean} isWanted */
  const sum = (isWanted) => states.reduce((total, [state, number]) => total + (isWanted(state) ? number : 0), 0);
  return {
    all: sum(() => true),
    open: sum((state) => OPEN.includes(state)),
    ready: sum((state) => state === "ready" || state === "degraded"),
  };
}

function watch() {
  window.clearTimeout(clock);
  if (!visible || !counts()?.open || hasSuggestions()) return;
  clock = window.setTimeout(() => (document.hidden ? watch() : loadStart()), PAUSE);
}

async function trySample() {
  seen.isAdding = true;
  redraw();
  try {
    const { COLLECTION, addSample } = await import("./sample.js");
    await addSample();
    collections.chosen = COLLECTION;
    remember("collection", COLLECTION);
    const query = new URLSearchParams(location.search);
    query.set("collection", COLLECTION);
    history.replaceState(null, "", `${location.pathname}?${query}`);
  } catch (problem) {
    notify(problem.message);
  }
  seen.isAdding = false;
  await loadStart();
}

/** Return whether adding documents comes before asking. */
export const hasNothing = () => seen.loaded && !seen.problem && counts()?.all === 0;

/** @param {(question: string) => void} ask */
export function startView(ask) {
  if (seen.problem) return problemCard(seen.problem, loadStart);
  if (!seen.loaded) return nothing;
  const number = counts();
  if (number && !number.all) return nothingYet();
  if (hasSuggestions()) return suggestions(ask);
  if (number?.open) {
    return html`<div class="empty"><h2>${say`Your documents are being prepared`}</h2>
      ${steps(html`<strong>${say`Add documents`}</strong>
        <span>${say`${count(number.ready)} of ${plural(number.all, "document")} ready.`}
          <a href=${`${ROOT}/documents`}>${say`Show progress`}</a></span>`, true)}
      ${drop?.pending()}</div>`;
  }
  const words = say`Answers come only from your documents, with the passages that support them. You can ask follow-up questions.`;
  return html`<div class="empty"><h2>${say`Ask in your own words`}</h2>
    <p class="soft">${words}</p></div>`;
}

function nothingYet() {
  const isFirst = !collections.items.some((each) => Object.values(each.documents).some(Boolean));
  const collection = html`<span dir="auto">${collections.chosen}</span>`;
  const title = isFirst ? say`No documents yet` : say`No documents in ${collection}`;
  if (!may("write")) {
    const remedy = isFirst
      ? say`Your key may ask, but not upload. Ask the operator to add documents.`
      : say`Choose another collection, or ask the operator to add documents.`;
    return html`<div class="empty"><h2>${title}</h2>
      <p>${remedy}</p></div>`;
  }
  if (!drop) loadDrop();
  const place = say`They are stored in the collection \u201c${collection}\u201d: a set of documents that are searched together.`;
  const sample = say`The sample adds three short documents of a fictional company to the collection \u201csample\u201d. You can delete it at any time.`;
  return html`<div class="empty"><h2>${title}</h2>
    ${steps(html`<strong>${say`Add documents`}</strong>
      <span class="soft">${place}</span>
      ${drop?.dropZone(loadStart)} ${drop?.pending()}`, false)}
    <p class="tools"><button ?disabled=${seen.isAdding} @click=${trySample}>
      ${seen.isAdding ? say`Adding the sample\u2026` : say`Try the sample`}</button></p>
    <p class="soft small">${sample}</p></div>`;
}

const SEARCHABLE = say`A document is found as soon as its text is searchable, and better once a model has written the questions that it answers.`;

/** The two steps to a first answer. @param {unknown} first @param {boolean} isDone whether documents were added */
const steps = (first, isDone) => html`<ol class="steps">
  <li class=${isDone ? "done" : ""} aria-current=${isDone ? nothing : "step"}>
    ${isDone ? icon("check") : nothing}${first}</li>
  <li aria-current=${isDone ? "step" : nothing}><strong>${say`Ask a question`}</strong>
    <span class="soft">${SEARCHABLE}</span></li></ol>`;
