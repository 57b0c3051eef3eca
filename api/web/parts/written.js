// A request as one sends it from a terminal or a program.

import { html } from "../vendor/lit-html.js";
import { ROOT, key } from "../api.js";
import { changed, remember, remembered } from "../store.js";
import { say } from "./notice.js";

const LANGUAGES = /** @type {const} */ ([["curl", "curl", curl], ["httpx", "Python", httpx]]);
const SECRET = "FOREASK_API_KEY"; // the variable of the environment that has the key

/** @param {string} kind of a body */
const isForm = (kind) => kind.startsWith("multipart/");

/** @param {string} text for a shell */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** @param {string} method @param {string} address @param {any} body @param {string} kind @param {boolean} keyed */
function curl(method, address, body, kind, keyed) {
  const parts = ["curl", method === "GET" || (method === "POST" && body) ? "" : `-X ${method}`, keyed ? `-H "authorization: Bearer $${SECRET}"` : ""];
  if (body && isForm(kind)) parts.push(...Object.entries(body).map(([name, value]) => `-F ${quoted(`${name}=${value}`)}`));
  else if (body) parts.push(`-H 'content-type: ${kind}'`, `-d ${quoted(JSON.stringify(body))}`);
  return [...parts, quoted(address)].filter(Boolean).join(" ");
}

/** @param {string} method @param {string} address @param {any} body @param {string} kind @param {boolean} keyed */
function httpx(method, address, body, kind, keyed) {
  const given = [JSON.stringify(method), JSON.stringify(address), ...(body ? [bodyOf(body, kind)] : []),
    ...(keyed ? [`headers={"authorization": f"Bearer {os.environ['${SECRET}']}"}`] : []), "timeout=120"];
  return `${keyed ? "import os\n\n" : ""}import httpx\n\nreply = httpx.request(${given.join(", ")})\nreply.raise_for_status()\nprint(reply.json())`;
}

/** The argument that is the body. @param {any} body @param {string} kind */
function bodyOf(body, kind) {
  if (kind === "application/json") return `json=${literal(body)}`;
  if (!isForm(kind)) return `content=${JSON.stringify(JSON.stringify(body))}`;
  const { file, ...others } = body;
  return `files={"file": open(${JSON.stringify(file.slice(1))}, "rb")}, data=${literal(others)}`;
}

/** A value of JSON as Python has it; strings are written alike. @param {any} value @returns {string} */
function literal(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${literal(each)}`).join(", ")}}`;
}

/** @param {string} method @param {string} path @param {unknown} [body] of a form its fields, `@` before the name of a file @param {string} [kind] of the body */
export function written(method, path, body, kind = "application/json") {
  const [chosen, , write] = LANGUAGES.find(([name]) => name === remembered("request")) ?? LANGUAGES[0];
  const command = write(method, location.origin + ROOT + path, body, kind, Boolean(key()));
  const copy = () => navigator.clipboard.writeText(command).then(() => say("Request copied."), () => say("The browser did not allow copying."));
  return html`<div role="group" aria-label="Language" class="tabs">${LANGUAGES.map(([name, words]) => html`<button class="quiet" aria-pressed=${String(name === chosen)}
      @click=${() => (remember("request", name), changed())}>${words}</button>`)}</div>
    <pre dir="ltr">${command}</pre> <p><button class="quiet" @click=${copy}>Copy</button></p>`;
}
