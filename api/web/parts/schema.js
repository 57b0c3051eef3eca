// A JSON schema as a table of fields and as an example.

import { html, nothing } from "../vendor/lit-html.js";
import { say } from "./words.js";

const DEEPEST = 4; // maximum nesting of examples
const NAMED = /^#\/components\/schemas\/(.+)$/;

/**
 * @typedef {{
 *   $ref?: string,
 *   type?: string,
 *   format?: string,
 *   description?: string,
 *   anyOf?: Schema[],
 *   oneOf?: Schema[],
 *   allOf?: Schema[],
 *   items?: Schema,
 *   contentSchema?: Schema,
 *   properties?: Schemas,
 *   required?: string[],
 *   enum?: unknown[],
 *   const?: unknown,
 *   default?: unknown,
 *   example?: any,
 *   examples?: any[],
 *   minimum?: number,
 *   maximum?: number,
 *   minLength?: number,
 *   maxLength?: number,
 * }} Schema
 * @typedef {{[name: string]: Schema}} Schemas
 */

/**
 * Resolve a reference, a nullable schema to its other type, and a text of JSON objects to the schema of an object.
 * @param {Schema} schema
 * @param {Schemas} schemas
 * @returns {Schema}
 */
export function resolve(schema, schemas) {
  const name = NAMED.exec(schema.$ref ?? "")?.[1];
  if (name) return resolve(schemas[name] ?? {}, schemas);
  if (schema.contentSchema) return resolve(schema.contentSchema, schemas);
  const others = (schema.anyOf ?? schema.allOf ?? []).filter((each) => each.type !== "null");
  if (others.length !== 1) return schema;
  const only = resolve(others[0], schemas);
  return { ...only, description: schema.description ?? only.description };
}

/** @param {string[]} texts */
const either = ([first = "", ...others]) => others.reduce((one, other) => say`${one} or ${other}`, first);

/** Describe the type in a few words. @param {Schema} schema @param {Schemas} schemas @returns {string} */
export function typeOf(schema, schemas) {
  const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (choices) return either(choices.map((each) => typeOf(each, schemas)));
  if (schema.$ref) {
    const named = resolve(schema, schemas);
    return named.enum ? typeOf(named, schemas) : NAMED.exec(schema.$ref)?.[1] ?? "";
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return either(schema.enum.map((each) => JSON.stringify(each)));
  if (schema.type === "array") return say`list of ${typeOf(schema.items ?? {}, schemas)}`;
  return [schema.type ?? say`anything`, limits(schema)].filter(Boolean).join(", ");
}

/** @param {Schema} schema */
function limits(schema) {
  const [least, most] = [schema.minimum ?? schema.minLength, schema.maximum ?? schema.maxLength];
  const isText = schema.type === "string";
  if (least !== undefined && most !== undefined) {
    return isText ? say`${least} to ${most} characters` : say`${least} to ${most}`;
  }
  if (most !== undefined) return isText ? say`at most ${most} characters` : say`at most ${most}`;
  return schema.format ?? ((least ?? 0) > 0 && !isText ? say`at least ${least ?? 0}` : "");
}

/**
 * Return an example value of the schema.
 * @param {Schema} given
 * @param {Schemas} schemas
 * @param {number} [depth]
 * @returns {any}
 */
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
    const isShown = (/** @type {string} */ name) => depth < DEEPEST && (schema.required ?? []).includes(name);
    const required = Object.entries(schema.properties).filter(([name]) => isShown(name));
    return Object.fromEntries(required.map(([name, each]) => [name, exampleOf(each, schemas, depth + 1)]));
  }
  /** @type {Record<string, unknown>} */
  const usual = {
    string: schema.format === "uuid" ? "ID" : "text",
    integer: schema.minimum ?? 1,
    number: 1,
    boolean: true,
    object: {},
  };
  return usual[schema.type ?? ""] ?? null;
}

/** The locations of parameters, by their names in OpenAPI. @type {Record<string, string>} */
const PLACES = { path: say`in the path`, query: say`in the query`, header: say`in the header` };

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
  const rows = entries.map(([name, each]) => ({
    name,
    schema: each,
    required: (listed.required ?? []).includes(name),
    description: resolve(each, schemas).description,
  }));
  const nested = depth < 2 ? entries : [];
  const below = nested.map(([name, each]) => [name, fields(each, schemas, say`Fields of ${name}`, depth + 1)]);
  return html`${table(rows, schemas, label)}${below.map(([name, inner]) =>
    inner === nothing
      ? nothing
      : html`<details class="inner"><summary class="small"><code>${name}</code></summary>${inner}</details>`,
  )}`;
}

/**
 * @param {{name: string, schema: Schema, required?: boolean, description?: string, where?: string}[]} rows
 * @param {Schemas} schemas
 * @param {string} label
 */
export function table(rows, schemas, label) {
  return html`<div class="scrolls" tabindex="0" role="group" aria-label=${label}><table class="fields">
    <caption class="hidden">${label}</caption>
    <thead><tr>
      <th scope="col">${say`name`}</th><th scope="col">${say`type`}</th><th scope="col">${say`meaning`}</th>
    </tr></thead>
    <tbody>${rows.map((row) => {
      const usual = row.schema.default ?? null;
      return html`<tr>
        <th scope="row"><code>${row.name}</code>${row.required
          ? html`<br><span class="soft">${say`required`}</span>`
          : nothing}</th>
        <td>${typeOf(row.schema, schemas)}${row.where
          ? html` <span class="soft">${PLACES[row.where] ?? row.where}</span>`
          : nothing}</td>
        <td>${words(row.description ?? "")} ${usual === null
          ? nothing
          : html`<span class="soft">${say`default`}</span> <code>${JSON.stringify(usual)}</code>`}</td></tr>`;
    })}</tbody></table></div>`;
}

