// Live progress of documents: one event stream for all tabs of a browser that use the same key.
// A browser opens at most six connections to a server, so one visible tab reads the stream and broadcasts the events.

import { ROOT, follow, key } from "./api.js";
import { readsAll } from "./parts/permissions.js";
import { isStoring } from "./store.js";

const PAUSE = 2000; // milliseconds before the next attempt

const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE));

/**
 * @typedef {{hello?: boolean, after?: string, up?: boolean, name?: string, data?: any, id?: string}} Message
 *   message between tabs
 */

/**
 * Receive events until the returned function is called.
 * After a lost connection the missed events are delivered, or one `reset` event if they are unknown.
 * @param {(name: string, data: any) => void} onEvent
 * @param {(connected: boolean) => void} onConnection
 */
export function listen(onEvent, onConnection) {
  let control = new AbortController(); // aborts this tab's stream, or its wait for the lock
  let closed = false;
  let running = false;
  let leading = false;
  let last = ""; // the id of the last event
  let missed = document.hidden; // whether this tab may have missed events
  /** @type {BroadcastChannel | null} */
  let channel = null;
  let channelName = "";

  /** @param {Message} message */
  function receive(message) {
    if (message.hello) {
      if (leading) channel?.postMessage({ after: last });
      return;
    }
    if (message.after !== undefined) {
      missed ||= Boolean(last) && message.after !== last; // the stream starts after another event
      last = message.after;
    }
    if (message.up !== undefined) onConnection(message.up);
    if (message.up === false) {
      missed ||= !last; // the next stream cannot resume
      return;
    }
    if (message.id) last = message.id;
    if (message.name && document.hidden) missed = true;
    else if (message.name) onEvent(message.name, message.data);
    catchUp();
  }

  function catchUp() {
    if (!missed || document.hidden) return;
    missed = false;
    onEvent("reset", {});
  }

  /** @param {Message} message */
  function broadcast(message) {
    channel?.postMessage(message);
    receive(message);
  }

  /** @param {string} usedKey */
  async function join(usedKey) {
    const name = await groupOf(usedKey);
    if (closed || !name || name === channelName) return;
    channel?.close();
    channel = new BroadcastChannel(name);
    channel.addEventListener("message", (event) => receive(event.data));
    channel.postMessage({ hello: true });
    channelName = name;
  }

  /** @param {string} usedKey @param {AbortSignal} signal */
  async function lead(usedKey, signal) {
    leading = true;
    channel?.postMessage({ after: last });
    /** @param {string} name @param {any} data @param {string} id */
    const forward = (name, data, id) => (key() === usedKey ? broadcast({ name, data, id, up: true }) : control.abort());
    while (!signal.aborted) {
      /** @type {Record<string, string>} */
      const headers = last ? { "last-event-id": last } : {};
      await follow("GET", "/v1/events", forward, { headers, signal }).catch(() => {});
      if (signal.aborted) break;
      broadcast({ up: false });
      await pause();
    }
    leading = false;
  }

  async function run() {
    if (running) return; // a tab that is hidden and shown again keeps one connection
    running = true;
    while (!closed && !document.hidden) {
      control = new AbortController();
      const { signal } = control;
      const usedKey = key();
      await join(usedKey);
      if (channelName) {
        const led = navigator.locks.request(channelName, { signal }, () => lead(usedKey, signal));
        await led.catch(() => signal.aborted || pause());
      }
      else await lead(usedKey, signal);
    }
    running = false;
  }

  function onVisibility() {
    if (document.hidden) {
      missed ||= !last; // no event came yet, so the next stream cannot resume
      return control.abort();
    }
    catchUp();
    run();
  }
  document.addEventListener("visibilitychange", onVisibility);
  // The server has no events for a person.
  readsAll().then((all) => (all ? join(key()).then(run) : undefined)).catch(() => {});
  return () => {
    closed = true;
    control.abort();
    channel?.close();
    document.removeEventListener("visibilitychange", onVisibility);
  };
}

/**
 * Return the channel name shared by the tabs of one key, or an empty string if the browser offers no locks, as without
 * HTTPS.
 * @param {string} usedKey
 */
async function groupOf(usedKey) {
  if (!navigator.locks || !isStoring) return ""; // a browser that blocks stores denies locks, too
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${ROOT} ${usedKey}`));
  return `foreask.events.${new Uint8Array(digest).join("-")}`;
}
