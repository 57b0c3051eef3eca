// The job of files that are uploaded together: it shows their progress, their time left and their cost.

import { post, send } from "../api.js";

/** Statuses after which an upload waits, and tries again: a file that arrived is not stored twice. */
export const RETRIED = [0, 408, 429, 502, 503, 504];

export class Load {
  /** @type {string | null} the job; null before it is open, and without one */
  id = null;
  /** @type {Promise<void> | null} */
  #opening = null;
  #isClosed = false;

  /** @param {string} collection @param {number} documents */
  constructor(collection, documents) {
    this.collection = collection;
    this.documents = documents;
  }

  /**
   * Open the job once for all uploads. If the server refuses it, the files are uploaded without a job.
   * @param {AbortSignal} signal
   */
  async opened(signal) {
    this.#opening ??= this.#open();
    try {
      await this.#opening;
    } catch (problem) {
      if (RETRIED.includes(problem.status ?? 0)) {
        this.#opening = null;
        throw problem;
      }
    }
    signal.throwIfAborted();
  }

  async #open() {
    const { collection, documents } = this;
    this.id = (await post("/v1/jobs", { kind: "load", collection, documents })).id;
    if (this.#isClosed) this.#end();
  }

  /** Close the job, because no more files follow. A job that cannot be closed is closed on the screen Jobs. */
  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#end();
  }

  #end() {
    if (this.id) send("POST", `/v1/jobs/${this.id}/close`, { keepalive: true }).catch(() => {});
  }
}
