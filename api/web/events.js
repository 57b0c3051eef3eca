// The progress of documents as it happens, while the tab is visible.

import { follow } from "./api.js";

const PAUSE = 2000; // milliseconds before another try

/**
 * Follow the events until the returned function is called.
 * What happened while the connection was away is told when it is back; `reset` where that is not known.
 * @param {(name: string, data: any) => void} told
 * @param {(connected: boolean) => void} connected
 */
export function listen(told, connected) {
  let control = new AbortController();
  let ended = false;
  let running = false;
  let last = ""; // the id of the last event

  function heard(name, data, id) {
    if (id) last = id;
    connected(true);
    told(name, data);
  }

  async function run() {
    if (running) return; // a tab that is hidden and shown within the pause has one connection all the same
    running = true;
    while (!ended && !document.hidden) {
      control = new AbortController();
      const headers = last ? { "last-event-id": last } : {};
      await follow("GET", "/v1/events", heard, { headers, signal: control.signal }).catch(() => {});
      if (ended || document.hidden) break;
      connected(false);
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    running = false;
  }

  const visible = () => (document.hidden ? control.abort() : run());
  document.addEventListener("visibilitychange", visible);
  run();
  return () => {
    ended = true;
    control.abort();
    document.removeEventListener("visibilitychange", visible);
  };
}
