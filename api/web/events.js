// The progress of documents as it happens: one stream for all tabs of a browser that have the same key.
// A browser has six connections to a server for all its tabs, so one visible tab follows the events and tells the others.

import { ROOT, follow, key } from "./api.js";

const PAUSE = 2000; // milliseconds before another try

const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE));

/** @typedef {{hello?: boolean, after?: string, up?: boolean, name?: string, data?: any, id?: string}} Message what tabs tell each other */

/**
 * Follow the events until the returned function is called.
 * What happened while the connection was away is told when it is back; `reset` where that is not known.
 * @param {(name: string, data: any) => void} told
 * @param {(connected: boolean) => void} connected
 */
export function listen(told, connected) {
  let control = new AbortController(); // ends this tab's stream, or its wait for the lock
  let ended = false;
  let running = false;
  let leading = false;
  let last = ""; // the id of the last event
  let missed = document.hidden; // whether something happened that this tab was not told
  /** @type {BroadcastChannel | null} */
  let channel = null;
  let named = "";

  /** @param {Message} message */
  function hear(message) {
    if (message.hello) {
      if (leading) channel?.postMessage({ after: last });
      return;
    }
    if (message.after !== undefined) {
      missed ||= Boolean(last) && message.after !== last; // the stream begins behind another event
      last = message.after;
    }
    if (message.up !== undefined) connected(message.up);
    if (message.id) last = message.id;
    if (message.name && document.hidden) missed = true;
    else if (message.name) told(message.name, message.data);
    catchUp();
  }

  function catchUp() {
    if (!missed || document.hidden) return;
    missed = false;
    told("reset", {});
  }

  /** @param {Message} message */
  function share(message) {
    channel?.postMessage(message);
    hear(message);
  }

  /** @param {string} given the key */
  async function join(given) {
    const name = await groupOf(given);
    if (ended || !name || name === named) return;
    channel?.close();
    channel = new BroadcastChannel(name);
    channel.addEventListener("message", (event) => hear(event.data));
    channel.postMessage({ hello: true });
    named = name;
  }

  /** @param {string} given the key @param {AbortSignal} signal */
  async function lead(given, signal) {
    leading = true;
    channel?.postMessage({ after: last });
    /** @param {string} name @param {any} data @param {string} id */
    const heard = (name, data, id) => (key() === given ? share({ name, data, id, up: true }) : control.abort());
    while (!signal.aborted) {
      /** @type {Record<string, string>} */
      const headers = last ? { "last-event-id": last } : {};
      await follow("GET", "/v1/events", heard, { headers, signal }).catch(() => {});
      if (signal.aborted) break;
      share({ up: false });
      await pause();
    }
    leading = false;
  }

  async function run() {
    if (running) return; // a tab that is hidden and shown again has one connection all the same
    running = true;
    while (!ended && !document.hidden) {
      control = new AbortController();
      const { signal } = control;
      const given = key();
      await join(given);
      if (named) await navigator.locks.request(named, { signal }, () => lead(given, signal)).catch(() => signal.aborted || pause());
      else await lead(given, signal);
    }
    running = false;
  }

  function seen() {
    if (document.hidden) return control.abort();
    catchUp();
    run();
  }
  document.addEventListener("visibilitychange", seen);
  join(key()).then(run);
  return () => {
    ended = true;
    control.abort();
    channel?.close();
    document.removeEventListener("visibilitychange", seen);
  };
}

/** What tabs of one key share, and no others; empty where the browser has no locks, as without HTTPS. @param {string} given the key */
async function groupOf(given) {
  if (!navigator.locks) return "";
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${ROOT} ${given}`));
  return `foreask.events.${new Uint8Array(digest).join("-")}`;
}
