// Polling: a screen is read again every two seconds while it is shown.

import { redraw } from "../store.js";
import { notify } from "./notice.js";

const INTERVAL = 2000; // milliseconds between two polls

/**
 * Return functions that read again until the next stop. A failed read stores its problem, and the next one waits as
 * long as the server demands. `poll` reads at once, and does nothing after a stop: the screen may have been closed
 * while an action was waiting for its reply.
 * @param {{problem: any}} state @param {() => Promise<void>} read
 */
export function polling(state, read) {
  let clock = 0;
  let visit = 0; // ends the polling of an earlier visit
  let isOpen = false;

  function stop() {
    clearTimeout(clock);
    visit += 1;
    isOpen = false;
  }

  function start() {
    stop();
    isOpen = true;
    return poll();
  }

  async function poll() {
    if (!isOpen) return;
    const now = visit;
    if (!document.hidden) {
      try {
        await read();
        state.problem = null;
      } catch (problem) {
        state.problem = problem;
      }
      redraw();
    }
    if (now !== visit) return;
    clearTimeout(clock);
    clock = window.setTimeout(poll, Math.max(INTERVAL, (state.problem?.again ?? 0) - Date.now()));
  }

  return { start, poll, stop };
}

/** @template T @typedef {{items: T[], next_cursor: string | null}} Page */

/**
 * Return a list of the API: its first page is polled, and older pages are read on request.
 * @template T
 * @param {() => Promise<Page<T>>} readFirst @param {(cursor: string) => Promise<Page<T>>} readOlder
 * @param {(items: T[]) => Promise<void>} readMore reads more about the items of a page
 */
export function polledList(readFirst, readOlder, readMore) {
  /** @type {{items: T[] | null, next: string | null, older: T[], problem: any}} */
  const state = { items: null, next: null, older: [], problem: null };
  const { start, poll, stop } = polling(state, async () => {
    const page = await readFirst();
    state.items = page.items;
    if (!state.older.length) state.next = page.next_cursor;
    await readMore(page.items);
  });

  async function load() {
    Object.assign(state, { older: [], next: null });
    await start();
  }

  async function more() {
    try {
      const page = await readOlder(encodeURIComponent(state.next ?? ""));
      state.older.push(...page.items);
      state.next = page.next_cursor;
      await readMore(page.items);
      redraw();
    } catch (problem) {
      notify(problem.message);
    }
  }

  /** Return the items of all read pages, each once. @param {(item: T) => string} id */
  function all(id) {
    const newest = new Set(state.items?.map(id));
    return [...(state.items ?? []), ...state.older.filter((each) => !newest.has(id(each)))];
  }

  return { state, load, unload: stop, poll, more, all };
}
