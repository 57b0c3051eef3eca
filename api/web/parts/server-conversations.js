// Conversations stored on the server for a key. A request that reads or changes them is never sent with another key.

import { Problem, key, send } from "../api.js";
import { redraw } from "../store.js";
import { MOST, inBrowser, keep, loadConversations, newestFirst, removeFromBrowser, stored } from "./conversations.js";
import { notify } from "./notice.js";
import { say } from "./words.js";

/** @import { Conversation } from "./conversations.js" */

let changes = 0; // by this page
/** @type {Set<Promise<void>>} */
const running = new Set(); // requests that change conversations

/**
 * Read all conversations; null if the server does not return them.
 * @param {string} only the key
 * @returns {Promise<Conversation[] | null>}
 */
export async function readAll(only) {
  try {
    for (;;) {
      await Promise.allSettled(running); // a list that is read before a change ends may lack it
      const before = changes;
      const found = await readPages(only);
      if (before === changes) return found;
    }
  } catch (problem) {
    if (only === key()) notify(problem.message);
    return null;
  }
}

/** @param {string} only */
async function readPages(only) {
  const found = [];
  let cursor = "";
  do {
    const { items, next_cursor: next } = await send("GET", `/v1/conversations?limit=20${cursor}`, { only });
    found.push(...items.map(fromServer));
    cursor = next ? `&cursor=${encodeURIComponent(next)}` : "";
  } while (cursor);
  return found;
}

/** @param {Api["ConversationView"]} view @returns {Conversation} */
const fromServer = ({ id, name, changed_at: at, turns }) => ({
  id, name, at: Date.parse(at), turns: turns.map(({ query_id: queryId, ...turn }) => ({ ...turn, queryId })),
});

/** Store a conversation, and show it at once. @param {Conversation} conversation @param {string} only */
export async function put(conversation, only) {
  const before = stored.items.find((each) => each.id === conversation.id);
  // The clock of the browser that stored it before may be ahead.
  const latest = { ...conversation, at: Math.max(conversation.at, (before?.at ?? 0) + 1) };
  stored.items = [latest, ...stored.items.filter((each) => each !== before)].sort(newestFirst).slice(0, MOST);
  redraw();
  const problem = await change(() => upload(latest, only));
  if (!problem) removeFromBrowser(latest);
  // The server may store it later.
  else if (!problem.status || problem.status === 429 || problem.status >= 500) keep(latest, only);
}

/** @param {Conversation} conversation @param {string} only */
async function upload({ id, name, at, turns }, only) {
  const body = {
    name,
    changed_at: new Date(at).toISOString(),
    turns: turns.map(({ queryId, ...turn }) => ({ ...turn, query_id: queryId })),
  };
  const reply = await send("PUT", `/v1/conversations/${id}`, { body, only });
  if (Date.parse(reply.changed_at) > at) loadConversations(true).then(redraw); // another browser's change is later
}

/** Delete some conversations, or all of them. @param {Conversation[]} conversations @param {string} only */
export async function drop(conversations, only) {
  const isAll = conversations.length > 1 && conversations.length === stored.items.length;
  stored.items = stored.items.filter((each) => !conversations.includes(each));
  await change(async () => {
    if (isAll) return void (await send("DELETE", "/v1/conversations", { only }));
    const one = (/** @type {string} */ id) => send("DELETE", `/v1/conversations/${id}`, { only }).catch(unlessMissing);
    await Promise.all(conversations.map(({ id }) => one(id)));
  });
}

/** Ignore that a conversation was deleted in another browser. @param {Problem} problem */
function unlessMissing(problem) {
  if (problem.status !== 404) throw problem;
}

/**
 * Change conversations on the server; return the problem if that failed.
 * @param {() => Promise<void>} request
 * @returns {Promise<Problem | null>}
 */
async function change(request) {
  changes += 1;
  const sent = request();
  running.add(sent);
  try {
    await sent;
    return null;
  } catch (problem) {
    notify(problem.status === 413 ? say`This conversation is too long to be stored.` : problem.message);
    loadConversations(true).then(redraw); // the list shows the stored conversations
    return problem;
  } finally {
    running.delete(sent);
  }
}

/** Move this browser's conversations of a key to the server. @param {string} only */
export async function move(only) {
  for (const each of inBrowser()) {
    if (only !== key()) break;
    if (!(await change(() => upload(each, only)))) removeFromBrowser(each);
  }
  await loadConversations(true);
  redraw();
}
