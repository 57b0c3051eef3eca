// Requests to the API: JSON, streams of events, and uploads that tell their progress.

/** Where the API is: a proxy may have put it under a path. */
export const ROOT = new URL("../..", import.meta.url).pathname.replace(/\/$/, "");

const KEY = "foreask.key";
let askForKey = () => Promise.reject(new Problem({ status: 401, detail: "This needs a key." }));

/** An answer of the API that says what is wrong, or that it could not be reached. */
export class Problem extends Error {
  /** @param {{status?: number, title?: string, detail?: string, component?: string, request_id?: string}} facts */
  constructor(facts, retryAfter = 0) {
    super(facts.detail || facts.title || "The server did not answer.");
    this.status = facts.status ?? 0;
    this.component = facts.component ?? null;
    this.requestId = facts.request_id ?? null;
    this.retryAfter = retryAfter;
  }
}

export function key() {
  return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY) ?? "";
}

/** @param {string} value @param {boolean} remember whether this browser keeps it when it is closed */
export function keepKey(value, remember) {
  forgetKey();
  (remember ? localStorage : sessionStorage).setItem(KEY, value);
}

export function forgetKey() {
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(KEY);
}

/** @param {() => Promise<void>} ask shows the dialog; it ends when a key was given */
export function whenKeyIsNeeded(ask) {
  let asking = null;
  askForKey = () => (asking ??= ask().finally(() => (asking = null)));
}

/**
 * Send a request and return its reply.
 * @param {string} method
 * @param {string} path with its query
 * @param {{body?: unknown, signal?: AbortSignal, headers?: Record<string, string>}} [options]
 */
export async function send(method, path, options = {}) {
  const reply = await sent(method, path, options);
  return reply.status === 204 ? null : reply.json();
}

/** The bytes behind a path: a link cannot carry a key. @param {string} path */
export const bytes = async (path) => (await sent("GET", path, {})).blob();
export const get = (path, signal) => send("GET", path, { signal });
export const post = (path, body, signal) => send("POST", path, { body, signal });

async function sent(method, path, { body, signal, headers = {} }) {
  for (;;) {
    const given = key();
    const reply = await fetched(ROOT + path, {
      method,
      signal,
      headers: {
        ...headers,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(given ? { authorization: `Bearer ${given}` } : {}),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
    });
    if (reply.ok) return reply;
    if (reply.status !== 401) throw await problemOf(reply);
    if (given === key()) await askForKey();
  }
}

async function fetched(address, request) {
  try {
    return await fetch(address, request);
  } catch (error) {
    if (request.signal?.aborted) throw error;
    throw new Problem({ detail: "The server cannot be reached. What is shown was loaded before." });
  }
}

async function problemOf(reply) {
  const seconds = Number(reply.headers.get("retry-after")) || 0;
  try {
    return new Problem(await reply.json(), seconds);
  } catch {
    return new Problem({ status: reply.status, detail: `The server answered ${reply.status}.` }, seconds);
  }
}

/**
 * Follow a stream of server-sent events until it ends.
 * @param {string} method
 * @param {string} path
 * @param {(name: string, data: any, id: string) => void} told
 * @param {{body?: unknown, signal?: AbortSignal, headers?: Record<string, string>}} [options]
 */
export async function follow(method, path, told, options = {}) {
  const reply = await sent(method, path, options);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (left + value).split("\n\n");
    left = blocks.pop() ?? "";
    for (const block of blocks) tell(block, told);
  }
}

function tell(block, told) {
  let name = "message";
  let id = "";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
    else if (line.startsWith("id: ")) id = line.slice(4);
  }
  if (data.length) told(name, JSON.parse(data.join("\n")), id);
}

/**
 * Upload a file as a form; `fetch` tells no progress.
 * @param {File} file
 * @param {Record<string, string>} fields
 * @param {(share: number) => void} progressed
 * @param {AbortSignal} signal
 */
export async function upload(file, fields, progressed, signal) {
  for (;;) {
    signal.throwIfAborted();
    const given = key();
    try {
      return await uploaded(file, fields, progressed, signal);
    } catch (problem) {
      if (problem.status !== 401) throw problem;
      if (given === key()) await askForKey();
    }
  }
}

function uploaded(file, fields, progressed, signal) {
  return new Promise((resolve, reject) => {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    form.append("file", file, file.name);
    const request = new XMLHttpRequest();
    request.open("POST", `${ROOT}/v1/documents`);
    if (key()) request.setRequestHeader("authorization", `Bearer ${key()}`);
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => progressed(event.loaded / event.total));
    request.addEventListener("load", () => {
      if (request.status < 300) resolve({ ...request.response, unchanged: request.status === 200 });
      else reject(new Problem({ status: request.status, ...request.response }, Number(request.getResponseHeader("retry-after")) || 0));
    });
    request.addEventListener("error", () => reject(new Problem({ detail: "The server cannot be reached." })));
    request.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
