// A request as a curl command or a Python program.

import { html } from "../vendor/lit-html.js";
import { ROOT, key } from "../api.js";
import { redraw, remember, remembered } from "../store.js";
import { copy } from "./clipboard.js";
import { say } from "./words.js";

const LANGUAGES = /** @type {const} */ ([["curl", "curl", curl], ["httpx", "Python", httpx]]);
const SECRET = "FOREASK_API_KEY"; // the environment variable that holds the key

/** @param {string} kind media type */
const isForm = (kind) => kind.startsWith("multipart/");

/** @param {string} text for a shell */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** @param {string} method @param {string} address @param {any} body @param {string} kind @param {boolean} keyed */
function curl(method, address, body, kind, keyed) {
  const isUsual = method === "GET" || (method === "POST" && body);
  const parts = [
    "curl",
    isUsual ? "" : `-X ${method}`,
    keyed ? `-H "authorization: Bearer $${SECRET}"` : "",
  ];
  if (body && isForm(kind)) {
    parts.push(...Object.entries(body).map(([name, value]) => `-F ${quoted(`${name}=${value}`)}`));
  } else if (body) parts.push(`-H 'content-type: ${kind}'`, `-d ${quoted(JSON.stringify(body))}`);
  return [...parts, quoted(address)].filter(Boolean).join(" ");
}

/** @param {string} method @param {string} address @param {any} body @param {string} kind @param {boolean} keyed */
function httpx(method, address, body, kind, keyed) {
  const given = [JSON.stringify(method), JSON.stringify(address), ...(body ? [bodyOf(body, kind)] : []),
    ...(keyed ? [`headers={"authorization": f"Bearer {os.environ['${SECRET}']}"}`] : []), "timeout=120"];
  return `${keyed ? "import os\n\n" : ""}import httpx

reply = httpx.request(${given.join(", ")})
reply.raise_for_status()
print(reply.json())`;
}

/** Return the body as a Python argument. @param {any} body @param {string} kind */
function bodyOf(body, kind) {
  if (kind === "application/json") return `json=${literal(body)}`;
  if (!isForm(kind)) return `content=${JSON.stringify(JSON.stringify(body))}`;
  const { file, ...others } = body;
  return `files={"file": open(${JSON.stringify(file.slice(1))}, "rb")}, data=${literal(others)}`;
}

/** Return a JSON value as a Python literal. @param {any} value @returns {string} */
function literal(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${literal(each)}`).join(", ")}}`;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body] JSON, or form fields with `@` before a filename
 * @param {string} [kind] media type of the body
 */
export function written(method, path, body, kind = "application/json") {
  const [chosen, , write] = LANGUAGES.find(([name]) => name === remembered("request")) ?? LANGUAGES[0];
  const command = write(method, location.origin + ROOT + path, body, kind, Boolean(key()));
  const clicked = () => copy(command, say`Request copied.`);
  return html`<div role="group" aria-label=${say`Language`} class="tabs">${LANGUAGES.map(
      ([name, words]) => html`<button class="quiet" aria-pressed=${String(name === chosen)}
        @click=${() => (remember("request", name), redraw())}>${words}</button>`,
    )}</div>
    <pre dir="ltr">${command}</pre> <p><button class="quiet" @click=${clicked}>${say`Copy`}</button></p>`;
}
