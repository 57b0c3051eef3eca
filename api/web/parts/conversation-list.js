// The list of stored conversations: open, search, rename and delete.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { ROOT, viewed } from "../api.js";
import { isStoring, redraw } from "../store.js";
import { isLasting, matching, moveToServer, nameFrom, remove, store, stored } from "./conversations.js";
import { ago, plural } from "./format.js";
import { icon } from "./icon.js";
import { notify } from "./notice.js";
import { say } from "./words.js";

/** @import { Conversation } from "./conversations.js" */

const MANY = 5; // longer lists get a search field
const SECONDS = 8; // in which a deletion can be undone
let words = "";
/** @type {string | null} id of the conversation whose name is being edited */
let renamed = null;

/** @param {Conversation} each */
function addressOf(each) {
  const query = new URLSearchParams({ conversation: each.id });
  const collection = each.turns.at(-1)?.collection;
  if (collection) query.set("collection", collection);
  return `${ROOT}/ask?${query}`;
}

/**
 * @param {string} current id of the open conversation
 * @param {(ids: string[]) => void} deleted called after a deletion
 */
export function conversationList(current, deleted) {
  const { items } = stored;
  const shown = matching(words);
  /** @param {On<HTMLInputElement>} event */
  const typed = (event) => ((words = event.target.value), redraw());
  return html`<aside class="conversations" id="conversations" aria-labelledby="conversations-title">
    <h2 id="conversations-title" tabindex="-1">${say`Conversations`}</h2>
    ${items.length > MANY || words
      ? html`<input type="search" aria-label=${say`Search conversations`} placeholder=${say`Search`}
          .value=${words} @input=${typed}>`
      : nothing}
    ${shown.length
      ? html`<ul role="list">${repeat(
          shown,
          (/** @type {Conversation} */ each) => each.id,
          (/** @type {Conversation} */ each) => row(each, each.id === current, deleted),
        )}</ul>`
      : html`<p class="soft small"
          >${items.length ? say`No matching conversations.` : say`Your questions and answers will appear here.`}</p>`}
    <p class="soft small">${storageNote()}</p>
    ${stored.inBrowser
      ? html`<button class="quiet" @click=${moveToServer}
          >${say`Move ${plural(stored.inBrowser, "conversation")} from this browser to the server`}</button>`
      : nothing}
    ${items.length > 1
      ? html`<button class="quiet danger" @click=${() => erase(items, deleted)}>${say`Delete all`}</button>`
      : nothing}
  </aside>`;
}

function storageNote() {
  if (stored.days) {
    return say`Stored on the server for your key, for ${plural(stored.days, "day")} after the last change.`;
  }
  if (viewed) return say`Kept until this page is closed: questions as another person are not stored.`;
  if (!isStoring) return say`Kept until this page is closed: the browser cannot store them.`;
  return isLasting
    ? say`Stored only in this browser, under a digest of this key.`
    : say`Kept until this page is closed: without HTTPS, the browser cannot store them for your key alone.`;
}

/** @param {Conversation} each @param {boolean} isCurrent @param {(ids: string[]) => void} deleted */
function row(each, isCurrent, deleted) {
  if (renamed === each.id) return html`<li>${nameField(each)}</li>`;
  return html`<li><a href=${addressOf(each)} aria-current=${isCurrent ? "true" : "false"}>
      <span class="clip" dir="auto">${each.name}</span>
      <span class="soft small"
        >${plural(each.turns.length, "question")} \u00b7 ${ago(new Date(each.at).toISOString())}</span></a>
    <button class="quiet"
      aria-label=${say`Rename ${each.name}`} @click=${() => startRenaming(each.id)}>${icon("pencil")}</button>
    <button class="quiet"
      aria-label=${say`Delete ${each.name}`} @click=${() => erase([each], deleted)}>${icon("x")}</button></li>`;
}

/** @param {string} id */
function startRenaming(id) {
  renamed = id;
  redraw();
  requestAnimationFrame(() => requestAnimationFrame(() => {
    const field = /** @type {HTMLInputElement | null} */ (document.querySelector("#conversation-name"));
    field?.focus();
    field?.select();
  }));
}

/** Keep the keyboard's position in the list after the focused element was removed. */
const toList = () => requestAnimationFrame(() => requestAnimationFrame(() => {
  if (document.activeElement === document.body) document.getElementById("conversations-title")?.focus();
}));

/** @param {Conversation} each */
function nameField(each) {
  /** @param {string} name */
  const save = (name) => {
    if (renamed !== each.id) return; // the field loses the focus when it is removed
    renamed = null;
    redraw();
    if (nameFrom(name) && nameFrom(name) !== each.name) store({ ...each, name: nameFrom(name) });
    toList();
  };
  /** @param {KeyboardEvent & On<HTMLInputElement>} event */
  const pressed = (event) => {
    if (event.key === "Enter" && !event.isComposing) save(event.target.value);
    if (event.key === "Escape") save(each.name);
  };
  /** @param {On<HTMLInputElement>} event */
  const left = (event) => save(event.target.value);
  return html`<input id="conversation-name" aria-label=${say`Name of the conversation`} dir="auto"
    .value=${each.name} @keydown=${pressed} @blur=${left}>`;
}

/** @param {Conversation[]} conversations @param {(ids: string[]) => void} deleted */
function erase(conversations, deleted) {
  const undo = remove(conversations);
  deleted(conversations.map((each) => each.id));
  const many = conversations.length;
  const words = many > 1 ? say`${plural(many, "conversation")} deleted.` : say`Conversation deleted.`;
  notify(words, { undo, seconds: SECONDS });
  toList();
}
