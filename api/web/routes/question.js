// A question: the answer as it was given, its passages, its time and its costs, with actions.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, get, latest } from "../api.js";
import { redraw } from "../store.js";
import { askAddress, explainAddress, gapAddress, mark, wordsOf } from "../parts/asked.js";
import { bar } from "../parts/bars.js";
import { clockTime, dateOf, duration, money, nameOf, opening, path, plural, score } from "../parts/format.js";
import { problemCard } from "../parts/notice.js";
import { may } from "../parts/permissions.js";
import { prose } from "../parts/prose.js";
import { say } from "../parts/words.js";
import { answerDialog, closeAnswer, writeAnswer } from "../parts/write-answer.js";

export const title = say`Question`;
const SHOWN = 240; // characters of a passage
const LONG = 300; // characters of a question; a longer one scrolls
/** @type {Record<string, string>} */
const STAGES = {
  rewrite: say`Rewriting`, embed: say`Embedding`, search: say`Search`, fuse: say`Fusion`,
  fetch: say`Reading of passages`, check: say`Check of passages`,
  rerank: say`Reranking`, diversity: say`Diversity`, sections: say`Sections`,
  sentences: say`Sentences`, return: say`Choice of units`, assemble: say`Token budget`, record: say`Query log`,
  answer: say`Answer`,
};
/** @type {Record<string, string>} */
const INCOMPLETE = {
  length: say`This answer is incomplete: the model reached its token limit.`,
  content_filter: say`This answer is incomplete: the provider's content filter stopped it.`,
  interrupted: say`This answer is incomplete: the model's reply was interrupted.`,
};

/** @typedef {Api["LoggedQueryView"]} Asked */
/**
 * @type {{id: string, query: Asked | null, conversation: string | null, written: Api["DocumentView"] | null,
 *   problem: any}}
 *   conversation: id of the conversation of this key that contains the question
 */
let seen = { id: "", query: null, conversation: null, written: null, problem: null };
const newest = latest();

/** @param {{id: string}} route */
export async function load({ id }) {
  if (seen.id !== id) seen = { id, query: null, conversation: null, written: null, problem: null };
  await refresh();
}

export function unload() {
  newest(); // drop the pending reply
  closeAnswer();
}

async function refresh() {
  const now = seen;
  try {
    now.query = await newest(get(`/v1/queries/${encodeURIComponent(now.id)}`));
    now.problem = null;
    findConversation(now);
  } catch (problem) {
    Object.assign(now, { problem, query: null });
  }
  redraw();
}

/** Find the conversation of this key that contains the question. @param {typeof seen} now */
async function findConversation(now) {
  const { loadConversations, stored } = await import("../parts/conversations.js");
  await loadConversations().catch(() => {}); // the question is shown without the link
  now.conversation = stored.items.find(({ turns }) => turns.some((turn) => turn.queryId === now.id))?.id ?? null;
  redraw();
}

export function view() {
  const { query, problem } = seen;
  return html`<section class="column">
    <p class="small"><a href=${listAddress(query)}>${say`All questions`}</a></p>
    ${problemCard(problem, refresh)}
    ${query ? shown(query) : problem ? nothing : html`<p class="soft" role="status">${say`Loading\u2026`}</p>`}
    ${answerDialog()}
  </section>`;
}

/** @param {Asked | null} query */
const listAddress = (query) => `${ROOT}/questions${query ? `?collection=${encodeURIComponent(query.collection)}` : ""}`;

/** @param {Asked} query */
function shown(query) {
  const isLong = query.question.length > LONG;
  return html`<article class="question-page" aria-labelledby="question-title">
    <h2 class=${isLong ? "question-title long" : "question-title"} id="question-title" dir="auto"
      tabindex=${isLong ? 0 : nothing}>${query.question}</h2>
    <p class="soft small">${mark(query.state)} ${factsOf(query).join(" \u00b7 ")}${query.key_name
      ? html` \u00b7 ${say`Key ${html`<span dir="auto">${query.key_name}</span>`}`}` : nothing}</p>
    ${actions(query)}
    ${seen.written ? html`<p role="status">${say`Your answer is the document ${linkTo(seen.written)}.`}</p>` : nothing}
    <section class="question-part"><h3>${say`Answer`}</h3>${answerOf(query)}</section>
    <section class="question-part"><h3>${say`Passages`}</h3>${passagesOf(query)}</section>
    ${costsOf(query)}
  </article>`;
}

/** @param {Api["DocumentView"]} document */
const linkTo = (document) => html`<a dir="auto" href=${`${ROOT}/documents/${document.id}`}>${nameOf(document)}</a>`;

/** @param {Asked} query */
function factsOf({ state, created_at: at, helpful, milliseconds }) {
  const facts = [wordsOf(state), `${dateOf(at)}, ${clockTime(at)}`, duration(totalOf(milliseconds) / 1000)];
  if (helpful !== null) facts.push(helpful ? say`helped` : say`did not help`);
  return facts;
}

/** Return the time of a query, or without an answer of its stages together. @param {Asked["milliseconds"]} times */
const totalOf = ({ total, ...stages }) => total ?? Object.values(stages).reduce((sum, each) => sum + each, 0);

/** @param {Asked} query */
function actions(query) {
  const { collection, question, gap_id: gap } = query;
  /** @param {Api["DocumentView"]} document */
  const written = (document) => ((seen.written = document), redraw());
  const write = () => writeAnswer({ collection, gap, questions: [question], from: seen.id, written });
  return html`<p class="tools">
    <a class="button" href=${askAddress(collection, question)}>${say`Ask again`}</a>
    <a class="button" href=${explainAddress(collection, question)}>${say`Explain`}</a>
    ${may("write") ? html`<button @click=${write}>${say`Write the answer`}</button>` : nothing}
    ${gap ? html`<a href=${gapAddress(collection, gap)}>${say`Gap`}</a>` : nothing}
    ${seen.conversation
      ? html`<a href=${`${ROOT}/ask?conversation=${seen.conversation}`}>${say`Conversation`}</a>` : nothing}</p>`;
}

/** @param {Asked} query */
function answerOf(query) {
  if (query.answer !== null) {
    /** @param {number} number */
    const cite = (number) => html`<button class="cited" aria-label=${say`Source ${number}`}
      @click=${() => document.getElementById(`passage-${number}`)?.focus()}>${number}</button>`;
    return html`<div class="written">${prose(query.answer, cite)}</div>
      ${query.incomplete_reason
        ? html`<p class="warning">${INCOMPLETE[query.incomplete_reason] ?? INCOMPLETE.interrupted}</p>` : nothing}`;
  }
  return html`<p class="soft">${whyNone(query)}</p>`;
}

/** Return why no answer is shown. @param {Asked} query */
function whyNone({ form, answers_stored: isStored, state }) {
  if (form === null && state === "none") return say`No passage was found, and no answer was written.`;
  if (form === null) return say`Only passages were requested, and no answer was written.`;
  if (!may("read")) return say`Your key may not read documents and answers.`;
  const again = say`Ask again to read an answer.`;
  if (!isStored) return html`${say`Not stored: ${html`<code>FOREASK_QUERY_ANSWERS</code>`} is off.`} ${again}`;
  return html`${say`Not stored then, or a passage that it cites was changed or deleted since.`} ${again}`;
}

/** @param {Asked} query */
function passagesOf({ passages, helpful_chunk_id: helpful }) {
  if (!passages.length) return html`<p class="soft">${say`No passage was returned.`}</p>`;
  return html`<ol class="question-passages" role="list">${
    passages.map((each) => passage(each, each.chunk_id === helpful))}</ol>`;
}

/** @param {Api["LoggedPassageView"]} each @param {boolean} isHelpful by the feedback on the query */
function passage({ number, chunk_id: chunk, score: value, cited, source }, isHelpful) {
  const name = source && (path(source.heading_path) || nameOf(source));
  const file = source && (source.filename ?? source.external_id);
  const facts = [name !== source?.title && source?.title, file, source?.page && say`page ${source.page}`,
    cited && say`cited`, isHelpful && say`helped`];
  return html`<li id=${`passage-${number}`} tabindex="-1"><span class="cited" aria-hidden="true">${number}</span>
    <span class="grow">${source
      ? html`<a class="name" dir="auto" href=${`${ROOT}/documents/${source.document_id}?chunk=${chunk}`}>${name}</a>
        <span class="soft small" dir="auto">${facts.filter(Boolean).join(" \u00b7 ")}</span>
        <span class="small" dir="auto">${opening(source.text, SHOWN)}</span>`
      : html`<span class="soft">${say`This passage was changed or deleted.`}</span>`}</span>
    <span class="soft small number">${value === null ? "" : score(value)}</span></li>`;
}

/** @param {string} name @param {string} value */
const fact = (name, value) => html`<div><dt>${name}</dt><dd dir="auto">${value}</dd></div>`;

/** @param {Asked} query */
function costsOf({ milliseconds, usage, cost, form, key_id: id, key_name: name }) {
  const { total: _, ...stages } = milliseconds;
  const forms = { extractive: say`Quoted from documents`, generative: say`Written by a model` };
  const total = Math.max(1e-9, totalOf(milliseconds));
  const tokens = usage.prompt_tokens + usage.completion_tokens;
  return html`<section class="question-part"><h3>${say`Time and costs`}</h3>
    <dl class="question-facts">
      ${fact(say`Answer`, form ? forms[form] : say`none`)}
      ${fact(say`Tokens`, tokens ? plural(tokens, "token") : say`none`)}
      ${fact(say`Cost`, cost === null ? say`price unknown` : money(cost))}
      ${fact(say`Key`, name ?? (id ? say`deleted key` : say`none, or a key of the settings`))}
    </dl>
    <table class="question-stages"><caption class="hidden">${say`Time of each stage`}</caption>
      <thead class="hidden"><tr>${
        [say`Stage`, say`Part of the time`, say`Duration`].map((each) => html`<th scope="col">${each}</th>`)}</tr>
      </thead>
      <tbody>${Object.entries(stages).map(([stage, time]) => html`<tr><th scope="row">${STAGES[stage] ?? stage}</th>
        <td>${bar(time / total, "text")}</td><td class="number">${duration(time / 1000)}</td></tr>`)}</tbody></table>
  </section>`;
}
