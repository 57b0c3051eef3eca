// A JSON schema as a table of fields and as an example.

import { html, nothing } from "../vendor/lit-html.js";

const DEEPEST = 4; // maximum nesting of examples
const NAMED = /^#\/components\/schemas\/(.+)$/;

/**
 * @typedef {{$ref?: string, type?: string, format?: string, description?: string, anyOf?: Schema[], oneOf?: Schema[], allOf?: Schema[], items?: Schema,
 *   properties?: Schemas, required?: string[], enum?: unknown[], const?: unknown, default?: unknown, example?: any, examples?: any[],
 *   minimum?: number, maximum?: number, minLength?: number, maxLength?: number}} Schema
 * @typedef {{[name: string]: Schema}} Schemas
 */

/** Resolve a reference, and a nullable schema to its other type. @param {Schema} schema @param {Schemas} schemas @returns {Schema} */
export function resolve(schema, schemas) {
  const name = NAMED.exec(schema.$ref ?? "")?.[1];
  if (name) return resolve(schemas[name] ?? {}, schemas);
  const others = (schema.anyOf ?? schema.allOf ?? []).filter((each) => each.type !== "null");
  if (others.length !== 1) return schema;
  const only = resolve(others[0], schemas);
  return { ...only, description: schema.description ?? only.description };
}

/** Describe the type in a few words. @param {Schema} schema @param {Schemas} schemas @returns {string} */
export function typeOf(schema, schemas) {
  const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (choices) return choices.map((each) => typeOf(each, schemas)).join(" or ");
  if (schema.$ref) {
    const named = resolve(schema, schemas);
    return named.enum ? typeOf(named, schemas) : NAMED.exec(schema.$ref)?.[1] ?? "";
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" or ");
  if (schema.type === "array") return `list of ${typeOf(schema.items ?? {}, schemas)}`;
  return [schema.type ?? "anything", limits(schema)].filter(Boolean).join(", ");
}

/** @param {Schema} schema */
function limits(schema) {
  const [least, most] = [schema.minimum ?? schema.minLength, schema.maximum ?? schema.maxLength];
  const unit = schema.type === "string" ? " characters" : "";
  if (least !== undefined && most !== undefined) return `${least} to ${most}${unit}`;
  if (most !== undefined) return `at most ${most}${unit}`;
  return schema.format ?? ((least ?? 0) > 0 && !unit ? `at least ${least}` : "");
}

/** Return an example value of the schema. @param {Schema} given @param {Schemas} schemas @param {number} [depth] @returns {any} */
export function exampleOf(given, schemas, depth = 0) {
  const schema = resolve(given, schemas);
  if (schema.example !== undefined) return schema.example;
  if (schema.examples?.length) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const [choice] = schema.anyOf ?? schema.oneOf ?? [];
  if (choice) return exampleOf(choice, schemas, depth);
  if (schema.default !== undefined) return schema.default;
  if (schema.type === "array") return depth < DEEPEST ? [exampleOf(schema.items ?? {}, schemas, depth + 1)] : [];
  if (schema.properties) {
    const required = Object.entries(schema.properties).filter(([name]) => depth < DEEPEST && (schema.required ?? []).includes(name));
    return Object.fromEntries(required.map(([name, each]) => [name, exampleOf(each, schemas, depth + 1)]));
  }
  /** @type {Record<string, unknown>} */
  const usual = { string: schema.format === "uuid" ? "ID" : "text", integer: schema.minimum ?? 1, number: 1, boolean: true, object: {} };
  return usual[schema.type ?? ""] ?? null;
}

/** Render text with code in backticks. @param {string} text */
export const words = (text) => text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));

/**
 * Render the fields of an object. Fields of nested objects are expandable.
 * @param {Schema} given @param {Schemas} schemas @param {string} label @param {number} [depth] @returns {unknown}
 */
export function fields(given, schemas, label, depth = 0) {
  const schema = resolve(given, schemas);
  const listed = schema.type === "array" ? resolve(schema.items ?? {}, schemas) : schema;
  const entries = Object.entries(listed.properties ?? {});
  if (!entries.length) return nothing;
  const rows = entries.map(([name, each]) => ({ name, schema: each, required: (listed.required ?? []).includes(name), description: resolve(each, schemas).description }));
  const below = depth < 2 ? entries.map(([name, each]) => [name, fields(each, schemas, `Fields of ${name}`, depth + 1)]) : [];
  return html`${table(rows, schemas, label)}${below.map(([name, inner]) => (inner === nothing ? nothing
    : html`<details class="inner"><summary class="small"><code>${name}</code></summary>${inner}</details>`))}`;
}

/** @param {{name: string, schema: Schema, required?: boolean, description?: string, where?: string}[]} rows @param {Schemas} schemas @param {string} label */
export function table(rows, schemas, label) {
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${label}><table class="fields"><caption class="hidden">${label}</caption>
    <thead><tr><th scope="col">name</th><th scope="col">type</th><th scope="col">meaning</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr><th scope="row"><code>${row.name}</code>${row.required ? html`<br><span class="soft">required</span>` : nothing}</th>
      <td>${typeOf(row.schema, schemas)}${row.where ? html` <span class="soft">in the ${row.where}</span>` : nothing}</td>
      <td>${words(row.description ?? "")} ${(row.schema.default ?? null) === null ? nothing : html`<span class="soft">default</span> <code>${JSON.stringify(row.schema.default)}</code>`}</td></tr>`)}</tbody></table></div>`;
}

