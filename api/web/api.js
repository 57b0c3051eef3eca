// Requests to the API: JSON, event streams, and uploads with progress.

import { forgetPerson, person } from "./person.js";
import { local, session } from "./store.js";
import { say } from "./parts/words.js";

/** The path of the API, which a proxy may serve below a prefix. */
export const ROOT = new URL("../..", import.meta.url).pathname.replace(/\/$/, "");

const KEY = "foreask.key";
const PUBLIC = "/v1/sign-in"; // its refusals are about a sign-in, not about the key
/** @typedef {{state: string, detail: string}} Refusal why a key or a person is refused: a word, and a sentence */
/** @type {(refusal: Refusal) => Promise<void>} */
let requestKey = () => Promise.reject(new Problem({ status: 401, detail: say`An API key is required.` }));

/** An error response of the API, or a failure to reach it. */
export class Problem extends Error {
  /**
   * @param {Partial<Api["ProblemDetails"]> & {error?: {message?: string}}} facts `error`: in the format of OpenAI
   * @param {(name: string) => string | null} [header] of the reply @param {number} [status] of the reply
   */
  constructor(facts, header = () => null, status = 0) {
    super(facts.detail || facts.title || facts.error?.message || say`The server did not respond.`);
    this.facts = facts;
    this.status = facts.status || status;
    this.component = facts.component ?? null;
    this.field = facts.field ?? null; // part of the request to correct
    this.errors = facts.errors ?? null; // several of them, each with its message
    this.isNoCollection = facts.type === "urn:foreask:problem:no-collection";
    this.names = facts.collections ?? []; // of other collections
    this.requestId = header("x-request-id");
    const retryAfter = Number(header("retry-after")) || 0;
    this.again = retryAfter ? Date.now() + 1000 * retryAfter : 0; // time of the next useful attempt, in milliseconds
  }
}

/** Return the key, or the id of the person who is signed in. It names the user; `bearer` is sent. */
export function key() {
  return person()?.id ?? session.getItem(KEY) ?? local.getItem(KEY) ?? "";
}

const SOON = 60_000; // milliseconds: a token that expires earlier is renewed first
const renewal = async () => (await import("./parts/sign-in.js")).renew;

/** Renew a token that expires soon; null if nothing is due, so that a closing page sends its requests at once. */
function renewed() {
  const { token, refresh, until = 0 } = person() ?? {};
  return token && refresh && until - Date.now() < SOON ? renewal().then((renew) => renew(token)) : null;
}

/** Return the key or the token that requests send. */
const bearer = () => person()?.token ?? key();

/** @param {string} value @param {boolean} remember whether the browser stores the key beyond this session */
export function storeKey(value, remember) {
  removeKey();
  (remember ? local : session).setItem(KEY, value);
}

export function forgetKey() {
  removeKey();
  stopViewing();
}

function removeKey() {
  forgetPerson();
  session.removeItem(KEY);
  local.removeItem(KEY);
}

const VIEWED = "foreask.viewed";
/** @typedef {{user: string, groups: string[]}} Viewed */
/**
 * The person as whom this tab sees documents; null: the key itself. The page is loaded again when such a view starts or
 * ends, so that no screen has data of both.
 * @type {Viewed | null}
 */
export const viewed = JSON.parse(session.getItem(VIEWED) ?? "null");

/** View as a person from the next load of the page on. @param {Viewed} person */
export const startViewing = (person) => session.setItem(VIEWED, JSON.stringify(person));

/** Use the key itself from the next load of the page on. */
export const stopViewing = () => session.removeItem(VIEWED);

/**
 * Return the headers of requests on behalf of a person.
 * @param {Viewed | null} person @returns {Record<string, string>}
 */
export function headersOf(person = viewed) {
  if (!person) return {};
  const groups = person.groups.map(encodeURIComponent).join(",");
  return { "x-foreask-user": encodeURIComponent(person.user), ...(groups ? { "x-foreask-groups": groups } : {}) };
}

/** @param {(refusal: Refusal) => Promise<void>} ask shows the dialog and resolves when a key was entered */
export function onKeyRequired(ask) {
  /** @type {Promise<void> | null} */
  let dialog = null;
  requestKey = (refusal) => (dialog ??= ask(refusal).finally(() => (dialog = null)));
}

/** Return why the key was refused. @param {any} facts of a problem @returns {Refusal} */
const refusalOf = ({ key_state: state, detail = "" }) => ({ state: state ?? (key() ? "unknown" : "missing"), detail });

/** Renew a refused token, or ask for another key. @param {string} usedKey @param {string} sent @param {any} facts */
async function replace(usedKey, sent, facts) {
  if (usedKey !== key() || (person() && (await (await renewal())(sent)))) return;
  await requestKey(refusalOf(facts));
}

let forbidden = () => {};

/** @param {() => void} handler called when the key lacks the scope of a request */
export function onForbidden(handler) {
  forbidden = handler;
}

/**
 * Send a request and return its reply. The type of the reply follows from the path.
 * @template {string} const Path
 * @template {string} Method
 * @param {Method} method
 * @param {Path & Http.Known<Path, Method>} path with its query
 * @param {{body?: Http.Body<Path, Method> | FormData, signal?: AbortSignal, headers?: Record<string, string>,
 *   only?: string, keepalive?: boolean}} [options] only: the key without which it is not sent; keepalive: whether it
 *   is sent even if the page is closed
 * @returns {Promise<Http.Reply<Path, Method>>}
 */
export async function send(method, path, options = {}) {
  const reply = await request(method, path, options);
  return reply.status === 204 ? /** @type {any} */ (null) : reply.json();
}

/** Fetch the bytes of a path. A link cannot be used because it carries no key. @param {string} path */
export const bytes = async (path) => (await request("GET", path, {})).blob();

/** @template {string} const Path @param {Path & Http.Known<Path, "GET">} path @param {AbortSignal} [signal] */
export const get = (path, signal) => send("GET", path, { signal });

/**
 * @template {string} const Path
 * @param {Path & Http.Known<Path, "POST">} path @param {Http.Body<Path, "POST"> | FormData} [body]
 * @param {AbortSignal} [signal]
 */
export const post = (path, body, signal) => send("POST", path, { body, signal });

/** Return a function that waits for a reply. Only the latest caller continues; earlier replies are dropped. */
export function latest() {
  let newest = 0;
  /** @template Reply @param {Promise<Reply>} [reply] none: drop the pending replies @returns {Promise<Reply>} */
  const ofLatest = (reply) => new Promise((resolve, reject) => {
    const number = ++newest;
    reply?.then((value) => number === newest && resolve(value), (problem) => number === newest && reject(problem));
  });
  return ofLatest;
}

/**
 * @param {string} method @param {string} path
 * @param {{body?: any, signal?: AbortSignal, headers?: Record<string, string>, only?: string,
 *   keepalive?: boolean}} options
 */
async function request(method, path, { body, signal, headers = {}, only, keepalive = false }) {
  for (;;) {
    const due = renewed();
    if (due) await due;
    const sent = bearer();
    const usedKey = key();
    if (only !== undefined && only !== usedKey) throw new Problem({ status: 401, detail: say`The key was changed.` });
    const reply = await fetchOrThrow(ROOT + path, {
      method,
      signal,
      headers: {
        ...headersOf(),
        ...headers,
        ...(body === undefined || body instanceof FormData ? {} : { "content-type": "application/json" }),
        ...(sent ? { authorization: `Bearer ${sent}` } : {}),
      },
      body: body === undefined || body instanceof FormData ? body : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      keepalive,
    });
    if (reply.ok) return reply;
    if (reply.status === 403) forbidden();
    const problem = await problemOf(reply);
    if (reply.status !== 401 || path.startsWith(PUBLIC)) throw problem;
    await replace(usedKey, sent, problem.facts);
  }
}

/** @param {string} address @param {RequestInit} init */
async function fetchOrThrow(address, init) {
  try {
    return await fetch(address, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem({ detail: say`The server is unreachable. This page may be out of date.` });
  }
}

/** @param {Response} reply */
async function problemOf(reply) {
  /** @param {string} name */
  const header = (name) => reply.headers.get(name);
  try {
    return new Problem(await reply.json(), header, reply.status);
  } catch {
    return new Problem({ status: reply.status, detail: say`The server returned status ${reply.status}.` }, header);
  }
}

/**
 * Read a stream of server-sent events until it closes.
 * @param {string} method
 * @param {string} path
 * @param {(name: string, data: any, id: string) => void} onEvent
 * @param {{body?: unknown, signal?: AbortSignal, headers?: Record<string, string>}} [options]
 */
export async function follow(method, path, onEvent, options = {}) {
  const reply = await request(method, path, options);
  if (!reply.body) return;
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) dispatch(block, onEvent);
  }
}

/** @param {string} block @param {(name: string, data: any, id: string) => void} onEvent */
function dispatch(block, onEvent) {
  let name = "message";
  let id = "";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
    else if (line.startsWith("id: ")) id = line.slice(4);
  }
  if (data.length) onEvent(name, JSON.parse(data.join("\n")), id);
}

/**
 * Upload a body with progress: `fetch` reports none.
 * @param {string} path @param {FormData | Blob} body @param {(share: number) => void} onProgress
 * @param {AbortSignal} signal
 * @returns {Promise<XMLHttpRequest>} the answered request
 */
export async function upload(path, body, onProgress, signal) {
  for (;;) {
    signal.throwIfAborted();
    const due = renewed();
    if (due) await due;
    const sent = bearer();
    const usedKey = key();
    try {
      return await uploadOnce(path, sent, body, onProgress, signal);
    } catch (problem) {
      if (problem.status !== 401) throw problem;
      await replace(usedKey, sent, problem.facts);
    }
  }
}

/**
 * @param {string} path @param {string} sent @param {FormData | Blob} body
 * @param {(share: number) => void} onProgress @param {AbortSignal} signal
 * @returns {Promise<XMLHttpRequest>}
 */
function uploadOnce(path, sent, body, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", ROOT + path);
    if (sent) request.setRequestHeader("authorization", `Bearer ${sent}`);
    for (const [name, value] of Object.entries(headersOf())) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => onProgress(event.loaded / event.total));
    request.addEventListener("load", () => {
      if (request.status < 300) resolve(request);
      else {
        const facts = factsOf(request.response);
        reject(new Problem({ status: request.status, ...facts }, (name) => request.getResponseHeader(name)));
      }
    });
    request.addEventListener("error", () => reject(new Problem({ detail: say`The server is unreachable.` })));
    request.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(body);
  });
}

/** Return the facts of a problem; none if a proxy has answered. @param {string} reply */
function factsOf(reply) {
  try {
    return JSON.parse(reply);
  } catch {
    return {};
  }
}
