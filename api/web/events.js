// The progress of documents as it happens, while the tab is visible.

import { follow } from "./api.js";

const PAUSE = 2000; // milliseconds before another try

/**
 * Follow the events until the returned function is called.
 * @param {(name: string, data: any) => void} told
 * @param {(connected: boolean) => void} connected
 */
export function listen(told, connected) {
  let control = new AbortController();
  let ended = false;

  async function run() {
    while (!ended && !document.hidden) {
      control = new AbortController();
      try {
        const heard = (name, data) => (connected(true), told(name, data));
        await follow("GET", "/v1/events", heard, { signal: control.signal });
      } catch {
        if (ended || document.hidden) return;
        connected(false);
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
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
