// The API reference, rendered from the server's OpenAPI description.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { live } from "../vendor/directives/live.js";
import { ROOT, bytes } from "../api.js";
import { redraw } from "../store.js";
import { plural } from "../parts/format.js";
import { problemCard } from "../parts/notice.js";
import { written } from "../parts/snippet.js";
import { may } from "../parts/permissions.js";
import { loadWebhooks, webhooks } from "../parts/webhooks.js";
import { exampleOf, fields, resolve, table, words } from "../parts/schema.js";
import { say } from "../parts/words.js";

export const title = "API";
export const titled = true;
const JSON_KIND = "application/json";
const GENERIC = "Successful Response"; // FastAPI's default description

/**
 * @typedef {import("../parts/schema.js").Schema} Schema
 * @typedef {import("../parts/schema.js").Schemas} Schemas
 * @typedef {{
 *   name: string,
 *   in: string,
 *   schema: Schema,
 *   description?: string,
 *   required?: boolean,
 *   example?: string,
 * }} Parameter
 * @typedef {Record<string, {description: string, content?: Record<string, {schema?: Schema}>}>} Responses by status
 * @typedef {{operationId: string, tags: string[], summary?: string, description?: string, parameters?: Parameter[],
 *   requestBody?: {content: Record<string, {schema: Schema}>}, responses: Responses}} About an operation
 * @typedef {{name: string, description: string}} Tag
 * @typedef {{
 *   paths: Record<string, Record<string, About>>,
 *   tags: Tag[],
 *   info: {description: string},
 *   components: {schemas: Schemas},
 * }} Described
 * @typedef {{id: string, method: string, path: string, tag: string, about: About, text: string}} Operation
 */

/** @type {{described: Described | null, operations: Operation[], search: string, problem: any}} */
const seen = { described: null, operations: [], search: "", problem: null };
/** @type {Set<string>} ids of expanded operations */
const opened = new Set();

/** Load the description and open the operation named in the URL. */
export async function load() {
  if (may("manage")) loadWebhooks();
  try {
    if (!seen.described) show(JSON.parse(await (await bytes("/openapi.json")).text()));
    seen.problem = null;
  } catch (problem) {
    seen.problem = problem;
  }
  const target = decodeURIComponent(location.hash.slice(1));
  if (seen.operations.some(({ id }) => id === target)) {
    opened.add(target);
    seen.search = "";
    requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById(target)?.scrollIntoView()));
  }
  redraw();
}

export function unload() {}

/** @param {Described} described */
function show(described) {
  seen.described = described;
  seen.operations = Object.entries(described.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, about]) => ({
      id: about.operationId,
      method: method.toUpperCase(),
      path,
      tag: about.tags[0],
      about,
      text: `${method} ${path} ${about.summary ?? ""} ${about.description ?? ""}`.toLowerCase(),
    })),
  );
}

/** Return the operations that contain all words of the search. */
function found() {
  const terms = seen.search.toLowerCase().split(/\s+/).filter(Boolean);
  return seen.operations.filter(({ text }) => terms.every((word) => text.includes(word)));
}

export function view() {
  const { described } = seen;
  if (!described) {
    return html`<section class="column wide">${seen.problem
      ? problemCard(seen.problem, load)
      : html`<p class="soft" role="status">${say`Loading\u2026`}</p>`}</section>`;
  }
  const shown = found();
  const tags = described.tags.filter(({ name }) => shown.some(({ tag }) => tag === name));
  /** @param {On<HTMLInputElement>} event */
  const typed = (event) => ((seen.search = event.target.value), redraw());
  /** @param {Tag} tag */
  const group = ({ name, description }) => html`<section><h2>${name}</h2><p class="soft">${words(description)}</p>
    ${repeat(shown.filter(({ tag }) => tag === name), idOf, operation)}</section>`;
  const bearer = html`<code>Authorization: Bearer</code>`;
  const header = html`<code>X-API-Key</code>`;
  const file = html`<a href=${`${ROOT}/openapi.json`}>openapi.json</a>`;
  const swagger = html`<a href=${`${ROOT}/docs`}>Swagger UI</a>`;
  const ways = say`Send the key in the ${bearer} or ${header} header. Download as a file: ${file}. Try requests in ${swagger}.`;
  return html`<section class="column wide reference">
    <p>${words(described.info.description.split("\n\n")[0])}</p>
    <p class="soft small">${ways}</p>
    ${may("manage") ? webhooks() : nothing}
    <h2>${say`Reference`}</h2>
    <div class="tools"><input id="search" type="search"
      placeholder=${say`Search the API`}
      aria-label=${say`Search the reference`}
      .value=${live(seen.search)}
      @input=${typed}>
      <span class="soft small" role="status">${plural(shown.length, "operation")}</span></div>
    ${repeat(tags, nameOf, group)}
  </section>`;
}

/** @param {Tag} tag */
const nameOf = (tag) => tag.name;
/** @param {Operation} each */
const idOf = (each) => each.id;

/** @param {Operation} each */
function operation(each) {
  const open = opened.has(each.id);
  /** @param {On<HTMLDetailsElement>} event */
  const toggled = (event) => {
    if (event.target !== event.currentTarget || event.target.open === opened.has(each.id)) return;
    opened[event.target.open ? "add" : "delete"](each.id);
    if (event.target.open) history.replaceState(null, "", `${location.pathname}#${each.id}`);
    redraw();
  };
  return html`<details class="operation" id=${each.id} .open=${open} @toggle=${toggled}>
    <summary><span class="method">${each.method}</span> <code class="name">${each.path}</code>
      <span class="soft small">${words(each.about.summary ?? "")}</span></summary>
    ${open ? described(each) : nothing}</details>`;
}

/** @param {Operation} operation */
function described({ about, method, path }) {
  const schemas = seen.described?.components.schemas ?? {};
  const parameters = (about.parameters ?? []).map((each) => ({
    ...each,
    where: each.in,
    description: each.description ?? each.schema.description,
  }));
  const bodies = Object.entries(about.requestBody?.content ?? {});
  /** @type {[string, {schema?: Schema}][]} */
  const samples = bodies.length ? bodies : [[JSON_KIND, {}]];
  return html`<div class="card">
    ${about.description ? about.description.split("\n\n").map((part) => html`<p>${words(part)}</p>`) : nothing}
    ${parameters.length ? html`<h3>${say`Parameters`}</h3>${table(parameters, schemas, say`Parameters`)}` : nothing}
    ${bodies.map(([kind, { schema }]) => html`<h3>${say`Body`} <span class="soft small">${kind}</span></h3>
      ${fields(schema, schemas, say`Fields of the body`)}
      ${kind.startsWith("multipart/")
        ? nothing
        : html`<p class="soft small">${say`Example`}</p>
            <pre dir="ltr">${JSON.stringify(exampleOf(schema, schemas), null, 2)}</pre>`}`)}
    ${replies(about.responses, schemas)}
    <h3>${say`Request`}</h3>
    ${samples.map(([kind, { schema }]) =>
      written(method, addressed(path, parameters, schemas), schema && sample(kind, schema, schemas), kind),
    )}
  </div>`;
}

/**
 * Return an example body; for a form only its required fields.
 * @param {string} kind
 * @param {Schema} schema
 * @param {Schemas} schemas
 */
function sample(kind, schema, schemas) {
  if (!kind.startsWith("multipart/")) return exampleOf(schema, schemas);
  return { file: "@leave.md", ...(resolve(schema, schemas).properties?.collection ? { collection: "default" } : {}) };
}

/**
 * Return the path with example values. A parameter without an example appears as its name in capitals.
 * @param {string} path
 * @param {Parameter[]} parameters
 * @param {Schemas} schemas
 */
function addressed(path, parameters, schemas) {
  /** @param {{name: string, schema: Schema, example?: string}} each */
  const value = (each) => each.example ?? resolve(each.schema, schemas).examples?.[0] ?? each.name.toUpperCase();
  const query = parameters
    .filter((each) => each.in === "query" && each.required)
    .map((each) => `${each.name}=${encodeURIComponent(value(each))}`);
  const filled = path.replace(/\{(\w+)\}/g, (_, name) => {
    const parameter = parameters.find((each) => each.name === name) ?? { name, schema: {} };
    return encodeURIComponent(value(parameter));
  });
  return filled + (query.length ? `?${query.join("&")}` : "");
}

/** @param {Responses} responses @param {Schemas} schemas */
function replies(responses, schemas) {
  const entries = Object.entries(responses);
  const fine = entries.filter(([status]) => status < "400");
  const refused = entries.filter(([status]) => status >= "400");
  /** @param {string} kind @param {{schema?: Schema}} content */
  const content = (kind, { schema }) =>
    kind === JSON_KIND && schema
      ? html`<details class="inner"><summary class="small">${say`Fields and example`}</summary>
          ${fields(schema, schemas, say`Fields of the response`)}
          <pre dir="ltr">${JSON.stringify(exampleOf(schema, schemas), null, 2)}</pre></details>`
      : html`<p class="soft small"><code>${kind}</code></p>`;
  const problems = refused.map(([status, { description }]) => `${status} ${description}`).join(" \u00b7 ");
  return html`${fine.map(([status, reply]) => html`<h3>${say`Response`} <span class="soft small">${status}</span></h3>
      ${reply.description === GENERIC ? nothing : html`<p>${words(reply.description)}</p>`}
      ${Object.entries(reply.content ?? {}).map(([kind, each]) => content(kind, each))}`)}
    ${refused.length
      ? html`<p class="soft small">${say`Problem details (RFC 9457):`} ${problems}</p>`
      : nothing}`;
}
