// Ask: a conversation of questions, their streamed answers, and the cited passages.

import { html, nothing } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { Problem, ROOT, follow, get, key, viewed } from "../api.js";
import { redraw, redrawNow } from "../store.js";
import { collectionChip, collections } from "../parts/collections.js";
import { loadConversations, nameFrom, newId, owner, store, stored, withId } from "../parts/conversations.js";
import { plural } from "../parts/format.js";
import { notify } from "../parts/notice.js";
import { may, server } from "../parts/permissions.js";
import { covers, entered, leave, restored } from "../parts/panel.js";
import { hasNothing, loadStart, startView, unloadStart } from "../parts/start.js";
import { suggest } from "../parts/suggestions.js";
import { apply, fromStored, newTurn, requestOf, sourcesOf, toStored } from "../parts/turns.js";
import { say } from "../parts/words.js";

/** @import { Turn } from "../parts/turns.js" */

export const title = say`Ask`;
/** Whether a field for the next question covers the end of the window. */
export const hasComposer = () => talk.turns.length > 0;
const WIDE = "(min-width: 80rem)"; // room for the list of conversations
const FIRST_HASH = location.hash; // of the page's start: a link of another site must not ask, which may cost money
const UNREADABLE = new Map([
  [403, say`Your key may not open passages of earlier answers. Ask again to see them.`],
  [404, say`This passage no longer exists. Ask again for a current answer.`],
]);

/** @typedef {{id: string, owner: string | null, turns: Turn[]}} Talk a conversation; its owner is a key's name */

/** @returns {Talk} */
const newTalk = () => ({ id: newId(), owner: null, turns: [] });
let talk = newTalk();
let draft = "";
/** @type {Turn | null} whose question is being edited */
let edited = null;
/** @type {{turn: Turn, chunkId: string} | null} the open source */
let opened = null;
let visit = 0;
/** @type {{control: AbortController, turn: Turn} | null} */
let running = null;
/** @type {HTMLElement | null} */
let opener = null; // element that gets the focus when the passage is closed
/** @type {typeof import("../parts/conversation-list.js").conversationList | null} loaded with the first entry */
let conversationList = null;
let isListed = matchMedia(WIDE).matches;
/**
 * The modules of answers and their passages, which an empty screen does not need.
 * @type {{answersView: typeof import("../parts/answer.js").answersView,
 *   sourcePanel: typeof import("../parts/source.js").sourcePanel} | null}
 */
let parts = null;

async function loadParts() {
  if (parts) return;
  try {
    const modules = [import("../parts/answer.js"), import("../parts/source.js")];
    parts = Object.assign({}, ...(await Promise.all(modules)));
    redraw();
  } catch {
    notify(say`The server is unreachable. This page may be out of date.`);
  }
}

/** Return the position of the open source in the sources of an answer; -1: none is open. @param {Turn} turn */
function openIndex(turn) {
  if (opened?.turn !== turn) return -1;
  const { chunkId } = opened;
  return sourcesOf(turn).findIndex(({ chunk }) => chunk.chunk_id === chunkId);
}

/** @param {{query: URLSearchParams}} route */
export async function load({ query }) {
  server().then((me) => {
    if (viewed) return; // the shared answer would be the person's
    const isShared = Boolean(me?.shared_answer_retention_days);
    actions.share = isShared ? share : undefined;
    actions.explainSharing = me && !isShared ? explainSharing : undefined;
    redraw();
  });
  const now = ++visit;
  const wanted = query.get("conversation");
  const fresh = history.state?.talk; // the entry of a new conversation
  if (!wanted && fresh && fresh !== talk.id) start(fresh);
  restoreSource();
  const started = loadStart();
  await loadConversations(true);
  if (now !== visit) return; // another entry of the history, or another screen
  const isStored = withId(wanted) !== undefined;
  if (wanted && isStored && wanted !== talk.id) resume(wanted);
  if (!wanted && talk.owner === stored.owner && talk.turns.length) inAddress();
  await started;
  await loadConversations(); // the key may have been entered since
  if (now !== visit) return;
  if (wanted && !isStored && !talk.turns.length) resume(wanted);
  if (talk.turns.length) await loadParts(); // the focus moves to the restored source
  if (now !== visit) return;
  restoreSource();
  takeFragment();
  redraw();
}

/** Ask the question of the URL's fragment in a new conversation, once: a reload must not ask it again. */
function takeFragment() {
  const given = new URLSearchParams(location.hash.slice(1)).get("q");
  if (!given) return;
  const isFromOutside = location.hash === FIRST_HASH;
  history.replaceState(null, "", location.pathname + location.search);
  start();
  if (isFromOutside) draft = given;
  else ask(given, []);
}

/** Leave the screen. A running answer continues, and is shown when the user returns. */
export function unload() {
  visit += 1;
  unloadStart();
}

/** Open a stored conversation. @param {string} id */
function resume(id) {
  const found = withId(id);
  start();
  if (!found) return notify(say`There is no such conversation for your key.`);
  talk = { id, owner: stored.owner, turns: found.turns.map(fromStored) };
  loadParts();
}

/** Start a new conversation. @param {string} [id] */
function start(id = newId()) {
  running?.control.abort();
  talk = { ...newTalk(), id };
  [draft, edited, opened] = ["", null, null];
  redraw();
}

function startNew() {
  start();
  const query = new URLSearchParams(location.search);
  query.delete("conversation");
  history.pushState({ talk: talk.id }, "", `${ROOT}/ask${query.size ? `?${query}` : ""}`);
  loadStart();
  document.getElementById("question")?.focus();
}

/**
 * Ask a question after some turns of the conversation; the later ones are removed.
 * @param {string} question @param {Turn[]} before
 */
async function ask(question, before) {
  if (!question.trim()) return;
  const last = running?.turn;
  running?.control.abort();
  if (last && !last.answer) before = before.filter((turn) => turn !== last); // it was replaced before it was answered
  const isOfAnotherKey = talk.owner !== null && talk.owner !== (await owner());
  if (isOfAnotherKey) [talk, before] = [newTalk(), []];
  const conversation = talk;
  const turn = newTurn(question, collections.chosen, before);
  const control = new AbortController();
  running = { control, turn };
  [conversation.turns, draft, edited, opened] = [[...before, turn], "", null, null];
  redraw();
  await loadParts(); // the region that announces the search must exist before the answer
  if (before.length) toTop(turn);
  try {
    const body = { ...requestOf(turn), explain: true, stream: true };
    await follow("POST", "/v1/query", onEvent.bind(null, conversation, turn), { body, signal: control.signal });
    if (turn.phase !== "done" && !turn.problem) throw new Problem({ detail: say`The answer was interrupted.` });
  } catch (problem) {
    if (control.signal.aborted) turn.stopped = turn.phase !== "done";
    else turn.problem = problem;
  }
  turn.phase = "done";
  if (running?.turn === turn) running = null;
  redraw();
  if (turn.answer || turn.queryId) await save(conversation); // a failed attempt leaves the stored answer
}

/** Scroll to a question when it is drawn. @param {Turn} turn */
function toTop(turn) {
  const scroll = () => document.getElementById(`question-${turn.id}`)?.scrollIntoView();
  requestAnimationFrame(() => requestAnimationFrame(scroll));
}

/** @param {Talk} conversation @param {Turn} turn @param {string} name @param {any} data of an event of that name */
function onEvent(conversation, turn, name, data) {
  if (running?.turn !== turn) return;
  if (name === "error") turn.problem = new Problem(data);
  else apply(turn, name, data);
  if (name === "retrieved") save(conversation); // a closed tab keeps the question
  if (name === "done") {
    if (opened?.turn === turn && openIndex(turn) < 0) opened = null; // of all results, only cited ones stay
    if (turn.cited?.length && !opened && !covers()) opened = { turn, chunkId: sourcesOf(turn)[0].chunk.chunk_id };
  }
  redraw();
}

/** Store the conversation for the key of its answers. @param {Talk} conversation */
async function save(conversation) {
  const usedKey = key();
  const mine = await owner();
  conversation.owner ??= mine;
  const turns = conversation.turns.filter((turn) => turn.answer || turn.queryId);
  if (!turns.length || conversation.owner !== mine) return;
  const name = withId(conversation.id)?.name ?? nameFrom(turns[0].question);
  await store({ id: conversation.id, name, at: Date.now(), turns: turns.map(toStored) }, usedKey);
  if (conversation === talk && [`${ROOT}/`, `${ROOT}/ask`].includes(location.pathname)) inAddress();
}

/** Put the conversation into the URL, so that a reloaded page continues it. */
function inAddress() {
  const query = new URLSearchParams(location.search);
  if (query.get("conversation") === talk.id) return;
  query.set("conversation", talk.id);
  history.replaceState(history.state, "", `${ROOT}/ask?${query}`);
}

/**
 * Ask the question of an answer again, or a changed one. The answers after it are removed.
 * @param {Turn} turn @param {string} question
 */
function askInstead(turn, question) {
  const [conversation, before] = [talk, talk.turns];
  const index = before.indexOf(turn);
  const removed = before.length - index - 1;
  ask(question, before.slice(0, index));
  document.getElementById("question")?.focus({ preventScroll: true }); // the pressed button disappears
  const undo = () => {
    if (conversation.turns.length > index + 1) {
      return notify(say`Not undone, because another question was asked since.`);
    }
    if (running && conversation.turns.includes(running.turn)) running.control.abort();
    conversation.turns = before;
    if (conversation === talk) [opened, edited, draft] = [null, null, ""];
    save(conversation);
    redraw();
  };
  const done = removed
    ? say`Answer replaced, and ${plural(removed, "later question")} removed.`
    : say`Answer replaced.`;
  notify(done, { undo, seconds: 8 });
}

/** @type {import("../parts/answer.js").Actions} */
const actions = {
  show,
  again: (turn) => askInstead(turn, turn.question),
  edit: (turn) => {
    [edited, draft] = [turn, turn.question];
    redrawNow();
    document.getElementById("question")?.focus();
  },
  copy: (turn) => copy([turn], say`Answer copied as Markdown.`),
};

/** @param {Turn[]} turns @param {string} copied */
const copy = async (turns, copied) => (await import("../parts/transcript.js")).copy(turns, copied);

/** @param {Turn} turn */
const share = async (turn) => (await import("../parts/sharing.js")).share(turn);

/** Explain why answers cannot be shared, and how the operator changes it. */
function explainSharing() {
  const setting = "FOREASK_SHARED_ANSWER_RETENTION_DAYS";
  notify(say`Answers cannot be shared on this server. Its operator allows it with ${setting}.`, { seconds: 15 });
}

/** @param {Turn} turn @param {number} index */
function show(turn, index) {
  const from = document.activeElement;
  if (from instanceof HTMLElement && !from.closest(".detail") && from.id !== "main") opener = from;
  const { chunk } = sourcesOf(turn)[index];
  opened = { turn, chunkId: chunk.chunk_id };
  redraw();
  if (chunk.text === undefined) readPassage(chunk);
  else entered(chunk.chunk_id);
}

/** Read the passage of a stored answer. @param {import("../parts/turns.js").SourceChunk} chunk */
async function readPassage(chunk) {
  try {
    if (!may("read")) throw new Problem({ status: 403 });
    const { text } = (await get(`/v1/chunks/${chunk.chunk_id}?before=0&after=0`)).chunk;
    Object.assign(chunk, { text, score: null, channels: null });
  } catch (problem) {
    if (opened?.chunkId !== chunk.chunk_id) return; // another source was opened meanwhile
    notify(UNREADABLE.get(problem.status) ?? problem.message);
    close();
  }
  redraw();
  if (opened?.chunkId === chunk.chunk_id) entered(chunk.chunk_id);
}

/** Open or close a source as the entry of the history says. */
function restoreSource() {
  const source = restored(closed);
  if (!source || opened?.chunkId === source) return;
  for (const turn of talk.turns) {
    const index = sourcesOf(turn).findIndex(({ chunk }) => chunk.chunk_id === source);
    if (index >= 0) return show(turn, index);
  }
}

const close = () => leave(closed);

function closed() {
  opened = null;
  redraw();
  requestAnimationFrame(() => opener?.focus());
}

/** @param {string} question */
const submit = (question) => (edited ? askInstead(edited, question) : ask(question, talk.turns));

/** @param {string} question */
function askSuggested(question) {
  document.getElementById("main")?.focus(); // the pressed button disappears
  ask(question, []);
}

/** @param {KeyboardEvent & On<HTMLTextAreaElement>} event */
const keys = (event) => {
  if (event.key === "Escape" && edited) [edited, draft] = [null, ""], redraw();
  else if (event.key === "Escape") running?.control.abort();
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit(event.target.value);
  }
};

async function loadList() {
  ({ conversationList } = await import("../parts/conversation-list.js"));
  redraw();
}

/** @param {string[]} ids of deleted conversations */
const onDeleted = (ids) => {
  if (!ids.includes(talk.id)) return;
  talk.owner = ""; // its running answer must not store it again
  startNew();
};

export function view() {
  const { turns } = talk;
  const index = opened ? openIndex(opened.turn) : -1;
  const source = opened && index >= 0 ? sourcesOf(opened.turn)[index] : null;
  const isShown = source?.chunk.text !== undefined;
  const isListShown = isListed && Boolean(turns.length || stored.items.length);
  if (isListShown && !conversationList) loadList();
  /** @param {Turn} turn */
  const openOf = (turn) => (opened?.turn === turn && index >= 0 ? index : null);
  return html`<div class="split ${isShown ? "with-detail" : ""} ${isListShown && conversationList ? "with-list" : ""}">
    ${isListShown ? (conversationList?.(talk.id, onDeleted) ?? nothing) : nothing}
    <section class="column">
      ${toolLine()}
      <div class="turns">${parts?.answersView(turns, openOf, running?.turn, actions)}</div>
      ${composer()}
      ${turns.length ? nothing : startView(askSuggested)}
    </section>
    ${isShown && opened ? panelOf(opened.turn, index) : nothing}
  </div>`;
}

/** @param {Turn} turn @param {number} index */
function panelOf(turn, index) {
  /** @type {any[]} of passages that have been read */
  const sources = sourcesOf(turn);
  return parts?.sourcePanel(sources[index], sources.length, index, show.bind(null, turn), close);
}

function toolLine() {
  const { turns } = talk;
  if (!turns.length && !stored.items.length) return nothing;
  const toggle = () => ((isListed = !isListed), redraw());
  const copyAll = () => copy(turns, say`Conversation copied as Markdown.`);
  return html`<p class="tools">
    <button class="quiet" aria-expanded=${String(isListed)} @click=${toggle}>${say`Conversations`}</button>
    ${turns.length ? html`<button class="quiet" @click=${startNew}>${say`New conversation`}</button>
      <button class="quiet" @click=${copyAll}>${say`Copy all`}</button>` : nothing}</p>`;
}

function composer() {
  const { turns } = talk;
  /** @param {Event} event */
  const submitted = (event) => (event.preventDefault(), submit(draft));
  /** @param {On<HTMLTextAreaElement>} event */
  function typed(event) {
    draft = event.target.value;
    loadParts(); // until the question is sent
  }
  const cancel = () => ([edited, draft] = [null, ""], redraw());
  const editing = () => html`<p class="soft small">${say`Editing a question. The answers after it will be removed.`}
    <button type="button" class="quiet" @click=${cancel}>${say`Cancel`}</button></p>`;
  return html`<form class="ask-form ${turns.length ? "following" : ""}" role="search" @submit=${submitted}>
    ${edited ? editing() : nothing}
    <div class="ask-field">
      <textarea id="question" rows=${turns.length ? 1 : 2} maxlength="10000" dir="auto" aria-label=${say`Question`}
        placeholder=${turns.length ? say`Ask a follow-up question` : say`Ask your documents`}
        .value=${live(draft)} @input=${typed} @keydown=${keys}></textarea>
      ${collectionChip(suggest)}
      ${running
        ? html`<button type="button" @click=${() => running?.control.abort()}>${say`Stop`}</button>`
        : html`<button class=${!turns.length && hasNothing() ? "" : "main"} type="submit">${say`Ask`}</button>`}
    </div>
  </form>`;
}
