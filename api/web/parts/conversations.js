// Conversations of each key, stored on the server if it allows that, otherwise in this browser. Without HTTPS, or
// if its settings block stores, the browser keeps them until the page is closed.
// They contain questions, answers and the names of sources, but no passages. Passages are read from the server again,
// so that a deleted document is not shown.

import { ROOT, key, viewed } from "../api.js";
import { inMemory, isStoring, local, redraw } from "../store.js";
import { cut } from "./format.js";
import { server } from "./permissions.js";

/**
 * @typedef {{
 *   number: number,
 *   chunk_id: string,
 *   document_id: string,
 *   external_id: string,
 *   title: string | null,
 *   filename: string | null,
 *   heading_path: string[],
 *   page: number | null,
 *   sentences?: [number, number][],
 * }} StoredSource
 */
/**
 * @typedef {{
 *   question: string,
 *   searched: string,
 *   collection: string,
 *   answer: string,
 *   form: string,
 *   found: boolean,
 *   certain?: boolean,
 *   incomplete_reason?: string | null,
 *   stopped: boolean,
 *   queryId: string | null,
 *   document_ids?: string[],
 *   sources: StoredSource[],
 * }} StoredTurn
 */
/** @typedef {{id: string, name: string, at: number, turns: StoredTurn[]}} Conversation */

const PREFIX = "foreask.conversation.";
export const MOST = 100; // conversations of a key; the oldest ones are deleted
const NAME_CHARACTERS = 80;

/**
 * Whether conversations outlive the page: browsers compute digests only over HTTPS and on this computer, and may block
 * stores. A tab that views as a person neither reads nor stores conversations of the key, or of the person.
 */
export const isLasting = isStoring && !viewed && Boolean(globalThis.crypto?.subtle);
/**
 * The conversations of the key, newest first. `days`: time for which the server stores them, 0 if this browser does;
 * `inBrowser`: number of conversations that this browser stores although the server does.
 * @type {{items: Conversation[], owner: string, days: number, inBrowser: number}}
 */
export const stored = { items: [], owner: "", days: 0, inBrowser: 0 };

/** @type {typeof import("./server-conversations.js")} */
let remote;
let loadedKey = ""; // whose conversations `stored` has

let memoryKey = "";
let keysBefore = 0; // in memory
let storage = isLasting ? local : inMemory();

/** Return the name of the current key's conversations: a part of a digest, from which the key cannot be computed. */
export async function owner() {
  const usedKey = key();
  if (!isLasting) {
    if (usedKey !== memoryKey) {
      storage = inMemory(); // another key must not see them
      [keysBefore, memoryKey] = [keysBefore + 1, usedKey];
    }
    return `memory${keysBefore}`;
  }
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`conversations ${ROOT} ${usedKey}`));
  return Array.from(new Uint8Array(digest, 0, 8), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {string} id */
const nameOf = (id) => `${PREFIX}${stored.owner}.${id}`;

/** Return the key's conversations in this browser. */
export function inBrowser() {
  const found = [];
  for (const name of Object.keys(storage)) {
    const conversation = name.startsWith(nameOf("")) ? parsed(storage.getItem(name)) : null;
    if (conversation) found.push(conversation);
  }
  return found.sort(newestFirst);
}

/** @param {Conversation} one @param {Conversation} other */
export const newestFirst = (one, other) => other.at - one.at;

/** @param {Conversation} conversation */
const discard = ({ id }) => storage.removeItem(nameOf(id));

/** @param {Conversation[]} conversations */
export function removeFromBrowser(...conversations) {
  conversations.forEach(discard);
  read();
}

/** Return a conversation of the key. @param {string | null} id */
export const withId = (id) => [...stored.items, ...inBrowser()].find((each) => each.id === id);

/** Read this browser's conversations. */
function read() {
  const found = inBrowser();
  if (stored.days) stored.inBrowser = found.length;
  else Object.assign(stored, { items: found, inBrowser: 0 });
}

/** @param {string | null} text @returns {Conversation | null} */
function parsed(text) {
  try {
    const value = JSON.parse(text ?? "null");
    return Array.isArray(value?.turns) ? value : null;
  } catch {
    return null; // written by other software
  }
}

/** Read the conversations of the current key. @param {boolean} [again] read them from the server again */
export async function loadConversations(again = false) {
  for (;;) {
    const usedKey = key();
    const mine = await owner();
    if (mine !== stored.owner) {
      Object.assign(stored, { owner: mine, items: [], days: 0, inBrowser: 0 });
      loadedKey = usedKey;
    }
    const days = viewed ? 0 : ((await server())?.conversation_retention_days ?? 0);
    const isRead = !days || (stored.days && !again);
    /** @type {Conversation[] | null} */
    let items = null;
    if (!isRead) {
      remote = await import("./server-conversations.js");
      items = await remote.readAll(usedKey);
    }
    if (usedKey !== key()) continue; // another one was entered
    Object.assign(stored, { days, items: items ?? stored.items });
    return read();
  }
}

/** Return an id that no other conversation has. */
export const newId = () => Array.from(crypto.getRandomValues(new Uint32Array(3)), (part) => part.toString(36)).join("");

/** @param {string} question */
export function nameFrom(question) {
  const line = question.trim().split(/\s+/).join(" ");
  return line.length > NAME_CHARACTERS ? `${cut(line, NAME_CHARACTERS - 1)}\u2026` : line;
}

/**
 * Store a conversation, unless the key was changed. The oldest ones are deleted if there is no room.
 * @param {Conversation} conversation @param {string} usedKey its key
 */
export async function store(conversation, usedKey = loadedKey) {
  await loadConversations();
  if (usedKey !== loadedKey) return;
  if (stored.days) await remote.put(conversation, usedKey);
  else keep(conversation, usedKey);
}

/**
 * Store a conversation in this browser, unless the key was changed.
 * @param {Conversation} conversation
 * @param {string} usedKey its key
 */
export function keep(conversation, usedKey) {
  if (usedKey !== loadedKey) return;
  const others = inBrowser().filter((each) => each.id !== conversation.id);
  while (others.length >= MOST) discard(/** @type {Conversation} */ (others.pop()));
  const text = JSON.stringify(conversation);
  for (;;) {
    try {
      storage.setItem(nameOf(conversation.id), text);
      break;
    } catch {
      const oldest = others.pop();
      if (!oldest) break; // it is shown until the page is closed
      discard(oldest);
    }
  }
  read();
  redraw();
}

/** Delete conversations; return a function that stores them again. @param {Conversation[]} conversations */
export function remove(conversations) {
  const usedKey = loadedKey;
  const removed = stored.days ? remote.drop(conversations, usedKey) : null;
  removeFromBrowser(...conversations);
  redraw();
  return async () => {
    await removed;
    for (const each of conversations) await store(each, usedKey);
  };
}

/** Move this browser's conversations of the key to the server. */
export const moveToServer = () => remote.move(loadedKey);

/** Return the conversations that contain all words of a search. @param {string} words */
export function matching(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return stored.items.filter(({ name, turns }) => {
    const text = [name, ...turns.flatMap((turn) => [turn.question, turn.answer])].join(" ").toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

addEventListener("storage", (event) => {
  if (!event.key?.startsWith(PREFIX)) return; // another tab has stored or deleted a conversation
  read();
  redraw();
});
