// Requests to the API: JSON, streams of events, and uploads that tell their progress.

/** Where the API is: a proxy may have put it under a path. */
export const ROOT = new URL("../..", import.meta.url).pathname.replace(/\/$/, "");

const KEY = "foreask.key";
/** @type {() => Promise<void>} */
let askForKey = () => Promise.reject(new Problem({ status: 401, detail: "An API key is required." }));

/** An answer of the API that says what is wrong, or that it could not be reached. */
export class Problem extends Error {
  /** @param {Partial<Api["ProblemDetails"]>} facts @param {(name: string) => string | null} [header] of the reply */
  constructor(facts, header = () => null) {
    super(facts.detail || facts.title || "The server did not respond.");
    this.status = facts.status ?? 0;
    this.component = facts.component ?? null;
    this.requestId = header("x-request-id");
    const retryAfter = Number(header("retry-after")) || 0;
    this.again = retryAfter ? Date.now() + 1000 * retryAfter : 0; // when it is worth another try
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

let refused = () => {};

/** @param {() => void} told is called when the key may not do what was asked for */
export function whenRefused(told) {
  refused = told;
}

/**
 * Send a request and return its reply, whose type follows from the address.
 * @template {string} const Path
 * @template {string} Method
 * @param {Method} method
 * @param {Path & Http.Known<Path, Method>} path with its query
 * @param {{body?: Http.Body<Path, Method> | FormData, signal?: AbortSignal, headers?: Record<string, string>}} [options]
 * @returns {Promise<Http.Reply<Path, Method>>}
 */
export async function send(method, path, options = {}) {
  const reply = await sent(method, path, options);
  return reply.status === 204 ? /** @type {any} */ (null) : reply.json();
}

/** The bytes behind a path: a link cannot carry a key. @param {string} path */
export const bytes = async (path) => (await sent("GET", path, {})).blob();

/** @template {string} const Path @param {Path & Http.Known<Path, "GET">} path @param {AbortSignal} [signal] */
export const get = (path, signal) => send("GET", path, { signal });

/**
 * @template {string} const Path
 * @param {Path & Http.Known<Path, "POST">} path @param {Http.Body<Path, "POST"> | FormData} [body] @param {AbortSignal} [signal]
 */
export const post = (path, body, signal) => send("POST", path, { body, signal });

/** @param {string} method @param {string} path @param {{body?: any, signal?: AbortSignal, headers?: Record<string, string>}} options */
async function sent(method, path, { body, signal, headers = {} }) {
  for (;;) {
    const given = key();
    const reply = await fetched(ROOT + path, {
      method,
      signal,
      headers: {
        ...headers,
        ...(body === undefined || body instanceof FormData ? {} : { "content-type": "application/json" }),
        ...(given ? { authorization: `Bearer ${given}` } : {}),
      },
      body: body === undefined || body instanceof FormData ? body : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
    });
    if (reply.ok) return reply;
    if (reply.status === 403) refused();
    if (reply.status !== 401) throw await problemOf(reply);
    if (given === key()) await askForKey();
  }
}

/** @param {string} address @param {RequestInit} request */
async function fetched(address, request) {
  try {
    return await fetch(address, request);
  } catch (error) {
    if (request.signal?.aborted) throw error;
    throw new Problem({ detail: "The server is unreachable. This page may be out of date." });
  }
}

/** @param {Response} reply */
async function problemOf(reply) {
  /** @param {string} name */
  const header = (name) => reply.headers.get(name);
  try {
    return new Problem(await reply.json(), header);
  } catch {
    return new Problem({ status: reply.status, detail: `The server returned status ${reply.status}.` }, header);
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
  if (!reply.body) return;
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

/** @param {string} block @param {(name: string, data: any, id: string) => void} told */
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

/**
 * @param {File} file @param {Record<string, string>} fields @param {(share: number) => void} progressed @param {AbortSignal} signal
 * @returns {Promise<Http.Reply<"/v1/documents", "POST"> & {unchanged: boolean}>}
 */
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
      else reject(new Problem({ status: request.status, ...request.response }, (name) => request.getResponseHeader(name)));
    });
    request.addEventListener("error", () => reject(new Problem({ detail: "The server is unreachable." })));
    request.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
